//! The account: capacity as the engine itself says it was consumed, by namespace and by the keys that
//! cost most; requests, retries and throttling.
//!
//! Labels are bounded: namespaces beyond the first [`NAMESPACES_MAX`] are one, and only the heaviest keys
//! have a series of their own.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::types::ConsumedCapacity;
use prometheus::{CounterVec, Histogram, IntCounter, IntCounterVec, Registry, exponential_buckets, histogram_opts, opts};

use super::failure::Kind;
use super::items::Write;
use crate::model::Namespace;
use crate::partition::Partition;
use crate::store::usage::{Throttle, Usage};

/// Namespaces with series of their own.
const NAMESPACES_MAX: usize = 256;
/// The label of all others.
const OTHERS: &str = "(others)";
/// Keys with a series of their own.
const KEYS_MAX: usize = 64;

/// What units are spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Blocks,
    Directory,
    Documents,
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Purpose::Blocks => "blocks",
            Purpose::Directory => "directory",
            Purpose::Documents => "documents",
        }
    }
}

/// The account of one store.
pub(super) struct Units {
    write: CounterVec,
    read: CounterVec,
    events: IntCounterVec,
    keys: CounterVec,
    scan: Histogram,
    requests: IntCounterVec,
    retries: IntCounterVec,
    throttled: IntCounterVec,
    unprocessed: IntCounter,
    namespaces: Mutex<HashSet<Namespace>>,
    heaviest: Mutex<Heaviest>,
    usage: Option<Arc<dyn Usage>>,
}

/// Consumed units of an answer.
pub(super) fn consumed(capacity: Option<&ConsumedCapacity>) -> f64 {
    capacity.and_then(ConsumedCapacity::capacity_units).unwrap_or(0.0)
}

impl Units {
    pub(super) fn new(registry: &Registry, usage: Option<Arc<dyn Usage>>) -> Result<Units, prometheus::Error> {
        let by = &["namespace", "purpose"];
        let units = Units {
            write: CounterVec::new(opts!("braid_dynamodb_write_units_total", "Write units consumed, as the engine says"), by)?,
            read: CounterVec::new(opts!("braid_dynamodb_read_units_total", "Read units consumed, as the engine says"), by)?,
            events: IntCounterVec::new(opts!("braid_dynamodb_events_total", "Events in blocks that were written"), &["namespace"])?,
            keys: CounterVec::new(
                opts!(
                    "braid_dynamodb_key_write_units_total",
                    "Write units of the keys that cost most; one that others overtake is dropped"
                ),
                &["namespace", "key"],
            )?,
            scan: Histogram::with_opts(histogram_opts!(
                "braid_dynamodb_scan_read_units",
                "Read units of one scan, all its pages",
                exponential_buckets(0.5, 4.0, 12)?
            ))?,
            requests: IntCounterVec::new(opts!("braid_dynamodb_requests_total", "Requests sent"), &["operation"])?,
            retries: IntCounterVec::new(opts!("braid_dynamodb_retries_total", "Attempts that were made again, and why"), &["cause"])?,
            throttled: IntCounterVec::new(opts!("braid_dynamodb_throttled_total", "Attempts refused for their rate"), &["limit"])?,
            unprocessed: IntCounter::new("braid_dynamodb_unprocessed_items_total", "Items that a batch left undone")?,
            namespaces: Mutex::default(),
            heaviest: Mutex::default(),
            usage,
        };
        for counters in [&units.write, &units.read, &units.keys] {
            registry.register(Box::new(counters.clone()))?;
        }
        for counters in [&units.events, &units.requests, &units.retries, &units.throttled] {
            registry.register(Box::new(counters.clone()))?;
        }
        registry.register(Box::new(units.scan.clone()))?;
        registry.register(Box::new(units.unprocessed.clone()))?;
        Ok(units)
    }

    pub(super) fn requested(&self, operation: &'static str) {
        self.requests.with_label_values(&[operation]).inc();
    }

    pub(super) fn retried(&self, kind: Kind) {
        let cause = match kind {
            Kind::Throttled(_) => "throttled",
            Kind::Unknown => "unknown",
            _ => "unavailable",
        };
        self.retries.with_label_values(&[cause]).inc();
    }

    pub(super) fn unprocessed(&self, items: usize) {
        self.unprocessed.inc_by(items as u64);
    }

    /// A write was refused for its rate.
    pub(super) fn throttled(&self, throttle: Throttle, partition: Option<&Partition>) {
        self.throttled.with_label_values(&[throttle.name()]).inc();
        if let (Some(usage), Some(partition)) = (&self.usage, partition) {
            usage.throttled(partition, throttle);
        }
    }

    /// These writes were done, for so many units together.
    pub(super) fn wrote(&self, ns: &Namespace, purpose: Purpose, units: f64, done: &[&Write]) {
        let expected: f64 = done.iter().map(|write| write.units()).sum();
        self.with_label(ns, |ns| {
            self.write.with_label_values(&[ns, purpose.name()]).inc_by(units);
            self.events.with_label_values(&[ns]).inc_by(done.iter().map(|write| write.events()).sum());
        });
        for write in done {
            let Some(partition) = &write.partition else { continue };
            let share = units * write.units() / expected;
            self.charge(partition, share);
            if let Some(usage) = &self.usage {
                usage.wrote(partition, share);
            }
        }
    }

    /// Documents were written, for so many units.
    pub(super) fn wrote_document(&self, units: f64) {
        self.write.with_label_values(&["", Purpose::Documents.name()]).inc_by(units);
    }

    /// Something of a namespace was read, for so many units; of none: a document.
    pub(super) fn read(&self, ns: Option<&Namespace>, purpose: Purpose, units: f64) {
        match ns {
            Some(ns) => self.with_label(ns, |ns| self.read.with_label_values(&[ns, purpose.name()]).inc_by(units)),
            None => self.read.with_label_values(&["", purpose.name()]).inc_by(units),
        }
    }

    /// A scan came to its end, having cost so many units.
    pub(super) fn scanned(&self, units: f64) {
        self.scan.observe(units);
    }

    fn with_label(&self, ns: &Namespace, count: impl FnOnce(&str)) {
        let mut namespaces = self.namespaces.lock().expect("no holder panics");
        if namespaces.len() < NAMESPACES_MAX && !namespaces.contains(ns) {
            namespaces.insert(ns.clone());
        }
        count(if namespaces.contains(ns) { ns.as_str() } else { OTHERS });
    }

    fn charge(&self, partition: &Partition, units: f64) {
        let mut heaviest = self.heaviest.lock().expect("no holder panics");
        let label = (partition.ns.clone(), partition.key.clone());
        if let Some((ns, key)) = heaviest.charge(label, units) {
            // What does not fit is not there to be removed.
            let _ = self.keys.remove_label_values(&[ns.as_str(), &key]);
        }
        self.keys.with_label_values(&[partition.ns.as_str(), &partition.key]).inc_by(units);
    }
}

type KeyName = (Namespace, Arc<str>);

/// The keys with the most units, as well as a bounded memory can tell ("space-saving": a newcomer takes the place
/// of the least, and inherits its weight, so that a heavy key stays once it is in).
#[derive(Debug, Default)]
struct Heaviest(HashMap<KeyName, f64>);

impl Heaviest {
    /// Counts units of a key; gives the key that had to go for it.
    fn charge(&mut self, key: KeyName, units: f64) -> Option<KeyName> {
        if let Some(weight) = self.0.get_mut(&key) {
            *weight += units;
            return None;
        }
        let mut gone = None;
        let mut inherited = 0.0;
        if self.0.len() >= KEYS_MAX {
            gone = self.0.iter().min_by(|a, b| a.1.total_cmp(b.1)).map(|(key, _)| key.clone());
            inherited = gone.as_ref().and_then(|gone| self.0.remove(gone)).unwrap_or(0.0);
        }
        self.0.insert(key, inherited + units);
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heavy_key_stays_among_the_heaviest_whatever_comes_by() {
        let mut heaviest = Heaviest::default();
        let key = |name: &str| ("n".parse::<Namespace>().unwrap(), Arc::from(name));
        for i in 0..10_000 {
            let _ = heaviest.charge(key("hot"), 5.0);
            let _ = heaviest.charge(key(&format!("cold {i}")), 1.0);
        }
        assert_eq!(heaviest.0.len(), KEYS_MAX);
        assert!(heaviest.0[&key("hot")] >= 50_000.0);
    }
}

//! What one node writes, as a document that the leader sums: bounded in size, and written only as
//! often as it matters.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::load::Targets;
use super::track::{Rate, Tracked, TrackedRate, Tracker};
use super::{members, mode, node_name, targets};
use crate::catalog::documents::{Documents, encode};
use crate::catalog::{Catalog, CatalogError, HeatMode};
use crate::clock::{Clock, Mark};
use crate::layout::LayoutVersion;
use crate::model::{Namespace, Timestamp};
use crate::store::{Store, Swap};

/// Keys of a report.
const REPORT_KEYS_MAX: usize = 32;
/// Suffixes of a report, all its keys together.
const REPORT_SUFFIXES_MAX: usize = 512;
/// Load of a key, in suffixes' worth, from which on a node reports every second.
const WARM_LOAD: f64 = 0.1;
/// Between two reports of a node where nothing is warm.
const COOL_REPORT_EVERY: Duration = Duration::from_secs(10);

/// One node's rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Which node.
    pub node: String,
    /// When, by its clock, nanoseconds.
    pub at: i64,
    /// Its most written keys, the most written first.
    pub keys: Vec<KeyReport>,
    /// Events and units per second that a key may have at most and not be among them.
    pub unseen: f64,
}

/// One node's rates of a key under one layout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyReport {
    ns: Namespace,
    key: String,
    version: LayoutVersion,
    pub(super) now: Rate,
    pub(super) window: Rate,
    pub(super) suffixes: Vec<(u32, Rate)>,
}

impl KeyReport {
    pub(super) fn tracked(&self) -> Tracked {
        Tracked { ns: self.ns.clone(), key: self.key.as_str().into(), version: self.version }
    }
}

impl Report {
    fn of(node: &str, now: Timestamp, rates: Vec<TrackedRate>, unseen: f64) -> Report {
        let mut left = REPORT_SUFFIXES_MAX;
        let key = |rate: TrackedRate| {
            let TrackedRate { tracked: Tracked { ns, key, version }, now, window, mut suffixes } = rate;
            suffixes.truncate(left);
            left -= suffixes.len();
            KeyReport { ns, key: key.to_string(), version, now, window, suffixes }
        };
        let keys = rates.into_iter().take(REPORT_KEYS_MAX).map(key).collect();
        Report { node: node.to_owned(), at: now.nanos(), keys, unseen }
    }
}

/// Name of a node's report.
pub(super) fn report_name(node: &str) -> String {
    format!("heat/report/{node}")
}

/// Writes one node's reports.
pub struct Reporter {
    tracker: Arc<Tracker>,
    catalog: Arc<Catalog>,
    documents: Documents,
    clock: Arc<dyn Clock>,
    node: Arc<str>,
    rolled: Mark,
    written: Option<Written>,
}

/// The report as it stands in the store.
struct Written {
    etag: u64,
    at: Mark,
    empty: bool,
}

impl Reporter {
    /// Reports what `tracker` counts, as `node`.
    pub fn new(tracker: Arc<Tracker>, store: Arc<dyn Store>, catalog: Arc<Catalog>, clock: Arc<dyn Clock>, node: u64) -> Reporter {
        let rolled = clock.mark();
        Reporter { tracker, catalog, documents: Documents::new(store), clock, node: node_name(node), rolled, written: None }
    }

    /// Closes a second, and reports where a report is due. Gives whether a key is warm that the
    /// controller may change; a failure is logged, and the next report tries again.
    pub async fn tick(&mut self) -> bool {
        let mark = self.clock.mark();
        self.tracker.roll(self.clock.elapsed(self.rolled));
        self.rolled = mark;
        let rates = self.tracker.rates();
        let warm = self.is_warm(&rates);
        if self.is_due(warm, rates.is_empty()) {
            let report = Report::of(&self.node, mark.wall, rates, self.tracker.unseen());
            if let Err(error) = self.write(encode(&report), report.keys.is_empty(), mark).await {
                tracing::debug!(%error, "heat was not reported");
                self.written = None;
            }
        }
        warm
    }

    fn is_warm(&self, rates: &[TrackedRate]) -> bool {
        let (view, now) = (self.catalog.view(), self.clock.now());
        rates.iter().any(|rate| {
            let namespace = view.namespace(&rate.tracked.ns).filter(|namespace| mode(namespace, now) != HeatMode::Off);
            namespace.is_some_and(|namespace| is_warm(&targets(&namespace.policy), &rate.now))
        })
    }

    /// A node that falls silent says so once.
    fn is_due(&self, warm: bool, empty: bool) -> bool {
        match &self.written {
            None => !empty,
            Some(written) => warm || !(empty && written.empty) && self.clock.elapsed(written.at) >= COOL_REPORT_EVERY,
        }
    }

    async fn write(&mut self, report: Bytes, empty: bool, at: Mark) -> Result<(), CatalogError> {
        let name = report_name(&self.node);
        let expected = match &self.written {
            Some(written) => Some(written.etag),
            None => {
                members::join(&self.documents, &self.node).await?;
                self.documents.read::<Report>(&name).await?.map(|(_, etag)| etag)
            }
        };
        self.written = match self.documents.swap(&name, expected, report).await? {
            Swap::Done(etag) => Some(Written { etag, at, empty }),
            // The leader took it for a dead node's.
            Swap::Conflict => None,
        };
        Ok(())
    }
}

fn is_warm(targets: &Targets, rate: &Rate) -> bool {
    targets.load(rate) >= WARM_LOAD || rate.throttles > 0.0
}

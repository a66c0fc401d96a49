//! A wrapper that counts: operations, their latencies and errors, and how many are under way.
//!
//! Changes nothing in what passes through.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use prometheus::{HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Registry, exponential_buckets, histogram_opts, opts};

use super::{BlockAddress, Day, Document, EncodedBlock, Enough, PageToken, Scan, ScanPage, Store, StoreError, StoreErrorKind, Swap};
use crate::model::{Namespace, TimeRange, Timestamp};
use crate::partition::Partition;

/// A store whose operations are counted.
pub struct MeteredStore {
    inner: Arc<dyn Store>,
    seconds: HistogramVec,
    errors: IntCounterVec,
    in_flight: IntGaugeVec,
}

/// Counts an operation as under way until it ends, or is given up.
struct UnderWay(IntGauge);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl MeteredStore {
    /// Counts what passes to `inner`; metrics are registered in `registry`.
    pub fn new(inner: Arc<dyn Store>, registry: &Registry) -> Result<Arc<MeteredStore>, prometheus::Error> {
        let buckets = exponential_buckets(0.000_05, 2.0, 18)?;
        let seconds = histogram_opts!("braid_store_operation_seconds", "Time of a store operation", buckets);
        let store = MeteredStore {
            inner,
            seconds: HistogramVec::new(seconds, &["op"])?,
            errors: IntCounterVec::new(opts!("braid_store_errors_total", "Store operations that failed"), &["op", "kind"])?,
            in_flight: IntGaugeVec::new(opts!("braid_store_in_flight", "Store operations under way"), &["op"])?,
        };
        registry.register(Box::new(store.seconds.clone()))?;
        registry.register(Box::new(store.errors.clone()))?;
        registry.register(Box::new(store.in_flight.clone()))?;
        Ok(Arc::new(store))
    }

    fn count<'a, T>(&'a self, op: &'static str, operation: BoxFuture<'a, Result<T, StoreError>>) -> BoxFuture<'a, Result<T, StoreError>>
    where
        T: Send + 'a,
    {
        async move {
            let under_way = UnderWay(self.in_flight.with_label_values(&[op]));
            under_way.0.inc();
            let began = Instant::now();
            let outcome = operation.await;
            self.seconds.with_label_values(&[op]).observe(began.elapsed().as_secs_f64());
            if let Err(error) = &outcome {
                self.errors.with_label_values(&[op, kind(error.kind)]).inc();
            }
            outcome
        }
        .boxed()
    }
}

fn kind(kind: StoreErrorKind) -> &'static str {
    match kind {
        StoreErrorKind::Unavailable => "unavailable",
        StoreErrorKind::Unknown => "unknown",
        StoreErrorKind::Full => "full",
        StoreErrorKind::ReadOnly => "read_only",
        StoreErrorKind::Throttled => "throttled",
        StoreErrorKind::Corrupt => "corrupt",
    }
}

impl Store for MeteredStore {
    fn append(&self, blocks: Vec<EncodedBlock>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.count("append", self.inner.append(blocks))
    }

    fn scan<'a>(&'a self, scan: &'a Scan, page: Option<PageToken>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        self.count("scan", self.inner.scan(scan, page))
    }

    fn narrow<'a>(&'a self, scan: &'a Scan, enough: Enough) -> BoxFuture<'a, Result<Option<TimeRange>, StoreError>> {
        self.count("narrow", self.inner.narrow(scan, enough))
    }

    fn replace<'a>(
        &'a self,
        partition: &'a Partition,
        old: &'a [BlockAddress],
        new: Vec<EncodedBlock>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.count("replace", self.inner.replace(partition, old, new))
    }

    fn block_bytes_max(&self) -> usize {
        self.inner.block_bytes_max()
    }

    fn reads_eventually(&self) -> bool {
        self.inner.reads_eventually()
    }

    fn replaces_atomically(&self) -> bool {
        self.inner.replaces_atomically()
    }

    fn delete<'a>(&'a self, partition: &'a Partition, blocks: &'a [BlockAddress]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.count("delete", self.inner.delete(partition, blocks))
    }

    fn fragmented<'a>(
        &'a self,
        least: usize,
        after: Option<&'a Partition>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Partition>, StoreError>> {
        self.count("fragmented", self.inner.fragmented(least, after, most))
    }

    fn fragments<'a>(&'a self, partition: &'a Partition) -> BoxFuture<'a, Result<TimeRange, StoreError>> {
        self.inner.fragments(partition)
    }

    fn read_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        self.count("read_document", self.inner.read_document(name))
    }

    fn swap_document<'a>(&'a self, name: &'a str, expected: Option<u64>, bytes: Bytes) -> BoxFuture<'a, Result<Swap, StoreError>> {
        self.count("swap_document", self.inner.swap_document(name, expected, bytes))
    }

    fn delete_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.count("delete_document", self.inner.delete_document(name))
    }

    fn note_days<'a>(&'a self, ns: &'a Namespace, days: &'a [(Arc<str>, Day)]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.count("note_days", self.inner.note_days(ns, days))
    }

    fn keys<'a>(
        &'a self,
        ns: &'a Namespace,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.count("keys", self.inner.keys(ns, prefix, after, limit))
    }

    fn days<'a>(&'a self, ns: &'a Namespace, key: &'a str, from: Day, to: Day) -> BoxFuture<'a, Result<Vec<Day>, StoreError>> {
        self.count("days", self.inner.days(ns, key, from, to))
    }

    fn read_clock(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        self.count("read_clock", self.inner.read_clock())
    }

    fn health(&self) -> Result<(), StoreError> {
        self.inner.health()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{MemoryStore, conformance};

    #[tokio::test]
    async fn counting_changes_nothing() {
        let store = MeteredStore::new(MemoryStore::new(), &Registry::new()).unwrap();
        conformance::run(store.clone(), "a").await;
        assert!(store.seconds.with_label_values(&["append"]).get_sample_count() > 0);
        assert_eq!(store.in_flight.with_label_values(&["append"]).get(), 0);
    }
}

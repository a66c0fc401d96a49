//! What the ingest tier counts.

use std::time::Duration;

use braid_shared::metrics::register;
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use crate::write::Written;

/// Upper bounds of the latency histogram, seconds: from a fast fsync to the write deadline.
const LATENCY_SECONDS: [f64; 14] = [0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 5.0, 30.0];

/// The ingest tier's metrics.
pub(crate) struct Metrics {
    /// Events acknowledged.
    pub(crate) stored: IntCounter,
    /// Events refused, by code.
    pub(crate) rejected: IntCounterVec,
    /// Bytes of bodies in flight.
    pub(crate) inflight_bytes: IntGauge,
    /// Partitions in flight.
    pub(crate) pending_partitions: IntGauge,
    /// Blocks made durable.
    pub(crate) blocks_written: IntCounter,
    /// Attempts to store that were repeated.
    pub(crate) retries: IntCounter,
    /// Flushes whose outcome stayed unknown.
    pub(crate) unknown_outcomes: IntCounter,
    requests: IntCounterVec,
    seconds: HistogramVec,
}

impl Metrics {
    /// Registers them all.
    pub(crate) fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let counter = |name: &str, help: &str| register(registry, IntCounter::new(name, help)?);
        let gauge = |name: &str, help: &str| register(registry, IntGauge::new(name, help)?);
        let counters = |name: &str, help: &str, labels: &[&str]| register(registry, IntCounterVec::new(Opts::new(name, help), labels)?);
        let latency = HistogramOpts::new("braid_request_seconds", "From a request's head to its answer, by endpoint");
        Ok(Metrics {
            stored: counter("braid_events_stored_total", "Events acknowledged as stored")?,
            rejected: counters("braid_events_rejected_total", "Events refused, by code", &["code"])?,
            inflight_bytes: gauge("braid_ingest_inflight_bytes", "Bytes of bodies between arrival and commit")?,
            pending_partitions: gauge("braid_ingest_pending_partitions", "Partitions with blocks in flight")?,
            blocks_written: counter("braid_blocks_written_total", "Blocks that ingest made durable")?,
            retries: counter("braid_store_retries_total", "Attempts to store blocks that were repeated")?,
            unknown_outcomes: counter("braid_unknown_outcomes_total", "Flushes given up with an unknown outcome")?,
            requests: counters("braid_requests_total", "Requests answered by ingest", &["endpoint", "status"])?,
            seconds: register(registry, HistogramVec::new(latency.buckets(LATENCY_SECONDS.to_vec()), &["endpoint"])?)?,
        })
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, endpoint: &str, status: &str, took: Duration) {
        self.requests.with_label_values(&[endpoint, status]).inc();
        self.seconds.with_label_values(&[endpoint]).observe(took.as_secs_f64());
    }

    /// Counts what became of a request's rows.
    pub(crate) fn written(&self, written: &Written) {
        self.stored.inc_by(written.stored);
        for fault in &written.errors {
            self.rejected.with_label_values(&[fault.code]).inc();
        }
    }
}

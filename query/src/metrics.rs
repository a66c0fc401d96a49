//! What the query tier counts.

use braid_shared::metrics::register;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use crate::error::QueryError;
use crate::fan_out::Answered;

/// Bounds of the latency histogram, seconds.
const SECONDS: &[f64] = &[0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Counters of the query tier, registered once.
#[derive(Debug)]
pub struct Metrics {
    queries: IntCounterVec,
    seconds: HistogramVec,
    /// Reads in flight.
    pub in_flight: IntGauge,
    /// Reads that found not every planned shard answered.
    pub shard_mismatches: IntCounter,
    /// Reads that found a damaged or misplaced block.
    pub blocks_damaged: IntCounter,
    /// Reads over every key with a prefix.
    pub broadcasts: IntCounter,
    /// Partitions read.
    pub partitions: IntCounter,
    /// Blocks read.
    pub blocks: IntCounter,
    /// Bytes of blocks read.
    pub bytes: IntCounter,
    /// Rows decoded and merged.
    pub rows: IntCounter,
    /// Blocks that an aggregate took from their header alone.
    pub blocks_by_header: IntCounter,
}

impl Metrics {
    /// Makes and registers the metrics.
    pub fn register(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let counter = |name: &str, help: &str| register(registry, IntCounter::new(name, help)?);
        let queries = IntCounterVec::new(Opts::new("braid_queries_total", "Read calls by kind and HTTP status."), &["kind", "status"])?;
        let opts = HistogramOpts::new("braid_query_seconds", "Time until a read's answer began, by kind.").buckets(SECONDS.to_vec());
        let seconds = HistogramVec::new(opts, &["kind"])?;
        let in_flight = IntGauge::new("braid_queries_in_flight", "Read calls in flight, streams included.")?;
        Ok(Metrics {
            queries: register(registry, queries)?,
            seconds: register(registry, seconds)?,
            in_flight: register(registry, in_flight)?,
            shard_mismatches: counter("braid_shard_mismatches_total", "Reads that found not every planned shard answered.")?,
            blocks_damaged: counter("braid_blocks_damaged_total", "Reads that found a damaged or misplaced block.")?,
            broadcasts: counter("braid_broadcasts_total", "Reads over every key that begins with a prefix.")?,
            partitions: counter("braid_query_partitions_total", "Partitions read.")?,
            blocks: counter("braid_query_blocks_total", "Blocks read.")?,
            bytes: counter("braid_query_bytes_total", "Bytes of blocks read.")?,
            rows: counter("braid_query_rows_total", "Rows decoded and merged.")?,
            blocks_by_header: counter("braid_query_header_blocks_total", "Blocks aggregated by their header alone.")?,
        })
    }

    /// Counts an answered call.
    pub fn answered(&self, kind: &str, status: u16, seconds: f64) {
        self.queries.with_label_values(&[kind, &status.to_string()]).inc();
        self.latency(kind).observe(seconds);
    }

    /// Counts what a scan gave.
    pub fn count(&self, answered: &Answered) {
        self.partitions.inc_by(answered.blocks.len() as u64);
        self.blocks.inc_by(answered.blocks.iter().map(|blocks| blocks.len() as u64).sum());
        self.bytes.inc_by(answered.bytes as u64);
    }

    /// Counts what verification found wrong.
    pub fn fault(&self, error: &QueryError) {
        match error {
            QueryError::ShardCountMismatch { .. } => self.shard_mismatches.inc(),
            QueryError::BlockDamaged { .. } => self.blocks_damaged.inc(),
            _ => {}
        }
    }

    fn latency(&self, kind: &str) -> Histogram {
        self.seconds.with_label_values(&[kind])
    }
}

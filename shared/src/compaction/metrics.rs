//! What compaction counts.

use prometheus::{IntCounter, Registry};

use crate::metrics::register;

/// Counters of compaction.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    pub(super) compactions: IntCounter,
    pub(super) blocks_in: IntCounter,
    pub(super) blocks_out: IntCounter,
    pub(super) bytes_in: IntCounter,
    pub(super) bytes_out: IntCounter,
    pub(super) failures: IntCounter,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let counter = |name: &str, help: &str| register(registry, IntCounter::new(name, help)?);
        Ok(Metrics {
            compactions: counter("braid_compactions_total", "Groups of blocks rewritten")?,
            blocks_in: counter("braid_compaction_blocks_in_total", "Blocks replaced by compaction")?,
            blocks_out: counter("braid_compaction_blocks_out_total", "Blocks written by compaction")?,
            bytes_in: counter("braid_compaction_bytes_in_total", "Bytes of blocks replaced by compaction")?,
            bytes_out: counter("braid_compaction_bytes_out_total", "Bytes of blocks written by compaction")?,
            failures: counter("braid_compaction_failures_total", "Partitions whose compaction failed")?,
        })
    }
}

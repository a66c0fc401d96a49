//! What an operator can set of the ingest tier: plain data.

use std::time::Duration;

use braid_shared::limits::BLOCK_BYTES_MAX;

/// Settings of one node's ingest tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestSettings {
    /// Most bytes of decoded bodies between their arrival and their commit.
    pub inflight_bytes_max: usize,
    /// Most requests between their arrival and their commit.
    pub inflight_requests_max: usize,
    /// Rows that may gather for one partition while its previous blocks are in flight.
    pub gathered_rows_max: usize,
    /// Bytes that may gather for one partition while its previous blocks are in flight.
    pub gathered_bytes_max: usize,
    /// How long rows gather for a partition that several requests share, from the beginning of its last flush.
    pub linger: Duration,
    /// Largest encoded block, bytes; the store's choice.
    pub block_bytes_max: usize,
    /// Whether the first write to a namespace makes it.
    pub auto_create: bool,
    /// How long a body may make no progress.
    pub body_idle_max: Duration,
}

impl Default for IngestSettings {
    fn default() -> Self {
        IngestSettings {
            inflight_bytes_max: 64 * 1024 * 1024,
            inflight_requests_max: 4_096,
            gathered_rows_max: 100_000,
            gathered_bytes_max: 32 * 1024 * 1024,
            linger: Duration::ZERO,
            block_bytes_max: BLOCK_BYTES_MAX,
            auto_create: true,
            body_idle_max: Duration::from_secs(30),
        }
    }
}

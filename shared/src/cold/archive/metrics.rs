//! What the archiver counts.

use prometheus::{IntCounter, IntGauge, Registry};

use crate::cold::rules::Published;
use crate::metrics::register;

/// Counters of one node's archiver.
pub(super) struct Metrics {
    generations: IntCounter,
    events: IntCounter,
    files: IntCounter,
    bytes: IntCounter,
    /// Generations swept.
    pub(super) swept: IntCounter,
    /// Blocks deleted from the store.
    pub(super) blocks_deleted: IntCounter,
    /// Table files deleted.
    pub(super) files_deleted: IntCounter,
    /// Buckets dropped.
    pub(super) dropped: IntCounter,
    /// Buckets that could not be archived, swept or dropped.
    pub(super) failures: IntCounter,
    /// Generations that wait for their grace.
    pub(super) waiting: IntGauge,
    /// Databases that do not work.
    pub(super) resting: IntGauge,
}

impl Metrics {
    pub(super) fn register(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let counter = |name: &str, help: &str| register(registry, IntCounter::new(name, help)?);
        let gauge = |name: &str, help: &str| register(registry, IntGauge::new(name, help)?);
        Ok(Metrics {
            generations: counter("braid_archive_generations_total", "Generations of buckets published")?,
            events: counter("braid_archive_events_total", "Events in published generations")?,
            files: counter("braid_archive_files_total", "Table files published")?,
            bytes: counter("braid_archive_bytes_total", "Bytes of table files published")?,
            swept: counter("braid_archive_swept_total", "Generations whose archived blocks and replaced files are deleted")?,
            blocks_deleted: counter("braid_archive_blocks_deleted_total", "Archived or dropped blocks deleted from the store")?,
            files_deleted: counter("braid_archive_files_deleted_total", "Replaced or dropped table files deleted")?,
            dropped: counter("braid_archive_dropped_total", "Buckets dropped by retention")?,
            failures: counter("braid_archive_failures_total", "Buckets that could not be archived, swept or dropped, each time")?,
            waiting: gauge("braid_archive_waiting", "Published generations that wait for their grace")?,
            resting: gauge("braid_archive_databases_resting", "Databases to which nothing is archived because they do not work")?,
        })
    }

    /// Counts a published generation.
    pub(super) fn published(&self, published: &Published) {
        self.generations.inc();
        self.files.inc_by(published.files.len() as u64);
        self.events.inc_by(published.files.iter().map(|file| file.rows).sum());
        self.bytes.inc_by(published.files.iter().map(|file| file.bytes).sum());
    }
}

//! What the embedded store counts.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Registry, exponential_buckets, histogram_opts};

use crate::metrics::register;

/// Counters of the committer.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    commits: IntCounter,
    events: IntCounter,
    seconds: Histogram,
}

/// Counters of tidying.
#[derive(Clone, Debug)]
pub(super) struct TidyMetrics {
    removed: IntGauge,
    seconds: Histogram,
}

impl TidyMetrics {
    pub(super) fn new(registry: &Registry) -> Result<TidyMetrics, prometheus::Error> {
        let opts = histogram_opts!(
            "braid_engine_compaction_seconds",
            "Time of a compaction of the engine's whole tree",
            exponential_buckets(0.01, 2.0, 14)?
        );
        let removed = IntGauge::new("braid_engine_removed_records", "Records removed since the engine's tree was last compacted whole")?;
        Ok(TidyMetrics { removed: register(registry, removed)?, seconds: register(registry, Histogram::with_opts(opts)?)? })
    }

    pub(super) fn removed(&self, records: u64) {
        self.removed.set(i64::try_from(records).unwrap_or(i64::MAX));
    }

    pub(super) fn tidied(&self, took: Duration) {
        self.seconds.observe(took.as_secs_f64());
    }
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let buckets = exponential_buckets(0.000_1, 2.0, 16)?;
        let opts: HistogramOpts = histogram_opts!("braid_commit_seconds", "Time of a commit, its sync included", buckets);
        Ok(Metrics {
            commits: register(registry, IntCounter::new("braid_commits_total", "Commits, one sync each")?)?,
            events: register(registry, IntCounter::new("braid_commit_events_total", "Events made durable by commits")?)?,
            seconds: register(registry, Histogram::with_opts(opts)?)?,
        })
    }

    pub(super) fn committed(&self, took: Duration, events: u64) {
        self.commits.inc();
        self.events.inc_by(events);
        self.seconds.observe(took.as_secs_f64());
    }
}

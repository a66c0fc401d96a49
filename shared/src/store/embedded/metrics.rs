//! What the embedded store counts.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, Registry, exponential_buckets, histogram_opts};

/// Counters of the committer.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    commits: IntCounter,
    events: IntCounter,
    seconds: Histogram,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let buckets = exponential_buckets(0.000_1, 2.0, 16)?;
        let opts: HistogramOpts = histogram_opts!("braid_commit_seconds", "Time of a commit, its sync included", buckets);
        let metrics = Metrics {
            commits: IntCounter::new("braid_commits_total", "Commits, one sync each")?,
            events: IntCounter::new("braid_commit_events_total", "Events made durable by commits")?,
            seconds: Histogram::with_opts(opts)?,
        };
        registry.register(Box::new(metrics.commits.clone()))?;
        registry.register(Box::new(metrics.events.clone()))?;
        registry.register(Box::new(metrics.seconds.clone()))?;
        Ok(metrics)
    }

    pub(super) fn committed(&self, took: Duration, events: u64) {
        self.commits.inc();
        self.events.inc_by(events);
        self.seconds.observe(took.as_secs_f64());
    }
}

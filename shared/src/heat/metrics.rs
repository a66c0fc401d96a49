//! What operators see of the controller.

use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use super::decide::Action;
use crate::metrics::register;

/// Counters of one node's controller.
pub(super) struct Metrics {
    leads: IntGauge,
    watched: IntGauge,
    decisions: IntCounterVec,
    pub(super) failures: IntCounter,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Result<Metrics, prometheus::Error> {
        let decisions = Opts::new("braid_heat_decisions_total", "Decisions on keys that this node made, by action");
        Ok(Metrics {
            leads: register(registry, IntGauge::new("braid_heat_leads", "Whether this node controls layouts")?)?,
            watched: register(registry, IntGauge::new("braid_heat_watched_keys", "Keys that this node watches as the leader")?)?,
            decisions: register(registry, IntCounterVec::new(decisions, &["action"])?)?,
            failures: register(registry, IntCounter::new("braid_heat_failures_total", "Rounds of control that failed")?)?,
        })
    }

    pub(super) fn leads(&self, leads: bool, watched: usize) {
        self.leads.set(leads.into());
        self.watched.set(watched as i64);
    }

    pub(super) fn decided(&self, action: Action) {
        self.decisions.with_label_values(&[action.name()]).inc();
    }
}

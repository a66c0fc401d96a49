//! What operators see of the catalog.

use std::sync::Weak;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, IntCounter, IntGauge, Registry};

use super::{Catalog, Known};
use crate::model::Timestamp;

/// Gauges and counters of one node's catalog.
pub(super) struct Metrics {
    revision: IntGauge,
    horizon: Gauge,
    refreshed: Gauge,
    pub(super) swaps: IntCounter,
    pub(super) conflicts: IntCounter,
    pub(super) unknown: IntCounter,
    pub(super) refresh_failures: IntCounter,
}

impl Metrics {
    pub(super) fn new() -> Metrics {
        let gauge = |name, help| Gauge::new(name, help).expect("a sound name");
        let counter = |name, help| IntCounter::new(name, help).expect("a sound name");
        Metrics {
            revision: IntGauge::new("braid_catalog_revision", "Revision of the catalog as this node knows it.").expect("a sound name"),
            horizon: gauge("braid_catalog_horizon_seconds", "The promise as this node knows it, Unix time."),
            refreshed: gauge("braid_catalog_refreshed_seconds", "When the last good read of the catalog began, Unix time."),
            swaps: counter("braid_catalog_swaps_total", "Swaps of the catalog's root that this node made."),
            conflicts: counter("braid_catalog_conflicts_total", "Swaps of the catalog's root that another node's came before."),
            unknown: counter("braid_catalog_unknown_total", "Swaps of the catalog's root whose answer did not come."),
            refresh_failures: counter("braid_catalog_refresh_failures_total", "Reads of the catalog that failed."),
        }
    }

    pub(super) fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        let all: [Box<dyn Collector>; 7] = [
            Box::new(self.revision.clone()),
            Box::new(self.horizon.clone()),
            Box::new(self.refreshed.clone()),
            Box::new(self.swaps.clone()),
            Box::new(self.conflicts.clone()),
            Box::new(self.unknown.clone()),
            Box::new(self.refresh_failures.clone()),
        ];
        all.into_iter().try_for_each(|metric| registry.register(metric))
    }

    pub(super) fn observe(&self, known: &Known) {
        self.revision.set(i64::try_from(known.root.revision).unwrap_or(i64::MAX));
        self.horizon.set(seconds(known.view.horizon));
        self.refreshed.set(seconds(known.view.began.wall));
    }
}

/// What changes with the clock alone, and so is measured when it is asked for.
pub(super) struct Distances {
    catalog: Weak<Catalog>,
    age: Gauge,
    ahead: Gauge,
}

impl Distances {
    pub(super) fn new(catalog: Weak<Catalog>) -> Result<Distances, prometheus::Error> {
        let age = Gauge::new("braid_catalog_view_age_seconds", "How long ago the read began that this node's view is from.")?;
        let ahead = "How far the promise lies ahead of this node's clock. Beyond the lead, some node's clock is wrong.";
        Ok(Distances { catalog, age, ahead: Gauge::new("braid_catalog_promise_ahead_seconds", ahead)? })
    }
}

impl Collector for Distances {
    fn desc(&self) -> Vec<&Desc> {
        [self.age.desc(), self.ahead.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(catalog) = self.catalog.upgrade() else { return Vec::new() };
        let view = catalog.view();
        self.age.set(catalog.clock.elapsed(view.began).as_secs_f64());
        self.ahead.set(view.horizon.nanos().saturating_sub(catalog.clock.now().nanos()) as f64 / 1e9);
        [self.age.collect(), self.ahead.collect()].concat()
    }
}

fn seconds(at: Timestamp) -> f64 {
    at.nanos() as f64 / 1e9
}

//! The parts of a node, put together from settings, and taken down in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use braid_ingest::{Ingest, IngestSettings};
use braid_query::{Query, QuerySettings};
use braid_shared::catalog::{Catalog, Shared};
use braid_shared::clock::{Clock, SystemClock};
use braid_shared::cold::{ArchiveOptions, Archiver, Databases, Tables};
use braid_shared::compaction::{self, CompactionOptions, Compactor};
use braid_shared::heat::{self, ControlOptions, Controller, Reporter};
use braid_shared::model::Span;
use braid_shared::store::Store;
use braid_shared::store::metered::MeteredStore;
use prometheus::Registry;
use tokio::task::JoinSet;

use crate::settings::{Heat, Settings, Tier};
use crate::store::{self, Closer};

/// Refreshes that may fail before the node says that it is not ready.
const REFRESHES_MISSED_MAX: u32 = 5;

/// A node's parts.
pub(crate) struct Components {
    /// Every metric of the node.
    pub(crate) registry: Registry,
    store: Arc<dyn Store>,
    closer: Option<Closer>,
    catalog: Arc<Catalog>,
    clock: Arc<dyn Clock>,
    ingest: Option<Arc<Ingest>>,
    query: Option<Arc<Query>>,
    databases: Arc<Databases>,
    refresh: Duration,
    draining: AtomicBool,
    background: std::sync::Mutex<JoinSet<()>>,
}

impl Components {
    /// Opens the store, reads the catalog, and starts what runs in the background.
    pub(crate) async fn build(tier: Tier, settings: &Settings) -> Result<Components, Box<dyn std::error::Error>> {
        let registry = registry()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let opened = store::open(settings, &registry).await?;
        let store: Arc<dyn Store> = MeteredStore::new(opened.store, &registry)?;
        let catalog = Catalog::open(store.clone(), clock.clone(), shared(settings.grace)).await?;
        catalog.register(&registry)?;
        let databases = Databases::new();
        let tables = Tables::new(databases.clone(), &registry)?;

        let mut background = JoinSet::new();
        background.spawn(catalog.clone().keep_fresh(settings.refresh));
        if settings.compacts() && tier != Tier::Query {
            let options = CompactionOptions { grace: catalog.view().shared.grace.duration(), ..CompactionOptions::default() };
            let layouts = compaction::layouts(catalog.clone());
            background.spawn(Compactor::new(store.clone(), layouts, clock.clone(), options, &registry)?.run());
        }
        if settings.archive && tier != Tier::Query {
            let (store, catalog, clock) = (store.clone(), catalog.clone(), clock.clone());
            background.spawn(Archiver::new(store, catalog, tables.clone(), clock, ArchiveOptions::default(), &registry)?.run());
        }
        let ingest = (tier != Tier::Query).then(|| {
            let options = IngestSettings {
                inflight_bytes_max: settings.inflight_bytes,
                linger: settings.linger(),
                auto_create: settings.auto_create,
                body_idle_max: settings.stall,
                ..IngestSettings::default()
            };
            Ingest::new(store.clone(), catalog.clone(), clock.clone(), opened.heat.clone(), options, &registry)
        });
        if ingest.is_some() {
            let node = rand::random();
            let reporter = Reporter::new(opened.heat.clone(), store.clone(), catalog.clone(), clock.clone(), node);
            let options = ControlOptions { dry_run: settings.heat == Heat::DryRun, cool_down: settings.heat_cool_down };
            let controller = || Controller::new(store.clone(), catalog.clone(), clock.clone(), node, options, &registry);
            let controller = (settings.heat != Heat::Off).then(controller).transpose()?;
            background.spawn(heat::run(reporter, controller));
        }
        let query = (tier != Tier::Ingest).then(|| {
            let options = QuerySettings { in_flight_max: settings.queries, ..QuerySettings::default() };
            Query::with_tables(store.clone(), catalog.clone(), tables.clone(), clock.clone(), options, &registry)
        });
        let query = query.transpose()?;
        let (refresh, draining, background) = (settings.refresh, AtomicBool::new(false), background.into());
        let closer = opened.closer;
        Ok(Components { registry, store, closer, catalog, clock, ingest, query, databases, refresh, draining, background })
    }

    /// The ingest tier's routes; none where it does not run here.
    pub(crate) fn ingest_routes(&self) -> Router {
        self.ingest.clone().map(braid_ingest::router).unwrap_or_default()
    }

    /// The query tier's routes, where it runs here.
    pub(crate) fn query_routes(&self) -> Option<Router> {
        self.query.clone().map(braid_query::router)
    }

    /// What keeps the node from serving, a line each; nothing where it is ready.
    pub(crate) fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        if self.draining.load(Ordering::Relaxed) {
            missing.push("draining".to_owned());
        }
        if let Err(error) = self.store.health() {
            missing.push(format!("store: {error}"));
        }
        let age = self.clock.elapsed(self.catalog.view().began);
        if age > self.refresh * REFRESHES_MISSED_MAX {
            missing.push(format!("catalog: last read {} s ago", age.as_secs()));
        }
        missing
    }

    /// What is wrong and does not keep the node from serving: writes and hot reads need no database of cold history.
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.databases.all_faults()
    }

    /// Whether the node is about to end.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// From now on the node is not ready.
    pub(crate) fn begin_drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Settles what was accepted, within `limit`, then closes the store.
    pub(crate) async fn close(&self, limit: Duration) {
        if let Some(ingest) = &self.ingest
            && tokio::time::timeout(limit, ingest.drain()).await.is_err()
        {
            tracing::warn!("writes cut at the drain's limit, their outcome is unknown to their clients");
        }
        self.background.lock().expect("no holder panics").abort_all();
        if let Some(close) = self.closer.clone() {
            let _ = tokio::task::spawn_blocking(move || close()).await;
        }
    }
}

/// What a new catalog begins with.
pub(crate) fn shared(grace: Span) -> Shared {
    let half = Span::from_nanos(grace.nanos() / 2).unwrap_or(grace);
    Shared { grace, read_deadline: half, write_deadline: half, ..Shared::default() }
}

/// A registry with the process's own metrics.
fn registry() -> Result<Registry, prometheus::Error> {
    let registry = Registry::new();
    registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
    Ok(registry)
}

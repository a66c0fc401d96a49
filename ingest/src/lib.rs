//! The ingest tier: events over HTTP, to blocks in a store.
//!
//! The data path is one function, that of `write.rs`, and its steps are the modules, in this order:
//! `inflight` (bounds) → `body` → `decode` → `complete` (ids and times) → `admit` (the promise) →
//! `route` (partitions) → `coalesce` and `flush` (group commit) → `late` (cold history) → `ticket` (the outcome) →
//! `http::answers`. Statuses are chosen in `http` only; placement is `braid-shared`'s.

use std::sync::Arc;

use braid_shared::catalog::Catalog;
use braid_shared::clock::Clock;
use braid_shared::heat::Tracker;
use braid_shared::store::Store;
use prometheus::Registry;

mod admit;
pub mod body;
mod coalesce;
mod complete;
pub mod decode;
mod fault;
mod flush;
mod http;
mod inflight;
mod late;
mod metrics;
mod noted;
pub mod route;
mod settings;
mod ticket;
mod write;

#[cfg(test)]
mod tests;

pub use http::router;
pub use settings::IngestSettings;

use coalesce::Coalescer;
use complete::IdSource;
use flush::Flusher;
use inflight::Inflight;
use metrics::Metrics;

/// One node's ingest tier.
pub struct Ingest {
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
    clock: Arc<dyn Clock>,
    settings: IngestSettings,
    metrics: Arc<Metrics>,
    inflight: Inflight,
    ids: IdSource,
    coalescer: Arc<Coalescer>,
}

impl Ingest {
    /// Puts the tier together on a store and its catalog; `heat` counts what it writes.
    ///
    /// # Panics
    /// Where `registry` already holds an ingest tier's metrics.
    pub fn new(
        store: Arc<dyn Store>,
        catalog: Arc<Catalog>,
        clock: Arc<dyn Clock>,
        heat: Arc<Tracker>,
        settings: IngestSettings,
        registry: &Registry,
    ) -> Arc<Ingest> {
        let metrics = Arc::new(Metrics::new(registry).expect("metric names are distinct and registered once"));
        let bytes_max = settings.block_bytes_max.min(store.block_bytes_max());
        let flusher = Flusher::new(store.clone(), catalog.clone(), clock.clone(), metrics.clone(), heat, bytes_max);
        Arc::new(Ingest {
            inflight: Inflight::new(&settings, metrics.inflight_bytes.clone()),
            ids: IdSource::new(rand::random()),
            coalescer: Arc::new(Coalescer::new(flusher, &settings, metrics.pending_partitions.clone())),
            store,
            catalog,
            clock,
            settings,
            metrics,
        })
    }

    /// Refuses new requests with `shutting_down`, and returns when all that were accepted are settled.
    pub async fn drain(&self) {
        self.inflight.drain().await;
    }
}

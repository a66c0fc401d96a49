//! What every read of this node shares: store, catalog, clock, bounds, metrics.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use braid_shared::catalog::{Catalog, View};
use braid_shared::clock::{Clock, Mark};
use braid_shared::cold::{Databases, Manifest, Tables};
use braid_shared::model::Namespace;
use braid_shared::store::{Store, StoreError};
use prometheus::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::error::QueryError;
use crate::metrics::Metrics;

/// Most keys whose stretch width is remembered.
const HINTS_MAX: usize = 4_096;

/// Bounds of the query tier.
#[derive(Clone, Debug)]
pub struct QuerySettings {
    /// Most reads in flight.
    pub in_flight_max: usize,
    /// Longest wait for one page, or one directory read, of the store.
    pub page_deadline: Duration,
    /// Bytes of blocks read at once, beyond which a stretch of time is halved.
    pub stretch_bytes: usize,
    /// Bytes of blocks read at once where halving does not help; beyond them the read is refused.
    pub stretch_bytes_max: usize,
    /// Threads that fold one aggregate.
    pub fold_threads: usize,
}

impl Default for QuerySettings {
    fn default() -> Self {
        QuerySettings {
            in_flight_max: 64,
            page_deadline: Duration::from_secs(10),
            stretch_bytes: 16 * 1024 * 1024,
            stretch_bytes_max: 128 * 1024 * 1024,
            fold_threads: 2,
        }
    }
}

/// The query tier of one node.
pub struct Query {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) manifest: Manifest,
    pub(crate) tables: Arc<Tables>,
    pub(crate) settings: QuerySettings,
    pub(crate) metrics: Metrics,
    permits: Arc<Semaphore>,
    /// Stretch widths that gave about a page, nanoseconds.
    hints: Mutex<HashMap<(Namespace, String), i64>>,
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Query {
    /// The query tier over a store and its catalog, with databases of its own; registers its metrics.
    pub fn new(
        store: Arc<dyn Store>,
        catalog: Arc<Catalog>,
        clock: Arc<dyn Clock>,
        settings: QuerySettings,
        registry: &Registry,
    ) -> Result<Arc<Query>, prometheus::Error> {
        let tables = Tables::new(Databases::new(), registry)?;
        Query::with_tables(store, catalog, tables, clock, settings, registry)
    }

    /// The query tier over a store, its catalog and a reader of tables; registers its metrics.
    pub fn with_tables(
        store: Arc<dyn Store>,
        catalog: Arc<Catalog>,
        tables: Arc<Tables>,
        clock: Arc<dyn Clock>,
        settings: QuerySettings,
        registry: &Registry,
    ) -> Result<Arc<Query>, prometheus::Error> {
        let manifest = Manifest::beside(&catalog, store.clone());
        let metrics = Metrics::register(registry)?;
        let permits = Arc::new(Semaphore::new(settings.in_flight_max));
        Ok(Arc::new(Query { store, catalog, clock, manifest, tables, settings, metrics, permits, hints: Mutex::default() }))
    }

    /// A place among the reads in flight, given back when dropped; none left is an error at once.
    pub(crate) fn admit(&self) -> Result<OwnedSemaphorePermit, QueryError> {
        self.permits.clone().try_acquire_owned().map_err(|_| QueryError::Overloaded(self.settings.in_flight_max))
    }

    /// Waits for the store, but not for ever.
    pub(crate) async fn within_deadline<T>(&self, read: impl Future<Output = Result<T, StoreError>>) -> Result<T, QueryError> {
        let deadline = self.settings.page_deadline;
        let answer = timeout(deadline, read).await.map_err(|_| QueryError::StoreTimeout { seconds: deadline.as_secs() })?;
        Ok(answer?)
    }

    /// An error where what was read since `began` may have been deleted behind the read.
    pub(crate) fn check_deadline(&self, began: Mark, view: &View) -> Result<(), QueryError> {
        let deadline = view.shared.read_deadline.duration();
        if self.clock.elapsed(began) > deadline {
            return Err(QueryError::Deadline { seconds: deadline.as_secs() });
        }
        Ok(())
    }

    /// The width that worked for a key, nanoseconds.
    pub(crate) fn hint(&self, ns: &Namespace, key: &str) -> Option<i64> {
        self.hints.lock().expect("no holder panics").get(&(ns.clone(), key.to_owned())).copied()
    }

    /// Remembers a width that worked.
    pub(crate) fn remember(&self, ns: &Namespace, key: &str, width: i64) {
        let mut hints = self.hints.lock().expect("no holder panics");
        if hints.len() >= HINTS_MAX {
            hints.clear();
        }
        hints.insert((ns.clone(), key.to_owned()), width);
    }
}

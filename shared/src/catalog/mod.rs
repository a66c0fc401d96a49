//! The catalog: the versioned routing truth, in the store, and this node's view of it.
//!
//! Read [`crate::promise`] first: it holds the rules, this module their plumbing.
//!
//! - `root`, `change`, `snapshot`, `documents`: what stands in the store.
//! - `view`: what a node knows, immutable.
//! - `guard`: a clock far ahead of the store's raises nothing; `lower`: the way back from one that did.
//! - `refresh`: reads; `swap`: the one compare-and-swap; `raise`, `publish`, `cold`: what is swapped in.
//!
//! Knows no HTTP and places no event itself.

mod audit;
mod change;
mod cold;
pub(crate) mod documents;
mod error;
mod guard;
mod lower;
mod metrics;
mod publish;
mod raise;
mod refresh;
mod root;
mod settings;
mod snapshot;
mod swap;
#[cfg(test)]
mod tests;
mod view;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::clock::{Clock, Mark};
use crate::model::Namespace;
use crate::promise::is_newer;
use crate::stamp::{Stamp, StampSource};
use crate::store::Store;

use documents::Documents;
use refresh::LastRead;
use root::Root;
use view::Namespaces;

pub use audit::{Audit, Intent};
pub use error::CatalogError;
pub use lower::Lowered;
pub use settings::{HeatMode, NewLayout, NewNamespace, Policy, Shared};
pub use view::{ListedLayout, NamespaceView, Set, View};

/// Times that a lost race or an unanswered call is tried before the caller hears of it.
const TRIES: u32 = 16;

/// Longest wait before the first try again; doubles up to [`BACKOFF_MAX`].
const BACKOFF_FIRST: Duration = Duration::from_millis(2);

/// Longest wait between two tries.
const BACKOFF_MAX: Duration = Duration::from_millis(100);

/// This node's door to the catalog.
pub struct Catalog {
    documents: Documents,
    clock: Arc<dyn Clock>,
    known: ArcSwap<Known>,
    stamps: StampSource,
    /// Reads of the root that have begun.
    reads_begun: AtomicU64,
    /// The last read that ended; held while one runs.
    last_read: tokio::sync::Mutex<LastRead>,
    /// Held while this node swaps the root: it never races itself.
    writing: tokio::sync::Mutex<()>,
    raising: AtomicBool,
    guard: guard::ClockGuard,
    /// Changes after which this node takes a snapshot.
    snapshot_every: u64,
    dice: Dice,
    metrics: metrics::Metrics,
}

/// A root that was read, or swapped in with a known outcome, and the view it gives.
struct Known {
    root: Root,
    etag: u64,
    view: Arc<View>,
}

impl Known {
    fn new(root: Root, etag: u64, began: Mark, namespaces: Namespaces) -> Known {
        let view = Arc::new(View {
            revision: root.revision,
            horizon: root.promise(),
            stamp_ceiling: root.ceiling,
            began,
            shared: root.shared,
            namespaces,
        });
        Known { root, etag, view }
    }

    /// Whether this is newer, or read later, than `other`.
    fn supersedes(&self, other: &Known) -> bool {
        let same = self.root.swap == other.root.swap;
        is_newer(self.root.facts(), other.root.facts()) || same && self.view.began.boot > other.view.began.boot
    }
}

/// Random bits for names, nonces and waits.
struct Dice(Mutex<StdRng>);

impl Dice {
    fn bits(&self) -> u64 {
        self.0.lock().expect("no holder panics").random()
    }

    /// Waits before try `tried + 1`, a random part of a bound that doubles.
    async fn back_off(&self, tried: u32) {
        let most = BACKOFF_FIRST.saturating_mul(1 << tried.min(16)).min(BACKOFF_MAX).as_micros() as u64;
        tokio::time::sleep(Duration::from_micros(self.bits() % (most + 1))).await;
    }
}

impl Catalog {
    /// Reads the catalog, making its root where there is none (with `defaults`).
    pub async fn open(store: Arc<dyn Store>, clock: Arc<dyn Clock>, defaults: Shared) -> Result<Arc<Catalog>, CatalogError> {
        Catalog::open_with(store, clock, defaults, rand::make_rng()).await
    }

    /// As [`Catalog::open`], with random bits of this seed, so that a run can be had again.
    pub async fn open_seeded(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        defaults: Shared,
        seed: u64,
    ) -> Result<Arc<Catalog>, CatalogError> {
        Catalog::open_with(store, clock, defaults, StdRng::seed_from_u64(seed)).await
    }

    async fn open_with(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        defaults: Shared,
        mut rng: StdRng,
    ) -> Result<Arc<Catalog>, CatalogError> {
        defaults.check()?;
        let documents = Documents::new(store);
        let known = refresh::first_read(&documents, &*clock, &Root::new(rng.random(), clock.now(), defaults)).await?;
        let metrics = metrics::Metrics::new();
        metrics.observe(&known);
        Ok(Arc::new(Catalog {
            stamps: StampSource::new(rng.random(), known.root.ceiling),
            documents,
            clock,
            known: ArcSwap::from_pointee(known),
            reads_begun: AtomicU64::new(0),
            last_read: tokio::sync::Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            raising: AtomicBool::new(false),
            guard: guard::ClockGuard::default(),
            snapshot_every: snapshot::snapshot_every(rng.random()),
            dice: Dice(Mutex::new(rng)),
            metrics,
        }))
    }

    /// The view at hand. Cheap; never waits.
    pub fn view(&self) -> Arc<View> {
        self.known.load().view.clone()
    }

    /// A namespace by a view at hand, or by a refresh where that does not know it.
    pub async fn namespace(&self, ns: &Namespace) -> Result<(Arc<View>, Arc<NamespaceView>), CatalogError> {
        let at_hand = self.view();
        if let Some(found) = at_hand.namespace(ns).cloned() {
            return Ok((at_hand, found));
        }
        let fresh = self.refresh().await?;
        let found = fresh.namespace(ns).cloned().ok_or_else(|| CatalogError::NamespaceNotFound(ns.clone()))?;
        Ok((fresh, found))
    }

    /// Issues the next stamp; [`CatalogError::Stale`] where the ceiling is used up (call [`Catalog::cover`] first).
    pub fn stamp(&self) -> Result<Stamp, CatalogError> {
        let ceiling = self.known.load().view.stamp_ceiling;
        self.stamps.next(self.clock.now(), ceiling).map_err(|e| CatalogError::Stale(e.to_string()))
    }

    /// Random bits: of the seed that it was opened with, if it was.
    pub fn bits(&self) -> u64 {
        self.dice.bits()
    }

    /// Adds this catalog's metrics to a registry.
    pub fn register(self: &Arc<Self>, registry: &prometheus::Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(metrics::Distances::new(Arc::downgrade(self))?))?;
        self.metrics.register(registry)
    }

    fn known(&self) -> Arc<Known> {
        self.known.load_full()
    }

    /// Takes over what was read or swapped in, unless something newer is at hand; gives the newest.
    fn install(&self, found: Known) -> Arc<Known> {
        let found = Arc::new(found);
        self.known.rcu(|current| if found.supersedes(current) { found.clone() } else { current.clone() });
        self.known()
    }
}

//! A node: production's catalog, ingest and query tiers, or its compactor, on a runtime of its own
//! whose time stands still but for the ticks it is given. Ending the runtime is what a crash is:
//! every task is gone where it stood.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use braid_ingest::{Ingest, IngestSettings};
use braid_query::{Query, QuerySettings};
use braid_shared::catalog::{Catalog, Shared};
use braid_shared::compaction::{CompactionOptions, Compactor, FindLayout, GroupLimits};
use braid_shared::store::Store;
use prometheus::Registry;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::chance::Chance;
use crate::clock::NodeClock;
use crate::line::Line;

/// How often a node reads the catalog.
const REFRESH: Duration = Duration::from_secs(1);
/// Between two tries to start.
const START_PAUSE: Duration = Duration::from_millis(300);
/// Between two rounds of compaction.
const COMPACTION_PAUSE: Duration = Duration::from_millis(1_500);

/// An answer to a client: the number of its call, the status, the body.
pub(crate) type Answer = (usize, u16, Vec<u8>);

/// Where answers arrive.
pub(crate) type Inbox = Arc<Mutex<Vec<Answer>>>;

/// What serves, once the catalog could be read.
#[derive(Clone)]
struct Serving {
    catalog: Arc<Catalog>,
    router: Router,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Both tiers.
    Serve,
    /// Compaction.
    Compact,
}

/// A process, or the place of one that ended.
pub(crate) struct Node {
    role: Role,
    pub(crate) line: Arc<Line>,
    pub(crate) clock: Arc<NodeClock>,
    runtime: Option<Runtime>,
    serving: Arc<Mutex<Option<Serving>>>,
    inbox: Inbox,
    /// How far its runtime's time lags behind what passed.
    lag: Duration,
}

impl Node {
    pub(crate) fn new(role: Role, line: Arc<Line>, clock: NodeClock, inbox: Inbox) -> Node {
        Node { role, line, clock: Arc::new(clock), runtime: None, serving: Arc::default(), inbox, lag: Duration::ZERO }
    }

    /// Starts a process.
    pub(crate) fn start(&mut self, chance: &mut Chance) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime without I/O");
        let (store, clock): (Arc<dyn Store>, _) = (self.line.clone(), self.clock.clone());
        self.serving = Arc::default();
        match self.role {
            Role::Serve => drop(runtime.spawn(serve(store, clock, chance.fork(), self.serving.clone()))),
            Role::Compact => drop(runtime.spawn(compact(store, clock, chance.fork()))),
        }
        self.runtime = Some(runtime);
        self.lag = Duration::ZERO;
    }

    /// Ends the process where it stands.
    pub(crate) fn crash(&mut self) {
        *self.serving.lock().expect("no holder panics") = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.runtime.is_some()
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.catalog().is_some()
    }

    pub(crate) fn catalog(&self) -> Option<Arc<Catalog>> {
        self.serving.lock().expect("no holder panics").as_ref().map(|serving| serving.catalog.clone())
    }

    /// Stands still while `tick` passes.
    pub(crate) fn stand_still(&mut self, tick: Duration) {
        self.lag += tick;
    }

    /// Forgets that it stood still, as a machine that was suspended does: its timers go on from there.
    pub(crate) fn forget_lag(&mut self) {
        self.lag = Duration::ZERO;
    }

    /// Runs for a tick, after what it lags behind.
    pub(crate) fn run(&mut self, tick: Duration, passed: Duration) {
        self.clock.set_passed(passed);
        let Some(runtime) = &self.runtime else { return };
        let lag = std::mem::take(&mut self.lag);
        runtime.block_on(async {
            if !lag.is_zero() {
                tokio::time::advance(lag).await;
            }
            tokio::time::sleep(tick).await;
        });
    }

    /// Sends a call; its answer arrives in the inbox, or never. Gives nothing where nobody serves.
    pub(crate) fn call(&self, number: usize, request: Request<Body>) -> Option<JoinHandle<()>> {
        let router = self.serving.lock().expect("no holder panics").as_ref()?.router.clone();
        let inbox = self.inbox.clone();
        let call = async move {
            let response = router.oneshot(request).await.expect("routers answer");
            let status = response.status().as_u16();
            // A body that breaks off is an answer that never came.
            if let Ok(body) = to_bytes(response.into_body(), usize::MAX).await {
                inbox.lock().expect("no holder panics").push((number, status, body.to_vec()));
            }
        };
        Some(self.runtime.as_ref()?.spawn(call))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.crash();
    }
}

async fn open(store: &Arc<dyn Store>, clock: &Arc<NodeClock>, chance: &mut Chance) -> Arc<Catalog> {
    loop {
        match Catalog::open_seeded(store.clone(), clock.clone(), Shared::default(), chance.bits()).await {
            Ok(catalog) => return catalog,
            Err(_) => tokio::time::sleep(START_PAUSE).await,
        }
    }
}

async fn serve(store: Arc<dyn Store>, clock: Arc<NodeClock>, mut chance: Chance, serving: Arc<Mutex<Option<Serving>>>) {
    let catalog = open(&store, &clock, &mut chance).await;
    let registry = Registry::new();
    let ingest = Ingest::new(store.clone(), catalog.clone(), clock.clone(), IngestSettings::default(), &registry);
    let query = Query::new(store, catalog.clone(), clock, QuerySettings::default(), &registry).expect("metrics are registered once");
    let router = braid_ingest::router(ingest).merge(braid_query::router(query));
    *serving.lock().expect("no holder panics") = Some(Serving { catalog: catalog.clone(), router });
    catalog.keep_fresh(REFRESH).await;
}

/// Rounds in one task: its work on other threads then never runs beside anything else, and the order
/// of events stays that of the seed.
async fn compact(store: Arc<dyn Store>, clock: Arc<NodeClock>, mut chance: Chance) {
    let catalog = open(&store, &clock, &mut chance).await;
    let group = GroupLimits { small_least: 2, ..CompactionOptions::default().group };
    let options = CompactionOptions { least: 2, group, bytes_per_second: u64::MAX, quiet: Duration::ZERO, ..CompactionOptions::default() };
    let layouts = catalog.clone();
    let layouts: FindLayout = Arc::new(move |partition| layouts.view().layout_of(partition).cloned());
    let nonces = Mutex::new(chance.fork());
    let compactor = Compactor::new(store, layouts, clock, options, &Registry::new()).expect("metrics are registered once");
    let mut compactor = compactor.with_nonces(Arc::new(move || nonces.lock().expect("no holder panics").bits()));
    loop {
        tokio::time::sleep(COMPACTION_PAUSE).await;
        let _ = catalog.refresh().await;
        let _ = compactor.round().await;
    }
}

//! A node: production's catalog, ingest and query tiers and controller, or its compactor and archiver, on a runtime of its own
//! whose time stands still but for the ticks it is given. Ending the runtime is what a crash is:
//! every task is gone where it stood.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use braid_ingest::{Ingest, IngestSettings};
use braid_query::{Query, QuerySettings};
use braid_shared::catalog::{Catalog, Shared};
use braid_shared::cold::{ArchiveError, ArchiveOptions, Archiver, Databases, Step, Tables};
use braid_shared::compaction::{self, CompactionOptions, Compactor, GroupLimits};
use braid_shared::heat::{self, ControlOptions, Controller, Reporter, Tracker};
use braid_shared::store::Store;
use object_store::memory::InMemory;
use prometheus::Registry;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::chance::Chance;
use crate::clock::NodeClock;
use crate::line::Line;
use crate::tally::{Tally, What};

/// How often a node reads the catalog.
const REFRESH: Duration = Duration::from_secs(1);
/// Between two tries to start.
const START_PAUSE: Duration = Duration::from_millis(300);
/// Between two rounds of compaction and archiving.
const KEEPING_PAUSE: Duration = Duration::from_millis(1_500);
/// Longest that a round of archiving may take: then it ends where it stands.
const ROUND_MAX: Duration = Duration::from_secs(10);
/// How long load must have been low before N shrinks.
const COOL_DOWN: Duration = Duration::from_secs(4);

/// An answer to a client: the number of its call, the status, the body.
pub(crate) type Answer = (usize, u16, Vec<u8>);

/// Where answers arrive.
pub(crate) type Inbox = Arc<Mutex<Vec<Answer>>>;

/// What every process of a run shares, beside the store.
#[derive(Clone, Default)]
pub(crate) struct Common {
    /// Databases by URL.
    pub(crate) databases: Arc<HashMap<String, Arc<InMemory>>>,
    pub(crate) tally: Tally,
}

/// What serves, once the catalog could be read.
#[derive(Clone)]
struct Serving {
    catalog: Arc<Catalog>,
    router: Router,
    registry: Registry,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Both tiers, and control by heat.
    Serve,
    /// Compaction and archiving.
    Keep,
}

/// A process, or the place of one that ended.
pub(crate) struct Node {
    role: Role,
    pub(crate) line: Arc<Line>,
    pub(crate) clock: Arc<NodeClock>,
    runtime: Option<Runtime>,
    serving: Arc<Mutex<Option<Serving>>>,
    inbox: Inbox,
    common: Common,
    /// How far its runtime's time lags behind what passed.
    lag: Duration,
}

impl Node {
    pub(crate) fn new(role: Role, line: Arc<Line>, clock: NodeClock, inbox: Inbox, common: Common) -> Node {
        Node { role, line, clock: Arc::new(clock), runtime: None, serving: Arc::default(), inbox, common, lag: Duration::ZERO }
    }

    /// Starts a process.
    pub(crate) fn start(&mut self, chance: &mut Chance) {
        let runtime = runtime();
        let (store, clock, common): (Arc<dyn Store>, _, _) = (self.line.clone(), self.clock.clone(), self.common.clone());
        self.serving = Arc::default();
        match self.role {
            Role::Serve => drop(runtime.spawn(serve(store, clock, chance.fork(), common, self.serving.clone()))),
            Role::Keep => drop(runtime.spawn(keep(self.line.clone(), clock, chance.fork(), common))),
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

    /// Whether rows are admitted whose outcome is open, though their client may be gone.
    pub(crate) fn is_writing(&self) -> bool {
        let registry = self.serving.lock().expect("no holder panics").as_ref().map(|serving| serving.registry.clone());
        let families = registry.map(|registry| registry.gather()).unwrap_or_default();
        let inflight = families.iter().find(|family| family.name() == "braid_ingest_inflight_bytes");
        inflight.is_some_and(|family| family.get_metric()[0].get_gauge().get_value() > 0.0)
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

/// A runtime whose time stands still but for what it waits for.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime without I/O")
}

async fn open(store: &Arc<dyn Store>, clock: &Arc<NodeClock>, chance: &mut Chance) -> Arc<Catalog> {
    loop {
        match Catalog::open_seeded(store.clone(), clock.clone(), Shared::default(), chance.bits()).await {
            Ok(catalog) => return catalog,
            Err(_) => tokio::time::sleep(START_PAUSE).await,
        }
    }
}

async fn serve(store: Arc<dyn Store>, clock: Arc<NodeClock>, mut chance: Chance, common: Common, serving: Arc<Mutex<Option<Serving>>>) {
    let catalog = open(&store, &clock, &mut chance).await;
    let (registry, tracker, id) = (Registry::new(), Arc::<Tracker>::default(), chance.bits());
    let tables = tables(&common, &registry);
    let ingest = Ingest::new(store.clone(), catalog.clone(), clock.clone(), tracker.clone(), IngestSettings::default(), &registry);
    let query = Query::with_tables(store.clone(), catalog.clone(), tables, clock.clone(), QuerySettings::default(), &registry)
        .expect("metrics are registered once");
    let reporter = Reporter::new(tracker, store.clone(), catalog.clone(), clock.clone(), id);
    let options = ControlOptions { dry_run: false, cool_down: COOL_DOWN };
    let controller = Controller::new(store, catalog.clone(), clock, id, options, &registry).expect("metrics are registered once");
    let router = braid_ingest::router(ingest).merge(braid_query::router(query));
    *serving.lock().expect("no holder panics") = Some(Serving { catalog: catalog.clone(), router, registry });
    futures::join!(catalog.keep_fresh(REFRESH), heat::run(reporter, Some(controller)));
}

fn tables(common: &Common, registry: &Registry) -> Arc<Tables> {
    let databases = Databases::new();
    common.databases.iter().for_each(|(url, files)| databases.provide(url, files.clone()));
    Tables::new(databases, registry).expect("metrics are registered once")
}

/// Rounds in one task: its work on other threads then never runs beside anything else, and the order
/// of events stays that of the seed.
async fn keep(line: Arc<Line>, clock: Arc<NodeClock>, mut chance: Chance, common: Common) {
    let store: Arc<dyn Store> = line.clone();
    let catalog = open(&store, &clock, &mut chance).await;
    let group = GroupLimits { small_least: 2, ..CompactionOptions::default().group };
    let options = CompactionOptions { least: 2, group, bytes_per_second: u64::MAX, quiet: Duration::ZERO, ..CompactionOptions::default() };
    let layouts = compaction::layouts(catalog.clone());
    let nonces = Mutex::new(chance.fork());
    let compactor = Compactor::new(store.clone(), layouts, clock.clone(), options, &Registry::new()).expect("metrics are registered once");
    let mut compactor = compactor.with_nonces(Arc::new(move || nonces.lock().expect("no holder panics").bits()));
    let archiver = || archiver(line.clone(), catalog.clone(), clock.clone(), &common);
    let mut at_work = archiver();
    loop {
        tokio::time::sleep(KEEPING_PAUSE).await;
        let _ = catalog.refresh().await;
        let _ = compactor.round().await;
        if let Ok(Err(ArchiveError::Stopped(_))) = tokio::time::timeout(ROUND_MAX, at_work.round()).await {
            common.tally.add(What::ArchiversKilled, 1);
            at_work = archiver();
        }
    }
}

/// An archiver that may be killed behind each step it takes: the one after it knows only what stands.
fn archiver(line: Arc<Line>, catalog: Arc<Catalog>, clock: Arc<NodeClock>, common: &Common) -> Archiver {
    let (registry, tally, weather) = (Registry::new(), common.tally.clone(), line.clone());
    let killed = move |step: Step| {
        match step {
            Step::Published => tally.add(What::Archived, 1),
            Step::Swept => tally.add(What::Swept, 1),
            Step::DroppedBlocks => tally.add(What::Dropped, 1),
            _ => {}
        }
        weather.kills_at_a_step()
    };
    let options = ArchiveOptions { bytes_per_second: u64::MAX, stop_after: Some(Arc::new(killed)), ..ArchiveOptions::default() };
    let tables = tables(common, &registry);
    Archiver::new(line, catalog, tables, clock, options, &registry).expect("metrics are registered once")
}

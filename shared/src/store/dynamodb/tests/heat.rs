//! Heat as the engine itself tells it: what it charges, and which range of keys it refuses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prometheus::Registry;

use super::faults::names;
use super::*;
use crate::catalog::{Catalog, NewNamespace, Policy, Shared};
use crate::clock::{Clock, ManualClock};
use crate::heat::{ControlOptions, Controller, Rate, Reporter, Tracker};
use crate::model::Timestamp;

const KEY: &str = "hot";
/// Units of the block that is written each second; one suffix should take twice as many.
const UNITS: u32 = 3;

fn ns() -> Namespace {
    "n".parse().unwrap()
}

/// A node that writes to its engine, reports what that charges, and controls.
struct Node {
    engine: TestEngine,
    store: Arc<DynamoStore>,
    clock: Arc<ManualClock>,
    catalog: Arc<Catalog>,
    tracker: Arc<Tracker>,
    reporter: Reporter,
    controller: Controller,
    written: u64,
}

impl Node {
    async fn start() -> Node {
        let engine = TestEngine::start().await;
        let tracker = Arc::new(Tracker::told());
        let store = store_with(&engine, |options| options.usage = Some(tracker.clone())).await;
        let clock = Arc::new(ManualClock::at(Timestamp::from_nanos(1_795_953_600_000_000_000)));
        let (shared_store, shared_clock): (Arc<dyn Store>, Arc<dyn Clock>) = (store.clone(), clock.clone());
        let catalog = Catalog::open(shared_store.clone(), shared_clock.clone(), Shared::default()).await.unwrap();
        let policy = Policy { max_shards: Some(64), target_units: Some(2 * UNITS), ..Policy::default() };
        catalog.create_namespace(&ns(), NewNamespace { shards: 1, policy, ..NewNamespace::default() }).await.unwrap();
        let reporter = Reporter::new(tracker.clone(), shared_store.clone(), catalog.clone(), shared_clock.clone(), 1);
        let options = ControlOptions::default();
        let controller = Controller::new(shared_store, catalog.clone(), shared_clock, 1, options, &Registry::new()).unwrap();
        Node { engine, store, clock, catalog, tracker, reporter, controller, written: 0 }
    }

    fn partition(&self) -> Partition {
        let layout = self.catalog.view().namespace(&ns()).unwrap().layout_at(KEY, self.clock.now()).clone();
        Partition { version: layout.version, ..conformance::partition(&ns(), KEY, 0, 0) }
    }

    fn block(&mut self) -> EncodedBlock {
        self.written += 1;
        conformance::block(&self.partition(), 1, 1, self.written, vec![7; UNITS as usize * 1_024 - 200])
    }

    /// A second in which one block of events is written; the engine refuses it once for `reason`.
    async fn second(&mut self, reason: Option<&'static str>) {
        let blocks = vec![self.block()];
        if let Some(reason) = reason {
            let (partition, refused) = (self.partition(), AtomicBool::new(false));
            self.engine.faults(move |call| match names(call, &partition) && !refused.swap(true, Ordering::Relaxed) {
                true => Fault::Throttle(reason),
                false => Fault::None,
            });
        }
        let writing = self.tracker.writing(&blocks);
        self.store.append(blocks.clone()).await.unwrap();
        self.tracker.stored(&blocks);
        drop(writing);
        self.pass().await;
    }

    async fn pass(&mut self) {
        self.clock.advance(Duration::from_secs(1));
        let warm = self.reporter.tick().await;
        self.controller.tick(warm).await;
    }

    fn now(&self) -> Rate {
        self.tracker.rates().first().map(|rate| rate.now).unwrap_or_default()
    }

    fn history(&self) -> Vec<u32> {
        let view = self.catalog.view();
        view.namespace(&ns()).unwrap().listed(Some(KEY)).iter().map(|listed| listed.layout.shards).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn units_of_events_are_those_that_the_engine_charged() {
    let mut node = Node::start().await;
    for _ in 0..2 {
        node.second(None).await;
    }
    assert_eq!(node.now(), Rate { events: 1.0, bytes: f64::from(UNITS) * 1_024.0 - 200.0, units: UNITS.into(), throttles: 0.0 });
    let merged = node.block();
    node.store.append(vec![merged.clone()]).await.unwrap();
    node.store.delete(&merged.partition, &[merged.address]).await.unwrap();
    for _ in 0..2 {
        node.pass().await;
    }
    assert_eq!(node.now(), Rate::default(), "what is merged and deleted in the background is no heat");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_that_the_engine_refuses_gets_more_suffixes_below_its_target_and_a_limit_of_the_account_none() {
    let mut node = Node::start().await;
    for _ in 0..10 {
        node.second(Some("TableWriteAccountLimitExceeded")).await;
    }
    assert_eq!((node.now().throttles, node.history()), (0.0, vec![]));
    for _ in 0..10 {
        node.second(Some("TableWriteKeyRangeThroughputExceeded")).await;
    }
    assert_eq!(node.history().first(), Some(&2));
}

//! Nodes that write, report and control, over one store, on a clock that tests move.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prometheus::Registry;

use super::super::{ControlOptions, Controller, Reporter, Tracker};
use crate::catalog::{Catalog, NamespaceView, NewNamespace, Policy, Shared};
use crate::clock::{Clock, ManualClock};
use crate::layout::{LayoutVersion, ShardBy};
use crate::model::{Namespace, Span, Timestamp};
use crate::partition::Partition;
use crate::stamp::Stamp;
use crate::store::{BlockAddress, EncodedBlock, FaultStore, MemoryStore, Store};

pub(super) const KEY: &str = "hot";
/// Events per second that one suffix should take at most.
pub(super) const TARGET: u32 = 100;

pub(super) fn ns() -> Namespace {
    "n".parse().unwrap()
}

/// A block of so many events and bytes; counting looks at nothing else.
pub(super) fn block(key: &str, revision: u64, suffix: u32, events: u32, bytes: usize) -> EncodedBlock {
    block_of(key, LayoutVersion { revision, nonce: 0 }, suffix, events, bytes)
}

pub(super) fn block_of(key: &str, version: LayoutVersion, suffix: u32, events: u32, bytes: usize) -> EncodedBlock {
    let bucket = Timestamp::from_nanos(0);
    let partition = Arc::new(Partition { ns: ns(), key: key.into(), bucket, version, suffix });
    let address = BlockAddress { min_ts: bucket, max_ts: bucket, id: Stamp { time: 0, node: 0 } };
    EncodedBlock { partition, address, events, bytes: Bytes::from(vec![0; bytes]) }
}

/// One node: what it would be as a process.
pub(super) struct Node {
    pub(super) catalog: Arc<Catalog>,
    pub(super) store: Arc<FaultStore>,
    pub(super) tracker: Arc<Tracker>,
    pub(super) reporter: Reporter,
    pub(super) controller: Controller,
}

pub(super) struct World {
    pub(super) clock: Arc<ManualClock>,
    store: Arc<MemoryStore>,
    cool_down: Duration,
    next_id: u64,
}

/// How a second of writing went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrote {
    /// N that placed the last event.
    pub(super) shards: u32,
    /// Events of the suffix that got most.
    pub(super) hottest: u32,
}

impl World {
    pub(super) fn new(cool_down: Duration) -> World {
        let start = Timestamp::from_nanos(1_795_953_600_000_000_000);
        World { clock: Arc::new(ManualClock::at(start)), store: MemoryStore::new(), cool_down, next_id: 0 }
    }

    /// A node; the first one makes the namespace, with one shard.
    pub(super) async fn node(&self, id: u64, policy: Policy) -> Node {
        let store = FaultStore::new(self.store.clone());
        let (dyn_store, clock): (Arc<dyn Store>, Arc<dyn Clock>) = (store.clone(), self.clock.clone());
        let catalog = Catalog::open(dyn_store.clone(), clock.clone(), Shared::default()).await.unwrap();
        let new = NewNamespace { shards: 1, bucket: Span::HOUR, shard_by: ShardBy::Id, policy };
        catalog.create_namespace(&ns(), new).await.unwrap();
        let tracker = Arc::new(Tracker::default());
        let options = ControlOptions { dry_run: false, cool_down: self.cool_down };
        Node {
            reporter: Reporter::new(tracker.clone(), dyn_store.clone(), catalog.clone(), clock.clone(), id),
            controller: Controller::new(dyn_store, catalog.clone(), clock, id, options, &Registry::new()).unwrap(),
            catalog,
            store,
            tracker,
        }
    }

    pub(super) fn policy() -> Policy {
        Policy { max_shards: Some(256), target_events: Some(TARGET), ..Policy::default() }
    }

    /// Lets a second pass in which each of `nodes` writes its part of `rate` events, `name` giving what each
    /// is sharded by, then reports and controls.
    pub(super) async fn second(&mut self, nodes: &mut [&mut Node], rate: u32, name: fn(u64) -> String) -> Wrote {
        let mut wrote = Wrote { shards: 0, hottest: 0 };
        let mut suffixes = std::collections::HashMap::<(LayoutVersion, u32), u32>::new();
        let now = self.clock.now();
        for i in 0..rate {
            let node = &nodes[i as usize % nodes.len()];
            let ts = Timestamp::from_nanos(now.nanos() + i64::from(i) * Span::SECOND.nanos() / i64::from(rate));
            let view = node.catalog.cover(ts).await.expect("the store answers");
            let layout = view.namespace(&ns()).unwrap().layout_at(KEY, ts);
            self.next_id += 1;
            let suffix = layout.suffix(&name(self.next_id), None);
            node.tracker.stored(&[block_of(KEY, layout.version, suffix, 1, 50)]);
            *suffixes.entry((layout.version, suffix)).or_default() += 1;
            wrote.shards = layout.shards;
        }
        wrote.hottest = suffixes.into_values().max().unwrap_or(0);
        self.pass(nodes).await;
        wrote
    }

    /// Lets a second pass, at whose end nodes report and control.
    pub(super) async fn pass(&self, nodes: &mut [&mut Node]) {
        self.clock.advance(Duration::from_secs(1));
        for node in nodes {
            // Raises of the promise that writes began go on in the background.
            for _ in 0..16 {
                tokio::task::yield_now().await;
            }
            node.catalog.refresh().await.unwrap();
            let warm = node.reporter.tick().await;
            node.controller.tick(warm).await;
        }
    }

    /// Shards of every epoch of the hot key's own, in order, as a fresh reader finds them.
    pub(super) async fn history(&self) -> Vec<u32> {
        let clock: Arc<dyn Clock> = self.clock.clone();
        let catalog = Catalog::open(self.store.clone(), clock, Shared::default()).await.unwrap();
        let view = catalog.view();
        let namespace: &NamespaceView = view.namespace(&ns()).unwrap();
        namespace.listed(Some(KEY)).iter().map(|listed| listed.layout.shards).collect()
    }
}

pub(super) fn distinct(id: u64) -> String {
    format!("event-{id}")
}

pub(super) fn one_value(_: u64) -> String {
    "the same for all".to_owned()
}

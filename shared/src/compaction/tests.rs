//! Compaction against the memory store, with real blocks.

use std::convert::Infallible;
use std::ops::Range;

use super::*;
use crate::block::{Projection, RowBuffer, Table, encode as encode_rows, merge};
use crate::clock::ManualClock;
use crate::layout::{LayoutVersion, ShardBy};
use crate::limits::{BLOCK_BYTES_MAX, BLOCK_EVENTS_MAX};
use crate::model::{Span, Timestamp, ValueRef};
use crate::stamp::Stamp;
use crate::store::conformance::blocks_of;
use crate::store::fault::{Fault, FaultStore, Operation};
use crate::store::{MemoryStore, StoreErrorKind};

const SECOND: i64 = 1_000_000_000;

struct Bench {
    store: Arc<FaultStore>,
    compactor: Compactor,
    clock: Arc<ManualClock>,
    layout: Arc<Layout>,
    partition: Arc<Partition>,
}

fn bench(options: CompactionOptions) -> Bench {
    let version = LayoutVersion { revision: 0, nonce: 0 };
    let layout = Arc::new(Layout { version, shards: 1, bucket: Span::HOUR, shard_by: ShardBy::Id });
    let partition = Partition { ns: "ns".parse().unwrap(), key: "k".into(), bucket: Timestamp::from_nanos(0), version, suffix: 0 };
    let store = FaultStore::new(Arc::new(MemoryStore::with_page_bytes(10_000)));
    let clock = Arc::new(ManualClock::at(Timestamp::from_nanos(100 * SECOND)));
    let layouts: FindLayout = Arc::new({
        let layout = layout.clone();
        move |_| Some(layout.clone())
    });
    let compactor = Compactor::new(store.clone(), layouts, clock.clone(), options, &Registry::new()).unwrap();
    Bench { store, compactor, clock, layout, partition: partition.into() }
}

fn unpaced() -> CompactionOptions {
    CompactionOptions { bytes_per_second: u64::MAX, ..CompactionOptions::default() }
}

impl Bench {
    /// One block of an event for each `n`, at `ts(n)`, all with the id of `n`, written at stamp `stamp`.
    async fn write(&self, events: Range<i64>, ts: impl Fn(i64) -> i64, field: &str, stamp: u64) {
        let mut rows = RowBuffer::default();
        for n in events {
            let fields = [(field, ValueRef::I64(n))];
            rows.push(Timestamp::from_nanos(ts(n)), &format!("id-{n}"), fields.into_iter(), std::iter::empty());
        }
        let mut node = 0;
        let stamp = || {
            node += 1;
            Ok::<_, Infallible>(Stamp { time: stamp, node })
        };
        let blocks = encode_rows(&self.partition, &self.layout, rows, BLOCK_BYTES_MAX, stamp).unwrap();
        self.store.append(blocks).await.unwrap();
    }

    async fn blocks(&self) -> Vec<Block> {
        blocks_of(&*self.store, &self.partition).await.into_iter().map(|block| Block::open(block.bytes).unwrap()).collect()
    }

    async fn table(&self) -> Table {
        merge(&self.layout, &self.blocks().await, TimeRange::ALL, &Projection::All).unwrap()
    }
}

#[tokio::test]
async fn single_events_become_few_blocks_and_read_as_before() {
    let mut bench = bench(unpaced());
    for n in 0..300 {
        bench.write(n..n + 1, |n| (n * 7 % 300) * 1_000, "a", n as u64 + 1).await;
    }
    let before = bench.table().await;
    assert_eq!(bench.compactor.round().await.unwrap(), 1);
    assert_eq!(bench.blocks().await.len(), 1);
    assert_eq!(bench.table().await.events("k"), before.events("k"));
}

#[tokio::test]
async fn writes_of_one_event_merge_as_before_also_when_only_some_were_compacted() {
    let mut bench = bench(unpaced());
    for round in 0..10_u64 {
        let field = ["x", "y"][round as usize % 2];
        bench.write(0..5, |n| n, field, round + 1).await;
        bench.write(5..6, |n| n, "x", round + 1).await;
    }
    bench.compactor.round().await.unwrap();
    bench.write(3..9, |n| n, "z", 50).await;
    let compacted = bench.table().await;
    assert_eq!(compacted.events("k").len(), 9);
    assert_eq!(compacted.events("k")[3].fields.len(), 3);
}

#[tokio::test]
async fn a_steady_partition_gives_no_work() {
    let mut bench = bench(unpaced());
    for part in 0..10 {
        let from = part * BLOCK_EVENTS_MAX as i64;
        bench.write(from..from + BLOCK_EVENTS_MAX as i64, |n| n, "a", 1).await;
    }
    for n in 0..20 {
        bench.write(n..n + 1, |n| 1_000_000 + n, "a", 2).await;
    }
    assert_eq!(bench.compactor.round().await.unwrap(), 1);
    assert_eq!(bench.blocks().await.len(), 11);
    assert_eq!(bench.compactor.round().await.unwrap(), 0);
}

#[tokio::test]
async fn a_partition_that_is_being_written_to_is_left_alone_until_it_is_quiet_or_very_fragmented() {
    let now = 100 * SECOND as u64;
    let mut bench = bench(unpaced());
    for n in 0..20 {
        bench.write(n..n + 1, |n| n, "a", now).await;
    }
    assert_eq!(bench.compactor.round().await.unwrap(), 0);
    for n in 20..80 {
        bench.write(n..n + 1, |n| n, "a", now).await;
    }
    bench.compactor.patience.clear();
    assert_eq!(bench.compactor.round().await.unwrap(), 1);
    for n in 80..100 {
        bench.write(n..n + 1, |n| n, "a", now).await;
    }
    bench.clock.advance(Duration::from_secs(6));
    assert_eq!(bench.compactor.round().await.unwrap(), 1);
    assert_eq!(bench.blocks().await.len(), 1);
}

#[tokio::test]
async fn a_partition_over_the_bounds_is_compacted_in_parts() {
    let limits = GroupLimits { bytes_max: 2_000, events_max: 50, blocks_max: 50, small_least: 4 };
    let mut bench = bench(CompactionOptions { group: limits, ..unpaced() });
    // Every block overlaps every other.
    for n in 0..200 {
        bench.write(n..n + 1, |_| 5, "a", n as u64 + 1).await;
    }
    let before = bench.table().await;
    assert!(bench.compactor.round().await.unwrap() > 2);
    assert!(bench.blocks().await.len() < 40);
    assert_eq!(bench.table().await.events("k"), before.events("k"));
}

#[tokio::test]
async fn a_damaged_block_stays_where_it_is_and_others_with_it() {
    let mut bench = bench(unpaced());
    for n in 0..20 {
        bench.write(n..n + 1, |n| n, "a", 1 + n as u64).await;
    }
    bench.store.once(Operation::Scan, Fault::FlipByte);
    assert_eq!(bench.compactor.round().await.unwrap(), 0);
    assert_eq!(bench.blocks().await.len(), 20);
    assert_eq!(bench.compactor.metrics.failures.get(), 1);
}

#[tokio::test]
async fn whatever_fails_in_between_reads_as_before() {
    for fault in [Fault::Refuse(StoreErrorKind::Full), Fault::LoseAnswer, Fault::LoseRequest] {
        let mut bench = bench(unpaced());
        for n in 0..50 {
            bench.write(n..n + 1, |n| n, "a", 1 + n as u64).await;
        }
        let before = bench.table().await.events("k");
        bench.store.once(Operation::Replace, fault);
        bench.compactor.round().await.unwrap();
        assert_eq!(bench.table().await.events("k"), before);
        bench.compactor.patience.clear();
        bench.compactor.round().await.unwrap();
        assert_eq!(bench.table().await.events("k"), before);
        assert_eq!(bench.blocks().await.len(), 1);
    }
}

//! Compaction where a replace takes two steps: the new blocks stand for the grace before the old ones go.

use std::convert::Infallible;

use super::*;
use crate::block::{Block, Projection, RowBuffer, Table, encode, merge};
use crate::clock::ManualClock;
use crate::compaction::{CompactionOptions, Compactor};
use crate::layout::{Layout, LayoutVersion, ShardBy};
use crate::model::{Span, TimeRange, Timestamp, ValueRef};
use crate::stamp::Stamp;

fn layout() -> Arc<Layout> {
    let version = LayoutVersion { revision: 0, nonce: 0 };
    Arc::new(Layout { version, shards: 1, bucket: Span::HOUR, shard_by: ShardBy::Id })
}

fn partition() -> Arc<Partition> {
    Arc::new(conformance::partition(&"n".parse().unwrap(), "k", 0, 0))
}

/// Appends a block of one event for each number.
async fn write(store: &DynamoStore, numbers: std::ops::Range<i64>) {
    let blocks = numbers.map(|number| {
        let mut rows = RowBuffer::default();
        let fields = [("a", ValueRef::I64(number))];
        rows.push(Timestamp::from_nanos(number), &format!("id-{number}"), fields.into_iter(), std::iter::empty());
        let stamp = || Ok::<_, Infallible>(Stamp { time: number as u64 + 1, node: 1 });
        encode(&partition(), &layout(), rows, BLOCK_BYTES_MAX, stamp).unwrap().remove(0)
    });
    store.append(blocks.collect()).await.unwrap();
}

fn compactor(store: &Arc<DynamoStore>, grace: Duration) -> Compactor {
    let clock = Arc::new(ManualClock::at(Timestamp::from_nanos(3_600_000_000_000)));
    let options = CompactionOptions { grace, bytes_per_second: u64::MAX, ..CompactionOptions::default() };
    Compactor::new(store.clone(), Arc::new(|_: &Partition| Some(layout())), clock, options, &Registry::new()).unwrap()
}

async fn blocks(store: &DynamoStore) -> Vec<Block> {
    conformance::blocks_of(store, &partition()).await.into_iter().map(|block| Block::open(block.bytes).unwrap()).collect()
}

async fn table(store: &DynamoStore) -> Table {
    merge(&layout(), &blocks(store).await, TimeRange::ALL, &Projection::All).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_replaced_stands_until_the_grace_has_passed() {
    let engine = TestEngine::start().await;
    let store = store(&engine).await;
    write(&store, 0..30).await;
    let before = table(&store).await.events("k");
    let mut compactor = compactor(&store, Duration::from_secs(3_600));
    assert_eq!(compactor.round().await.unwrap(), 1);
    assert_eq!(compactor.round().await.unwrap(), 0, "what is known to go is not compacted again");
    assert_eq!(blocks(&store).await.len(), 31);
    assert_eq!(table(&store).await.events("k"), before, "doubles merge");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_grace_exactly_the_old_blocks_go() {
    let engine = TestEngine::start().await;
    let store = store(&engine).await;
    write(&store, 0..30).await;
    let mut compactor = compactor(&store, Duration::ZERO);
    assert_eq!(compactor.round().await.unwrap(), 1);
    write(&store, 100..103).await;
    let before = table(&store).await.events("k");
    engine.faults(|call| if call.operation == "BatchWriteItem" { Fault::Undone(0.3) } else { Fault::None });
    compactor.round().await.unwrap();
    assert_eq!(blocks(&store).await.len(), 1 + 3);
    assert_eq!(table(&store).await.events("k"), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_nodes_one_compacts_a_partition_until_what_it_replaced_is_gone() {
    let engine = TestEngine::start().await;
    let (here, there) = (store(&engine).await, store(&engine).await);
    write(&here, 0..30).await;
    write(&there, 30..60).await;
    let before = table(&here).await.events("k");
    let (mut first, mut second) = (compactor(&here, Duration::ZERO), compactor(&there, Duration::ZERO));
    assert_eq!(first.round().await.unwrap(), 1);
    assert_eq!(second.round().await.unwrap(), 0, "the first node is at it");
    first.round().await.unwrap();
    assert_eq!(blocks(&here).await.len(), 1);
    write(&there, 60..90).await;
    // A visit in vain is not repeated in the next round.
    let mut rewritten = 0;
    for _ in 0..3 {
        rewritten += second.round().await.unwrap();
    }
    assert_eq!(rewritten, 1, "once the first node has let go");
    assert_eq!(table(&here).await.events("k")[..60], before);
}

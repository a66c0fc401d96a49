//! The store against a real server, through the real client, over a wire that fails.

mod compaction;
// The end-to-end tests use it too; what only they need stays unused here.
#[allow(dead_code)]
mod engine;
mod faults;
mod heat;
mod table;
mod units;

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;

use self::engine::{Fault, TestEngine};
use super::*;
use crate::clock::{Clock, SystemClock};
use crate::store::conformance::{self, Fixture};

fn options(engine: &TestEngine) -> DynamoOptions {
    DynamoOptions { endpoint: Some(engine.url()), ..DynamoOptions::default() }
}

/// Without tags, and paid for by request.
fn plain() -> TableOptions {
    TableOptions { billing: Billing::OnDemand, point_in_time_recovery: false, tags: Vec::new() }
}

/// A store on a fresh table.
async fn store_with(engine: &TestEngine, change: impl FnOnce(&mut DynamoOptions)) -> Arc<DynamoStore> {
    let mut options = options(engine);
    change(&mut options);
    init(&options, &plain()).await.expect("the table is made");
    DynamoStore::open(options).await.expect("the table fits")
}

async fn store(engine: &TestEngine) -> Arc<DynamoStore> {
    store_with(engine, |_| {}).await
}

/// A store whose attempts end soon, where answers fail to come.
async fn hasty_store(engine: &TestEngine) -> Arc<DynamoStore> {
    store_with(engine, |options| options.attempt = Duration::from_millis(500)).await
}

/// The sum of a metric over the series that have all of `labels`.
fn metric(registry: &Registry, name: &str, labels: &[(&str, &str)]) -> f64 {
    let families = registry.gather();
    let Some(family) = families.iter().find(|family| family.name() == name) else { return 0.0 };
    let has = |metric: &prometheus::proto::Metric, (name, value): &(&str, &str)| {
        metric.get_label().iter().any(|label| label.name() == *name && label.value() == *value)
    };
    let matching = family.get_metric().iter().filter(|metric| labels.iter().all(|label| has(metric, label)));
    matching.map(|metric| metric.get_counter().get_value() + metric.get_histogram().get_sample_sum()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_does_what_every_store_must() {
    let engine = TestEngine::start().await;
    conformance::run(store(&engine).await, "dynamodb").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_process_wrote_another_reads() {
    let engine = TestEngine::start().await;
    let (first, second) = (store(&engine).await, store(&engine).await);
    let p = conformance::partition(&"n".parse().unwrap(), "k", 0, 0);
    first.append(vec![conformance::block(&p, 1, 2, 1, "x")]).await.unwrap();
    first.note_days(&p.ns, &[("k".into(), 7)]).await.unwrap();
    assert_eq!(conformance::blocks_of(&*second, &p).await.len(), 1);
    assert_eq!(second.days(&p.ns, "k", 0, 9).await.unwrap(), [7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_the_engine_is_read_off_its_answers() {
    let engine = TestEngine::start().await;
    let store = store(&engine).await;
    let before = SystemClock.now().nanos();
    let theirs = store.read_clock().await.unwrap().expect("its answers are dated").nanos();
    let after = SystemClock.now().nanos();
    let second = 1_000_000_000;
    // The server renders its date once a second.
    assert!((before - second..=after + second).contains(&theirs), "it runs on this machine: {before} {theirs} {after}");
    assert_eq!(theirs % second, 0);
}

/// Blocks of every lane, many more than fit a page, in an order that mixes them.
fn mixed(on: &Fixture, blocks: u64) -> Vec<EncodedBlock> {
    let p = on.partition("k", 0, 0);
    let second = 1_000_000_000;
    let lasts = |id: u64| [25 * second, second, 150 * second, second / 10][id as usize % 4];
    (0..blocks).map(|id| conformance::block(&p, id as i64 * second, id as i64 * second + lasts(id), id, vec![id as u8; 60_000])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_of_all_lanes_come_in_one_order_over_many_pages() {
    let engine = TestEngine::start().await;
    let on = Fixture::new(store(&engine).await, "lanes");
    let blocks = mixed(&on, 150);
    on.append(blocks.clone()).await;
    let wanted: Vec<_> = blocks.iter().map(|block| block.address).collect();
    assert_eq!(on.addresses(&on.partition("k", 0, 0)).await, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_of_any_range_gives_exactly_the_blocks_that_reach_into_it() {
    let engine = TestEngine::start().await;
    let on = Fixture::new(store(&engine).await, "ranges");
    let blocks = mixed(&on, 80);
    on.append(blocks.clone()).await;
    let second = 1_000_000_000;
    for (from, to) in [(0, 1), (30, 31), (31, 40), (9, 11), (79, 200), (103, 104), (228, 229), (500, 501), (-50, -1)] {
        let range = crate::model::TimeRange {
            from: crate::model::Timestamp::from_nanos(from * second),
            to: crate::model::Timestamp::from_nanos(to * second),
        };
        let scan = conformance::scan_of(vec![on.partition("k", 0, 0)], range);
        let found = conformance::read_all(&*on.store, &scan).await.unwrap().remove(0);
        let found: Vec<_> = found.iter().map(|block| block.address).collect();
        let wanted: Vec<_> = blocks.iter().map(|block| block.address).filter(|address| crate::store::overlaps(address, range)).collect();
        assert_eq!(found, wanted, "[{from} s, {to} s)");
    }
}

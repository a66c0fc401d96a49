//! What engines do to their clients, one at a time: nothing that was acknowledged is lost, nothing
//! is said to be what it is not, and one budget decides how often is tried.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::engine::Call;
use super::*;
use crate::store::Swap;
use crate::store::usage::Throttle;

fn partition(key: &str, suffix: u32) -> Partition {
    conformance::partition(&"n".parse().unwrap(), key, 0, suffix)
}

fn blocks(count: u64) -> Vec<EncodedBlock> {
    (0..count).map(|id| conformance::block(&partition("k", (id % 7) as u32), id as i64, id as i64, id, vec![id as u8; 300])).collect()
}

/// Every id that stands in the partitions of [`blocks`].
async fn standing(store: &DynamoStore) -> Vec<u64> {
    let scan = conformance::scan_of((0..7).map(|suffix| partition("k", suffix)).collect(), crate::model::TimeRange::ALL);
    let found = conformance::read_all(store, &scan).await.expect("the scan succeeds").concat();
    let mut ids: Vec<_> = found.iter().map(|block| block.address.id.time).collect();
    ids.sort_unstable();
    ids
}

fn is_write(call: &Call) -> bool {
    matches!(call.operation.as_str(), "BatchWriteItem" | "PutItem" | "DeleteItem")
}

/// A fault for the first `times` calls of a kind.
fn first(
    times: usize,
    of: impl Fn(&Call) -> bool + Send + Sync + 'static,
    fault: Fault,
) -> impl Fn(&Call) -> Fault + Send + Sync + 'static {
    let seen = AtomicUsize::new(0);
    move |call| if of(call) && seen.fetch_add(1, Ordering::Relaxed) < times { fault.clone() } else { Fault::None }
}

#[tokio::test(flavor = "multi_thread")]
async fn items_that_a_batch_leaves_undone_are_done_in_the_end() {
    let engine = TestEngine::start().await;
    let store = store(&engine).await;
    engine.faults(|call| if call.operation == "BatchWriteItem" { Fault::Undone(0.3) } else { Fault::None });
    store.append(blocks(200)).await.unwrap();
    assert_eq!(standing(&store).await, (0..200).collect::<Vec<_>>());
    let undone = metric(&store.options.registry, "braid_dynamodb_unprocessed_items_total", &[]);
    assert!(undone > 20.0, "{undone} of 200 were left undone");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_lose_an_answer_is_tried_again_with_the_same_blocks() {
    for fault in [Fault::Fail, Fault::FailAfter, Fault::Silence, Fault::Reset, Fault::ResetAfter] {
        let engine = TestEngine::start().await;
        let store = hasty_store(&engine).await;
        engine.faults(first(2, is_write, fault.clone()));
        store.append(blocks(30)).await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert_eq!(standing(&store).await, (0..30).collect::<Vec<_>>(), "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_every_answer_is_lost_is_unknown_and_one_that_was_refused_is_not() {
    let engine = TestEngine::start().await;
    let store = store_with(&engine, |options| options.write_time = Duration::from_secs(2)).await;
    let hasty = store_with(&engine, |options| {
        (options.write_time, options.attempt) = (Duration::from_secs(2), Duration::from_millis(500));
    })
    .await;
    engine.faults(|call| if is_write(call) { Fault::Silence } else { Fault::None });
    assert_eq!(hasty.append(blocks(30)).await.unwrap_err().kind, StoreErrorKind::Unknown);
    for (fault, kind) in [
        (Fault::FailAfter, StoreErrorKind::Unknown),
        (Fault::ResetAfter, StoreErrorKind::Unknown),
        (Fault::Throttle("TableWriteKeyRangeThroughputExceeded"), StoreErrorKind::Throttled),
    ] {
        engine.faults(move |call| if is_write(call) { fault.clone() } else { Fault::None });
        for count in [1, 30] {
            assert_eq!(store.append(blocks(count)).await.unwrap_err().kind, kind, "{count} blocks");
        }
    }
    engine.stop().await;
    // A connection that still seemed open may have taken the first one.
    store.append(blocks(1)).await.unwrap_err();
    assert_eq!(store.append(blocks(1)).await.unwrap_err().kind, StoreErrorKind::Unavailable, "nobody took the connection");
}

/// Hears what the store tells.
#[derive(Default)]
struct Heard {
    throttled: Mutex<Vec<(Partition, Throttle)>>,
    units: Mutex<f64>,
}

impl Usage for Heard {
    fn wrote(&self, _: &Partition, units: f64) {
        *self.units.lock().unwrap() += units;
    }

    fn throttled(&self, partition: &Partition, throttle: Throttle) {
        self.throttled.lock().unwrap().push((partition.clone(), throttle));
    }
}

pub(super) fn names(call: &Call, partition: &Partition) -> bool {
    use base64::Engine;
    call.body.to_string().contains(&base64::engine::general_purpose::STANDARD.encode(keys::blocks_pk(partition)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hot_key_range_is_heat_of_its_partition_and_slows_no_other() {
    let engine = TestEngine::start().await;
    let heard = Arc::new(Heard::default());
    let store = store_with(&engine, |options| {
        options.usage = Some(heard.clone());
        options.write_time = Duration::from_secs(2);
    })
    .await;
    let (hot, cold) = (partition("hot", 0), partition("cold", 0));
    let refused = hot.clone();
    engine.faults(move |call| match is_write(call) && names(call, &refused) {
        true => Fault::Throttle("TableWriteKeyRangeThroughputExceeded"),
        false => Fault::None,
    });
    let hot_block = conformance::block(&hot, 1, 1, 1, "x");
    let appended = store.append(vec![hot_block.clone()]);
    let others = async {
        for id in 0..20 {
            store.append(vec![conformance::block(&cold, 1, 1, id, "x")]).await.unwrap();
        }
    };
    let (refused, ()) = tokio::join!(appended, others);
    assert_eq!(refused.unwrap_err().kind, StoreErrorKind::Throttled);
    let throttled = heard.throttled.lock().unwrap().clone();
    assert!(!throttled.is_empty() && throttled.iter().all(|(p, throttle)| *p == hot && *throttle == Throttle::KeyRange));
    assert_eq!(*heard.units.lock().unwrap(), 20.0, "one unit for each of the cold key's blocks");
    engine.heal();
    store.append(vec![hot_block]).await.unwrap();
    assert_eq!(conformance::blocks_of(&*store, &hot).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_the_table_is_not_heat() {
    let engine = TestEngine::start().await;
    let heard = Arc::new(Heard::default());
    let store = store_with(&engine, |options| options.usage = Some(heard.clone())).await;
    engine.faults(first(1, is_write, Fault::Throttle("TableWriteAccountLimitExceeded")));
    store.append(blocks(1)).await.unwrap();
    assert_eq!(heard.throttled.lock().unwrap()[0].1, Throttle::Account);
    assert_eq!(metric(&store.options.registry, "braid_dynamodb_throttled_total", &[("limit", "account")]), 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_retries_behind_the_stores_back() {
    let engine = TestEngine::start().await;
    let store = store_with(&engine, |options| options.write_time = Duration::from_secs(1)).await;
    engine.calls();
    engine.faults(|call| if is_write(call) { Fault::Fail } else { Fault::None });
    store.append(blocks(1)).await.unwrap_err();
    let sent = engine.calls().len() as f64;
    assert_eq!(metric(&store.options.registry, "braid_dynamodb_requests_total", &[("operation", "PutItem")]), sent);
    assert_eq!(metric(&store.options.registry, "braid_dynamodb_retries_total", &[]), sent - 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_fails_in_the_middle_is_read_again_from_where_it_began() {
    let engine = TestEngine::start().await;
    let on = Fixture::new(hasty_store(&engine).await, "middle");
    let blocks = mixed(&on, 100);
    on.append(blocks.clone()).await;
    for fault in [Fault::Fail, Fault::Reset, Fault::Silence, Fault::Throttle("TableReadKeyRangeThroughputExceeded")] {
        let in_the_middle = |call: &Call| call.operation == "Query" && call.body.get("ExclusiveStartKey").is_some();
        engine.faults(first(3, in_the_middle, fault));
        assert_eq!(on.addresses(&on.partition("k", 0, 0)).await.len(), blocks.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_is_never_answered_is_an_error_and_never_fewer_blocks() {
    let engine = TestEngine::start().await;
    let store = store_with(&engine, |options| options.read_time = Duration::from_secs(1)).await;
    store.append(blocks(10)).await.unwrap();
    engine.faults(|call| if call.operation == "Query" { Fault::FailAfter } else { Fault::None });
    let scan = conformance::scan_of(vec![partition("k", 0)], crate::model::TimeRange::ALL);
    assert_eq!(conformance::read_all(&*store, &scan).await.unwrap_err().kind, StoreErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_restarts_is_waited_for() {
    let engine = TestEngine::start().await;
    let store = store(&engine).await;
    store.append(blocks(5)).await.unwrap();
    engine.stop().await;
    let writer = {
        let store = store.clone();
        tokio::spawn(async move { store.append(blocks(40)).await })
    };
    let reader = {
        let store = store.clone();
        tokio::spawn(async move { store.read_document("root").await })
    };
    // Both have found the engine gone at least once.
    let failed = |operation| metric(&store.options.registry, "braid_dynamodb_requests_total", &[("operation", operation)]);
    while failed("BatchWriteItem") < 4.0 || failed("GetItem") < 2.0 {
        tokio::task::yield_now().await;
    }
    engine.restart().await;
    writer.await.unwrap().unwrap();
    assert_eq!(reader.await.unwrap().unwrap(), None);
    assert_eq!(standing(&store).await, (0..40).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_whose_answer_was_lost_is_found_out() {
    for fault in [Fault::FailAfter, Fault::ResetAfter, Fault::Silence] {
        let engine = TestEngine::start().await;
        let store = hasty_store(&engine).await;
        engine.faults(first(1, is_write, fault));
        let Swap::Done(etag) = store.swap_document("root", None, "one".into()).await.unwrap() else { panic!("it was ours") };
        assert_eq!(store.read_document("root").await.unwrap().unwrap().etag, etag);
        assert_eq!(store.swap_document("root", None, "two".into()).await.unwrap(), Swap::Conflict);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_in_doubt_that_another_followed_stays_unknown() {
    let engine = TestEngine::start().await;
    let (ours, theirs) = (hasty_store(&engine).await, store(&engine).await);
    let (attempts, followed) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let seen = followed.clone();
    engine.faults(move |call| match is_write(call) && call.body["Item"]["d"]["B"] == "b3Vycw==" {
        // Ours is done and not answered; it is not heard of again until theirs stands.
        true if attempts.fetch_add(1, Ordering::Relaxed) == 0 => Fault::Silence,
        true if !seen.load(Ordering::Relaxed) => Fault::Reset,
        _ => Fault::None,
    });
    let swap = tokio::spawn(async move { ours.swap_document("root", None, "ours".into()).await });
    let document = loop {
        if let Some(document) = theirs.read_document("root").await.unwrap() {
            break document;
        }
    };
    assert!(matches!(theirs.swap_document("root", Some(document.etag), "theirs".into()).await.unwrap(), Swap::Done(_)));
    followed.store(true, Ordering::Relaxed);
    assert_eq!(swap.await.unwrap().unwrap_err().kind, StoreErrorKind::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn eventual_scans_ask_for_less_and_all_others_for_every_write() {
    let engine = TestEngine::start().await;
    let store = store(&engine).await;
    store.append(blocks(1)).await.unwrap();
    let strong = conformance::scan_of(vec![partition("k", 0)], crate::model::TimeRange::ALL);
    let eventual = Scan { consistency: crate::store::Consistency::Eventual, ..strong.clone() };
    for (scan, asked) in [(strong, true), (eventual, false)] {
        engine.calls();
        conformance::read_all(&*store, &scan).await.unwrap();
        assert!(engine.calls().iter().all(|call| call.body["ConsistentRead"] == asked));
    }
}

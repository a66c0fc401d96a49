//! What goes wrong below a read gives the stated error, never a shorter answer.

use std::sync::Arc;
use std::time::Duration;

use braid_query::QuerySettings;
use braid_shared::model::FieldValue::I64;
use braid_shared::model::Timestamp;
use braid_shared::store::StoreErrorKind::Unavailable;
use braid_shared::store::fault::{Fault, FaultStore, Gate, Operation};
use braid_shared::store::memory::MemoryStore;
use serde_json::json;

use crate::world::{HOUR, NOW, SECOND, World, event, ids};

const T0: i64 = NOW - 10 * HOUR;

/// Forty events over two buckets and four suffixes.
async fn forty() -> (Arc<FaultStore>, World) {
    let faults = FaultStore::new(MemoryStore::new());
    let settings = QuerySettings { page_deadline: Duration::from_millis(50), ..QuerySettings::default() };
    let world = World::over(faults.clone(), settings).await;
    world.with(4, 1).await;
    let events: Vec<_> = (0..40).map(|i| event(&format!("e{i:02}"), T0 + i * 3 * 60 * SECOND, &[("x", I64(i))], &[])).collect();
    world.write(&events).await;
    (faults, world)
}

const READS: [&str; 3] = ["/v1/n/events?key=k", "/v1/n/aggregate?key=k&from=0&field=x&fn=sum", "/v1/n/events?key=k&order=desc&limit=40"];

#[tokio::test]
async fn a_suffix_that_does_not_answer_is_named() {
    let (faults, world) = forty().await;
    faults.always(Operation::Scan, Fault::DropSuffix(2));
    for read in READS {
        let problem = world.get(read).await.problem(503, "shard_count_mismatch");
        assert_eq!((&problem["expected"], &problem["answered"]), (&json!(4), &json!(3)), "{problem}");
        assert!(problem["missing"].as_array().unwrap().iter().all(|missing| missing["suffix"] == 2 && missing["version"] == 0));
        assert_eq!(problem["missing"][0]["bucket"].as_str().unwrap().len(), "2026-11-29T02:00:00Z".len());
    }
}

#[tokio::test]
async fn a_partial_answer_is_given_only_when_allowed_and_says_what_it_lacks() {
    let (faults, world) = forty().await;
    let whole = ids(&world.get("/v1/n/events?key=k").await.ok()).len();
    faults.always(Operation::Scan, Fault::DropSuffix(2));
    let partial = world.get("/v1/n/events?key=k&partial=allow").await.ok();
    assert!(ids(&partial).len() < whole);
    assert_eq!((&partial["complete"], &partial["shards"]), (&json!(false), &json!({"planned": 4, "answered": 3})));
    assert_eq!((&partial["missing"][0]["suffix"], &partial["missing"][0]["version"]), (&json!(2), &json!(0)));
    let lines = world.lines("/v1/n/events?key=k&partial=allow").await;
    let end: serde_json::Value = serde_json::from_str(lines.text.lines().last().unwrap()).unwrap();
    assert_eq!(end["end"]["complete"], false);
    let rows = world.get("/v1/n/aggregate?key=k&from=0&partial=allow").await.ok();
    assert_eq!((&rows["complete"], &rows["rows"][0]["count"]), (&json!(false), &json!(ids(&partial).len())));
}

#[tokio::test]
async fn one_event_is_not_said_to_be_absent_while_its_suffix_is_silent() {
    let (faults, world) = forty().await;
    for suffix in 0..4 {
        faults.always(Operation::Scan, Fault::DropSuffix(suffix));
        let answer = world.get("/v1/n/events/nope?key=k").await;
        assert!([503, 404].contains(&answer.status.as_u16()));
        let partial = world.get("/v1/n/events/nope?key=k&partial=allow").await;
        assert_eq!(partial.status == 200, answer.status == 503, "{}", partial.text);
    }
}

#[tokio::test]
async fn one_altered_byte_is_an_error_that_names_the_partition() {
    let (faults, world) = forty().await;
    faults.always(Operation::Scan, Fault::FlipByte);
    for read in READS {
        let problem = world.get(read).await.problem(503, "block_damaged");
        assert_eq!((&problem["partition"]["version"], &problem["partition"]["key"]), (&json!(0), &json!("k")));
    }
    let partial = world.get("/v1/n/events?key=k&partial=allow").await.ok();
    assert_eq!((&partial["complete"], &partial["shards"]["answered"]), (&json!(false), &json!(3)));
}

#[tokio::test]
async fn a_page_that_is_lost_is_no_shorter_answer() {
    let (faults, world) = forty().await;
    faults.once(Operation::Scan, Fault::DropPage);
    world.get(READS[1]).await.problem(503, "shard_count_mismatch");
}

#[tokio::test]
async fn a_store_that_fails_or_hangs_is_an_error() {
    let (faults, world) = forty().await;
    for operation in [Operation::Scan, Operation::Days] {
        faults.once(operation, Fault::Refuse(Unavailable));
        world.get(READS[0]).await.problem(503, "store_unavailable");
        faults.once(operation, Fault::Hold(Gate::new()));
        world.get(READS[1]).await.problem(503, "store_unavailable");
    }
}

#[tokio::test]
async fn without_a_catalog_only_ranges_below_the_horizon_at_hand_are_answered() {
    let (faults, world) = forty().await;
    faults.always(Operation::ReadDocument, Fault::Refuse(Unavailable));
    for path in [
        "n/events?key=k",
        "n/events?key=k&partial=allow",
        "n/aggregate?key=k&from=0&to=now%2B1h",
        "n/layout",
        "nobody/events?key=k&to=now-1h",
    ] {
        world.get(&format!("/v1/{path}")).await.problem(503, "layout_stale");
    }
    assert_eq!(ids(&world.get("/v1/n/events?key=k&to=now-1h").await.ok()).len(), 40);
}

#[tokio::test]
async fn a_read_that_takes_longer_than_what_it_reads_stands_is_an_error() {
    let (faults, world) = forty().await;
    let gate = Gate::new();
    faults.once(Operation::Scan, Fault::Hold(gate.clone()));
    let time_passes = async {
        gate.reached(1).await;
        world.clock.advance(Duration::from_secs(31));
        gate.open();
    };
    let (answer, ()) = tokio::join!(world.get("/v1/n/aggregate?key=k&from=0&to=now-1h"), time_passes);
    answer.problem(503, "read_deadline");
    world.get("/v1/n/aggregate?key=k&from=0&to=now-1h").await.ok();
}

#[tokio::test]
async fn a_stream_that_fails_on_its_way_has_no_end_line() {
    let (faults, world) = forty().await;
    let late: Vec<_> = (0..5).map(|i| event(&format!("l{i}"), T0 + 9 * HOUR + i, &[("x", I64(i))], &[])).collect();
    world.write(&late).await;
    let gate = Gate::new();
    faults.once(Operation::Scan, Fault::Hold(gate.clone()));
    faults.once(Operation::Scan, Fault::Refuse(Unavailable));
    gate.open();
    let lines = world.lines("/v1/n/events?key=k&from=2026-11-29T02:00:00Z").await;
    let last: serde_json::Value = serde_json::from_str(lines.text.lines().last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "store_unavailable", "{}", lines.text);
    assert!(lines.text.lines().count() > 1 && !lines.text.contains("\"end\""));
}

#[tokio::test]
async fn a_reader_whose_catalog_is_behind_reads_what_it_did_not_know_of() {
    let store = MemoryStore::new();
    let reader = World::over(store.clone(), QuerySettings::default()).await;
    reader.with(4, 1).await;
    let writer = World::over(store, QuerySettings::default()).await;
    writer.catalog.cover(Timestamp::from_nanos(NOW)).await.unwrap();
    let start = NOW + 20 * SECOND;
    writer.publish(None, 10, start).await.unwrap();
    for world in [&reader, &writer] {
        world.clock.advance(Duration::from_secs(30));
    }
    let events: Vec<_> = (0..20).map(|i| event(&format!("e{i}"), start - 10 + i, &[("x", I64(i))], &[])).collect();
    writer.write(&events).await;
    assert_eq!(reader.catalog.view().namespace(&reader.ns).unwrap().listed(None).len(), 1);
    let page = reader.get("/v1/n/events?key=k").await.ok();
    assert_eq!((ids(&page).len(), &page["shards"]["planned"]), (20, &json!(14)));
}

#[tokio::test]
async fn small_pages_small_budgets_and_all_at_once_give_the_same() {
    let mut seen = Vec::new();
    for (page_bytes, stretch_bytes) in [(1, 1), (400, 3_000), (1 << 20, 1 << 20)] {
        let settings = QuerySettings { stretch_bytes, ..QuerySettings::default() };
        let world = World::over(Arc::new(MemoryStore::with_page_bytes(page_bytes)), settings).await;
        world.with(4, 1).await;
        let events: Vec<_> = (0..400).map(|i| event(&format!("e{i}"), T0 + i * 30 * SECOND, &[("x", I64(i))], &[])).collect();
        for events in events.chunks(7) {
            world.write(events).await;
        }
        let events = world.get("/v1/n/events?key=k&to=now").await.ok()["events"].clone();
        let rows = world.get("/v1/n/aggregate?key=k&from=0&to=now&field=x&fn=sum,p50").await.ok()["rows"].clone();
        seen.push((events.as_array().unwrap().len(), events, rows));
    }
    assert_eq!(seen[0].0, 400);
    assert!(seen.iter().all(|one| *one == seen[0]));
}

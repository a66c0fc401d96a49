//! Group commit, and what becomes of rows when the store fails, hesitates or hangs.

use std::time::Duration;

use axum::http::StatusCode;
use braid_shared::codes;
use braid_shared::store::StoreErrorKind;
use futures::future::join_all;

use super::scripted::Act;
use super::{event, seconds, server, server_with};
use crate::IngestSettings;

const EVENTS: &str = "/v1/shop/events";
/// A namespace of one suffix: all events of a key's hour are in one partition.
const SINGLE: &str = "/v1/single/events";

async fn one_suffix(server: &super::Server) {
    let new = braid_shared::catalog::NewNamespace { shards: 1, ..crate::admit::first_layout() };
    server.catalog.create_namespace(&"single".parse().unwrap(), new).await.unwrap();
}

#[tokio::test]
async fn requests_that_come_while_a_commit_is_held_share_the_next_block() {
    let server = server().await;
    one_suffix(&server).await;
    server.store.hold();
    let first = server.post_in_background(SINGLE, event("k", "first", 1));
    server.store.begun(1).await;
    let others: Vec<_> = (0..50).map(|i| server.post_in_background(SINGLE, event("k", &format!("{i}"), 2))).collect();
    while server.ingest.metrics.inflight_bytes.get() < 50 * 40 {
        tokio::task::yield_now().await;
    }
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    server.store.let_go(2);
    assert_eq!(first.await.unwrap().status, StatusCode::OK);
    for answer in join_all(others).await {
        assert_eq!(answer.unwrap().body["stored"], 1);
    }
    assert_eq!(server.store.rows_tried(), [1, 50]);
    assert_eq!(server.store.tried.lock().unwrap()[1].len(), 1);
    assert_eq!(server.ids("single", "k").await.len(), 51);
}

#[tokio::test]
async fn an_idle_partition_is_flushed_at_once_and_forgotten_when_done() {
    let server = server().await;
    let many: Vec<String> = (0..5_000).map(|i| event(&format!("k{i}"), "a", 1)).collect();
    let answer = server.post(EVENTS, many.join("\n")).await;
    assert_eq!((answer.status, answer.body["stored"].as_u64()), (StatusCode::OK, Some(5_000)));
    assert_eq!(server.store.rows_tried(), [5_000], "one call to the store serves all idle partitions");
    while !server.ingest.coalescer.is_idle() {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.ingest.metrics.pending_partitions.get(), 0);
    assert_eq!(server.ingest.metrics.inflight_bytes.get(), 0);
    assert_eq!(server.ids("shop", "k4999").await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_retried_with_the_same_bytes() {
    let server = server().await;
    server.store.script(&[Act::DoneButUnknown, Act::Fail(StoreErrorKind::Unavailable), Act::Fail(StoreErrorKind::Throttled)]);
    let answer = server.post(EVENTS, event("k", "a", 1)).await;
    assert_eq!((answer.status, answer.body["stored"].as_u64()), (StatusCode::OK, Some(1)));
    let tried = server.store.tried.lock().unwrap();
    assert_eq!(tried.len(), 4);
    assert!(tried.iter().all(|blocks| blocks[0].address == tried[0][0].address && blocks[0].bytes == tried[0][0].bytes));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_unknown_to_the_end_is_told_as_such_with_what_was_made() {
    let server = server().await;
    server.store.script(&[Act::Fail(StoreErrorKind::Unknown); 1_000]);
    let answer = server.post(EVENTS, r#"[{"key":"k","value":1},{"value":2}]"#).await;
    assert_eq!((answer.status, answer.code()), (StatusCode::SERVICE_UNAVAILABLE, codes::OUTCOME_UNKNOWN));
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!((&answer.body["stored"], &answer.body["unknown"], &answer.body["rejected"]), (&0.into(), &1.into(), &1.into()));
    assert_eq!(answer.errors(), [(1, codes::KEY_MISSING)]);
    assert_eq!(answer.body["made"][0]["index"], 0);
    assert_eq!(server.ingest.metrics.unknown_outcomes.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_an_unknown_outcome_and_the_next_write_goes_on() {
    let server = server().await;
    server.store.hold();
    let answer = server.post(EVENTS, event("k", "a", 1)).await;
    assert_eq!(answer.code(), codes::OUTCOME_UNKNOWN);
    server.store.let_go(100);
    assert_eq!(server.post(EVENTS, event("k", "a", 1)).await.status, StatusCode::OK);
    assert_eq!(server.ids("shop", "k").await, ["a"]);
}

#[tokio::test]
async fn a_store_that_is_full_or_read_only_says_so_at_once() {
    let server = server().await;
    for (kind, code) in [(StoreErrorKind::Full, codes::STORE_FULL), (StoreErrorKind::ReadOnly, codes::STORE_READ_ONLY)] {
        server.store.script(&[Act::Fail(kind)]);
        let answer = server.post(EVENTS, event("k", "a", 1)).await;
        assert_eq!((answer.status, answer.code()), (StatusCode::SERVICE_UNAVAILABLE, code));
        assert_eq!((&answer.body["stored"], &answer.body["failed"]), (&0.into(), &1.into()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_store_after_doubt_is_still_doubt() {
    let server = server().await;
    server.store.script(&[Act::DoneButUnknown, Act::Fail(StoreErrorKind::Full)]);
    assert_eq!(server.post(EVENTS, event("k", "a", 1)).await.code(), codes::OUTCOME_UNKNOWN);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_acknowledged_before_its_day_is_noted() {
    let server = server().await;
    server.store.notes.lock().unwrap().extend([Act::Fail(StoreErrorKind::Unavailable); 3]);
    assert_eq!(server.post(EVENTS, event("k", "a", 1)).await.status, StatusCode::OK);
    assert_eq!(server.store.rows_tried(), [1], "what stands is not appended again");
    assert_eq!(server.ids("shop", "k").await, ["a"]);
    server.store.notes.lock().unwrap().extend([Act::Fail(StoreErrorKind::Unavailable); 1_000]);
    assert_eq!(server.post(EVENTS, event("other", "a", 1)).await.code(), codes::OUTCOME_UNKNOWN);
}

#[tokio::test]
async fn a_client_that_leaves_takes_nobody_elses_commit_with_it() {
    let server = server().await;
    one_suffix(&server).await;
    server.store.hold();
    let leaver = server.post_in_background(SINGLE, event("k", "leaver", 1));
    server.store.begun(1).await;
    let stayer = server.post_in_background(SINGLE, event("k", "stayer", 2));
    while server.ingest.metrics.inflight_bytes.get() < 80 {
        tokio::task::yield_now().await;
    }
    leaver.abort();
    assert!(leaver.await.unwrap_err().is_cancelled());
    server.store.let_go(2);
    assert_eq!(stayer.await.unwrap().status, StatusCode::OK);
    assert_eq!(server.ids("single", "k").await, ["stayer", "leaver"]);
    assert_eq!(server.ingest.metrics.inflight_bytes.get(), 0);
}

#[tokio::test]
async fn a_commit_that_panics_leaves_doubt_and_no_partition_stuck() {
    let server = server().await;
    server.store.script(&[Act::Panic]);
    assert_eq!(server.post(EVENTS, event("k", "a", 1)).await.code(), codes::OUTCOME_UNKNOWN);
    assert_eq!(server.post(EVENTS, event("k", "a", 1)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn what_waits_for_one_partition_is_bounded() {
    let server = server_with(IngestSettings { gathered_rows_max: 2, ..IngestSettings::default() }).await;
    one_suffix(&server).await;
    server.store.hold();
    let first = server.post_in_background(SINGLE, event("k", "a", 1));
    server.store.begun(1).await;
    let three = [event("k", "b", 2), event("k", "c", 2), event("k", "d", 2)].join("\n");
    let answer = server.post(SINGLE, three).await;
    assert_eq!((answer.status, answer.code()), (StatusCode::SERVICE_UNAVAILABLE, codes::OVERLOADED));
    assert_eq!(answer.headers["retry-after"], "1");
    server.store.let_go(10);
    assert_eq!(first.await.unwrap().status, StatusCode::OK);
    assert_eq!(server.ids("single", "k").await, ["a"], "nothing is done by half");
}

const LINGER: Duration = Duration::from_millis(20);

/// A node whose shared partitions linger.
async fn lingering() -> super::Server {
    let server = server_with(IngestSettings { linger: LINGER, ..IngestSettings::default() }).await;
    one_suffix(&server).await;
    server
}

/// Sends `first`, and `others` while it is in flight; when the last of them is answered, by the clock of the test.
async fn sharing(server: &super::Server, first: String, others: Vec<String>) -> Duration {
    let sent = tokio::time::Instant::now();
    server.store.hold();
    let first = server.post_in_background(SINGLE, first);
    server.store.begun(1).await;
    let others: Vec<_> = others.into_iter().map(|body| server.post_in_background(SINGLE, body)).collect();
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    server.store.let_go(1_000);
    assert_eq!(first.await.unwrap().status, StatusCode::OK);
    for answer in join_all(others).await {
        assert_eq!(answer.unwrap().status, StatusCode::OK);
    }
    sent.elapsed()
}

/// As long as a linger by the clock of the test, which knows milliseconds only.
fn lingered(took: Duration) -> bool {
    (LINGER..LINGER + Duration::from_millis(2)).contains(&took)
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_requests_share_is_flushed_once_a_linger() {
    let server = lingering().await;
    let took = sharing(&server, event("k", "a", 1), vec![event("k", "b", 2), event("k", "c", 2)]).await;
    assert_eq!(server.store.rows_tried(), [1, 2]);
    assert!(lingered(took), "{took:?}");
    for (id, waits) in [("d", true), ("e", false)] {
        let sent = tokio::time::Instant::now();
        assert_eq!(server.post(SINGLE, event("k", id, 3)).await.status, StatusCode::OK);
        assert_eq!(
            lingered(sent.elapsed()),
            waits,
            "{id} took {:?}: two requests shared the flush before d, none that before e",
            sent.elapsed()
        );
    }
    assert_eq!(server.store.rows_tried(), [1, 2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn whoever_writes_alone_waits_for_nobody() {
    let server = lingering().await;
    let sent = tokio::time::Instant::now();
    for id in ["a", "b", "c"] {
        assert_eq!(server.post(SINGLE, event("k", id, 1)).await.status, StatusCode::OK);
    }
    assert_eq!((server.store.rows_tried(), sent.elapsed()), (vec![1, 1, 1], Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn rows_that_fill_a_write_do_not_linger() {
    let server = lingering().await;
    let many = (0..2_000).map(|n| event("k", &format!("{n}"), 2)).collect::<Vec<_>>().join("\n");
    let took = sharing(&server, event("k", "a", 1), vec![many]).await;
    assert_eq!((server.store.rows_tried(), took), (vec![1, 2_000], Duration::ZERO));
}

#[tokio::test]
async fn a_drain_waits_for_accepted_writes_and_refuses_later_ones() {
    let server = server().await;
    server.store.hold();
    let accepted = server.post_in_background(EVENTS, event("k", "a", 1));
    server.store.begun(1).await;
    let ingest = server.ingest.clone();
    let drain = tokio::spawn(async move { ingest.drain().await });
    tokio::task::yield_now().await;
    let late = server.post(EVENTS, event("k", "b", 1)).await;
    assert_eq!((late.status, late.code()), (StatusCode::SERVICE_UNAVAILABLE, codes::SHUTTING_DOWN));
    server.store.let_go(1);
    drain.await.unwrap();
    assert_eq!(accepted.await.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn of_two_rows_of_one_identity_the_later_wins_field_by_field() {
    let server = server().await;
    let row = |fields: &str| format!(r#"{{"key":"k","id":"a","ts":"2023-11-14T22:00:00Z","fields":{fields}}}"#);
    let answer = server.post(EVENTS, [row(r#"{"x":1,"y":1}"#), row(r#"{"x":2}"#)].join("\n")).await;
    assert_eq!((answer.status, answer.body["stored"].as_u64()), (StatusCode::OK, Some(2)));
    let events = server.events("shop", "k").await;
    assert_eq!(events.len(), 1);
    assert_eq!(format!("{:?}", events[0].fields), r#"{"x": I64(2), "y": I64(1)}"#);
    server.post(EVENTS, row(r#"{"y":7}"#)).await;
    assert_eq!(format!("{:?}", server.events("shop", "k").await[0].fields), r#"{"x": I64(2), "y": I64(7)}"#);
}

#[tokio::test]
async fn without_the_catalog_writes_go_on_as_far_as_the_promise_reaches() {
    let server = server().await;
    assert_eq!(server.post(EVENTS, event("k", "a", 1)).await.status, StatusCode::OK);
    server.store.catalog_down.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(server.post(EVENTS, event("k", "b", 1)).await.status, StatusCode::OK);
    server.clock.advance(seconds(60).duration());
    let answer = server.post(EVENTS, event("k", "c", -59)).await;
    assert_eq!((answer.status, answer.code()), (StatusCode::SERVICE_UNAVAILABLE, codes::LAYOUT_STALE));
    server.store.catalog_down.store(false, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(server.post(EVENTS, event("k", "c", -59)).await.status, StatusCode::OK);
}

//! Ids and times that were not given, policies, and namespaces that are made by the first write.

use axum::http::StatusCode;
use braid_shared::catalog::Policy;
use braid_shared::codes;
use braid_shared::model::{Timestamp, millis_of_id};

use super::{NOW, event, seconds, server, server_with};
use crate::IngestSettings;

#[tokio::test]
async fn what_was_not_given_is_made_told_and_found() {
    let server = server().await;
    let body = r#"[{"key":"k","value":1},{"key":"k","id":"mine","value":2},{"key":"k","ts":1600000000000,"value":3},{"key":"k","id":"b","ts":1,"value":4}]"#;
    let answer = server.post("/v1/shop/events", body).await;
    assert_eq!((answer.status, answer.body["stored"].as_u64()), (StatusCode::OK, Some(4)));
    let made = answer.body["made"].as_array().unwrap();
    let indexes: Vec<_> = made.iter().map(|made| made["index"].as_u64().unwrap()).collect();
    assert_eq!(indexes, [0, 1, 2]);
    assert_eq!((&made[0]["ts"], &made[1]["ts"]), (&made[1]["ts"], &"2023-11-14T22:13:20Z".into()));
    assert_eq!((&made[1]["id"], &made[2]["ts"]), (&"mine".into(), &"2020-09-13T12:26:40Z".into()));
    let made_id = made[2]["id"].as_str().unwrap();
    assert_eq!(millis_of_id(made_id), Some(1_600_000_000_000));
    let events = server.events("shop", "k").await;
    assert_eq!(events.len(), 4);
    assert!(events.iter().any(|event| event.id == made_id && event.ts == Timestamp::from_nanos(1_600_000_000_000_000_000)));
}

#[tokio::test]
async fn sending_again_what_was_made_changes_nothing() {
    let server = server().await;
    let first = server.post("/v1/shop/events", r#"{"key":"k","value":1}"#).await;
    let (id, ts) = (&first.body["made"][0]["id"], &first.body["made"][0]["ts"]);
    let again = server.post("/v1/shop/events", format!(r#"{{"key":"k","id":{id},"ts":{ts},"value":1}}"#)).await;
    assert_eq!((again.body["stored"].as_u64(), again.body["made"].as_array().unwrap().len()), (Some(1), 0));
    assert_eq!(server.events("shop", "k").await.len(), 1);
}

#[tokio::test]
async fn a_refused_row_is_not_listed_as_made() {
    let server = server().await;
    let future = NOW.nanos() / 1_000_000 + 10_000;
    let answer = server.post("/v1/shop/events", format!(r#"[{{"key":"k","ts":{future},"value":1}},{{"key":"k","value":2}}]"#)).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(answer.errors(), [(0, codes::TIMESTAMP_TOO_FAR_AHEAD)]);
    let made = answer.body["made"].as_array().unwrap();
    assert_eq!((made.len(), &made[0]["index"]), (1, &1.into()));
}

#[tokio::test]
async fn a_time_just_below_now_and_the_lead_is_taken() {
    let server = server().await;
    assert_eq!(server.post("/v1/shop/events", event("k", "a", -9)).await.status, StatusCode::OK);
    assert_eq!(server.post("/v1/shop/events", event("k", "b", -10)).await.errors(), [(0, codes::TIMESTAMP_TOO_FAR_AHEAD)]);
    assert_eq!(server.ids("shop", "k").await, ["a"]);
}

#[tokio::test]
async fn events_older_than_the_policy_takes_are_refused() {
    let server = server().await;
    let ns = "shop".parse().unwrap();
    server.catalog.create_namespace(&ns, crate::admit::first_layout()).await.unwrap();
    server.catalog.set_policy(&ns, Policy { max_age: Some(seconds(60)), ..Policy::default() }).await.unwrap();
    let answer = server.post("/v1/shop/events", [event("k", "old", 61), event("k", "edge", 60)].join("\n")).await;
    assert_eq!(answer.errors(), [(0, codes::TIMESTAMP_TOO_OLD)]);
    assert_eq!(server.ids("shop", "k").await, ["edge"]);
}

#[tokio::test]
async fn a_namespace_is_not_made_by_a_request_without_a_sound_row_or_where_that_is_off() {
    let server = server().await;
    assert_eq!(server.post("/v1/shop/events", r#"{"value":1}"#).await.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(server.catalog.namespace(&"shop".parse().unwrap()).await.is_err());
    let strict = server_with(IngestSettings { auto_create: false, ..IngestSettings::default() }).await;
    let answer = strict.post("/v1/shop/events", event("k", "a", 1)).await;
    assert_eq!((answer.status, answer.code()), (StatusCode::NOT_FOUND, codes::NAMESPACE_NOT_FOUND));
    let answer = strict.post("/write?db=shop", "cpu v=1").await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert!(answer.body["error"].as_str().unwrap().contains("database not found"));
}

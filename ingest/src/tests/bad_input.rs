//! Bad input: each kind with its status, its code and its index, the good rows of the same request
//! stored; or the request refused whole and nothing stored.

use std::io::Write;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use braid_shared::codes;
use braid_shared::limits::{
    FIELDS_MAX, ID_BYTES_MAX, KEY_BYTES_MAX, REQUEST_BYTES_MAX, REQUEST_EVENTS_MAX, REQUEST_VALUES_MAX, STRING_BYTES_MAX, TAGS_MAX,
};
use braid_shared::model::Precision;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::{NOW, Server, event, seconds, server, server_with};
use crate::IngestSettings;
use crate::admit::admit;
use crate::decode::json::{JsonFormat, decode_json};

const EVENTS: &str = "/v1/shop/events";

/// Sends a bad row between two good ones: it alone is refused.
async fn refused(bad: impl Into<Vec<u8>>, code: &str) {
    let server = server().await;
    let bad = bad.into();
    let shown = String::from_utf8_lossy(&bad[..bad.len().min(80)]).into_owned();
    let body = [event("k", "before", 2).as_bytes(), &bad, event("k", "after", 1).as_bytes()].join(&b'\n');
    let request = Request::post(EVENTS).header("content-type", "application/x-ndjson").body(Body::from(body)).unwrap();
    let answer = server.send(request).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{shown}: {}", answer.body);
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.errors(), [(1, code)], "{shown}: {}", answer.body);
    assert_eq!((&answer.body["stored"], &answer.body["rejected"]), (&2.into(), &1.into()), "{shown}");
    assert_eq!(server.ids("shop", "k").await, ["before", "after"], "{shown}");
}

fn many(name: &str, n: usize, value: &str) -> String {
    let members: Vec<String> = (0..n).map(|i| format!(r#""n{i}":{value}"#)).collect();
    format!(r#"{{"key":"k","id":"x","ts":0,"value":1,"{name}":{{{}}}}}"#, members.join(","))
}

#[tokio::test]
async fn rows_that_are_not_sound_json() {
    refused(r#"{"key":"k","value":"#, codes::EVENT_MALFORMED).await;
    refused(r#"{"key":"k","value":NaN}"#, codes::EVENT_MALFORMED).await;
    refused(r#"{"key":"k","value":Infinity}"#, codes::EVENT_MALFORMED).await;
    refused(b"{\"key\":\"k\",\"fields\":{\"s\":\"\xff\"}}".to_vec(), codes::INVALID_UTF8).await;
}

#[tokio::test]
async fn rows_whose_members_are_wrong() {
    refused(r#"{"key":7,"value":1}"#, codes::TYPE_INVALID).await;
    refused(r#"{"key":"k","fields":{"x":[1]}}"#, codes::TYPE_INVALID).await;
    refused(r#"{"key":"k","tags":{"x":1},"value":1}"#, codes::TYPE_INVALID).await;
    refused(r#"{"key":"k","value":1,"colour":"red"}"#, codes::UNKNOWN_MEMBER).await;
    refused(r#"{"key":"k","fields":{"x":1,"x":2}}"#, codes::DUPLICATE_NAME).await;
    refused(r#"{"key":"k","key":"k","value":1}"#, codes::DUPLICATE_NAME).await;
    refused(r#"{"key":"k","value":1e999}"#, codes::NUMBER_OUT_OF_RANGE).await;
    refused(r#"{"key":"k","value":18446744073709551616}"#, codes::NUMBER_OUT_OF_RANGE).await;
    refused(r#"{"value":1}"#, codes::KEY_MISSING).await;
    refused(r#"{"key":"","value":1}"#, codes::KEY_EMPTY).await;
}

#[tokio::test]
async fn rows_over_a_limit() {
    refused(event(&"k".repeat(KEY_BYTES_MAX + 1), "x", 1), codes::KEY_TOO_LONG).await;
    refused(event("k", &"i".repeat(ID_BYTES_MAX + 1), 1), codes::ID_TOO_LONG).await;
    refused(format!(r#"{{"key":"k","value":"{}"}}"#, "s".repeat(STRING_BYTES_MAX + 1)), codes::STRING_TOO_LONG).await;
    refused(many("fields", FIELDS_MAX + 1, "1"), codes::TOO_MANY_FIELDS).await;
    refused(many("tags", TAGS_MAX + 1, "\"v\""), codes::TOO_MANY_TAGS).await;
    refused(many("fields", 5, &format!("\"{}\"", "s".repeat(STRING_BYTES_MAX))), codes::EVENT_TOO_LARGE).await;
}

#[tokio::test]
async fn rows_whose_time_is_wrong() {
    refused(r#"{"key":"k","ts":"yesterday","value":1}"#, codes::TIMESTAMP_INVALID).await;
    refused(r#"{"key":"k","ts":9223372036854775807,"value":1}"#, codes::TIMESTAMP_OUT_OF_RANGE).await;
    refused(r#"{"key":"k","ts":"2400-01-01T00:00:00Z","value":1}"#, codes::TIMESTAMP_OUT_OF_RANGE).await;
    refused(event("k", "x", -3_600), codes::TIMESTAMP_TOO_FAR_AHEAD).await;
}

#[tokio::test]
async fn a_request_of_bad_rows_only_stores_nothing_and_lists_them() {
    let server = server().await;
    let answer = server.post(EVENTS, r#"[{"value":1},{"key":""}]"#).await;
    assert_eq!((answer.status, &answer.body["stored"]), (StatusCode::UNPROCESSABLE_ENTITY, &0.into()));
    assert_eq!(answer.errors(), [(0, codes::KEY_MISSING), (1, codes::KEY_EMPTY)]);
}

/// Sends a request that is refused whole; nothing is stored.
async fn refused_whole(server: &Server, request: Request<Body>, status: u16, code: &str) {
    let path = request.uri().to_string();
    let answer = server.send(request).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (status, code), "{path}: {}", answer.body);
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    assert!(server.store.tried.lock().unwrap().is_empty());
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn post(path: &str, header: (&str, &str), body: impl Into<Body>) -> Request<Body> {
    Request::post(path).header(header.0, header.1).body(body.into()).unwrap()
}

#[tokio::test]
async fn requests_that_are_refused_whole() {
    let server = server().await;
    let good = event("k", "a", 1);
    let plain = ("content-type", "application/json");
    refused_whole(&server, post("/v1/shop/events?precison=ms", plain, good.clone()), 400, codes::INVALID_PARAMETER).await;
    refused_whole(&server, post("/v1/shop/events?precision=h", plain, good.clone()), 400, codes::INVALID_PARAMETER).await;
    refused_whole(&server, post("/v1/-shop/events", plain, good.clone()), 400, codes::NAMESPACE_INVALID).await;
    refused_whole(&server, post("/v1/a%ffb/events", plain, good.clone()), 400, codes::NAMESPACE_INVALID).await;
    refused_whole(&server, post(EVENTS, ("content-type", "image/png"), good.clone()), 415, codes::UNSUPPORTED_MEDIA_TYPE).await;
    refused_whole(&server, post(EVENTS, ("content-encoding", "br"), good.clone()), 415, codes::UNSUPPORTED_ENCODING).await;
    refused_whole(&server, post(EVENTS, plain, format!("[{good},")), 400, codes::BODY_MALFORMED).await;
    let events = vec![r#"{"key":"k"}"#; REQUEST_EVENTS_MAX + 1].join("\n");
    refused_whole(&server, post(EVENTS, plain, events), 413, codes::TOO_MANY_EVENTS).await;
}

#[tokio::test]
async fn bodies_that_are_too_large_cut_or_bombs() {
    let server = server().await;
    let gzipped = ("content-encoding", "gzip");
    let mut cut = gzip(event("k", "a", 1).as_bytes());
    cut.truncate(cut.len() - 9);
    refused_whole(&server, post(EVENTS, gzipped, cut), 400, codes::BODY_MALFORMED).await;
    refused_whole(&server, post(EVENTS, gzipped, gzip(&vec![b' '; 65 * 1024 * 1024])), 413, codes::BODY_TOO_LARGE).await;
    let over = vec![b' '; REQUEST_BYTES_MAX + 1];
    refused_whole(&server, post(EVENTS, ("x", "y"), over), 413, codes::BODY_TOO_LARGE).await;
    assert_eq!(server.ingest.metrics.inflight_bytes.get(), 0);
}

/// Events of as many fields as one may have, each of few bytes.
fn wide(events: usize) -> String {
    let fields: Vec<String> = (0..FIELDS_MAX).map(|i| format!("\"{i}\":1")).collect();
    format!("{{\"key\":\"k\",\"fields\":{{{}}}}}\n", fields.join(",")).repeat(events)
}

#[tokio::test]
async fn a_small_body_of_too_many_values_is_refused_whole() {
    let server = server().await;
    let body = gzip(wide(REQUEST_VALUES_MAX / FIELDS_MAX + 1).as_bytes());
    assert!(body.len() < 1024 * 1024, "{}", body.len());
    refused_whole(&server, post(EVENTS, ("content-encoding", "gzip"), body), 413, codes::TOO_MANY_VALUES).await;
    assert_eq!(server.ingest.metrics.inflight_bytes.get(), 0);
}

#[tokio::test]
async fn what_values_take_beside_the_body_counts_as_in_flight() {
    let body = wide(20);
    let server = server_with(IngestSettings { inflight_bytes_max: 4 * body.len(), ..IngestSettings::default() }).await;
    let answer = server.post(EVENTS, body.clone()).await;
    assert_eq!(answer.status, StatusCode::OK, "alone, a request may take all there is");
    server.store.hold();
    let (held, begun) = (server.post_in_background(EVENTS, event("k", "a", 1)), server.store.tried.lock().unwrap().len());
    server.store.begun(begun + 1).await;
    let answer = server.post(EVENTS, body).await;
    assert_eq!((answer.status, answer.code()), (StatusCode::SERVICE_UNAVAILABLE, codes::OVERLOADED));
    server.store.let_go(2);
    assert_eq!(held.await.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn a_clock_set_back_after_times_were_checked_is_worth_another_try() {
    let server = server().await;
    let body = event("k", "a", -25);
    let mut batch = decode_json(body.as_bytes(), JsonFormat::Sniff, Precision::Millis).unwrap();
    let checked_at = NOW.saturating_add(seconds(20));
    let refused = admit(&"shop".parse().unwrap(), &mut batch, checked_at, &server.catalog, true).await.unwrap_err();
    assert_eq!(refused.code, codes::LAYOUT_STALE);
    assert_eq!(batch.faults, [], "no fault of the row's");
}

#[tokio::test]
async fn a_sound_gzip_body_is_stored() {
    let server = server().await;
    let answer = server.send(post(EVENTS, ("content-encoding", "gzip"), gzip(event("k", "a", 1).as_bytes()))).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(server.ids("shop", "k").await, ["a"]);
}

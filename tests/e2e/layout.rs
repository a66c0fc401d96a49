//! The layout of a hot key changes while it is written and read: nothing is missed, nothing comes twice.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::clock::{nanos, now_ms};
use crate::http::{Client, JSON, NDJSON, query, segment};
use crate::read::{all_events, by_id, text};
use crate::server::{Server, Stop, until};

const NS: &str = "layouts";
const KEY: &str = "hot";
const BATCH: usize = 20;
/// Events are written from the past to nearly as far ahead as is allowed (10 s), so that they
/// cross an epoch's start long before the clock does.
const SPREAD_MS: std::ops::Range<i64> = -2_000..9_000;

/// What was acknowledged: id → time.
#[derive(Default)]
struct Written {
    events: Mutex<BTreeMap<String, i64>>,
    latest: AtomicU64,
}

fn write(client: &Client, written: &Written, stop: &AtomicBool) {
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        let now = now_ms();
        let width = SPREAD_MS.end - SPREAD_MS.start;
        let events: Vec<(String, i64)> =
            (n..n + BATCH).map(|i| (format!("w{i}"), now + SPREAD_MS.start + (i as i64 * 997) % width)).collect();
        n += BATCH;
        let body: String = events.iter().map(|(id, ts)| format!("{}\n", json!({"key": KEY, "id": id, "ts": ts, "value": 1}))).collect();
        let answer = client.deliver(&format!("/v1/{NS}/events"), NDJSON, body.as_bytes()).expect(200).json();
        assert_eq!(answer["stored"], BATCH, "{answer}");
        let latest = events.iter().map(|(_, ts)| *ts).max().unwrap_or(0);
        written.events.lock().expect("no holder panics").extend(events);
        written.latest.fetch_max(latest as u64, Ordering::Relaxed);
    }
}

/// Every open-ended read must hold all that was acknowledged before it was asked for.
fn read(client: &Client, written: &Written, stop: &AtomicBool) -> usize {
    let mut reads = 0;
    while !stop.load(Ordering::Relaxed) {
        let before = written.events.lock().expect("no holder panics").clone();
        let (events, _) = all_events(client, NS, &[("key", KEY), ("from", "now-1h")]);
        let ids = by_id(&events);
        for (id, ts) in &before {
            assert!(ids.contains_key(id), "{id} at {ts} was acknowledged before the read and is not in it");
        }
        reads += 1;
    }
    reads
}

/// Publishes a layout and waits until events are written well beyond its start, which it gives.
fn change(client: &Client, written: &Written, shards: u32) -> Value {
    let answer = client.post(&format!("/v1/{NS}/layout"), JSON, json!({"key": KEY, "shards": shards}).to_string());
    let layout = answer.expect(201).json();
    assert_eq!(layout["shards"], shards, "{layout}");
    let from = start(&layout);
    until("events are written beyond the change", || written.latest.load(Ordering::Relaxed) as i64 > from + 1_000);
    layout
}

/// The first whole millisecond under a layout.
fn start(layout: &Value) -> i64 {
    let nanos = nanos(&text(&layout["from"]));
    nanos.div_euclid(1_000_000) + i64::from(nanos.rem_euclid(1_000_000) > 0)
}

#[test]
fn four_ten_three_under_a_writer_and_a_reader_loses_nothing_and_doubles_nothing() {
    let server = Server::start();
    let client = server.client();
    let (written, stop) = (Written::default(), AtomicBool::new(false));
    let changes = std::thread::scope(|scope| {
        let guard = Stop(&stop);
        let writer = scope.spawn(|| write(client, &written, &stop));
        until("the writer has begun", || written.latest.load(Ordering::Relaxed) > 0);
        let reader = scope.spawn(|| read(client, &written, &stop));
        let changes = [change(client, &written, 10), change(client, &written, 3)];
        drop(guard);
        writer.join().expect("the writer is content");
        assert!(reader.join().expect("the reader is content") > 0);
        changes
    });
    let written = written.events.into_inner().expect("no holder panics");
    check_whole(client, &written);
    for layout in &changes {
        check_boundary(client, &written, start(layout));
    }
    check_points(client, &written, &changes);
    check_list(client, &changes);
}

fn ids_between(client: &Client, from: i64, to: i64) -> (Vec<String>, Value) {
    let (events, end) = all_events(client, NS, &[("key", KEY), ("from", &from.to_string()), ("to", &to.to_string())]);
    (events.iter().map(|event| text(&event["id"])).collect(), end)
}

fn check_whole(client: &Client, written: &BTreeMap<String, i64>) {
    let (events, end) = all_events(client, NS, &[("key", KEY), ("from", "now-1h")]);
    let ids = by_id(&events);
    assert!(ids.keys().eq(written.keys()), "{} read, {} written", ids.len(), written.len());
    assert_eq!(end["shards"], json!({"planned": 4 + 10 + 3, "answered": 4 + 10 + 3}), "{end}");
    assert_eq!(end["layouts"].as_array().map(Vec::len), Some(3), "{end}");
}

/// A range across a change is the union of its two sides, each read under its own N.
fn check_boundary(client: &Client, written: &BTreeMap<String, i64>, start: i64) {
    let (from, to) = (start - 1_500, start + 1_500);
    let (across, before, after) = (ids_between(client, from, to), ids_between(client, from, start), ids_between(client, start, to));
    assert_eq!(across.0, [before.0.clone(), after.0.clone()].concat());
    let expected = written.values().filter(|ts| (from..to).contains(ts)).count();
    assert_eq!(across.0.len(), expected);
    assert!(!before.0.is_empty() && !after.0.is_empty(), "both sides were written");
    let path =
        query(&format!("/v1/{NS}/aggregate"), &[("key", KEY), ("from", &from.to_string()), ("to", &to.to_string()), ("fn", "count")]);
    assert_eq!(client.read(&path)["rows"][0]["count"], expected);
}

/// A point read takes the one suffix that the id hashes to, in each layout that it has to look into.
fn check_points(client: &Client, written: &BTreeMap<String, i64>, changes: &[Value]) {
    let starts: Vec<i64> = changes.iter().map(start).collect();
    for (id, ts) in written.iter().step_by(written.len() / 60 + 1) {
        let path = format!("/v1/{NS}/events/{}", segment(id));
        let exact = client.read(&query(&path, &[("key", KEY), ("ts", &ts.to_string())]));
        assert_eq!((text(&exact["event"]["id"]), &exact["shards"]), (id.clone(), &json!({"planned": 1, "answered": 1})), "{exact}");
        let shards = [4, 10, 3][starts.iter().filter(|start| **start <= *ts).count()];
        assert_eq!(exact["layouts"][0]["shards"], shards, "{exact}");
        let walk = client.read(&query(&path, &[("key", KEY)]));
        assert_eq!(walk["event"], exact["event"]);
        let planned = walk["shards"]["planned"].as_u64().expect("a count");
        assert_eq!(Some(planned), walk["layouts"].as_array().map(|layouts| layouts.len() as u64), "{walk}");
    }
}

fn check_list(client: &Client, changes: &[Value]) {
    let list = client.read(&query(&format!("/v1/{NS}/layout"), &[("key", KEY)]));
    let listed = list["layouts"].as_array().expect("a list");
    for layout in changes {
        let found =
            listed.iter().find(|other| other["version"] == layout["version"]).unwrap_or_else(|| panic!("{layout} is not in {list}"));
        assert_eq!((&found["shards"], &found["from"]), (&layout["shards"], &layout["from"]));
    }
}

#[test]
fn a_layout_that_has_not_begun_can_be_withdrawn_and_one_that_has_can_not() {
    let server = Server::start();
    let client = server.client();
    let path = format!("/v1/{NS}/layout");
    client
        .deliver(&format!("/v1/{NS}/events"), JSON, json!({"key": KEY, "id": "a", "ts": 0, "value": 1}).to_string().as_bytes())
        .expect(200);
    let publish = |body: Value| client.post(&path, JSON, body.to_string());
    let far = publish(json!({"key": KEY, "shards": 9, "effective_from": now_ms() + 3_600_000})).expect(201).json();
    assert_eq!(far["state"], "scheduled", "{far}");
    publish(json!({"key": KEY, "shards": 2, "effective_from": now_ms()})).expect_problem(409, "layout_conflict");
    let version = far["version"].to_string();
    let withdraw = |version: &str| client.delete(&query(&path, &[("key", KEY), ("version", version)]));
    assert!((200..300).contains(&withdraw(&version).status));
    withdraw("0").expect_problem(409, "layout_immutable");
    withdraw("999999").expect_problem(404, "layout_not_found");
    let list = client.read(&query(&path, &[("key", KEY)]));
    let state = list["layouts"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|layout| layout["version"] == far["version"])
        .map(|layout| layout["state"].clone());
    assert_eq!(state, Some(json!("withdrawn")), "{list}");
    client.put(&format!("/v1/namespaces/{NS}"), &json!({"shards": 5})).expect_problem(409, "layout_immutable");
}

#[test]
fn sharded_by_a_tag_its_value_is_part_of_the_identity_and_a_filter_on_it_reads_one_suffix() {
    let server = Server::start();
    let client = server.client();
    client.put(&format!("/v1/namespaces/{NS}"), &json!({"shards": 8, "shard_by": "region"})).expect(201);
    let event = |region: Option<&str>, n: i64| {
        let tags = region.map(|region| json!({"region": region})).unwrap_or(json!({}));
        json!({"key": KEY, "id": "same", "ts": 0, "fields": {"n": n}, "tags": tags})
    };
    let events = json!([event(Some("eu"), 1), event(Some("us"), 2), event(None, 3), event(Some("eu"), 4)]);
    client.deliver(&format!("/v1/{NS}/events"), JSON, events.to_string().as_bytes()).expect(200);
    let mut numbers: Vec<i64> =
        all_events(client, NS, &[("key", KEY)]).0.iter().filter_map(|event| event["fields"]["n"].as_i64()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3, 4], "the second event of eu took the place of the first");
    let eu = client.read(&query(&format!("/v1/{NS}/events"), &[("key", KEY), ("where", "region:eu")]));
    assert_eq!((&eu["events"][0]["fields"]["n"], &eu["shards"]["planned"]), (&json!(4), &json!(1)), "{eu}");
    let point = client.read(&query(&format!("/v1/{NS}/events/same"), &[("key", KEY), ("ts", "0"), ("where", "region:us")]));
    assert_eq!((&point["event"]["fields"]["n"], &point["shards"]["planned"]), (&json!(2), &json!(1)), "{point}");
}

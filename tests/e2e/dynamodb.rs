//! Tiers as processes of their own, over one DynamoDB-compatible server that this test starts.

// The server and the proxy that the store's own tests use; what only those need stays unused here.
#[allow(dead_code)]
#[path = "../../shared/src/store/dynamodb/tests/engine.rs"]
mod engine;

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use self::engine::{Call, Fault, TestEngine};
use crate::clock::now_ms;
use crate::flights::{self, check_truth, replay};
use crate::http::{Client, NDJSON, query};
use crate::read::all_events;
use crate::server::{End, Server, Stop, until};

/// An engine, with the runtime that it lives on.
struct Engine {
    engine: TestEngine,
    _runtime: Runtime,
}

impl Engine {
    /// Starts an engine and makes the table in it.
    fn start() -> Engine {
        let runtime = Runtime::new().expect("a runtime");
        let engine = runtime.block_on(TestEngine::start());
        let url = engine.url();
        let made = Command::new(env!("CARGO_BIN_EXE_braid")).args(["store", "init"]).args(flags(&url)).output().expect("it runs");
        assert!(made.status.success(), "{made:?}");
        Engine { engine, _runtime: runtime }
    }

    /// A process of one tier; layouts change only as a test says.
    fn tier(&self, name: &str) -> Server {
        let url = self.engine.url();
        Server::start_with(&[&[name, "--heat", "off"], &flags(&url)[..]].concat())
    }
}

fn flags(url: &str) -> [&str; 4] {
    ["--store", "dynamodb", "--dynamodb-endpoint", url]
}

#[test]
fn the_truth_of_the_flights_comes_back_through_two_processes_of_each_tier() {
    let Some(flights) = flights::flights() else { return };
    let engine = Engine::start();
    let (first, second) = (engine.tier("ingest"), engine.tier("ingest"));
    let readers = [engine.tier("query"), engine.tier("query")];
    // Wide buckets: a year of three keys is a few hundred partitions, each a request or two.
    readers[0].client().put(&format!("/v1/namespaces/{}", flights::NS), &json!({"shards": 2, "bucket": "7d"})).expect(201);
    replay(&[first.client(), second.client()], flights);
    for reader in &readers {
        check_truth(reader.client(), &flights.truth);
    }
    assert!(first.client().metric("braid_dynamodb_write_units_total") > 0.0);
}

/// Numbers every event that it sends; each request is sent until it is taken.
fn write_until(stop: &AtomicBool, client: &Client, writer: usize, acknowledged: &AtomicU64) -> Vec<String> {
    let mut sent = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let ids: Vec<_> = (sent.len()..sent.len() + 20).map(|number| format!("{writer}-{number:06}")).collect();
        let lines: Vec<_> = ids.iter().map(|id| json!({"key": "hot", "id": id, "ts": now_ms(), "value": 1}).to_string()).collect();
        let answer = client.deliver("/v1/load/events", NDJSON, lines.join("\n").as_bytes()).expect(200).json();
        assert_eq!(answer["stored"], 20, "{answer}");
        acknowledged.fetch_add(20, Ordering::Relaxed);
        sent.extend(ids);
    }
    sent
}

/// What happens to one request in so many.
fn bad_day(call: &Call) -> Fault {
    match (call.operation.as_str(), rand::random_range(0..100)) {
        ("BatchWriteItem", 0..30) => Fault::Undone(0.3),
        ("BatchWriteItem" | "PutItem", 30..34) => Fault::FailAfter,
        ("BatchWriteItem" | "PutItem", 34..36) => Fault::ResetAfter,
        ("PutItem", 36..40) => Fault::Throttle("TableWriteKeyRangeThroughputExceeded"),
        (_, 40..42) => Fault::Reset,
        ("Query" | "GetItem", 42..45) => Fault::Fail,
        _ => Fault::None,
    }
}

#[test]
fn nothing_is_lost_or_doubled_while_n_changes_the_engine_fails_and_a_node_is_killed() {
    let engine = Engine::start();
    let mut writers = [engine.tier("ingest"), engine.tier("ingest")];
    let readers = [engine.tier("query"), engine.tier("query")];
    readers[0].client().put("/v1/namespaces/load", &json!({"shards": 2})).expect(201);
    engine.engine.faults(bad_day);
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    let clients: Vec<_> = writers.iter().map(|writer| writer.client().clone()).collect();
    let sent: Vec<String> = std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let (stop, acknowledged) = (&stop, &acknowledged);
        let load: Vec<_> =
            clients.iter().enumerate().map(|(i, client)| scope.spawn(move || write_until(stop, client, i, acknowledged))).collect();
        let reached = |events| move || acknowledged.load(Ordering::Relaxed) >= events;
        until("events are stored", reached(200));
        for shards in [5, 1, 3] {
            change_to(readers[0].client(), shards);
            until("the new layout holds", || newest_layout(readers[1].client()) == (json!(shards), json!("active")));
            let before = acknowledged.load(Ordering::Relaxed);
            until("events follow it", reached(before + 400));
        }
        writers[1].restart(End::Kill);
        let before = acknowledged.load(Ordering::Relaxed);
        until("events are stored after a kill", reached(before + 200));
        stop.store(true, Ordering::Relaxed);
        load.into_iter().flat_map(|writer| writer.join().expect("the writer ends well")).collect()
    });
    engine.engine.heal();
    for reader in &readers {
        let (events, end) = all_events(reader.client(), "load", &[("key", "hot")]);
        let mut found: Vec<_> = events.iter().map(|event| event["id"].as_str().expect("an id").to_owned()).collect();
        let mut wanted = sent.clone();
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found.len(), wanted.len(), "{end}");
        assert!(found == wanted, "the events are not those that were acknowledged");
        assert_eq!(newest_layout(reader.client()), (json!(3), json!("active")));
    }
}

/// Publishes another number of shards; the engine may fail meanwhile.
fn change_to(client: &Client, shards: u32) -> Value {
    let body = json!({"key": "hot", "shards": shards}).to_string();
    client.deliver("/v1/load/layout", crate::http::JSON, body.as_bytes()).expect(201).json()
}

/// Shards and state of the layout that was published last.
fn newest_layout(client: &Client) -> (Value, Value) {
    let answer = client.read(&query("/v1/load/layout", &[("key", "hot")]));
    let newest = answer["layouts"].as_array().and_then(|layouts| layouts.last()).unwrap_or_else(|| panic!("{answer}"));
    (newest["shards"].clone(), newest["state"].clone())
}

#[test]
fn eventual_reads_say_what_they_are() {
    let engine = Engine::start();
    let (writer, reader) = (engine.tier("ingest"), engine.tier("query"));
    reader.client().put("/v1/namespaces/cheap", &json!({"eventual_reads": true})).expect(201);
    writer.client().deliver("/v1/cheap/events", NDJSON, br#"{"key":"k","id":"a","value":1}"#).expect(200);
    let count = query("/v1/cheap/aggregate", &[("key", "k"), ("from", "now-1d"), ("fn", "count")]);
    until("the event is seen", || reader.client().read(&count)["rows"][0]["count"] == 1);
    let answer = reader.client().read(&count);
    assert_eq!((&answer["complete"], &answer["consistency"]), (&json!(false), &json!("eventual")), "{answer}");
    assert!(engine.engine.calls().iter().any(|call| call.operation == "Query" && call.body["ConsistentRead"] == false));
}

#[test]
fn a_node_without_its_table_says_so_and_ends() {
    let runtime = Runtime::new().expect("a runtime");
    let engine = runtime.block_on(TestEngine::start());
    let url = engine.url();
    let ended = Command::new(env!("CARGO_BIN_EXE_braid")).args(["--listen", "127.0.0.1:0"]).args(flags(&url)).output().expect("it runs");
    assert!(!ended.status.success());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("braid store init"), "{said}");
}

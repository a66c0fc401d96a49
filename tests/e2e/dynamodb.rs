//! Tiers as processes of their own, over one DynamoDB-compatible server that this test starts.

// The server and the proxy that the store's own tests use; what only those need stays unused here.
#[allow(dead_code)]
#[path = "../../shared/src/store/dynamodb/tests/engine.rs"]
pub(crate) mod engine;

use std::collections::{BTreeSet, HashMap};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use self::engine::{Call, Fault, TestEngine};
use crate::clock::now_ms;
use crate::flights::{self, check_truth, replay};
use crate::http::{Client, JSON, NDJSON, query};
use crate::load::clean;
use crate::server::{End, PATIENCE, Server, until};
use crate::tiers::Tiers;

/// An engine, with the runtime that it lives on.
pub(crate) struct Engine {
    pub(crate) engine: TestEngine,
    runtime: Arc<Runtime>,
}

impl Engine {
    /// Starts an engine and makes the table in it.
    pub(crate) fn start() -> Engine {
        let runtime = Arc::new(Runtime::new().expect("a runtime"));
        let engine = runtime.block_on(TestEngine::start());
        let url = engine.url();
        let made = Command::new(env!("CARGO_BIN_EXE_braid")).args(["store", "init"]).args(flags(&url)).output().expect("it runs");
        assert!(made.status.success(), "{made:?}");
        Engine { engine, runtime }
    }

    /// The same engine by another address, whose faults are its own.
    pub(crate) fn another_door(&self) -> Engine {
        let engine = self.runtime.block_on(self.engine.another_door());
        Engine { engine, runtime: self.runtime.clone() }
    }

    /// A process of both tiers.
    pub(crate) fn node(&self, more: &[&str]) -> Server {
        Server::start_with(&[&flags(&self.engine.url())[..], more].concat())
    }

    /// A process of one tier; layouts change only as a test says.
    fn tier(&self, name: &str) -> Server {
        self.start_with(name, &[])
    }

    fn start_with(&self, name: &str, more: &[&str]) -> Server {
        let url = self.engine.url();
        Server::start_with(&[&[name, "--heat", "off"], &flags(&url)[..], more].concat())
    }

    pub(crate) fn tiers(&self) -> Tiers {
        Tiers::start(|name| self.tier(name))
    }

    fn restart(&self) {
        self.runtime.block_on(self.engine.restart());
    }
}

fn flags(url: &str) -> [&str; 4] {
    ["--store", "dynamodb", "--dynamodb-endpoint", url]
}

#[test]
fn the_truth_of_the_flights_comes_back_through_two_processes_of_each_tier() {
    let Some(flights) = flights::flights() else { return };
    let engine = Engine::start();
    let tiers = engine.tiers();
    // Wide buckets: a year of three keys is a few hundred partitions, each a request or two.
    tiers.client().put(&format!("/v1/namespaces/{}", flights::NS), &json!({"shards": 2, "bucket": "7d"})).expect(201);
    replay(&tiers.ingest.each_ref().map(Server::client), flights);
    for reader in &tiers.query {
        check_truth(reader.client(), &flights.truth);
    }
    assert!(tiers.ingest[0].client().metric("braid_dynamodb_write_units_total") > 0.0);
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
fn nothing_is_lost_or_doubled_while_n_changes_the_engine_fails_and_restarts_and_a_node_is_killed() {
    let engine = Engine::start();
    let mut tiers = engine.tiers();
    tiers.client().put("/v1/namespaces/load", &json!({"shards": 2})).expect(201);
    engine.engine.faults(bad_day);
    let run = tiers.verified_run(&["--namespace", "load", "--rate", "1k", "--duration", "40s", "--reads", "5"]);
    until("events are stored", || tiers.ingest[1].client().metric("braid_events_stored_total") > 500.0);
    tiers.ingest[1].restart(End::Kill);
    engine.restart();
    let mut changes = 0;
    for shards in [5, 1, 3].into_iter().cycle() {
        change_to(tiers.client(), shards);
        let holds = || newest_layout(tiers.query[1].client()) == (json!(shards), json!("active"));
        until("the new layout holds", || run.is_finished() || holds());
        if run.is_finished() {
            break;
        }
        changes += 1;
    }
    let said = clean(run.join().expect("it does not panic"));
    assert!(changes >= 2, "{changes} changes");
    assert!(said["verify"]["acknowledged"].as_u64() > Some(20_000), "{said}");
}

/// One fault, while a namespace of its own is written and read back.
struct Ordeal {
    namespace: &'static str,
    /// What else is asked of the run.
    run: &'static [&'static str],
    fault: fn(&Call) -> Fault,
}

const ORDEALS: [Ordeal; 4] = [
    Ordeal {
        namespace: "undone",
        run: &["--batch", "200", "--events", "20000"],
        fault: |call| if call.operation == "BatchWriteItem" { Fault::Undone(0.3) } else { Fault::None },
    },
    Ordeal {
        namespace: "applied",
        run: &["--batch", "50", "--events", "40000"],
        fault: |call| match (is_write(call), rand::random_range(0..100)) {
            (true, 0..10) => Fault::FailAfter,
            (true, 10..12) => Fault::Silence,
            _ => Fault::None,
        },
    },
    Ordeal {
        namespace: "reset",
        run: &["--batch", "50", "--events", "40000"],
        fault: |call| match (is_write(call), rand::random_range(0..100)) {
            (_, 0..5) => Fault::Reset,
            (true, 5..10) => Fault::ResetAfter,
            _ => Fault::None,
        },
    },
    // Of events so large that each partition is read in several pages.
    Ordeal {
        namespace: "pages",
        run: &["--batch", "200", "--events", "20000", "--event-bytes", "2000"],
        fault: |call| match (call.body.get("ExclusiveStartKey"), rand::random_range(0..100)) {
            (Some(_), 0..25) => Fault::Fail,
            (Some(_), 25..50) => Fault::Reset,
            _ => Fault::None,
        },
    },
];

fn is_write(call: &Call) -> bool {
    matches!(call.operation.as_str(), "BatchWriteItem" | "PutItem")
}

#[test]
fn no_fault_of_the_engine_costs_an_event_or_doubles_one() {
    let engine = Engine::start();
    let tiers = engine.tiers();
    for Ordeal { namespace, run, fault } in ORDEALS {
        let met = Arc::new(AtomicUsize::new(0));
        let seen = met.clone();
        engine.engine.faults(move |call| {
            let fault = fault(call);
            seen.fetch_add(usize::from(!matches!(fault, Fault::None)), Ordering::Relaxed);
            fault
        });
        let words = ["--namespace", namespace, "--rate", "max", "--duplicates", "1%"];
        let run = tiers.verified_run(&[&words, run].concat());
        let said = clean(run.join().expect("it does not panic"));
        assert!(met.load(Ordering::Relaxed) > 5, "{namespace}: the fault was met {met:?} times: {said}");
    }
}

#[test]
fn throttling_of_one_key_range_slows_that_key_alone() {
    let engine = Engine::start();
    let tiers = engine.tiers();
    let allowance = Mutex::new((Instant::now(), 0.0));
    engine.engine.faults(move |call| {
        if !is_write(call) || partitions_of(call, "scorching").is_empty() {
            return Fault::None;
        }
        let mut allowance = allowance.lock().expect("no holder panics");
        let (since, left) = *allowance;
        let left = (left + since.elapsed().as_secs_f64() * WRITES_PER_SECOND).min(WRITES_PER_SECOND);
        *allowance = (Instant::now(), if left < 1.0 { left } else { left - 1.0 });
        if left < 1.0 { Fault::Throttle("TableWriteKeyRangeThroughputExceeded") } else { Fault::None }
    });
    let runs = ["scorching", "cool"].map(|key| {
        let words = ["--namespace", "range", "--key", key, "--rate", "max", "--batch", "10", "--connections", "4", "--duration", "10s"];
        tiers.verified_run(&words)
    });
    let [hot, cool] = runs.map(|run| clean(run.join().expect("it does not panic")));
    let stored = |said: &Value| said["stored"].as_u64().expect("a count");
    assert!(stored(&cool) > 3 * stored(&hot), "{} events of the throttled key, {} of the other", stored(&hot), stored(&cool));
    assert_eq!(cool["retries"], 0, "{cool}");
    let throttled = tiers.ingest.each_ref().map(|node| node.client().metric("braid_dynamodb_throttled_total{limit=\"key_range\"}"));
    assert!(throttled.iter().sum::<f64>() > 0.0, "{throttled:?}");
}

/// What the engine takes of the throttled key, or of each of its partitions.
const WRITES_PER_SECOND: f64 = 20.0;

/// The partitions of a logical key that a call is about: the names of their blocks begin with `b` and hold it.
fn partitions_of(call: &Call, key: &str) -> BTreeSet<Vec<u8>> {
    let text = call.body.to_string();
    let names = text.split('"').filter_map(|word| STANDARD.decode(word).ok());
    names.filter(|name| name.first() == Some(&b'b') && name.windows(key.len()).any(|part| part == key.as_bytes())).collect()
}

/// As DynamoDB does, the engine refuses what is too much for one partition of a key; heat may change N, in steps of a lead.
#[test]
fn a_key_whose_ranges_are_throttled_gets_suffixes_until_none_is_and_no_other_key_does() {
    const NS: &str = "/v1/ranges";
    let engine = Engine::start();
    let url = engine.engine.url();
    let tiers = Tiers::start(|tier| Server::start_with(&[&[tier], &flags(&url)[..]].concat()));
    let client = tiers.client();
    // Twice what the engine takes: nothing but its refusals says that a suffix has too much.
    let policy = json!({"shards": 1, "max_shards": 64, "target_units": 2 * WRITES_PER_SECOND as u32});
    client.put("/v1/namespaces/ranges", &policy).expect(201);
    let allowances = Mutex::new(HashMap::new());
    engine.engine.faults(move |call| {
        let partitions = if is_write(call) { partitions_of(call, "scorching") } else { BTreeSet::new() };
        let mut allowances = allowances.lock().expect("no holder panics");
        let takes = |partition: Vec<u8>| {
            let (since, left) = allowances.get(&partition).copied().unwrap_or((Instant::now(), WRITES_PER_SECOND));
            let left = (left + since.elapsed().as_secs_f64() * WRITES_PER_SECOND).min(WRITES_PER_SECOND);
            allowances.insert(partition, (Instant::now(), if left < 1.0 { left } else { left - 1.0 }));
            left >= 1.0
        };
        if partitions.into_iter().all(takes) { Fault::None } else { Fault::Throttle("TableWriteKeyRangeThroughputExceeded") }
    });
    let runs = [("scorching", "60"), ("cool", "10")].map(|(key, rate)| {
        tiers.verified_run(&[
            "--namespace",
            "ranges",
            "--key",
            key,
            "--rate",
            rate,
            "--batch",
            "1",
            "--duration",
            "60s",
            "--connections",
            "16",
        ])
    });
    let heat = |key| client.read(&query(&format!("{NS}/heat"), &[("key", key)]))["keys"][0].clone();
    until("the key has suffixes enough, and none is refused", || {
        let hot = heat("scorching");
        assert!(!runs[0].is_finished(), "the run is over, and the key is still refused: {hot}");
        let rate = |of: &str| hot["rate"][of].as_f64().unwrap_or_default();
        hot["shards"].as_u64() > Some(2) && rate("events") > 40.0 && rate("throttles") == 0.0
    });
    assert_eq!((&heat("cool")["shards"], &heat("cool")["rate"]["throttles"]), (&json!(1), &json!(0.0)), "{}", heat("cool"));
    let layouts = client.read(&query(&format!("{NS}/layout"), &[("key", "scorching")]))["layouts"].clone();
    for layout in &layouts.as_array().expect("a list")[1..] {
        let reason = layout["published"]["reason"].as_str().unwrap_or_default();
        assert!(layout["published"]["automatic"] == true && reason.contains("the store refuses the rate"), "{layouts}");
    }
    let [_, cool] = runs.map(|run| clean(run.join().expect("it does not panic")));
    assert_eq!((&cool["stored"], &cool["retries"]), (&json!(10 * 60), &json!(0)), "{cool}");
}

/// Between two pages of a read its process is stopped. When it goes on, the blocks of the second page have been
/// compacted into some that begin in the first: what it has in hand is a hole.
#[test]
fn a_reader_that_is_paused_past_its_deadline_gives_an_error_and_never_a_hole() {
    // More than a page holds; fewer than are compacted while they are written.
    const BLOCKS: i64 = 60;
    // Incompressible.
    const NOTE_BYTES: usize = 9_000;
    let engine = Engine::start();
    let writer = engine.start_with("ingest", &["--grace", "2s", "--engine-compaction", "true"]);
    let reader = engine.start_with("query", &["--grace", "2s"]);
    reader.client().put("/v1/namespaces/paused", &json!({"shards": 1, "bucket": "1d"})).expect(201);
    let ((let_compact, may_compact), (let_read, may_read)) = (watch::channel(false), watch::channel(false));
    let (say, said) = mpsc::channel();
    engine.engine.faults(move |call| match call.operation.as_str() {
        "PutItem" | "BatchWriteItem" if largest_item(call) > 3 * NOTE_BYTES => {
            let _ = say.send("compaction");
            Fault::Hold(may_compact.clone())
        }
        "Query" if call.body.get("ExclusiveStartKey").is_some() && !reads_all_times(call) => {
            let _ = say.send("second page");
            Fault::Hold(may_read.clone())
        }
        _ => Fault::None,
    });
    let reached = |what| until(what, || said.recv_timeout(PATIENCE).expect("it comes") == what);
    let start = now_ms() - 60_000;
    let note = || STANDARD.encode((0..NOTE_BYTES).map(|_| rand::random()).collect::<Vec<u8>>());
    for number in 0..BLOCKS {
        let event = json!({"key": "k", "id": format!("{number}"), "ts": start + number, "fields": {"a": note(), "b": note()}});
        writer.client().post("/v1/paused/events", JSON, event.to_string()).expect(200);
    }
    let path = query("/v1/paused/aggregate", &[("key", "k"), ("from", &(start - 1_000).to_string()), ("fn", "count")]);
    reached("compaction");
    std::thread::scope(|scope| {
        let read = scope.spawn(|| reader.client().get(&path));
        reached("second page");
        reader.signal(Signal::STOP);
        let_compact.send_replace(true);
        until("what was read is deleted", || writer.client().metric("braid_store_operation_seconds_count{op=\"delete\"}") > 0.0);
        let_read.send_replace(true);
        reader.signal(Signal::CONT);
        let refused = read.join().expect("it is answered").expect(503).json();
        // Where the pause took longer than the store is given for a page, it is the store's error.
        assert!([json!("read_deadline"), json!("store_unavailable")].contains(&refused["code"]), "{refused}");
    });
    assert_eq!(reader.client().read(&path)["rows"][0]["count"], BLOCKS);
}

/// Bytes of the largest item that a call writes.
fn largest_item(call: &Call) -> usize {
    call.body.to_string().split('"').map(|word| word.len() / 4 * 3).max().unwrap_or(0)
}

/// The first byte of the sort keys of the shortest blocks.
const LAST_LANE: u8 = 3;

/// Whether a query goes to the end of time, as compaction's do and those of readers do not.
fn reads_all_times(call: &Call) -> bool {
    call.body["ExpressionAttributeValues"][":z"]["B"] == STANDARD.encode([&[LAST_LANE], &[0xFF; 8][..]].concat())
}

/// Publishes another number of shards; the engine may fail meanwhile.
fn change_to(client: &Client, shards: u32) -> Value {
    let body = json!({"key": "hot", "shards": shards}).to_string();
    client.deliver("/v1/load/layout", JSON, body.as_bytes()).expect(201).json()
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
fn heat_shows_the_units_that_the_engine_charged() {
    let engine = Engine::start();
    let (writer, reader) = (engine.tier("ingest"), engine.tier("query"));
    let mut written = 0;
    until("heat shows what writes cost, which only the engine tells", || {
        written += 1;
        let event = json!({"key": "hot", "id": written.to_string(), "value": 1}).to_string();
        writer.client().deliver("/v1/load/events", NDJSON, event.as_bytes()).expect(200);
        reader.client().read("/v1/load/heat")["keys"][0]["rate"]["units"].as_f64() > Some(0.0)
    });
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

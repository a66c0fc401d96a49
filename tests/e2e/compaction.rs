//! Single events leave many small blocks; while they are merged in the background, and killed at it, reads stay whole.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::http::{Client, JSON, query};
use crate::read::{all_events, by_id};
use crate::server::{End, Server, Stop, until};

const NS: &str = "small";
const KEY: &str = "hot";
const WRITERS: usize = 8;
const ROUNDS: usize = 2;
/// Every event is within one hour, so that all blocks are of a few partitions.
const START_MS: i64 = 1_700_000_000_000;

/// What each event's field was last acknowledged with.
type Acknowledged = Mutex<BTreeMap<String, i64>>;

/// One event a request; every third one is sent again with another value, which must win.
fn write(client: &Client, writer: usize, round: usize, acknowledged: &Acknowledged, stop: &AtomicBool) {
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        let (id, ts) = (format!("w{writer}-{round}-{n}"), START_MS + n % 1_000_000);
        for value in if n % 3 == 0 { vec![n, -n] } else { vec![n] } {
            let event = json!({"key": KEY, "id": id, "ts": ts, "fields": {"n": value}});
            match client.try_post(&format!("/v1/{NS}/events"), JSON, event.to_string()) {
                Ok(answer) if answer.status == 200 => drop(acknowledged.lock().expect("no holder panics").insert(id.clone(), value)),
                Ok(answer) => assert_eq!(answer.status, 503, "{answer}"),
                Err(_) => return,
            }
        }
        n += 1;
    }
}

/// All that is acknowledged is there, once, with its last value; more may be, of requests that were cut off.
fn check(client: &Client, acknowledged: &Acknowledged) {
    let acknowledged = acknowledged.lock().expect("no holder panics").clone();
    let (events, _) = all_events(client, NS, &[("key", KEY)]);
    let stored = by_id(&events);
    for (id, value) in &acknowledged {
        let found = stored.get(id).unwrap_or_else(|| panic!("{id} was acknowledged and is gone"));
        // A value that was sent later may be stored though its answer was cut off.
        assert!(found["fields"]["n"] == *value || found["fields"]["n"] == -value, "{id} was acknowledged with {value}: {found}");
    }
}

/// What a read of a quiet server says; nothing that compaction does may change it.
fn snapshot(client: &Client) -> (Vec<Value>, Value) {
    let (from, to) = (START_MS.to_string(), (START_MS + 3_600_000).to_string());
    let parameters = [("key", KEY), ("from", &from), ("to", &to), ("field", "n"), ("fn", "count,sum,min,max,p50"), ("step", "1m")];
    let rows = client.read(&query(&format!("/v1/{NS}/aggregate"), &parameters))["rows"].clone();
    (all_events(client, NS, &[("key", KEY)]).0, rows)
}

#[test]
fn reads_and_kill_9_during_compaction_lose_nothing_and_double_nothing() {
    let mut server = Server::start();
    let acknowledged = Acknowledged::default();
    for round in 0..ROUNDS {
        let (client, stop) = (server.client().clone(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn({
                    let (client, acknowledged, stop) = (&client, &acknowledged, &stop);
                    move || write(client, writer, round, acknowledged, stop)
                });
            }
            let _stop = Stop(&stop);
            until("there is an event", || !acknowledged.lock().expect("no holder panics").is_empty());
            until("blocks are compacted", || {
                check(&client, &acknowledged);
                client.metric("braid_compactions_total") >= 2.0
            });
            server.stop(End::Kill);
        });
        server.spawn();
        check(server.client(), &acknowledged);
    }
    let before = snapshot(server.client());
    until("what was left is compacted", || server.client().metric("braid_compactions_total") >= 1.0);
    assert_eq!(snapshot(server.client()), before);
    assert_eq!(server.client().metric("braid_compaction_failures_total"), 0.0);
}

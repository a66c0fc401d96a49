//! `kill -9` in the middle of a replay: what was acknowledged is there, once, and a second replay completes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::http::{Client, NDJSON};
use crate::read::{all_events, by_id};
use crate::server::{End, Server, until};

const NS: &str = "crash";
const PATH: &str = "/v1/crash/events";
const KEYS: [&str; 2] = ["hot", "warm"];
const BATCHES: usize = 300;
const BATCH: usize = 100;
const CONNECTIONS: usize = 4;
const ROUNDS: usize = 3;

/// Event `i` of all; two keys, times over five hours, so that a batch goes to many partitions.
fn event(i: usize) -> Value {
    let ts = 1_700_000_000_000_i64 + (i as i64 * 7_919) % 18_000_000;
    json!({"key": KEYS[i % 2], "id": format!("e{i}"), "ts": ts, "fields": {"n": i, "half": i as f64 / 2.0}, "tags": {"part": format!("p{}", i % 5)}})
}

fn batch(number: usize) -> Vec<u8> {
    (number * BATCH..(number + 1) * BATCH).flat_map(|i| format!("{}\n", event(i)).into_bytes()).collect()
}

/// Sends the batches that are not acknowledged yet, until all are or the server is gone. Never sends one again.
fn replay(client: &Client, acknowledged: &Mutex<BTreeSet<usize>>) {
    let gone = AtomicBool::new(false);
    let todo: Vec<usize> = (0..BATCHES).filter(|number| !acknowledged.lock().expect("no holder panics").contains(number)).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                while let Some(number) = todo.get(next.fetch_add(1, Ordering::Relaxed))
                    && !gone.load(Ordering::Relaxed)
                {
                    match client.try_post(PATH, NDJSON, batch(*number)) {
                        Ok(answer) if answer.status == 200 => drop(acknowledged.lock().expect("no holder panics").insert(*number)),
                        Ok(answer) => assert_eq!(answer.status, 503, "{answer}"),
                        Err(_) => gone.store(true, Ordering::Relaxed),
                    }
                }
            });
        }
    });
}

/// Everything that is stored, by id; each event must be exactly what was sent.
fn stored(client: &Client) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for key in KEYS {
        let (events, _) = all_events(client, NS, &[("key", key)]);
        for (id, event_stored) in by_id(&events) {
            let i: usize = id[1..].parse().expect("e and a number");
            let sent = event(i);
            for member in ["key", "fields", "tags"] {
                assert_eq!(event_stored[member], sent[member], "{id}");
            }
            all.insert(id, event_stored.clone());
        }
    }
    all
}

#[test]
fn after_kill_9_in_a_replay_every_acknowledged_event_is_there_and_none_twice() {
    let mut server = Server::start();
    let acknowledged = Mutex::new(BTreeSet::new());
    for round in 1..=ROUNDS {
        let client = server.client().clone();
        std::thread::scope(|scope| {
            let replay = scope.spawn(|| replay(&client, &acknowledged));
            let enough = round * BATCHES / (ROUNDS + 1);
            until("part of the replay is acknowledged", || acknowledged.lock().expect("no holder panics").len() >= enough);
            server.stop(End::Kill);
            replay.join().expect("the replay ends when the server is gone");
        });
        server.spawn();
        let stored = stored(server.client());
        let acknowledged = acknowledged.lock().expect("no holder panics");
        assert!(acknowledged.len() < BATCHES, "the replay was over before the kill");
        for i in acknowledged.iter().flat_map(|number| number * BATCH..(number + 1) * BATCH) {
            assert!(stored.contains_key(&format!("e{i}")), "round {round}: event {i} was acknowledged and is gone");
        }
    }
    let everything = Mutex::new(BTreeSet::new());
    replay(server.client(), &everything);
    assert_eq!(everything.lock().expect("no holder panics").len(), BATCHES, "a replay on a quiet server is taken whole");
    assert_eq!(stored(server.client()).len(), BATCHES * BATCH);
}

#[test]
fn a_request_that_is_under_way_at_sigterm_is_answered_and_kept() {
    let mut server = Server::start();
    let acknowledged = Mutex::new(BTreeSet::new());
    let client = server.client().clone();
    std::thread::scope(|scope| {
        let replay = scope.spawn(|| replay(&client, &acknowledged));
        until("part of the replay is acknowledged", || acknowledged.lock().expect("no holder panics").len() >= BATCHES / 4);
        server.stop(End::Drain);
        replay.join().expect("the replay ends when the server is gone");
    });
    server.spawn();
    let stored = stored(server.client());
    for i in acknowledged.lock().expect("no holder panics").iter().flat_map(|number| number * BATCH..(number + 1) * BATCH) {
        assert!(stored.contains_key(&format!("e{i}")), "event {i} was acknowledged and is gone");
    }
}

#[test]
fn a_second_process_on_the_same_data_directory_exits_at_once_and_names_it() {
    let server = Server::start();
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_braid"))
        .args(["--listen", "127.0.0.1:0", "--data-dir"])
        .arg(server.data_dir())
        .output()
        .expect("the binary starts");
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr).into_owned() + &String::from_utf8_lossy(&second.stdout);
    assert!(said.contains(&*server.data_dir().to_string_lossy()), "{said}");
}

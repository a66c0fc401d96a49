//! Several nodes over one catalog, each of which reaches the engine by a door of its own: people and controllers that change
//! layouts at once, a leader that is stopped in the middle of a change, and a node that is cut off from the catalog.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::clock::{nanos, now_ms};
use crate::dynamodb::Engine;
use crate::dynamodb::engine::{Call, Fault};
use crate::http::{Answer, Client, JSON, NDJSON, query};
use crate::ledger::{KEY, Ledger};
use crate::load::clean;
use crate::server::{PATIENCE, Server, Stop, until};

/// Every layout that was ever published on the key's timeline, as a node lists them; what depends on when it is asked is left out.
fn history(client: &Client, ns: &str) -> Vec<Value> {
    let lasting = |mut layout: Value| {
        if layout["state"] != "withdrawn" {
            layout["state"] = Value::Null;
        }
        layout
    };
    history_now(client, ns).into_iter().map(lasting).collect()
}

/// The same with the states that the layouts have now.
fn history_now(client: &Client, ns: &str) -> Vec<Value> {
    let answer = client.read(&query(&format!("/v1/{ns}/layout"), &[("key", KEY)]));
    answer["layouts"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
}

/// One history: the same on every node, each version once, and later versions begin later.
fn one_history(nodes: &[&Client], ns: &str) -> Vec<Value> {
    let first = history(nodes[0], ns);
    for node in nodes {
        assert_eq!(history(node, ns), first, "two nodes list different histories");
    }
    let standing = first.iter().filter(|layout| layout["state"] != "withdrawn");
    let places: Vec<_> = standing.map(|layout| (layout["version"].as_u64(), layout["from"].as_str().map(nanos))).collect();
    assert!(places.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1), "out of order: {first:?}");
    first
}

/// Asks for another N by the revision that was seen, or whatever stands.
fn change(client: &Client, ns: &str, shards: u32, expected: Option<u64>, reason: &str) -> Answer {
    let mut body = json!({"key": KEY, "shards": shards, "reason": reason});
    if let Some(expected) = expected {
        body["expected_revision"] = expected.into();
    }
    client.post(&format!("/v1/{ns}/layout"), JSON, body.to_string())
}

fn revision(client: &Client, ns: &str) -> u64 {
    client.read(&query(&format!("/v1/{ns}/layout"), &[("key", KEY)]))["revision"].as_u64().expect("a number")
}

#[test]
fn two_operators_at_once_make_one_history() {
    const NS: &str = "operators";
    const ROUNDS: u32 = 6;
    let engine = Engine::start();
    let tiers = engine.tiers();
    let nodes = tiers.query.each_ref().map(Server::client);
    nodes[0].put(&format!("/v1/namespaces/{NS}"), &json!({"shards": 2})).expect(201);
    let load = tiers.verified_run(&["--namespace", NS, "--rate", "500", "--duration", "60s", "--reads", "5"]);
    until("events are stored", || tiers.ingest[0].client().metric("braid_events_stored_total") > 100.0);
    let (mut acknowledged, mut lost_races) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        // A layout that does not hold yet is in the way of the next; the horizon follows the events of the load.
        until("the last change holds", || history_now(nodes[0], NS).last().is_some_and(|layout| layout["state"] == "active"));
        // By turns both insist on the revision they saw, or on nothing.
        let expected = (round % 2 == 0).then(|| revision(nodes[0], NS));
        let ready = Barrier::new(2);
        let answers = std::thread::scope(|scope| {
            let operator = |at: usize| {
                ready.wait();
                change(nodes[at], NS, 1 + round % 5 + 5 * at as u32, expected, &format!("{round} by {at}"))
            };
            let other = scope.spawn(move || operator(1));
            [operator(0), other.join().expect("it is answered")]
        });
        let won: Vec<Value> = answers.iter().filter(|answer| answer.status == 201).map(Answer::json).collect();
        // Without a revision both may have their way, one after the other, if the horizon moves in between.
        let most = if expected.is_some() { 1 } else { 2 };
        assert!((1..=most).contains(&won.len()), "round {round}: {} {}", answers[0], answers[1]);
        for answer in answers.iter().filter(|answer| answer.status != 201) {
            let code = answer.json()["code"].clone();
            assert!(answer.status == 409 && (code == "revision_conflict" || code == "layout_conflict"), "round {round}: {answer}");
            lost_races += 1;
        }
        acknowledged.extend(won);
    }
    let listed = one_history(&nodes, NS);
    let reasons = |layouts: &[Value]| {
        let mut reasons: Vec<String> = layouts.iter().map(|layout| layout["published"]["reason"].to_string()).collect();
        reasons.sort();
        reasons
    };
    assert_eq!(reasons(&listed[1..]), reasons(&acknowledged), "what was acknowledged is what stands");
    assert!(lost_races >= ROUNDS / 2, "operators did not meet: {lost_races}");
    let said = clean(load.join().expect("it does not panic"));
    assert!(said["verify"]["acknowledged"].as_u64() > Some(5_000), "{said}");
}

/// The document that a call writes, and its text.
fn document(call: &Call) -> Option<(String, String)> {
    let binary = |name: &str| STANDARD.decode(call.body["Item"][name]["B"].as_str()?).ok();
    let name = document_name(&call.body["Item"])?;
    Some((name, String::from_utf8(binary("d")?).ok()?))
}

/// The name of the document whose key is among these attributes.
fn document_name(attributes: &Value) -> Option<String> {
    let pk = STANDARD.decode(attributes["pk"]["B"].as_str()?).ok()?;
    String::from_utf8(pk.strip_prefix(b"f")?.to_vec()).ok()
}

/// A leader decides to grow a key and is stopped with its swap of the root on the way. Another takes the lease and grows
/// the key itself. The swap arrives late, and the first leader wakes: it must not have its way, nor make a history of its own.
#[test]
fn a_leader_that_is_stopped_in_the_middle_of_a_change_and_wakes_makes_no_fork() {
    const NS: &str = "leaders";
    let engine = Engine::start();
    let doors = [engine.another_door(), engine];
    let nodes = doors.each_ref().map(|door| door.node(&["--heat-cool-down", "2s"]));
    let clients = nodes.each_ref().map(Server::client);
    clients[0].put(&format!("/v1/namespaces/{NS}"), &json!({"shards": 1, "max_shards": 64, "target_events": 20})).expect(201);
    let (release, released) = watch::channel(false);
    let (say, said) = mpsc::channel();
    let first = Arc::new(AtomicBool::new(true));
    for (at, door) in doors.iter().enumerate() {
        let (say, released, first) = (say.clone(), released.clone(), first.clone());
        let change = Mutex::new(None::<String>);
        door.engine.faults(move |call| {
            let Some((name, text)) = document(call) else { return Fault::None };
            let mut change = change.lock().expect("no holder panics");
            if name.starts_with("change/") && text.contains("\"automatic\":true") && first.swap(false, Ordering::Relaxed) {
                *change = Some(name);
                return Fault::None;
            }
            match &*change {
                Some(change) if name == "root" && text.contains(&**change) && !*released.borrow() => {
                    let _ = say.send(at);
                    Fault::Hold(released.clone())
                }
                _ => Fault::None,
            }
        });
    }
    let (ledger, stop) = (Ledger::new(NS), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let guard = Stop(&stop);
        let (ledger, stop) = (&ledger, &stop);
        let writers = clients.map(|client| scope.spawn(move || ledger.write(client, stop)));
        let leader = said.recv_timeout(PATIENCE).expect("a leader grows the key");
        let (sleeper, heir) = (&nodes[leader], clients[1 - leader]);
        sleeper.signal(Signal::STOP);
        until("the other leads and grew the key", || history(heir, NS).iter().any(|layout| layout["published"]["automatic"] == true));
        let by_heir = history(heir, NS);
        release.send_replace(true);
        sleeper.signal(Signal::CONT);
        let stored = |client: &Client| client.metric("braid_events_stored_total");
        let before = stored(sleeper.client());
        until("the first leader writes again", || stored(sleeper.client()) > before + 500.0);
        for client in clients {
            assert_eq!(history(client, NS)[..by_heir.len()], by_heir[..], "what stood before it woke stands");
        }
        drop(guard);
        writers.into_iter().for_each(|writer| writer.join().expect("the writer is content"));
        until("the key has cooled, by whoever leads", || history(heir, NS).last().is_some_and(|layout| layout["shards"] == 1));
    });
    let listed = one_history(&clients, NS);
    let revisions: Vec<_> = listed[1..].iter().map(|layout| layout["version"].as_u64()).collect();
    assert!(listed[1..].iter().all(|layout| layout["published"]["automatic"] == true), "{listed:?}");
    assert!(revisions.len() >= 2, "up and down: {listed:?}");
    clients.iter().for_each(|client| ledger.check(client));
}

/// What is asked of the catalog; blocks and days still pass.
fn of_catalog(call: &Call) -> Fault {
    let names = document_name(&call.body["Item"]).or_else(|| document_name(&call.body["Key"]));
    if names.is_some() { Fault::Reset } else { Fault::None }
}

/// One event as its client sends it once.
fn one_event(client: &Client, ns: &str, id: &str, ts: i64) -> Answer {
    let body = json!({"key": KEY, "id": id, "ts": ts, "value": 1}).to_string();
    client.send(Method::POST, &format!("/v1/{ns}/events"), &[("content-type", NDJSON)], body.into_bytes()).expect("it is answered")
}

/// The node cut off writes as long as its horizon and its stamps reach, and no longer; N changes elsewhere meanwhile. When it is back, every event
/// that either node acknowledged lies where the catalog says.
#[test]
fn a_node_cut_off_from_the_catalog_writes_for_its_lease_then_refuses_then_resumes_and_misplaces_nothing() {
    const NS: &str = "cut";
    let far = Engine::start();
    let near = far.another_door();
    let [cut_off, well] = [&near, &far].map(|door| door.node(&["--heat", "off"]));
    well.client().put(&format!("/v1/namespaces/{NS}"), &json!({"shards": 4})).expect(201);
    let (ledger, stop) = (Ledger::new(NS), AtomicBool::new(false));
    // One event of now, sent once through the node that is cut off.
    let send = |id: String, ts: i64| {
        let answer = one_event(cut_off.client(), NS, &id, ts);
        if answer.status == 200 {
            ledger.note(id, ts);
        }
        answer
    };
    until("it takes an event", || send(format!("before-{}", ledger.len()), now_ms()).status == 200);
    std::thread::scope(|scope| {
        let guard = Stop(&stop);
        near.engine.faults(of_catalog);
        change(well.client(), NS, 7, None, "while the other node is cut off").expect(201);
        send("lease".into(), now_ms()).expect(200);
        let mut refused = None;
        until("its lease is used up", || {
            let answer = send(format!("lease-{}", ledger.len()), now_ms());
            refused = (answer.status != 200).then_some(answer);
            refused.is_some()
        });
        let refused = refused.expect("it was");
        assert!(refused.header("retry-after").is_some(), "{refused}");
        refused.expect_problem(503, "layout_stale");
        let beyond = [("key", KEY), ("from", "now-1h"), ("to", "now+1h"), ("fn", "count")];
        cut_off.client().get(&query(&format!("/v1/{NS}/aggregate"), &beyond)).expect_problem(503, "layout_stale");
        let writer = scope.spawn(|| ledger.write(well.client(), &stop));
        until("the change holds where there is a catalog", || history_now(well.client(), NS)[1]["state"] == "active");
        ledger.wait_for_more(1_000);
        send("still".into(), now_ms()).expect_problem(503, "layout_stale");
        near.engine.heal();
        until("it takes events of now again", || send(format!("back-{}", ledger.len()), now_ms()).status == 200);
        drop(guard);
        writer.join().expect("the writer is content");
    });
    for client in [cut_off.client(), well.client()] {
        ledger.check(client);
        ledger.check_places(client, |id| !id.starts_with('w'));
    }
}

//! Separate tiers over one cluster that speaks CQL. Skipped, and said so, where none is named.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;
use serde_json::json;

use crate::balancer::Balancer;
use crate::clock::now_ms;
use crate::cluster::Cluster;
use crate::flights::{self, flights};
use crate::gate::Gate;
use crate::http::{Client, JSON, NDJSON, query};
use crate::ledger::Ledger;
use crate::load::clean;
use crate::server::{End, Stop, until};
use crate::tiers::Tiers;

#[test]
fn two_ingest_and_two_query_nodes_give_the_truth_of_the_flights() {
    let (Some(cluster), Some(flights)) = (Cluster::named(), flights()) else { return };
    let Tiers { ingest, query, .. } = cluster.tiers();
    // A year of departures in buckets of a day: with those of an hour most blocks would hold one or two.
    query[0].client().put(&format!("/v1/namespaces/{}", flights::NS), &json!({"bucket": "1d"})).expect(201);
    flights::replay(&[ingest[0].client(), ingest[1].client()], flights);
    query.iter().for_each(|node| flights::check_truth(node.client(), &flights.truth));
}

#[test]
fn a_tier_has_its_own_routes_and_no_others() {
    let Some(cluster) = Cluster::named() else { return };
    let (ingest, query) = (cluster.start(&["ingest"], &[]), cluster.start(&["query"], &[]));
    ingest.client().post("/v1/own/events", JSON, r#"{"key":"k","id":"a","value":1}"#).expect(200);
    query.client().get("/v1/own/events/a?key=k").expect(200);
    ingest.client().get("/v1/own/keys").expect_problem(404, "not_found");
    let refused = query.client().post("/write?db=own", "text/plain", "k value=1");
    refused.expect_problem(404, "not_found");
}

#[test]
fn n_changes_under_two_writers_on_two_nodes_and_nothing_is_lost_or_doubled() {
    let Some(cluster) = Cluster::named() else { return };
    let tiers = cluster.tiers();
    let Tiers { ingest, query, .. } = &tiers;
    let run = tiers.verified_run(&["--namespace", "verified", "--rate", "1k", "--duration", "40s", "--duplicates", "1%", "--reads", "5"]);
    let (ledger, stop) = (&Ledger::new("changing"), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let guard = Stop(stop);
        let writers = ingest.each_ref().map(|node| scope.spawn(move || ledger.write(node.client(), stop)));
        ledger.wait_for_more(500);
        let readers = query.each_ref().map(|node| scope.spawn(move || ledger.read(node.client(), stop)));
        until("the run writes", || query[0].client().get("/v1/verified/layout").status == 200);
        for shards in [10, 3] {
            publish(query[0].client(), &["changing", "verified"], shards);
            ledger.wait_for_more(500);
        }
        assert!(!run.is_finished(), "N changed under the run");
        drop(guard);
        writers.into_iter().for_each(|writer| writer.join().expect("the writer is content"));
        readers.into_iter().for_each(|reader| assert!(reader.join().expect("the reader is content") > 0));
    });
    query.iter().for_each(|node| ledger.check(node.client()));
    clean(run.join().expect("it does not panic"));
}

/// Publishes a layout in each of these namespaces and waits until all of them hold.
pub(crate) fn publish(client: &Client, namespaces: &[&str], shards: u32) {
    let layout = json!({"key": "hot", "shards": shards}).to_string();
    let publish = |ns: &&str| client.deliver(&format!("/v1/{ns}/layout"), JSON, layout.as_bytes()).expect(201).json()["version"].clone();
    let made: Vec<_> = namespaces.iter().map(publish).collect();
    for (ns, version) in namespaces.iter().zip(made) {
        until("the layout holds", || {
            // Refused for a moment where a node of the cluster has just gone.
            let answer = client.get(&format!("/v1/{ns}/layout?key=hot"));
            let layouts = if answer.status == 503 { json!([]) } else { answer.expect(200).json()["layouts"].clone() };
            layouts.as_array().is_some_and(|all| all.iter().any(|one| one["version"] == version && one["state"] == "active"))
        });
    }
}

/// While it waits for the store its process is stopped; when it goes on, what it was about to read is compacted and deleted.
#[test]
fn a_reader_that_is_paused_past_its_deadline_gives_an_error_and_never_a_hole() {
    // Several queries' worth.
    const BLOCKS: i64 = 60;
    // Incompressible.
    const NOTE_BYTES: usize = 9_000;
    let Some(cluster) = Cluster::named() else { return };
    let gate = Gate::before(cluster.node());
    let reader = cluster.start_at(gate.address(), &["query"], &["--grace", "2s"]);
    reader.client().put("/v1/namespaces/paused", &json!({"shards": 1, "bucket": "1d"})).expect(201);
    let writer = cluster.start(&["ingest"], &["--grace", "2s", "--engine-compaction", "false"]);
    let start = now_ms() - 60_000;
    let note = || STANDARD.encode((0..NOTE_BYTES).map(|_| rand::random()).collect::<Vec<u8>>());
    for number in 0..BLOCKS {
        let event = json!({"key": "k", "id": format!("{number}"), "ts": start + number, "fields": {"a": note(), "b": note()}});
        writer.client().post("/v1/paused/events", JSON, event.to_string()).expect(200);
    }
    let path = query("/v1/paused/aggregate", &[("key", "k"), ("from", &(start - 1_000).to_string()), ("fn", "count")]);
    assert_eq!(reader.client().read(&path)["rows"][0]["count"], BLOCKS);
    std::thread::scope(|scope| {
        // Behind a few blocks.
        gate.shut_after(5 * NOTE_BYTES);
        let read = scope.spawn(|| reader.client().get(&path));
        until("the store is read", || gate.is_shut());
        reader.signal(Signal::STOP);
        let compactor = cluster.start(&["ingest"], &["--grace", "2s", "--engine-compaction", "true"]);
        until("what is read is deleted", || compactor.client().metric("braid_store_operation_seconds_count{op=\"delete\"}") > 0.0);
        gate.open();
        reader.signal(Signal::CONT);
        let refused = read.join().expect("it is answered").expect(503).json();
        // Where the pause took longer than the store is given for a page, it is the store's error.
        assert!([json!("read_deadline"), json!("store_unavailable")].contains(&refused["code"]), "{refused}");
    });
    assert_eq!(reader.client().read(&path)["rows"][0]["count"], BLOCKS);
}

#[test]
fn a_rolling_restart_behind_a_plain_tcp_balancer_fails_no_request() {
    let Some(cluster) = Cluster::named() else { return };
    let mut nodes = [(); 2].map(|()| cluster.start(&[], &["--drain-notice", "1s"]));
    let balancer = Balancer::over(nodes.iter().map(|node| node.url().replace("http://", "")).collect());
    let (answered, stop) = (&AtomicUsize::new(0), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let guard = Stop(stop);
        let clients: Vec<_> = (0..4)
            .map(|number| {
                scope.spawn({
                    let client = Client::new(&balancer.url());
                    move || request_without_end(&client, number, answered, stop)
                })
            })
            .collect();
        for node in &mut nodes {
            let wanted = answered.load(Ordering::Relaxed) + 100;
            until("requests are answered", || answered.load(Ordering::Relaxed) >= wanted);
            node.restart(End::Drain);
        }
        drop(guard);
        clients.into_iter().for_each(|client| client.join().expect("every request was answered"));
    });
}

/// Writes and reads back, each request sent once.
fn request_without_end(client: &Client, number: usize, answered: &AtomicUsize, stop: &AtomicBool) {
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        let event = json!({"key": "rolling", "id": format!("{number}-{n}"), "value": n});
        client.post("/v1/rolling/events", NDJSON, event.to_string()).expect(200);
        client.get(&format!("/v1/rolling/events/{number}-{n}?key=rolling")).expect(200);
        answered.fetch_add(2, Ordering::Relaxed);
    }
}

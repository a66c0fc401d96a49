//! Nodes of the cluster die and hang under verified load: three nodes, three copies.
//!
//! `BRAID_CQL_CLUSTER` names the directory of a cluster that `scripts/cassandra` started with three
//! nodes; without it these tests say that they are skipped. One at a time: they break what they share.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::clock::now_ms;
use crate::cluster::Cluster;
use crate::cql::publish;
use crate::http::JSON;
use crate::ledger::Ledger;
use crate::load::clean;
use crate::server::{Stop, until};
use crate::tiers::Tiers;

/// How long a node hangs: longer than every time-out on the way.
const PAUSE: Duration = Duration::from_secs(20);

/// The nodes of the engine, brought back when this is dropped.
struct Engine {
    dir: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Engine {
    fn named() -> Option<Engine> {
        static ALONE: Mutex<()> = Mutex::new(());
        let Some(dir) = std::env::var_os("BRAID_CQL_CLUSTER") else {
            eprintln!("skipped: BRAID_CQL_CLUSTER names no cluster of three nodes");
            return None;
        };
        let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Some(Engine { dir: dir.into(), _alone: alone })
    }

    fn nodes(&self) -> String {
        let port = std::fs::read_to_string(self.dir.join("node1/port")).expect("scripts/cassandra started it");
        (1..=3).map(|node| format!("127.0.0.{node}:{}", port.trim())).collect::<Vec<_>>().join(",")
    }

    fn command(&self, verb: &str, node: u32) -> bool {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/cassandra");
        Command::new(script).arg(verb).arg(&self.dir).arg(node.to_string()).status().expect("the script runs").success()
    }

    fn tell(&self, verb: &str, node: u32) {
        assert!(self.command(verb, node), "{verb} of node {node}");
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        for node in 1..=3 {
            let _ = self.command("resume", node);
            let _ = self.command("node", node);
        }
    }
}

#[test]
fn a_node_that_dies_and_one_that_hangs_cost_no_event_and_double_none() {
    let Some(engine) = Engine::named() else { return };
    let cluster = Cluster::on(&engine.nodes());
    let tiers = cluster.tiers();
    let Tiers { ingest, query, .. } = &tiers;
    let (ledger, stop) = (&Ledger::new("faults"), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let guard = Stop(stop);
        let writers = ingest.each_ref().map(|node| scope.spawn(move || ledger.write(node.client(), stop)));
        ledger.wait_for_more(500);
        let readers = query.each_ref().map(|node| scope.spawn(move || ledger.read(node.client(), stop)));

        let killed = tiers.verified_run(&["--namespace", "killed", "--rate", "1k", "--duration", "20s", "--duplicates", "1%"]);
        until("the run writes", || query[0].client().get("/v1/killed/layout").status == 200);
        engine.tell("kill", 3);
        ledger.wait_for_more(500);
        publish(query[0].client(), &["faults"], 10);
        ledger.wait_for_more(500);
        engine.tell("node", 3);
        ledger.wait_for_more(500);
        clean(killed.join().expect("it does not panic"));

        let paused_run = tiers.verified_run(&["--namespace", "paused", "--rate", "1k", "--duration", "30s", "--duplicates", "1%"]);
        until("the run writes", || query[0].client().get("/v1/paused/layout").status == 200);
        engine.tell("pause", 2);
        let paused = Instant::now();
        ledger.wait_for_more(500);
        publish(query[1].client(), &["faults"], 3);
        until("the pause is over", || paused.elapsed() >= PAUSE);
        engine.tell("resume", 2);
        ledger.wait_for_more(500);
        clean(paused_run.join().expect("it does not panic"));

        drop(guard);
        writers.into_iter().for_each(|writer| writer.join().expect("the writer is content"));
        readers.into_iter().for_each(|reader| assert!(reader.join().expect("the reader is content") > 0));
    });
    eprintln!("{} events acknowledged", ledger.len());
    query.iter().for_each(|node| ledger.check(node.client()));
}

#[test]
fn without_a_majority_a_node_says_what_is_missing_answers_nothing_wrong_and_comes_back() {
    let Some(engine) = Engine::named() else { return };
    let cluster = Cluster::on(&engine.nodes());
    let node = cluster.start(&[], &[]);
    let client = node.client();
    let event = |id: &str| format!(r#"{{"key":"k","id":"{id}","ts":{},"value":1}}"#, now_ms());
    client.post("/v1/majority/events", JSON, event("before")).expect(200);

    [2, 3].into_iter().for_each(|node| engine.tell("pause", node));
    until("the node says that it is not ready", || client.get("/readyz").status == 503);
    let missing = String::from_utf8(client.get("/readyz").expect(503).body).expect("it is text");
    assert!(missing.contains("catalog: last read"), "{missing}");
    client.get("/v1/majority/events?key=k&from=now-1h").expect_problem(503, "layout_stale");
    let refused = client.post("/v1/majority/events", JSON, event("during")).expect(503).json();
    let code = refused["code"].as_str().expect("a code");
    assert!(["layout_stale", "outcome_unknown", "store_unavailable"].contains(&code), "{refused}");

    [2, 3].into_iter().for_each(|node| engine.tell("resume", node));
    until("the node is ready again", || client.get("/readyz").status == 200);
    client.deliver("/v1/majority/events", JSON, event("after").as_bytes()).expect(200);
    let events = client.read("/v1/majority/events?key=k&from=now-1h")["events"].clone();
    let ids: Vec<_> = events.as_array().expect("events").iter().map(|event| event["id"].clone()).collect();
    assert!(ids.contains(&"before".into()) && ids.contains(&"after".into()), "{ids:?}");
}

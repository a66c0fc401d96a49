//! The load generator against the real binary: what it verifies must hold, through `kill -9` too.

use serde_json::{Value, json};

use crate::server::{End, Server, until};

/// Runs `braid-load` to its end; its exit code and what it printed.
pub(crate) fn braid_load(words: &[&str]) -> (u8, Value) {
    let mut out = Vec::new();
    let code = braid_load::main(["braid-load"].iter().chain(words).map(Into::into), &mut out);
    (code, serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&out))))
}

/// A verified run against one server.
pub(crate) fn verified(server: &Server, more: &[&str]) -> (u8, Value) {
    let words = ["run", "--url", &server.url(), "--json", "--verify", "--connections", "4", "--seed", "11"];
    braid_load(&[&words, more].concat())
}

/// What a run printed, which must be that everything was stored, and is there once and as it was sent.
#[track_caller]
pub(crate) fn clean((code, said): (u8, Value)) -> Value {
    for fault in ["lost", "invented", "doubled", "altered", "disordered"] {
        assert_eq!(said["verify"][fault], json!({"count": 0, "named": []}), "{fault}: {said}");
    }
    assert_eq!(code, 0, "{said}");
    said
}

#[test]
fn after_kill_9_in_a_verified_run_nothing_is_lost_invented_or_doubled() {
    let mut server = Server::start();
    let running = {
        let url = server.url();
        std::thread::spawn(move || {
            let words = ["run", "--url", &url, "--json", "--verify", "--rate", "max", "--events", "300000"];
            let workload = ["--keys", "40", "--zipf", "1", "--duplicates", "2%", "--late", "5%:2h", "--seed", "11", "--retry-for", "120s"];
            braid_load(&[&words[..], &workload].concat())
        })
    };
    for _ in 0..2 {
        until("part of the run is committed", || server.client().metric("braid_commit_events_total") > 20_000.0);
        assert!(!running.is_finished(), "the run was over before the kill");
        server.restart(End::Kill);
    }
    let said = clean(running.join().expect("it does not panic"));
    assert!(said["retries"].as_u64() > Some(0), "the kill was noticed: {said}");
    assert_eq!(said["stored"], 300_000, "{said}");
}

#[test]
fn what_is_sent_in_any_format_is_found_as_it_was_sent() {
    let server = Server::start();
    for (namespace, more) in [
        ("ndjson", &["--format", "ndjson", "--encoding", "zstd"][..]),
        ("json", &["--format", "json", "--encoding", "gzip", "--event-bytes", "400"]),
        ("lines", &["--format", "line", "--keys", "7", "--event-bytes", "200"]),
        ("daily", &["--daily", "--late", "40%:3d"]),
        ("paced", &["--rate", "5k..20k/1s", "--reads", "20%", "--read", "dashboard"]),
    ] {
        let common = ["--namespace", namespace, "--duplicates", "3%", "--out-of-order", "10%"];
        let rate: &[&str] = if namespace == "paced" { &[] } else { &["--rate", "max", "--events", "20000"] };
        let said = clean(verified(&server, &[&common[..], rate, more].concat()));
        assert!(said["verify"]["found"].as_u64() > Some(10_000), "{namespace}: {said}");
    }
}

#[test]
fn reads_are_answered_beside_the_writes() {
    let server = Server::start();
    let more = ["--rate", "5k/1s", "--reads", "max", "--read", "dashboard", "--read-connections", "1"];
    let said = clean(verified(&server, &more));
    for kind in ["read:last", "read:range", "read:point"] {
        assert!(said["reads"][kind]["requests"].as_u64() > Some(0), "{kind}: {said}");
    }
}

#[test]
fn a_run_that_is_over_before_its_warm_up_is_no_result() {
    let server = Server::start();
    let (code, said) = verified(&server, &["--rate", "max", "--events", "100", "--warmup", "1h"]);
    assert_eq!((code, &said["verify"]["found"]), (69, &json!(100)), "{said}");
    assert!(said["failure"].as_str().is_some_and(|why| why.contains("nothing was measured")), "{said}");
}

#[test]
fn a_file_that_is_replayed_is_verified() {
    let server = Server::start();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("mixed.ndjson");
    let line = |n: usize| {
        let other = [json!(n), json!(n as f64), json!(n.is_multiple_of(2)), json!(format!("text {n}")), json!(u64::MAX)][n % 5].clone();
        let ts =
            if n.is_multiple_of(2) { json!(1_700_000_000_000_u64 + n as u64) } else { json!(format!("2023-11-14T23:13:20.{n:06}+01:00")) };
        // Every tenth event is sent twice, the second time with one field more.
        let again = json!({"key": "again", "id": format!("a{}", n / 10), "ts": 1, "fields": {format!("f{}", n % 2): n}});
        let event = json!({"key": format!("k{}", n % 7), "id": format!("e{n}"), "ts": ts, "fields": {"other": other}, "tags": {"t": "x"}});
        if n % 10 < 2 { format!("{again}\n") } else { format!("{event}\n") }
    };
    std::fs::write(&path, (0..3_000).map(line).collect::<String>()).expect("a file");
    let csv = dir.path().join("trips.csv");
    std::fs::write(&csv, "zone,id,at,price,paid,city\nA,1,2023-11-14T22:13:20Z,1.5,true,Ulm\nB,2,1700000000000,7,false,\"a,b\"\n")
        .expect("a file");
    for (file, more, distinct) in [
        (path, &["--gzip", "--batch", "100"][..], 2_700),
        (csv, &["--key-column", "zone", "--ts-column", "at", "--tags", "city", "--speed", "recorded"], 2),
    ] {
        let words = ["replay", file.to_str().expect("a path"), "--url", &server.url(), "--json", "--verify"];
        let said = clean(braid_load(&[&words, more].concat()));
        assert_eq!((&said["verify"]["acknowledged"], &said["verify"]["found"]), (&json!(distinct), &json!(distinct)), "{said}");
    }
}

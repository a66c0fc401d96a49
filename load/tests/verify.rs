//! `braid-load run --verify`, the real program, against doubles that lie in one way each: exit code 2,
//! and exactly the events named that were lied about. And against one that does not.

mod double;

use std::collections::BTreeSet;
use std::process::{Command, Output};

use double::{Double, Lie};
use serde_json::Value;

fn run(double: &Double, more: &[&str]) -> (i32, Value, Output) {
    let words = ["run", "--url", &double.url(), "--verify", "--rate", "max", "--connections", "2", "--batch", "500", "--json"];
    let output = Command::new(env!("CARGO_BIN_EXE_braid-load")).args(words).args(more).output().unwrap();
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code().unwrap(), json, output)
}

/// The events that a fault names, by id.
fn named(verify: &Value, fault: &str) -> BTreeSet<String> {
    verify[fault]["named"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

fn lied(double: &Double) -> BTreeSet<String> {
    double.state.lock().unwrap().lied.iter().cloned().collect()
}

const FAULTS: [&str; 5] = ["lost", "invented", "doubled", "altered", "disordered"];

/// A run against a liar ends with code 2, `fault` names what it lied about, and nothing else is wrong.
fn is_caught(lie: Lie, fault: &str, lies: usize) {
    let double = Double::start(lie);
    let (code, json, output) = run(&double, &["--events", "30000"]);
    let verify = &json["verify"];
    assert_eq!(code, 2, "{output:?}");
    for other in FAULTS {
        let count = if other == fault { lies } else { 0 };
        assert_eq!(verify[other]["count"], count, "{other}: {verify}");
    }
    assert_eq!(named(verify, fault), lied(&double));
    assert_eq!(lied(&double).len(), lies);
}

#[test]
fn one_acknowledged_event_in_ten_thousand_that_is_not_kept_is_found_and_named() {
    is_caught(Lie::Lose(10_000), "lost", 3);
}

#[test]
fn one_event_that_stands_twice_is_found_and_named() {
    is_caught(Lie::Double(25_000), "doubled", 1);
}

#[test]
fn one_event_that_nobody_sent_is_found_and_named() {
    is_caught(Lie::Invent, "invented", 1);
}

#[test]
fn one_event_with_other_content_is_found_and_named() {
    is_caught(Lie::Alter(29_000), "altered", 1);
}

#[test]
fn a_server_that_is_right_passes_whatever_the_workload() {
    for more in [
        &["--keys", "50", "--zipf", "1.1", "--duplicates", "5%", "--late", "10%:1h", "--out-of-order", "20%"][..],
        &["--daily", "--late", "50%:3d"],
        &["--keys", "9", "--hot-at", "1ms", "--event-bytes", "300", "--spacing", "7us"],
    ] {
        let double = Double::start(Lie::None);
        let (code, json, output) = run(&double, &[&["--events", "20000"], more].concat());
        assert_eq!(code, 0, "{more:?}: {output:?}");
        let kept: usize = double.state.lock().unwrap().kept.values().map(|events| events.len()).sum();
        assert_eq!((&json["verify"]["found"], &json["verify"]["acknowledged"]), (&kept.into(), &kept.into()), "{more:?}");
        assert!(kept > 18_000, "{more:?}: {kept}");
    }
}

#[test]
fn the_same_seed_sends_the_same_events_over_any_number_of_connections() {
    let sent = |seed: &str, connections: &str| {
        let double = Double::start(Lie::None);
        let workload =
            ["--keys", "20", "--zipf", "1", "--duplicates", "3%", "--late", "5%", "--start", "1700000000000", "--spacing", "3ms"];
        let load = ["--events", "5000", "--seed", seed, "--connections", connections, "--batch", "77"];
        let words = ["run", "--url", &double.url(), "--rate", "max"];
        let output = Command::new(env!("CARGO_BIN_EXE_braid-load")).args(words).args(workload).args(load).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        std::mem::take(&mut double.state.lock().unwrap().kept)
    };
    assert_eq!(sent("7", "1"), sent("7", "8"));
    assert_ne!(sent("7", "1").keys().len(), 0);
    assert_ne!(sent("7", "1"), sent("8", "1"));
}

#[test]
fn a_server_that_asks_to_wait_is_obeyed_and_counted_and_loses_nothing() {
    let double = Double::start(Lie::Busy(3));
    let (code, json, output) = run(&double, &["--events", "5000"]);
    assert_eq!(code, 0, "{output:?}");
    assert_eq!((&json["retry_after"], &json["retries"]), (&3.into(), &3.into()));
}

#[test]
fn a_key_that_already_holds_events_of_the_time_is_refused_before_anything_is_sent() {
    let double = Double::start(Lie::None);
    let more = ["--events", "1000", "--start", "1700000000000", "--spacing", "1ms"];
    assert_eq!(run(&double, &more).0, 0);
    let words = ["run", "--url", &double.url(), "--verify", "--rate", "max"];
    let output = Command::new(env!("CARGO_BIN_EXE_braid-load")).args(words).args(more).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("already holds events"), "{output:?}");
    assert_eq!(double.state.lock().unwrap().acknowledged, 1_000);
}

/// A file of events in a directory of its own.
fn file(lines: usize) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file.ndjson");
    let line = |n: usize| {
        format!("{{\"key\":\"k{}\",\"id\":\"e{n}\",\"ts\":{},\"fields\":{{\"qty\":{n}}},\"tags\":{{}}}}\n", n % 3, 1_700_000_000_000 + n)
    };
    std::fs::write(&path, (0..lines).map(line).collect::<String>()).unwrap();
    (dir, path)
}

fn replay(double: &Double, path: &std::path::Path, more: &[&str]) -> Output {
    let words = ["replay", path.to_str().unwrap(), "--url", &double.url(), "--verify", "--json", "--batch", "100"];
    Command::new(env!("CARGO_BIN_EXE_braid-load")).args(words).args(more).output().unwrap()
}

#[test]
fn a_replayed_file_is_verified_and_what_is_lost_of_it_is_named() {
    let (_dir, path) = file(2_500);
    for (lie, fault) in [(Lie::Lose(1_000), "lost"), (Lie::Double(1_000), "doubled"), (Lie::Alter(1_000), "altered")] {
        let double = Double::start(lie);
        let output = replay(&double, &path, &[]);
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((output.status.code(), &json["verify"][fault]["count"]), (Some(2), &2.into()), "{fault}: {json}");
        assert_eq!(named(&json["verify"], fault), lied(&double));
    }
    let full = Double::start(Lie::None);
    let output = replay(&full, &path, &["--verify-mib", "0"]);
    assert_eq!((output.status.code(), full.state.lock().unwrap().acknowledged), (Some(69), 0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--verify-mib makes more room"), "{output:?}");
    let right = Double::start(Lie::None);
    assert_eq!(replay(&right, &path, &["--speed", "100x"]).status.code(), Some(0));
    assert_eq!(replay(&right, &path, &[]).status.code(), Some(64), "the namespace is no longer empty");
}

#[test]
fn a_replayed_line_without_an_id_of_its_own_is_named_and_not_sent() {
    let (_dir, path) = file(150);
    let text = std::fs::read_to_string(&path).unwrap().replace("\"id\":\"e120\",", "");
    std::fs::write(&path, text).unwrap();
    let double = Double::start(Lie::None);
    let output = replay(&double, &path, &["--connections", "1"]);
    assert_eq!((output.status.code(), double.state.lock().unwrap().acknowledged), (Some(69), 100), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 121 has no id"), "{output:?}");
}

//! A year of real departures goes into two cold groups while servers run; the truth stays the truth.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clock::now_ms;
use crate::flights::{Flights, NS, YEAR, check_truth, flights, replay};
use crate::http::{Client, JSON, query};
use crate::load::{clean, verified};
use crate::server::{End, Server, until};

/// From here on the second group holds.
const JULY: &str = "2013-07-01T00:00:00Z";
const DAY_MS: i64 = 86_400_000;

fn database(dir: &TempDir, name: &str, tables: u32) -> Value {
    json!({"name": name, "url": format!("file://{}/{name}", dir.path().display()), "tables": tables})
}

fn add_groups(client: &Client, dir: &TempDir) {
    let first = json!({"tables": 10, "databases": [database(dir, "db0", 4), database(dir, "db1", 3), database(dir, "db2", 3)]});
    let second = json!({"from": JULY, "tables": 4, "databases": [database(dir, "db3", 4)]});
    for group in [first, second] {
        client.post(&format!("/v1/{NS}/groups"), JSON, group.to_string()).expect(201);
    }
}

fn explained(client: &Client, key: &str) -> Value {
    client.read(&query(&format!("/v1/{NS}/explain"), &[("key", key), ("from", YEAR.0), ("to", YEAR.1)]))
}

fn keys(flights: &Flights) -> Vec<&String> {
    flights.truth["keys"].as_object().expect("an object").keys().collect()
}

#[test]
fn the_truth_holds_before_while_and_after_a_year_leaves_the_store_for_two_groups() {
    let Some(flights) = flights() else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut server = Server::start_with(&["--grace", "10s"]);
    let namespace = |archive_after: &Value| json!({"shards": 4, "bucket": "1d", "archive_after": archive_after});
    server.client().put(&format!("/v1/namespaces/{NS}"), &namespace(&Value::Null)).expect(201);
    add_groups(server.client(), &dir);
    replay(&[server.client()], flights);
    check_truth(server.client(), &flights.truth);
    assert!(keys(flights).iter().all(|key| explained(server.client(), key)["tables"] == json!([])));

    server.client().put(&format!("/v1/namespaces/{NS}"), &namespace(&json!("1d"))).expect(200);
    until("something is archived", || server.client().metric("braid_archive_generations_total") > 0.0);
    check_truth(server.client(), &flights.truth);
    // Every event again, while its bucket is hot, open, published or swept.
    replay(&[server.client()], flights);
    check_truth(server.client(), &flights.truth);
    let client = server.client().clone();
    until("everything has left the store", || {
        let swept = client.metric("braid_archive_swept_total") == client.metric("braid_archive_generations_total");
        swept && keys(flights).iter().all(|key| explained(&client, key)["partitions"] == json!([]))
    });
    check_truth(server.client(), &flights.truth);
    check_tables(&client, flights);
    assert_eq!(client.metric("braid_archive_failures_total"), 0.0);

    server.restart(End::Kill);
    check_truth(server.client(), &flights.truth);
    let (sound, audit) = server.down(|flags| braid(&[flags, &["verify"]].concat()));
    let all = format!("files with {} events", flights.truth["events"]);
    assert!(sound && audit.contains(" 0 blocks,") && audit.contains(&all), "{audit}");
    check_truth(server.client(), &flights.truth);
    check_elsewhere(&dir, flights);
}

#[test]
fn late_events_are_neither_lost_nor_doubled_while_their_days_leave_the_store_for_two_groups() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut server = Server::start_with(&["--grace", "4s"]);
    server.client().put("/v1/namespaces/late", &json!({"shards": 4, "bucket": "1d"})).expect(201);
    let first = json!({"tables": 3, "databases": [database(&dir, "a", 2), database(&dir, "b", 1)]});
    let second = json!({"from": "now-15d", "tables": 2, "databases": [database(&dir, "c", 2)]});
    for group in [first, second] {
        server.client().post("/v1/late/groups", JSON, group.to_string()).expect(201);
    }
    server.client().put("/v1/namespaces/late", &json!({"archive_after": "1h"})).expect(200);
    let late = ["--namespace", "late", "--late", "5%:30d", "--keys", "3", "--duplicates", "1%"];
    let words = [late, ["--rate", "2k", "--duration", "15s", "--reads", "20", "--read", "dashboard"]].concat();
    let generations = || server.client().metric("braid_archive_generations_total");
    let ended = std::thread::scope(|scope| {
        let running = scope.spawn(|| verified(&server, &words));
        until("some days are archived", || generations() > 60.0);
        assert!(!running.is_finished(), "the run was over before the archiver was at work");
        running.join().expect("it does not panic")
    });
    let said = clean(ended);
    assert!(generations() > 30.0 * 3.0, "some day was archived more than once");

    let client = server.client().clone();
    let yesterday = (now_ms() / DAY_MS * DAY_MS - DAY_MS).to_string();
    let keys = ["hot-0", "hot-1", "hot-2"];
    until("every day before yesterday is in tables alone", || {
        let days = |key| query("/v1/late/explain", &[("key", key), ("from", "now-40d"), ("to", &yesterday)]);
        keys.iter().all(|key| client.read(&days(key))["partitions"] == json!([]))
    });
    let (sound, audit) = server.down(|flags| braid(&[flags, &["verify"]].concat()));
    assert!(sound, "{audit}");
    let count =
        |key| client.read(&query("/v1/late/aggregate", &[("key", key), ("from", "now-40d"), ("fn", "count")]))["rows"][0]["count"].clone();
    let found: u64 = keys.iter().map(|key| count(key).as_u64().expect("a count")).sum();
    assert_eq!(said["verify"]["found"], found, "{said}");
}

#[test]
fn a_file_that_hangs_keeps_neither_writes_nor_other_reads_nor_the_process_from_ending() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut server = Server::start_with(&["--grace", "4s"]);
    server.client().put("/v1/namespaces/shop", &json!({"shards": 1, "bucket": "1d", "archive_after": "1h"})).expect(201);
    server.client().post("/v1/shop/groups", JSON, json!({"tables": 1, "databases": [database(&dir, "a", 1)]}).to_string()).expect(201);
    let event = |ts: &str| json!({"key": "k", "id": ts, "ts": ts, "value": 1}).to_string();
    server.client().post("/v1/shop/events", JSON, event("2026-01-01T12:00:00Z")).expect(200);
    let day = query("/v1/shop/explain", &[("key", "k"), ("from", "2026-01-01T00:00:00Z"), ("to", "2026-01-02T00:00:00Z")]);
    let client = server.client().clone();
    until("the day is in a table alone", || client.read(&day)["partitions"] == json!([]));
    let file = dir.path().join("a").join(client.read(&day)["tables"][0]["files"][0].as_str().expect("a path"));
    server.restart(End::Drain);
    // What reads a pipe that nobody writes to waits for ever.
    std::fs::remove_file(&file).expect("it is there");
    mknodat(CWD, &file, FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
    let mut reader = TcpStream::connect(server.url().trim_start_matches("http://")).expect("it listens");
    let read = day.replace("explain", "events");
    write!(reader, "GET {read} HTTP/1.1\r\nhost: braid\r\n\r\n").expect("it reads");
    until("the file is read", || client.metric("braid_queries_in_flight") == 1.0);
    client.post("/v1/shop/events", JSON, event("2026-11-01T12:00:00Z")).expect(200);
    let hot = client.read(&query("/v1/shop/events", &[("key", "k"), ("from", "2026-02-01T00:00:00Z")]));
    assert_eq!(hot["events"].as_array().map(Vec::len), Some(1), "{hot}");
    drop(reader);
    server.restart(End::Drain);
}

/// Tables of both groups answer, each from the database that holds it.
fn check_tables(client: &Client, flights: &Flights) {
    for key in keys(flights) {
        let explained = explained(client, key);
        let tables = explained["tables"].as_array().expect("a list");
        for table in tables {
            let group = if table["bucket"].as_str() < Some(JULY) { 1 } else { 2 };
            let number = table["table"].as_u64().expect("a number");
            let database = match (group, number) {
                (1, 0..=3) => "db0",
                (1, 4..=6) => "db1",
                (1, 7..=9) => "db2",
                (2, 0..=3) => "db3",
                other => panic!("{other:?}: {table}"),
            };
            assert_eq!((&table["group"], &table["database"]), (&group.into(), &database.into()), "{table}");
        }
        assert!(tables.len() > 300, "{key}: {}", tables.len());
    }
}

/// Runs the binary to its end; whether its exit code is 0, and what it printed.
fn braid(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_braid")).args(arguments).output().expect("the binary starts");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What DuckDB sums up of the files, where a Python that has it is named.
const SUMS: &str = "
import duckdb, json, sys
duckdb.sql('SET enable_progress_bar = false')  # of a slow query, on standard output
rows = duckdb.sql('''SELECT key, count(*), sum(fields_i64['dep_delay']), sum(fields_i64['distance']), count(DISTINCT id),
  min(ts)::VARCHAR, count(*) FILTER (tags['carrier'] = 'UA') FROM read_parquet('%s/**/*.parquet') GROUP BY key''' % sys.argv[1]).fetchall()
print(json.dumps({row[0]: [int(value) if not isinstance(value, str) else value for value in row[1:]] for row in rows}))
";

/// The files alone, read by another engine, hold the same totals.
fn check_elsewhere(dir: &TempDir, flights: &Flights) {
    let Some(python) = std::env::var_os("BRAID_DUCKDB_PYTHON") else {
        eprintln!("skipped: BRAID_DUCKDB_PYTHON names no Python that has DuckDB");
        return;
    };
    let output = Command::new(python).args(["-c", SUMS]).arg(dir.path()).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let sums: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for key in keys(flights) {
        let (found, truth) = (&sums[key], &flights.truth["keys"][key]);
        assert_eq!(found[0], truth["events"], "{key}");
        assert_eq!(found[1], truth["dep_delay"]["sum"], "{key}");
        assert_eq!(found[2], truth["distance_sum"], "{key}");
        assert_eq!(found[3], truth["events"], "{key}: ids");
        assert_eq!(found[5], truth["events_per_carrier"]["UA"], "{key}: UA");
    }
}

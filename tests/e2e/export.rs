//! `braid export`: every event, in order and to the last bit, in each format; and never a file that is not whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use flate2::read::GzDecoder;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::{Field, Row};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clock::nanos;
use crate::http::NDJSON;
use crate::read::{all_events, text};
use crate::server::Server;

const KEYS: [&str; 3] = ["a", "b/c d", "é"];

fn export(url: &str, more: &[&str], file: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid"));
    command.args(["export", "shop", "--url", url]).args(more).arg(file).output().expect("the binary starts")
}

fn written(server: &Server) -> Vec<Value> {
    let event = |key: &str, n: i64| {
        json!({
            "key": key, "id": format!("e{n}"), "ts": format!("2026-01-{:02}T12:00:00.00000{:03}Z", 1 + n % 20, n),
            "fields": {"i": n - 50, "u": u64::MAX - n as u64, "f": n as f64 / 4.0, "whole": 3.0, "b": n % 2 == 0, "s": format!("é\"{n}\n")},
            "tags": {"t": format!("x{}", n % 3)},
        })
    };
    let lines: Vec<String> = KEYS.iter().flat_map(|key| (0..100).map(|n| event(key, n).to_string())).collect();
    server.client().post("/v1/shop/events", NDJSON, lines.join("\n")).expect(200);
    KEYS.iter().flat_map(|key| all_events(server.client(), "shop", &[("key", key)]).0).collect()
}

fn lines(input: impl Read) -> Vec<Value> {
    BufReader::new(input).lines().map(|line| serde_json::from_str(&line.expect("text")).expect("JSON")).collect()
}

#[test]
fn an_export_holds_what_is_read_in_every_format() {
    let (server, dir) = (Server::start(), tempfile::tempdir().expect("a temporary directory"));
    let events = written(&server);
    let exported = |name: &str, more: &[&str]| {
        let file = dir.path().join(name);
        let output = export(&server.url(), more, &file);
        assert!(output.status.success(), "{name}: {output:?}");
        File::open(file).expect("it is there")
    };
    assert!(lines(exported("all.ndjson", &[])) == events);
    assert!(lines(GzDecoder::new(exported("all.ndjson.gz", &[]))) == events);
    let zstd = zstd::Decoder::new(exported("all.ndjson.zst", &[])).expect("zstd");
    assert!(lines(zstd) == events);
    let rows = SerializedFileReader::new(exported("all.parquet", &[])).expect("Parquet");
    let rows: Vec<Row> = rows.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
    assert!(rows.iter().map(of_row).eq(events.iter().map(of_event)));

    let one = lines(exported("one.ndjson", &["--key", "é", "--from", "2026-01-03T00:00:00Z", "--to", "2026-01-05T00:00:00Z"]));
    let wanted = events.iter().filter(|event| event["key"] == "é" && ["03", "04"].contains(&&text(&event["ts"])[8..10]));
    assert!(one.len() == 10 && one.iter().eq(wanted));
    assert_eq!(lines(exported("prefix.ndjson", &["--prefix", "b/"])).len(), 100);
    assert_eq!(lines(exported("none.ndjson", &["--prefix", "zzz"])).len(), 0);

    let status = |more: &[&str], name: &str| export(&server.url(), more, &dir.path().join(name)).status.code();
    assert_eq!(status(&[], "all.ndjson"), Some(2), "it is there already");
    assert_eq!(status(&[], "all.csv"), Some(2));
    assert_eq!(status(&["--from", "yesterday"], "new.ndjson"), Some(1));
    assert_eq!(status(&[], "no/such/folder.ndjson"), Some(5));
    assert!(!dir.path().join("new.ndjson").exists());
}

/// An event in plain values: key, nanoseconds, id, fields and tags by name.
type Plain = (String, i64, String, BTreeMap<String, Value>);

fn of_event(event: &Value) -> Plain {
    let named = |kind: &str| event[kind].as_object().expect("an object").clone().into_iter();
    (text(&event["key"]), nanos(&text(&event["ts"])), text(&event["id"]), named("fields").chain(named("tags")).collect())
}

fn of_row(row: &Row) -> Plain {
    let columns: BTreeMap<&str, &Field> = row.get_column_iter().map(|(name, field)| (name.as_str(), field)).collect();
    let string = |name: &str| match columns[name] {
        Field::Str(text) => text.clone(),
        other => panic!("{name}: {other:?}"),
    };
    let (Field::TimestampMicros(micros), Field::Int(rest)) = (columns["ts"], columns["ts_ns"]) else { panic!("{row:?}") };
    let maps = columns.values().filter_map(|field| if let Field::MapInternal(map) = field { Some(map.entries()) } else { None });
    let named = maps.flatten().map(|(name, value)| {
        let Field::Str(name) = name else { panic!("{name:?}") };
        (name.clone(), plain(value))
    });
    (string("key"), micros * 1_000 + i64::from(*rest), string("id"), named.collect())
}

fn plain(field: &Field) -> Value {
    match field {
        Field::Str(value) => json!(value),
        Field::Double(value) => json!(value),
        Field::Long(value) => json!(value),
        Field::Bool(value) => json!(value),
        Field::Decimal(value) => json!(value.data().iter().fold(0_u128, |sum, byte| sum << 8 | u128::from(*byte)) as u64),
        other => panic!("{other:?}"),
    }
}

/// A server that gives one answer to a read, and ends.
fn answering(body: &'static str, length: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut request = BufReader::new(stream.try_clone().expect("a socket")).lines();
        while request.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).expect("it is read");
    });
    url
}

#[test]
fn an_answer_that_was_cut_leaves_no_file() {
    let event = concat!(r#"{"key":"a","id":"e","ts":"2026-01-01T00:00:00Z","fields":{"x":1},"tags":{}}"#, "\n");
    // What is sent, and how many bytes more are promised.
    let cut: [(&'static str, usize); 5] = [
        (event, 0),
        (event, 1),
        (concat!(r#"{"error":{"code":"store_unavailable","status":503}}"#, "\n"), 0),
        (concat!(r#"{"end":{"events":1,"complete":true,"to":"2026-01-01T00:00:00Z"}}"#, "\n"), 0),
        (concat!(r#"{"end":{"events":0,"complete":false,"to":"2026-01-01T00:00:00Z"}}"#, "\n"), 0),
    ];
    for (body, more) in cut {
        for name in ["out.ndjson", "out.ndjson.gz", "out.parquet"] {
            let dir: TempDir = tempfile::tempdir().expect("a temporary directory");
            let output = export(&answering(body, body.len() + more), &["--key", "a"], &dir.path().join(name));
            assert_eq!(output.status.code(), Some(3), "{body}: {output:?}");
            assert!(String::from_utf8_lossy(&output.stderr).contains("nothing was exported"), "{output:?}");
            assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 0, "{name} was left behind");
        }
    }
}

//! The real Telegraf writes through both its InfluxDB outputs while Braid is restarted: nothing is lost.
//!
//! Only where `BRAID_TELEGRAF` names the binary (`scripts/telegraf` builds it); else it says so and passes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::clock::nanos;
use crate::http::Client;
use crate::read::{all_events, text};
use crate::server::{End, Process, Server, until};

/// Lines that Telegraf must gather in each phase.
const LINES: usize = 60;

/// Measurement, tags and time: what InfluxDB calls a point.
type Point = (String, BTreeMap<String, String>, i64);

fn config(url: &str, file: &Path) -> String {
    format!(
        r#"
[agent]
  interval = "200ms"
  flush_interval = "200ms"
  metric_batch_size = 50
  metric_buffer_limit = 100000
  hostname = "a host"
[global_tags]
  place = "tür, 1=a"
[[inputs.cpu]]
  percpu = true
  totalcpu = true
[[inputs.mem]]
[[inputs.internal]]
[[outputs.influxdb]]
  urls = ["{url}"]
  database = "telegraf_v1"
  content_encoding = "gzip"
[[outputs.influxdb_v2]]
  urls = ["{url}"]
  bucket = "telegraf_v2"
  organization = "any"
  content_encoding = "gzip"
[[outputs.file]]
  files = ["{}"]
  data_format = "influx"
"#,
        file.display()
    )
}

#[test]
fn what_telegraf_gathers_through_restarts_arrives_whole_by_both_its_outputs() {
    let Some(telegraf) = std::env::var_os("BRAID_TELEGRAF").map(PathBuf::from) else {
        eprintln!("skipped: BRAID_TELEGRAF does not name a Telegraf (scripts/telegraf builds one)");
        return;
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (gathered, log, conf) = (dir.path().join("gathered"), dir.path().join("log"), dir.path().join("telegraf.conf"));
    let mut server = Server::start();
    fs::write(&conf, config(&server.url(), &gathered)).expect("the file is written");
    let process = Process::start(&telegraf, &["--config", &conf.to_string_lossy()], &log);

    let more = |what: &str| {
        let before = lines(&gathered).len();
        until(what, || lines(&gathered).len() >= before + LINES);
    };
    more("Telegraf gathers");
    server.restart(End::Drain);
    more("Telegraf gathers after a drained restart");
    server.stop(End::Kill);
    more("Telegraf gathers while Braid is down");
    server.spawn();
    more("Telegraf gathers after a crash");
    assert!(process.terminate().success(), "{}", fs::read_to_string(&log).unwrap_or_default());

    let expected = points(&lines(&gathered));
    assert!(expected.len() >= 4 * LINES);
    for ns in ["telegraf_v1", "telegraf_v2"] {
        let stored = stored(server.client(), ns);
        for (point, fields) in &expected {
            assert_eq!(stored.get(point), Some(fields), "{ns} {point:?}\n{}", fs::read_to_string(&log).unwrap_or_default());
        }
        assert_eq!(stored.len(), expected.len(), "{ns} holds points that were never gathered");
    }
}

fn lines(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(str::to_owned).collect()
}

/// What a namespace holds, read by its keys.
fn stored(client: &Client, ns: &str) -> BTreeMap<Point, Map<String, Value>> {
    let keys = client.read(&format!("/v1/{ns}/keys"));
    let mut points = BTreeMap::new();
    for key in keys["keys"].as_array().expect("keys").iter().map(text) {
        for event in all_events(client, ns, &[("key", &key)]).0 {
            let tags = event["tags"].as_object().expect("tags").iter().map(|(name, value)| (name.clone(), text(value))).collect();
            let point = (key.clone(), tags, nanos(&text(&event["ts"])));
            assert!(points.insert(point, event["fields"].as_object().expect("fields").clone()).is_none(), "twice: {event}");
        }
    }
    points
}

/// Points of a file in line protocol; two lines of one point are one.
fn points(lines: &[String]) -> BTreeMap<Point, Map<String, Value>> {
    let mut points: BTreeMap<Point, Map<String, Value>> = BTreeMap::new();
    for line in lines {
        let [series, fields, ts] = &split(line, ' ')[..] else { panic!("not a line: {line}") };
        let series = split(series, ',');
        let tags = series[1..].iter().map(|tag| pair(tag)).collect();
        let point = (plain(&series[0]), tags, ts.parse().expect("a time"));
        let fields = split(fields, ',').into_iter().map(|field| pair(&field)).map(|(name, value)| (name, number(&value)));
        points.entry(point).or_default().extend(fields);
    }
    points
}

/// Splits where the separator is not escaped.
fn split(text: &str, at: char) -> Vec<String> {
    let (mut parts, mut escaped) = (vec![String::new()], false);
    for c in text.chars() {
        if c == at && !escaped {
            parts.push(String::new());
            continue;
        }
        escaped = c == '\\' && !escaped;
        parts.last_mut().expect("there is one").push(c);
    }
    parts
}

fn pair(text: &str) -> (String, String) {
    let [name, value] = &split(text, '=')[..] else { panic!("not name=value: {text}") };
    (plain(name), plain(value))
}

fn plain(text: &str) -> String {
    text.replace('\\', "")
}

/// A field's value; these inputs gather numbers only. Read by the same reader as the answers, whose
/// floats may be off by their last bit.
fn number(text: &str) -> Value {
    let read: Value = serde_json::from_str(text.trim_end_matches(['i', 'u'])).expect("a number");
    if text.ends_with(['i', 'u']) { read } else { Value::from(read.as_f64().expect("a number")) }
}

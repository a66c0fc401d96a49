//! A year of real departures, replayed; every number in the truth file must come back exactly.
//!
//! The data is not part of the repository: `BRAID_SHARED` names its directory, else it is looked for
//! in `../shared/data`; where it is missing these tests say so and pass.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::OnceLock;

use flate2::read::MultiGzDecoder;
use serde_json::{Value, json};

use crate::http::{Client, NDJSON, query, segment};
use crate::read::{all_events, by_id};
use crate::server::{End, Server};

pub(crate) const NS: &str = "flights";
const BATCH: usize = 5_000;
const CONNECTIONS: usize = 2;
/// The file's events lie within it; midnights of both ends in UTC.
pub(crate) const YEAR: (&str, &str) = ("2013-01-01T00:00:00Z", "2014-02-01T00:00:00Z");
const DAY: &str = "2013-07-09";

pub(crate) struct Flights {
    batches: Vec<Vec<u8>>,
    pub(crate) truth: Value,
}

/// The events and what must come back of them, where they are to be had.
pub(crate) fn flights() -> Option<&'static Flights> {
    static FLIGHTS: OnceLock<Option<Flights>> = OnceLock::new();
    FLIGHTS.get_or_init(load).as_ref()
}

fn load() -> Option<Flights> {
    let dir =
        std::env::var_os("BRAID_SHARED").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
    let (Ok(events), Ok(truth)) = (File::open(dir.join("flights.ndjson.gz")), File::open(dir.join("flights.truth.json"))) else {
        eprintln!("skipped: no flights in {} (BRAID_SHARED names their directory)", dir.display());
        return None;
    };
    let mut text = Vec::new();
    MultiGzDecoder::new(events).read_to_end(&mut text).expect("sound gzip");
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let truth = serde_json::from_reader(truth).expect("sound JSON");
    Some(Flights { batches: lines.chunks(BATCH).map(<[_]>::concat).collect(), truth })
}

/// Sends every batch over several connections, dealt to several nodes; each must be stored whole.
pub(crate) fn replay(clients: &[&Client], flights: &Flights) {
    std::thread::scope(|scope| {
        for first in 0..CONNECTIONS {
            scope.spawn(move || {
                let client = clients[first % clients.len()];
                for batch in flights.batches.iter().skip(first).step_by(CONNECTIONS) {
                    let answer = client.deliver(&format!("/v1/{NS}/events"), NDJSON, batch).expect(200).json();
                    assert_eq!(answer["rejected"], 0, "{answer}");
                }
            });
        }
    });
}

fn truth_holds_under(shards: u32, bucket: &str) {
    let Some(flights) = flights() else { return };
    let server = Server::start();
    server.client().put(&format!("/v1/namespaces/{NS}"), &json!({"shards": shards, "bucket": bucket})).expect(201);
    replay(&[server.client()], flights);
    check_truth(server.client(), &flights.truth);
}

#[test]
fn the_truth_comes_back_and_a_second_replay_and_a_restart_change_nothing() {
    let Some(flights) = flights() else { return };
    let mut server = Server::start();
    replay(&[server.client()], flights);
    check_truth(server.client(), &flights.truth);
    replay(&[server.client()], flights);
    check_truth(server.client(), &flights.truth);
    check_streams(server.client(), flights);
    server.restart(End::Kill);
    check_truth(server.client(), &flights.truth);
}

#[test]
fn the_truth_comes_back_from_one_suffix_and_day_buckets() {
    truth_holds_under(1, "1d");
}

#[test]
fn the_truth_comes_back_from_seven_suffixes_and_hour_buckets() {
    truth_holds_under(7, "1h");
}

#[test]
fn the_truth_comes_back_from_sixty_four_suffixes_and_day_buckets() {
    truth_holds_under(64, "1d");
}

#[test]
fn the_truth_comes_back_from_sixty_four_suffixes_and_hour_buckets() {
    truth_holds_under(64, "1h");
}

pub(crate) fn check_truth(client: &Client, truth: &Value) {
    let mut events = 0;
    for (key, of_key) in truth["keys"].as_object().expect("an object") {
        check_key(client, key, of_key);
        check_months(client, key, &of_key["events_per_month_utc"]);
        check_carriers(client, key, &of_key["events_per_carrier"]);
        check_day(client, key, &of_key[format!("{DAY}_utc")]);
        events += of_key["events"].as_u64().expect("a count");
    }
    assert_eq!(truth["events"], events);
    for point in truth["points"].as_array().expect("a list") {
        check_point(client, point);
    }
    let keys = client.read(&format!("/v1/{NS}/keys"));
    assert_eq!(keys["keys"], json!(truth["keys"].as_object().expect("an object").keys().collect::<Vec<_>>()));
}

/// The rows of an aggregate over `[from, to)`.
fn rows(client: &Client, key: &str, (from, to): (&str, &str), more: &[(&str, &str)]) -> Vec<Value> {
    let parameters = [&[("key", key), ("from", from), ("to", to)], more].concat();
    let answer = client.read(&query(&format!("/v1/{NS}/aggregate"), &parameters));
    assert_eq!(answer["complete"], true, "{answer}");
    assert_eq!(answer["shards"]["planned"], answer["shards"]["answered"], "{answer}");
    answer["rows"].as_array().expect("rows").clone()
}

fn check_key(client: &Client, key: &str, truth: &Value) {
    let count = rows(client, key, YEAR, &[("fn", "count")]);
    assert_eq!(count[0]["count"], truth["events"], "{key}");
    let delay = &rows(client, key, YEAR, &[("field", "dep_delay"), ("fn", "count,sum,min,max,avg,p50,p99")])[0];
    for (name, of_truth) in [
        ("count", "count"),
        ("sum", "sum"),
        ("min", "min"),
        ("max", "max"),
        ("avg", "avg"),
        ("p50", "p50_nearest_rank"),
        ("p99", "p99_nearest_rank"),
    ] {
        assert_eq!(delay[name], truth["dep_delay"][of_truth], "{key} {name}");
    }
    let distance = rows(client, key, YEAR, &[("field", "distance"), ("fn", "sum")]);
    assert_eq!(distance[0]["sum"], truth["distance_sum"], "{key}");
    for (order, name) in [("asc", "first_ts"), ("desc", "last_ts")] {
        let path = query(&format!("/v1/{NS}/events"), &[("key", key), ("limit", "1"), ("order", order)]);
        assert_eq!(client.read(&path)["events"][0]["ts"], truth[name], "{key} {name}");
    }
}

fn check_months(client: &Client, key: &str, truth: &Value) {
    for (month, events) in truth.as_object().expect("an object") {
        let (year, number) = month.split_once('-').expect("year and month");
        let (year, number): (u32, u32) = (year.parse().expect("a year"), number.parse().expect("a month"));
        let (next_year, next) = if number == 12 { (year + 1, 1) } else { (year, number + 1) };
        let range = (&*format!("{month}-01T00:00:00Z"), &*format!("{next_year}-{next:02}-01T00:00:00Z"));
        assert_eq!(rows(client, key, range, &[("fn", "count")])[0]["count"], *events, "{key} {month}");
    }
}

fn check_carriers(client: &Client, key: &str, truth: &Value) {
    let groups = rows(client, key, YEAR, &[("fn", "count"), ("group_by", "carrier")]);
    let counts: serde_json::Map<String, Value> =
        groups.iter().map(|row| (row["group"]["carrier"].as_str().expect("a carrier").to_owned(), row["count"].clone())).collect();
    assert_eq!((Value::from(counts), groups.len()), (truth.clone(), truth.as_object().expect("an object").len()), "{key}");
    for (carrier, count) in truth.as_object().expect("an object").iter().take(2) {
        let filtered = rows(client, key, YEAR, &[("fn", "count"), ("where", &format!("carrier:{carrier}"))]);
        assert_eq!(filtered[0]["count"], *count, "{key} {carrier}");
    }
}

/// The 24 hours of one day; the hours without departures are there and empty.
fn check_day(client: &Client, key: &str, truth: &Value) {
    let day = (&*format!("{DAY}T00:00:00Z"), "2013-07-10T00:00:00Z");
    let events = rows(client, key, day, &[("fn", "count"), ("step", "1h")]);
    let delays = rows(client, key, day, &[("field", "dep_delay"), ("fn", "count,sum"), ("step", "1h")]);
    assert_eq!((events.len(), delays.len()), (24, 24), "{key}");
    let mut total = 0;
    for (hour, (events, delays)) in events.iter().zip(&delays).enumerate() {
        let start = format!("{DAY}T{hour:02}:00:00Z");
        assert_eq!((&events["start"], &delays["start"]), (&json!(start), &json!(start)));
        let of_truth = &truth["hourly"][&start];
        let or_zero = |name: &str| of_truth.get(name).cloned().unwrap_or(json!(0));
        assert_eq!(events["count"], or_zero("count"), "{key} {start}");
        assert_eq!(delays["count"], or_zero("dep_delay_count"), "{key} {start}");
        assert_eq!(delays["sum"], or_zero("dep_delay_sum"), "{key} {start}");
        total += events["count"].as_u64().expect("a count");
    }
    assert_eq!(truth["events"], total, "{key}");
}

/// One event, with its time and by its id alone; either way from one suffix.
fn check_point(client: &Client, point: &Value) {
    let [key, id, ts] = ["key", "id", "ts"].map(|name| point[name].as_str().expect("a string"));
    let path = format!("/v1/{NS}/events/{}", segment(id));
    for parameters in [&[("key", key), ("ts", ts)][..], &[("key", key)]] {
        let answer = client.read(&query(&path, parameters));
        assert_eq!(answer["event"], *point);
        assert_eq!(answer["shards"], json!({"planned": 1, "answered": 1}), "{answer}");
    }
}

/// Every event of the file, whole, in order, once; and the pages hold the same as the stream.
fn check_streams(client: &Client, flights: &Flights) {
    let sent: Vec<Value> = flights
        .batches
        .iter()
        .flat_map(|batch| serde_json::Deserializer::from_slice(batch).into_iter::<Value>())
        .map(|event| event.expect("sound JSON"))
        .collect();
    for key in flights.truth["keys"].as_object().expect("an object").keys() {
        let place = |event: &Value| [&event["ts"], &event["id"]].map(|part| part.as_str().expect("a string").to_owned());
        let mut expected: Vec<&Value> = sent.iter().filter(|event| event["key"] == **key).collect();
        expected.sort_by_key(|event| place(event));
        let (events, _) = all_events(client, NS, &[("key", key)]);
        assert_eq!(by_id(&events).len(), expected.len(), "{key}");
        assert!(events.iter().eq(expected), "{key}: the stream is not what was sent, in order");
        assert!(pages(client, key).into_iter().eq(events), "{key}: the pages are not what the stream holds");
    }
}

fn pages(client: &Client, key: &str) -> Vec<Value> {
    let mut events = Vec::new();
    let mut cursor = None::<String>;
    loop {
        let mut parameters = vec![("key", key), ("limit", "10000")];
        parameters.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let page = client.read(&query(&format!("/v1/{NS}/events"), &parameters));
        events.extend(page["events"].as_array().expect("events").iter().cloned());
        match page["next"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return events,
        }
    }
}

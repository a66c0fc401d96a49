//! What clients send: events near every edge there is, reads, and changes of layouts.

use axum::body::Body;
use axum::http::Request;
use braid_shared::model::Timestamp;

use crate::chance::Chance;
use crate::oracle::{FIELDS, Identity, Oracle, Read, region};

/// The keys that are written.
pub(crate) const KEYS: [&str; 3] = ["hot", "warm", "cold"];
/// Ids of each key.
const IDS: u64 = 40;
/// Most events of one request.
const EVENTS_MAX: u64 = 12;
/// Most rows of a page: more than a run writes.
const PAGE: u64 = 10_000;

/// Age of the oldest events: in each run the days that are read hold little before them.
const OLDEST_SECONDS: i64 = 600;

const MILLI: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MILLI;

/// What a call was for.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// The writes it carries.
    Write(Vec<usize>),
    Read(Read),
    /// Of a timeline: a layout published, or the one of this version withdrawn.
    Publish(Option<&'static str>),
    Withdraw(Option<&'static str>, u64),
}

/// What clients know of the times that matter: a node's now and horizon, starts of layouts, and how wide buckets are.
pub(crate) struct Edges {
    pub(crate) bucket: i64,
    pub(crate) now: i64,
    pub(crate) horizon: i64,
    pub(crate) starts: Vec<i64>,
}

impl Edges {
    /// An event time, mostly near an edge.
    fn time(&self, chance: &mut Chance) -> i64 {
        match chance.below(10) {
            0..=3 => self.now - chance.between(0, 2_000) * MILLI,
            4 => self.now + chance.between(0, 11_000) * MILLI,
            5 | 6 if !self.starts.is_empty() => chance.pick(&self.starts) + chance.between(-2, 3) * chance.pick(&[1, MILLI]),
            5..=7 => self.horizon + chance.between(-2, 2) * chance.pick(&[1, MILLI, SECOND]),
            8 => self.now - chance.between(0, OLDEST_SECONDS) * SECOND,
            _ => {
                let width = *chance.pick(&[SECOND, self.bucket]);
                self.now.div_euclid(width) * width + chance.between(-1, 2)
            }
        }
    }
}

/// A request that writes some events; notes each.
pub(crate) fn write(chance: &mut Chance, oracle: &mut Oracle, edges: &Edges, node: usize) -> (Purpose, Request<Body>) {
    let (mut numbers, mut lines) = (Vec::new(), String::new());
    let spread = chance.happens(400_000);
    let time = edges.time(chance);
    for _ in 0..=chance.below(EVENTS_MAX) {
        let event = event(chance, oracle, || time, spread.then_some(edges));
        let fields = *chance.pick(&[&FIELDS[..], &FIELDS[..1], &FIELDS[1..]]);
        let number = oracle.send(event.clone(), fields, node);
        let values: Vec<_> = fields.iter().map(|field| format!("\"{field}\":{number}")).collect();
        let (key, ts, id) = event;
        let tags = region(&id).map(|region| format!(",\"tags\":{{\"region\":\"{region}\"}}")).unwrap_or_default();
        lines.push_str(&format!("{{\"key\":\"{key}\",\"id\":\"{id}\",\"ts\":{ts},\"fields\":{{{}}}{tags}}}\n", values.join(",")));
        numbers.push(number);
    }
    (Purpose::Write(numbers), post("/v1/n/events?precision=ns", lines))
}

/// A new event, or one that was sent before.
fn event(chance: &mut Chance, oracle: &Oracle, time: impl FnOnce() -> i64, edges: Option<&Edges>) -> Identity {
    if chance.happens(250_000)
        && let Some(again) = oracle.recent().nth(chance.below(60) as usize)
    {
        return again.clone();
    }
    let ts = edges.map_or_else(time, |edges| edges.time(chance));
    (*chance.pick(&KEYS), ts, format!("id-{}", chance.below(IDS)))
}

/// A request that reads.
pub(crate) fn read(chance: &mut Chance, oracle: &mut Oracle, edges: &Edges) -> (Purpose, Request<Body>) {
    let key = *chance.pick(&KEYS);
    let one = if chance.happens(250_000) { oracle.recent().nth(chance.below(40) as usize).cloned() } else { None };
    if let Some((key, ts, id)) = one {
        // A layout may shard by the region, which a point read must tell then; the id knows it.
        let region = region(&id).unwrap_or_default();
        let path = format!("/v1/n/events/{id}?key={key}&ts={}&where=region:{region}", Timestamp::from_nanos(ts));
        let read = Read { key, from: Some(ts), to: ts.checked_add(1), descending: false, id: Some(id), region: None, asked: oracle.tick() };
        return (Purpose::Read(read), get(&path, false));
    }
    let from = chance.happens(300_000).then(|| edges.time(chance));
    let region = *chance.pick(&[None, None, Some("eu"), Some("us")]);
    let to = chance.happens(400_000).then(|| edges.time(chance)).map(|to| to.max(from.unwrap_or(i64::MIN)));
    let read = Read { key, from, to, descending: chance.happens(300_000), id: None, region, asked: oracle.tick() };
    let lines = chance.happens(300_000);
    (Purpose::Read(read.clone()), get(&path(&read, lines, PAGE), lines))
}

/// The path of a read of a range.
pub(crate) fn path(read: &Read, lines: bool, limit: u64) -> String {
    let bound = |name: &str, ts: Option<i64>| ts.map(|ts| format!("&{name}={}", Timestamp::from_nanos(ts))).unwrap_or_default();
    let order = if read.descending { "&order=desc" } else { "" };
    let limit = if lines { String::new() } else { format!("&limit={limit}") };
    let region = read.region.map(|region| format!("&where=region:{region}")).unwrap_or_default();
    format!("/v1/n/events?key={}{}{}{order}{limit}{region}", read.key, bound("from", read.from), bound("to", read.to))
}

/// A request that changes a layout; `standing`: those that may be withdrawn.
pub(crate) fn change(chance: &mut Chance, edges: &Edges, standing: &[(Option<&'static str>, u64)]) -> (Purpose, Request<Body>) {
    if chance.happens(250_000) && !standing.is_empty() {
        let (key, version) = *chance.pick(standing);
        let key_is = key.map(|key| format!("&key={key}")).unwrap_or_default();
        let request = Request::delete(format!("/v1/n/layout?version={version}{key_is}")).body(Body::empty());
        return (Purpose::Withdraw(key, version), request.expect("a sound request"));
    }
    let key = *chance.pick(&[None, Some("hot"), Some("hot"), Some("warm")]);
    let shards = *chance.pick(&[1, 2, 4, 7, 16]);
    let mut body = format!("{{\"shards\":{shards}");
    if let Some(key) = key {
        body.push_str(&format!(",\"key\":\"{key}\""));
    }
    if chance.happens(300_000) {
        body.push_str(&format!(",\"bucket\":\"{}\"", chance.pick(&["1s", "10s", "1m", "1h"])));
    }
    if chance.happens(300_000) {
        body.push_str(&format!(",\"shard_by\":\"{}\"", chance.pick(&["id", "region"])));
    }
    if chance.happens(500_000) {
        let from = edges.horizon + chance.between(-1, 12) * SECOND;
        body.push_str(&format!(",\"effective_from\":\"{}\"", Timestamp::from_nanos(from)));
    }
    body.push('}');
    (Purpose::Publish(key), post("/v1/n/layout", body))
}

pub(crate) fn get(path: &str, lines: bool) -> Request<Body> {
    let accept = if lines { "application/x-ndjson" } else { "application/json" };
    Request::get(path).header("accept", accept).body(Body::empty()).expect("a sound request")
}

fn post(path: &str, body: String) -> Request<Body> {
    Request::post(path).body(Body::from(body)).expect("a sound request")
}

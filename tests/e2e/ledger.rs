//! What was acknowledged, kept while it is written through several nodes, and held against what is read.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use reqwest::Method;
use serde_json::{Value, json};

use crate::clock::now_ms;
use crate::http::{Answer, Client, NDJSON, query};
use crate::read::{all_events, by_id};
use crate::server::until;

/// The key that is written.
pub(crate) const KEY: &str = "hot";
const BATCH: usize = 50;
/// Events are written around now; the horizon is some 10 s ahead.
const SPREAD_MS: std::ops::Range<i64> = -2_000..3_000;
/// How far back a reader looks while events are written.
const LOOK_BACK_MS: i64 = 4_000;

/// Acknowledged events of one namespace: id → time.
pub(crate) struct Ledger {
    ns: &'static str,
    events: Mutex<BTreeMap<String, i64>>,
    writers: AtomicUsize,
}

impl Ledger {
    pub(crate) fn new(ns: &'static str) -> Ledger {
        Ledger { ns, events: Mutex::default(), writers: AtomicUsize::new(0) }
    }

    /// Acknowledged so far.
    pub(crate) fn len(&self) -> usize {
        self.events.lock().expect("no holder panics").len()
    }

    /// Notes an event that a test wrote itself.
    pub(crate) fn note(&self, id: String, ts: i64) {
        self.events.lock().expect("no holder panics").insert(id, ts);
    }

    /// Waits until so many more events are acknowledged: the cluster takes writes.
    pub(crate) fn wait_for_more(&self, events: usize) {
        let wanted = self.len() + events;
        until("more events are acknowledged", || self.len() >= wanted);
    }

    /// Writes until told to stop; what is refused for now is sent again, as it is.
    pub(crate) fn write(&self, client: &Client, stop: &AtomicBool) {
        let writer = self.writers.fetch_add(1, Ordering::Relaxed);
        let width = SPREAD_MS.end - SPREAD_MS.start;
        let mut next = 0;
        while !stop.load(Ordering::Relaxed) {
            let now = now_ms();
            let time = |n: usize| now + SPREAD_MS.start + (n as i64 * 997) % width;
            let events: Vec<(String, i64)> = (next..next + BATCH).map(|n| (format!("w{writer}-{n}"), time(n))).collect();
            next += BATCH;
            let body: String = events.iter().map(|(id, ts)| format!("{}\n", json!({"key": KEY, "id": id, "ts": ts, "value": 1}))).collect();
            let answer = client.deliver(&format!("/v1/{}/events", self.ns), NDJSON, body.as_bytes()).expect(200).json();
            assert_eq!(answer["stored"], BATCH, "{answer}");
            self.events.lock().expect("no holder panics").extend(events);
        }
    }

    /// Reads until told to stop. A read may be refused or cut short while the cluster is in trouble;
    /// one that says that it is complete must hold all that was acknowledged before. Gives how many were.
    pub(crate) fn read(&self, client: &Client, stop: &AtomicBool) -> usize {
        let mut whole = 0;
        while !stop.load(Ordering::Relaxed) {
            let from = now_ms() - LOOK_BACK_MS;
            let before: Vec<String> = {
                let events = self.events.lock().expect("no holder panics");
                events.iter().filter(|(_, ts)| **ts >= from).map(|(id, _)| id.clone()).collect()
            };
            let path = query(&format!("/v1/{}/events", self.ns), &[("key", KEY), ("from", &from.to_string())]);
            let Ok(answer) = client.send(Method::GET, &path, &[("accept", NDJSON)], Vec::new()) else { continue };
            assert!([200, 503].contains(&answer.status), "{answer}");
            if answer.status != 200 || !says_it_is_complete(&answer) {
                continue;
            }
            let mut events = answer.lines();
            events.pop();
            let ids = by_id(&events);
            let missing: Vec<_> = before.iter().filter(|id| !ids.contains_key(*id)).collect();
            assert!(missing.is_empty(), "{} of {} were acknowledged before the read and are not in it", missing.len(), before.len());
            whole += 1;
        }
        whole
    }

    /// Everything that was acknowledged is read, and nothing else, and nothing twice.
    pub(crate) fn check(&self, client: &Client) {
        let (events, end) = all_events(client, self.ns, &[("key", KEY), ("from", "now-1h")]);
        let (ids, acknowledged) = (by_id(&events), self.events.lock().expect("no holder panics"));
        let lost: Vec<_> = acknowledged.keys().filter(|id| !ids.contains_key(*id)).collect();
        assert!(lost.is_empty(), "{} of {} acknowledged events are lost, such as {:?}", lost.len(), acknowledged.len(), lost[0]);
        // Whatever was sent was sent until it was acknowledged.
        assert_eq!(ids.len(), acknowledged.len(), "{end}");
    }

    /// Each of these events lies in the one place that the catalog gives it: a point read looks nowhere else.
    pub(crate) fn check_places(&self, client: &Client, which: impl Fn(&str) -> bool) {
        let events = self.events.lock().expect("no holder panics").clone();
        for (id, ts) in events.iter().filter(|(id, _)| which(id)) {
            client.get(&query(&format!("/v1/{}/events/{id}", self.ns), &[("key", KEY), ("ts", &ts.to_string())])).expect(200);
        }
    }
}

/// Whether a stream has its last line: one that was cut has not.
fn says_it_is_complete(answer: &Answer) -> bool {
    let last = answer.body.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty());
    last.and_then(|line| serde_json::from_slice::<Value>(line).ok()).is_some_and(|end| end["end"]["complete"] == true)
}

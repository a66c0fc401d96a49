//! What happens to the namespace: writes of every kind, layouts that come and are withdrawn, restarts and crashes.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Map, Value, json};

use crate::clock::{nanos, now_ms, now_ns};
use crate::http::{JSON, NDJSON, query};
use crate::read::text;
use crate::server::{End, Server};

use super::reference::{Reference, Sent, rfc3339};

pub(crate) const NS: &str = "model";
pub(crate) const KEYS: [&str; 3] = ["hot", "a key, with=signs", "ключ/\u{1}"];
pub(crate) const FIELDS: [&str; 4] = ["a", "b", "c d", "ü"];
pub(crate) const TAGS: [&str; 2] = ["region", "host name"];
pub(crate) const TAG_VALUES: [&str; 4] = ["eu", "us", "a:b", "x y,z=1"];
/// An hour in November 2023; the times below lie around it.
pub(crate) const HOUR: i64 = 3_600_000_000_000;
const BASE: i64 = 472_222 * HOUR;
const SECOND: i64 = 1_000_000_000;
/// Few layouts, so that starts stay within what this test lives through.
const LAYOUTS_MAX: usize = 6;

/// A layout as this test remembers it.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) key: Option<String>,
    pub(crate) version: Value,
    pub(crate) shards: u64,
    pub(crate) from: i64,
    pub(crate) withdrawn: bool,
}

pub(crate) struct Life {
    pub(crate) server: Server,
    pub(crate) random: SmallRng,
    pub(crate) reference: Reference,
    pub(crate) layouts: Vec<Published>,
}

impl Life {
    pub(crate) fn new(server: Server, seed: u64) -> Life {
        let mut random = SmallRng::seed_from_u64(seed);
        let shards = random.random_range(1..6);
        let bucket = *["1h", "1d", "10m", "7s"].choose(&mut random).expect("some");
        server.client().put(&format!("/v1/namespaces/{NS}"), &json!({"shards": shards, "bucket": bucket})).expect(201);
        let mut life = Life { server, random, reference: Reference::default(), layouts: Vec::new() };
        life.write_json();
        life
    }

    /// One thing that happens; says which.
    pub(crate) fn step(&mut self) -> &'static str {
        match self.random.random_range(0..100) {
            0..35 => self.write_json(),
            35..50 => self.write_lines(),
            50..60 => self.write_together(),
            60..72 => self.write_again(),
            72..80 => self.publish(),
            80..85 => self.withdraw(),
            85..90 => self.restart(),
            90..94 => self.crash(),
            _ => self.crash_in_a_write(),
        }
    }

    fn write_json(&mut self) -> &'static str {
        let events = self.make_events();
        self.send(&events);
        "events as JSON"
    }

    fn send(&mut self, events: &[Sent]) {
        let (content_type, body) = self.body(events);
        let path = format!("/v1/{NS}/events?precision=ns");
        let answer = self.server.client().deliver(&path, content_type, &body).expect(200).json();
        assert_eq!((&answer["stored"], &answer["rejected"]), (&json!(events.len()), &json!(0)), "{answer}");
        events.iter().for_each(|event| self.reference.write(event));
    }

    /// As lines or as an array, times as integers or as text.
    fn body(&mut self, events: &[Sent]) -> (&'static str, Vec<u8>) {
        let written: Vec<Value> = events
            .iter()
            .map(|event| {
                let ts = if self.random.random() { json!(event.ts) } else { json!(rfc3339(event.ts)) };
                json!({"key": event.key, "id": event.id, "ts": ts, "fields": event.fields, "tags": event.tags})
            })
            .collect();
        if self.random.random() {
            return (JSON, Value::from(written).to_string().into_bytes());
        }
        (NDJSON, written.iter().map(|event| format!("{event}\n")).collect::<String>().into_bytes())
    }

    fn write_lines(&mut self) -> &'static str {
        let mut events = self.make_events();
        events.retain(|event| !event.fields.is_empty());
        for event in &mut events {
            event.id = series(&event.tags);
        }
        let lines: String = events.iter().map(line).collect();
        let path = *["/write?db=model", "/api/v2/write?bucket=model&precision=ns"].choose(&mut self.random).expect("some");
        self.server.client().deliver(path, "text/plain", lines.as_bytes()).expect(204);
        events.iter().for_each(|event| self.reference.write(event));
        "lines"
    }

    /// Several writers at once, each with keys of its own: between them there is no order to agree on.
    fn write_together(&mut self) -> &'static str {
        let events: Vec<Sent> = (0..8).flat_map(|_| self.make_events()).collect();
        let parts: Vec<Vec<Sent>> = KEYS.iter().map(|key| events.iter().filter(|event| event.key == *key).cloned().collect()).collect();
        let bodies: Vec<_> = parts.iter().map(|part| self.body(part)).collect();
        let client = self.server.client();
        std::thread::scope(|scope| {
            for ((content_type, body), _) in bodies.iter().zip(&parts).filter(|(_, part)| !part.is_empty()) {
                scope.spawn(move || client.deliver(&format!("/v1/{NS}/events?precision=ns"), content_type, body).expect(200));
            }
        });
        parts.iter().flatten().for_each(|event| self.reference.write(event));
        "several writers at once"
    }

    /// Events that are there get other fields and tags, some of the old among them.
    fn write_again(&mut self) -> &'static str {
        let key = self.pick(&KEYS);
        let places = self.reference.places(key);
        let mut events = Vec::new();
        for _ in 0..self.random.random_range(1..8) {
            let Some((ts, id)) = places.choose(&mut self.random).cloned() else { break };
            let (fields, tags) = (self.make_fields(), self.make_tags());
            events.push(Sent { key: key.to_owned(), ts, id, fields, tags });
        }
        self.send(&events);
        "re-sent events with other fields"
    }

    fn publish(&mut self) -> &'static str {
        if self.layouts.len() >= LAYOUTS_MAX {
            return "no layout: enough of them";
        }
        let key = self.random.random_bool(0.6).then(|| self.pick(&KEYS).to_owned());
        let mut body = json!({"shards": self.random.random_range(1..12)});
        if let Some(key) = &key {
            body["key"] = json!(key);
        }
        if self.random.random_bool(0.3) {
            body["bucket"] = json!(self.pick(&["1h", "3s", "1d"]));
        }
        if self.random.random_bool(0.3) {
            body["effective_from"] = json!(now_ms() + self.random.random_range(9_000..20_000));
        }
        let answer = self.server.client().post(&format!("/v1/{NS}/layout"), JSON, body.to_string());
        if answer.status == 409 {
            answer.expect_problem(409, "layout_conflict");
            return "a layout that came too early";
        }
        let layout = answer.expect(201).json();
        let from = nanos(&text(&layout["from"]));
        let last = self.layouts.iter().filter(|other| other.key == key && !other.withdrawn).map(|other| other.from).max();
        assert!(last.is_none_or(|last| last < from), "{layout} does not begin after {last:?}");
        assert_eq!(layout["shards"], body["shards"], "{layout}");
        self.layouts.push(Published {
            key,
            version: layout["version"].clone(),
            shards: layout["shards"].as_u64().unwrap_or(0),
            from,
            withdrawn: false,
        });
        "a layout"
    }

    fn withdraw(&mut self) -> &'static str {
        let Some(layout) = self.layouts.iter_mut().rfind(|layout| !layout.withdrawn) else { return "nothing to withdraw" };
        let version = layout.version.to_string();
        let mut parameters = vec![("version", &*version)];
        parameters.extend(layout.key.as_deref().map(|key| ("key", key)));
        let answer = self.server.client().delete(&query(&format!("/v1/{NS}/layout"), &parameters));
        if answer.status == 409 {
            answer.expect_problem(409, "layout_conflict");
            return "a layout that stays: it may have begun";
        }
        assert!((200..300).contains(&answer.status), "{answer}");
        layout.withdrawn = true;
        "a layout withdrawn"
    }

    pub(crate) fn restart(&mut self) -> &'static str {
        self.server.restart(End::Drain);
        "a restart"
    }

    fn crash(&mut self) -> &'static str {
        self.server.restart(End::Kill);
        "a crash"
    }

    /// What became of the write is not known until it is sent again.
    fn crash_in_a_write(&mut self) -> &'static str {
        let events: Vec<Sent> = (0..20).flat_map(|_| self.make_events()).collect();
        let (content_type, body) = self.body(&events);
        let client = self.server.client().clone();
        let path = format!("/v1/{NS}/events?precision=ns");
        let sending = std::thread::spawn({
            let body = body.clone();
            move || drop(client.try_post(&path, content_type, body))
        });
        if self.random.random() {
            std::thread::yield_now();
        }
        self.server.stop(End::Kill);
        sending.join().expect("it does not panic");
        self.server.spawn();
        self.send(&events);
        "a crash in a write, which is then sent again"
    }

    fn pick(&mut self, of: &[&'static str]) -> &'static str {
        of.choose(&mut self.random).copied().expect("some")
    }

    fn make_events(&mut self) -> Vec<Sent> {
        (0..self.random.random_range(1..12)).map(|_| self.make_event()).collect()
    }

    fn make_event(&mut self) -> Sent {
        let (key, ts) = (self.pick(&KEYS).to_owned(), self.make_time());
        let id = if self.random.random_bool(0.05) { String::new() } else { format!("id/{}", self.random.random_range(0..40)) };
        Sent { key, ts, id, fields: self.make_fields(), tags: self.make_tags() }
    }

    /// Mostly a few times that meet again, on and beside the borders of buckets; some very early, some as late as may be.
    fn make_time(&mut self) -> i64 {
        match self.random.random_range(0..20) {
            0 => *[i64::MIN, i64::MIN + 1, -HOUR, -1, 0, 1].choose(&mut self.random).expect("some"),
            1..4 => now_ns() - self.random.random_range(0..3 * SECOND),
            4..8 => now_ns() + self.random.random_range(0..9 * SECOND),
            _ => {
                let border = BASE + self.random.random_range(0..6) * HOUR / 2;
                border + *[-1, 0, 1, 1_500_000_000, 7 * SECOND].choose(&mut self.random).expect("some")
            }
        }
    }

    /// Quarters, so that a sum of them is exact however it is made.
    fn make_fields(&mut self) -> Map<String, Value> {
        let mut fields = Map::new();
        for name in FIELDS {
            let value = match self.random.random_range(0..12) {
                0..3 => json!(self.random.random_range(-50_i64..50)),
                3..6 => json!(self.random.random_range(-200_i32..200) as f64 / 4.0),
                6 => json!(self.random.random::<bool>()),
                7 => json!(self.pick(&["", "text", "\"quoted\" \\ and\nbroken", "ü\u{1F600}"])),
                _ => continue,
            };
            fields.insert(name.to_owned(), value);
        }
        fields
    }

    fn make_tags(&mut self) -> Map<String, Value> {
        let mut tags = Map::new();
        for name in TAGS {
            if self.random.random_bool(0.7) {
                tags.insert(name.to_owned(), json!(self.pick(&TAG_VALUES)));
            }
        }
        tags
    }
}

/// A line of an event; its time is written in nanoseconds.
fn line(event: &Sent) -> String {
    let escaped = |text: &str| text.replace(',', "\\,").replace(' ', "\\ ").replace('=', "\\=");
    let value = |value: &Value| match value {
        Value::String(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        Value::Number(number) if number.is_i64() => format!("{number}i"),
        other => other.to_string(),
    };
    let fields: Vec<String> = event.fields.iter().map(|(name, field)| format!("{}={}", escaped(name), value(field))).collect();
    let series = series(&event.tags);
    let comma = if series.is_empty() { "" } else { "," };
    let measurement = event.key.replace(',', "\\,").replace(' ', "\\ ");
    format!("{measurement}{comma}{series} {} {}\n", fields.join(","), event.ts)
}

/// The canonical tag set: sorted and escaped.
fn series(tags: &Map<String, Value>) -> String {
    let escaped = |text: &str| text.replace(',', "\\,").replace(' ', "\\ ").replace('=', "\\=");
    let mut pairs: Vec<String> =
        tags.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value.as_str().unwrap_or_default()))).collect();
    pairs.sort();
    pairs.join(",")
}

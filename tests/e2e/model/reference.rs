//! The reference: a map from identity to event, and answers computed from it the plain way.

use std::collections::{BTreeMap, BTreeSet};

use braid_shared::model::Timestamp;
use serde_json::{Map, Value, json};

/// An event as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) key: String,
    pub(crate) ts: i64,
    pub(crate) id: String,
    pub(crate) fields: Map<String, Value>,
    pub(crate) tags: Map<String, Value>,
}

/// What is stored under one identity.
type Parts = (Map<String, Value>, Map<String, Value>);

#[derive(Default)]
pub(crate) struct Reference {
    /// By key, then in the order of answers: time, then id.
    keys: BTreeMap<String, BTreeMap<(i64, String), Parts>>,
}

/// Tags that must have these values.
pub(crate) type Where = Vec<(String, String)>;

impl Reference {
    /// A later write wins, field by field and tag by tag.
    pub(crate) fn write(&mut self, event: &Sent) {
        let stored = self.keys.entry(event.key.clone()).or_default().entry((event.ts, event.id.clone())).or_default();
        stored.0.extend(event.fields.clone());
        stored.1.extend(event.tags.clone());
    }

    pub(crate) fn keys(&self) -> Vec<&String> {
        self.keys.keys().collect()
    }

    /// Events of a key in `[from, to)`, ascending, as they are answered.
    pub(crate) fn events(&self, key: &str, from: i64, to: i64, wanted: &Where) -> Vec<Value> {
        let of_key = self.keys.get(key).into_iter().flatten();
        let inside = of_key.filter(|((ts, _), (_, tags))| {
            (from..to).contains(ts) && wanted.iter().all(|(tag, value)| tags.get(tag) == Some(&json!(value)))
        });
        inside.map(|((ts, id), parts)| answer(key, *ts, id, parts)).collect()
    }

    /// Identities of a key.
    pub(crate) fn places(&self, key: &str) -> Vec<(i64, String)> {
        self.keys.get(key).into_iter().flatten().map(|(place, _)| place.clone()).collect()
    }

    /// One event; without a time the newest of that id.
    pub(crate) fn event(&self, key: &str, id: &str, ts: Option<i64>) -> Option<Value> {
        let mut of_id = self.keys.get(key)?.iter().rev().filter(|((at, other), _)| other == id && ts.is_none_or(|ts| ts == *at));
        of_id.next().map(|((at, id), parts)| answer(key, *at, id, parts))
    }
}

fn answer(key: &str, ts: i64, id: &str, (fields, tags): &Parts) -> Value {
    json!({"key": key, "id": id, "ts": rfc3339(ts), "fields": fields, "tags": tags})
}

pub(crate) fn rfc3339(ts: i64) -> String {
    Timestamp::from_nanos(ts).to_string()
}

/// An aggregate's question.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) step: Option<i64>,
    pub(crate) field: Option<&'static str>,
    pub(crate) group_by: Vec<&'static str>,
    pub(crate) wanted: Where,
}

/// One row: its start and end, group, and the events in it.
pub(crate) struct Row {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) group: Map<String, Value>,
    pub(crate) count: usize,
    pub(crate) numbers: Vec<Value>,
}

impl Question {
    /// The rows that answer it: each step of each group that has events, with the field or without; one group where
    /// none was asked for, though it be empty.
    pub(crate) fn rows(&self, reference: &Reference, key: &str) -> Vec<Row> {
        let events = reference.events(key, self.from, self.to, &self.wanted);
        let with_field: Vec<&Value> =
            events.iter().filter(|event| self.field.is_none_or(|field| event["fields"].get(field).is_some())).collect();
        let groups: BTreeSet<String> = if self.group_by.is_empty() {
            [self.group(&Value::Null)].into()
        } else {
            events.iter().map(|event| self.group(event)).collect()
        };
        let mut rows = Vec::new();
        for (start, end) in self.steps() {
            for group in &groups {
                let inside = |event: &&&Value| {
                    let ts = crate::clock::nanos(event["ts"].as_str().unwrap_or_default());
                    (start..end).contains(&ts) && self.group(event) == *group
                };
                let events: Vec<&&Value> = with_field.iter().filter(inside).collect();
                let number =
                    |event: &&&Value| self.field.and_then(|field| event["fields"].get(field).filter(|value| value.is_number()).cloned());
                let numbers = events.iter().filter_map(number).collect();
                let group = serde_json::from_str(group).expect("made below");
                rows.push(Row { start, end, group, count: events.len(), numbers });
            }
        }
        rows
    }

    /// Aligned to the epoch; the first and last are cut to the range.
    fn steps(&self) -> Vec<(i64, i64)> {
        let Some(step) = self.step else { return vec![(self.from, self.to)] };
        let mut starts = Vec::new();
        let mut start = self.from;
        while start < self.to {
            let end = (start.div_euclid(step) + 1) * step;
            starts.push((start, end.min(self.to)));
            start = end;
        }
        starts
    }

    fn group(&self, event: &Value) -> String {
        let tags = self.group_by.iter().map(|tag| ((*tag).to_owned(), event["tags"].get(tag).cloned().unwrap_or(Value::Null)));
        Value::from(tags.collect::<Map<_, _>>()).to_string()
    }
}

//! Reads that several tests make: whole ranges, checked for order and doubles.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::http::{Client, query};

/// Every event of a key in `[from, to)`, streamed; fails where the stream was cut, is out of order or holds a double.
#[track_caller]
pub(crate) fn all_events(client: &Client, ns: &str, parameters: &[(&str, &str)]) -> (Vec<Value>, Value) {
    let path = query(&format!("/v1/{ns}/events"), parameters);
    let answer = client.stream(&path).expect(200);
    let mut events = answer.lines();
    let end = events.pop().unwrap_or_else(|| panic!("an empty stream: {answer}"));
    assert!(end["end"].is_object(), "the stream was cut: {end}");
    assert_eq!(end["end"]["complete"], true, "{end}");
    (events, end["end"].clone())
}

/// Ids of events by their place; fails at a double.
#[track_caller]
pub(crate) fn by_id(events: &[Value]) -> BTreeMap<String, &Value> {
    let mut ids = BTreeMap::new();
    for event in events {
        let id = text(&event["id"]);
        assert!(ids.insert(id.clone(), event).is_none(), "twice: {id}");
    }
    ids
}

/// A JSON string's text.
#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}")).to_owned()
}

//! The oracle is told of servers that lie, and must find each lie; and of one that does not.

use tokio::time::Instant;

use crate::client::{Answer, Delivery, Failure};
use crate::workload::write::Writer;
use crate::workload::{Choice, EventTimes, Keys, Portion, Shape, Share};

use super::*;

const EVENTS: u64 = 1_000;
const START: i64 = 1_700_000_000_000;

fn delivery(result: Result<Answer, Failure>, doubtful: bool) -> Delivery {
    let now = Instant::now();
    Delivery { result, doubtful, started: now, ended: now, retries: 0, told_to_wait: 0, bytes: 0, units: 0.0 }
}

fn workload() -> Arc<Workload> {
    let shape = Shape { duplicates: Share::new(0.05), late: (Share::new(0.1), 60_000), note_bytes: 20, ..Shape::default() };
    Workload::new(3, Keys::new("k", Choice::Uniform(4)), shape, EventTimes::spaced(START, 1_000_000))
}

/// The events that were sent, as a server that is right writes them: each once, times as dates.
fn served(workload: &Arc<Workload>) -> Vec<serde_json::Value> {
    let body = Writer::new(Arc::clone(workload), Format::Ndjson).body(Portion { first: 0, events: EVENTS });
    let mut seen = std::collections::HashSet::new();
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events = lines.map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap());
    events
        .filter(|event| seen.insert(event["id"].as_str().unwrap().to_owned()))
        .map(|mut event| {
            let nanos = event["ts"].as_i64().unwrap() * 1_000_000;
            event["ts"] = braid_shared::model::Timestamp::from_nanos(nanos).to_string().into();
            event
        })
        .collect()
}

/// What the oracle makes of a server that holds `events`; the run's outcomes are `result`.
fn judge(events: &[serde_json::Value], result: Result<Answer, Failure>, doubtful: bool) -> Verdict {
    let (workload, history) = (workload(), Arc::new(History::default()));
    history.note(&workload, Portion { first: 0, events: EVENTS }, &delivery(result, doubtful));
    let mut oracle = Oracle::new(workload, history, EVENTS, Format::Ndjson);
    for event in events {
        let line = event.to_string();
        let found = Found::parse(line.as_bytes()).unwrap();
        oracle.see(&found.key, &found);
    }
    oracle.verdict()
}

fn stored() -> Result<Answer, Failure> {
    Ok(Answer::all_stored(EVENTS))
}

fn id(event: &serde_json::Value) -> &str {
    event["id"].as_str().unwrap()
}

#[test]
fn a_server_that_is_right_is_right() {
    let events = served(&workload());
    let verdict = judge(&events, stored(), false);
    assert!(verdict.holds(), "{verdict:?}");
    assert_eq!((verdict.sent, verdict.acknowledged, verdict.found), (events.len() as u64, events.len() as u64, events.len() as u64));
    assert!(events.len() < 980, "there are duplicates");
}

#[test]
fn an_acknowledged_event_that_is_not_there_is_lost_and_named() {
    let mut events = served(&workload());
    let gone = events.remove(500);
    let verdict = judge(&events, stored(), false);
    assert_eq!((verdict.lost.count, verdict.holds()), (1, false));
    assert_eq!((&*verdict.lost.named[0].key, &*verdict.lost.named[0].id), (gone["key"].as_str().unwrap(), id(&gone)));
}

#[test]
fn an_event_that_is_there_twice_is_doubled_and_named() {
    let mut events = served(&workload());
    events.push(events[7].clone());
    let verdict = judge(&events, stored(), false);
    assert_eq!((verdict.doubled.count, &*verdict.doubled.named[0].id), (1, id(&events[7])));
    assert_eq!(verdict.invented.count + verdict.lost.count + verdict.altered.count, 0);
}

#[test]
fn an_event_that_was_never_sent_is_invented() {
    let sent = served(&workload());
    for (member, value) in [("id", "0123456789abcdef"), ("id", "x"), ("key", "k-9"), ("ts", "2023-11-14T22:13:20.000000001Z")] {
        let mut events = sent.clone();
        let mut invented = events[0].clone();
        invented[member] = value.into();
        events.push(invented);
        let verdict = judge(&events, stored(), false);
        assert_eq!((verdict.invented.count, verdict.lost.count, verdict.doubled.count), (1, 0, 0), "{member} {value}: {verdict:?}");
    }
}

#[test]
fn an_event_in_another_place_is_lost_there_and_invented_here() {
    let mut events = served(&workload());
    let other = if events[3]["key"] == "k-0" { "k-1" } else { "k-0" };
    events[3]["key"] = other.into();
    let verdict = judge(&events, stored(), false);
    assert_eq!((verdict.lost.count, verdict.invented.count), (1, 1));
}

#[test]
fn an_event_with_other_content_is_altered_whatever_was_changed() {
    let sent = served(&workload());
    let changes: [fn(&mut serde_json::Value); 8] = [
        |event| event["fields"]["amount"] = (event["fields"]["amount"].as_f64().unwrap() + 0.01).into(),
        |event| event["fields"]["qty"] = (event["fields"]["qty"].as_f64().unwrap()).into(),
        |event| event["fields"]["qty"] = 100.into(),
        |event| event["fields"]["note"] = "x".into(),
        |event| drop(event["fields"].as_object_mut().unwrap().remove("note")),
        |event| event["fields"]["more"] = 1.into(),
        |event| event["tags"]["region"] = "xx-1".into(),
        |event| event["tags"]["id"] = "x".into(),
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut events = sent.clone();
        change(&mut events[9]);
        let verdict = judge(&events, stored(), false);
        assert_eq!((verdict.altered.count, verdict.lost.count, verdict.invented.count), (1, 0, 0), "change {number}");
        assert_eq!(verdict.altered.named[0].id, id(&sent[9]));
    }
}

#[test]
fn what_is_unknown_may_be_there_or_not() {
    let gone = || Err(Failure::GaveUp { seconds: 1.0, tries: 1, why: "timeout".into() });
    let events = served(&workload());
    let verdict = judge(&events[..100], gone(), true);
    assert!(verdict.holds(), "{verdict:?}");
    assert_eq!((verdict.unknown_found, verdict.unknown_absent), (100, events.len() as u64 - 100));
}

#[test]
fn what_was_refused_must_not_be_there() {
    let events = served(&workload());
    let verdict = judge(&events[..1], Err(Failure::Refused("413".into())), false);
    assert_eq!((verdict.invented.count, verdict.lost.count), (1, 0));
}

#[test]
fn all_faults_are_counted_and_few_are_named() {
    let verdict = judge(&[], stored(), false);
    assert_eq!((verdict.lost.count, verdict.lost.named.len()), (served(&workload()).len() as u64, NAMED_MAX));
}

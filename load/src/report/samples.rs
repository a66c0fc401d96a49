//! A small run for the tests of the report: two kinds over three seconds, one event refused.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::document::{Document, Row, Run};
use super::machine::Machine;
use super::{Outcome, Settings};
use crate::client::RowError;
use crate::record::{Interval, Kind, Outcome as Ended, Record, Recorder, Sample};

/// The run's intervals and its record.
fn run() -> (Vec<Interval>, Record) {
    let (began, seen) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let keep = Arc::clone(&seen);
    let recorder = Recorder::new(began, Duration::ZERO, vec![Box::new(move |interval| keep.lock().unwrap().push(interval.clone()))]);
    let at = |millis: u64| began + Duration::from_millis(millis);
    for n in 0..300 {
        let (intended, ended) = (n * 10, n * 10 + 2 + n % 40);
        if n > 0 && n % 100 == 0 {
            recorder.tick(at(intended), 50);
        }
        let write = Sample {
            kind: Kind::Write,
            intended: at(intended),
            started: at(intended + 1),
            ended: at(ended),
            events: 100,
            rejected: u64::from(n == 7),
            bytes: 12_000,
            units: 2.5,
            outcome: Ended::Done,
            retries: 1,
            told_to_wait: 1,
        };
        recorder.sample(&write);
        recorder.sample(&Sample {
            kind: Kind::ReadLast,
            events: 0,
            rejected: 0,
            bytes: 0,
            units: 0.0,
            retries: 0,
            told_to_wait: 0,
            ..write
        });
    }
    recorder.refused(RowError { index: 1, code: "key_missing".into(), detail: "no key".into() }, Some(9));
    let record = recorder.finish(at(3_050));
    let intervals = std::mem::take(&mut *seen.lock().unwrap());
    (intervals, record)
}

pub(crate) fn intervals() -> Vec<Interval> {
    run().0
}

/// The same as a result.
pub(super) fn result() -> (Document, Outcome) {
    let (intervals, record) = run();
    let outcome = Outcome { record, failure: None, verification: None };
    let machine = Machine { cpu: "Test CPU".into(), cores: 2, ..Machine::default() };
    let workload = Settings::from([("connections".into(), "8".into()), ("target".into(), "braid".into())]);
    let run = Run {
        command: "braid-load run --key <hot>".into(),
        started: "2026-11-29T12:00:00Z".into(),
        seed: Some(7),
        version: "0.1.0".into(),
        commit: "abcdef".into(),
        workload,
        machine,
    };
    let rows = intervals.iter().map(Row::of).collect();
    (Document::new(run, &outcome, rows), outcome)
}

//! What a run came to: counts, refusals, latencies, as a table or as JSON. Measures nothing itself.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::json;
use tokio::task::JoinSet;

use crate::client::{Failure, RowError, Sent};
use crate::source::SourceError;

/// Refused events that are shown in full.
const SAMPLES_MAX: usize = 10;
/// Latencies are kept to three digits, from a microsecond to an hour.
const LATENCY_MAX: Duration = Duration::from_secs(3_600);

/// What one connection, or all together, did.
pub(crate) struct Tally {
    pub(crate) events: u64,
    pub(crate) stored: u64,
    pub(crate) rejected: u64,
    pub(crate) requests: u64,
    pub(crate) retries: u64,
    pub(crate) body_bytes: u64,
    latency: Histogram<u64>,
    codes: BTreeMap<String, u64>,
    samples: Vec<Sample>,
}

/// A refused event that is shown; `line` where the events come from a file.
#[derive(serde::Serialize)]
struct Sample {
    line: Option<u64>,
    code: String,
    detail: String,
}

/// Why a run broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    #[error(transparent)]
    Request(#[from] Failure),
    #[error("the file can't be read: {0}")]
    Source(#[from] SourceError),
    #[error("a task of the generator failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// How a run ended.
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) took: Duration,
    pub(crate) failure: Option<Stop>,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        let micros = LATENCY_MAX.as_micros() as u64;
        Tally {
            events: 0,
            stored: 0,
            rejected: 0,
            requests: 0,
            retries: 0,
            body_bytes: 0,
            latency: Histogram::new_with_bounds(1, micros, 3).expect("these bounds are sound"),
            codes: BTreeMap::new(),
            samples: Vec::new(),
        }
    }

    /// Counts a body of `events` events that went through; `lines` numbers them in their file.
    pub(crate) fn count(&mut self, sent: Sent, events: u64, bytes: usize, lines: &[u64]) {
        self.events += events;
        self.stored += sent.answer.stored;
        self.rejected += sent.answer.rejected;
        self.requests += 1;
        self.retries += sent.retries;
        self.body_bytes += bytes as u64;
        self.latency.saturating_record(sent.latency.as_micros() as u64);
        for error in sent.answer.errors {
            self.refused(error, lines);
        }
    }

    fn refused(&mut self, error: RowError, lines: &[u64]) {
        if self.samples.len() < SAMPLES_MAX {
            let line = lines.get(error.index).copied();
            self.samples.push(Sample { line, code: error.code.clone(), detail: error.detail });
        }
        *self.codes.entry(error.code).or_default() += 1;
    }

    /// Adds what another connection did.
    pub(crate) fn add(&mut self, other: Tally) {
        self.events += other.events;
        self.stored += other.stored;
        self.rejected += other.rejected;
        self.requests += other.requests;
        self.retries += other.retries;
        self.body_bytes += other.body_bytes;
        self.latency.add(&other.latency).expect("both have the same bounds");
        for (code, n) in other.codes {
            *self.codes.entry(code).or_default() += n;
        }
        let room = SAMPLES_MAX - self.samples.len();
        self.samples.extend(other.samples.into_iter().take(room));
    }

    fn millis(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// Adds up what the senders did; the first failure stands.
pub(crate) async fn gather(mut senders: JoinSet<(Tally, Option<Stop>)>) -> (Tally, Option<Stop>) {
    let (mut all, mut first) = (Tally::new(), None);
    while let Some(done) = senders.join_next().await {
        match done {
            Ok((tally, failure)) => {
                all.add(tally);
                first = first.or(failure);
            }
            Err(error) => first = first.or(Some(error.into())),
        }
    }
    (all, first)
}

impl Outcome {
    fn per_second(&self, n: u64) -> f64 {
        n as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// The summary for a person.
    pub(crate) fn table(&self) -> String {
        let tally = &self.tally;
        let latency = format!(
            "p50 {:.3}  p90 {:.3}  p99 {:.3}  p99.9 {:.3}  max {:.3}",
            tally.millis(0.5),
            tally.millis(0.9),
            tally.millis(0.99),
            tally.millis(0.999),
            tally.latency.max() as f64 / 1e3
        );
        let rows = [
            ("events", tally.events.to_string()),
            ("stored", tally.stored.to_string()),
            ("rejected", tally.rejected.to_string()),
            ("requests", format!("{} ({} sent again)", tally.requests, tally.retries)),
            ("body MB", format!("{:.1}", tally.body_bytes as f64 / 1e6)),
            ("seconds", format!("{:.3}", self.took.as_secs_f64())),
            ("events/s", format!("{:.0}", self.per_second(tally.events))),
            ("requests/s", format!("{:.0}", self.per_second(tally.requests))),
            ("latency ms", latency),
        ];
        let mut text = rows.iter().map(|(name, value)| format!("{name:<11} {value}")).collect::<Vec<_>>().join("\n");
        for (code, n) in &tally.codes {
            let _ = write!(text, "\nrefused     {n} {code}");
        }
        for sample in &tally.samples {
            let place = sample.line.map(|line| format!("line {line}: ")).unwrap_or_default();
            let _ = write!(text, "\n  {place}{}: {}", sample.code, sample.detail);
        }
        text
    }

    /// The summary for a program, one JSON object.
    pub(crate) fn json(&self) -> String {
        let tally = &self.tally;
        json!({
            "events": tally.events,
            "stored": tally.stored,
            "rejected": tally.rejected,
            "requests": tally.requests,
            "retries": tally.retries,
            "body_bytes": tally.body_bytes,
            "seconds": self.took.as_secs_f64(),
            "events_per_second": self.per_second(tally.events),
            "requests_per_second": self.per_second(tally.requests),
            "latency_ms": {
                "p50": tally.millis(0.5), "p90": tally.millis(0.9), "p99": tally.millis(0.99),
                "p999": tally.millis(0.999), "max": tally.latency.max() as f64 / 1e3,
            },
            "refused": tally.codes,
            "refused_samples": tally.samples,
            "failure": self.failure.as_ref().map(ToString::to_string),
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use crate::client::Answer;

    use super::*;

    fn one_refused(index: usize) -> Sent {
        let errors = vec![RowError { index, code: "key_missing".into(), detail: "no key".into() }];
        let answer = Answer { stored: 2, rejected: 1, errors };
        Sent { answer, latency: Duration::from_millis(4), retries: 1 }
    }

    #[test]
    fn the_summary_adds_up_and_names_the_lines_that_were_refused() {
        let mut tally = Tally::new();
        tally.count(one_refused(1), 3, 100, &[7, 9, 10]);
        let mut all = Tally::new();
        all.add(tally);
        let outcome = Outcome { tally: all, took: Duration::from_secs(2), failure: None };
        let json: serde_json::Value = serde_json::from_str(&outcome.json()).unwrap();
        assert_eq!((&json["events"], &json["stored"], &json["refused"]["key_missing"]), (&json!(3), &json!(2), &json!(1)));
        assert_eq!(json["events_per_second"], 1.5);
        assert!(outcome.table().contains("line 9: key_missing: no key"), "{}", outcome.table());
    }

    #[test]
    fn refused_events_are_all_counted_and_few_are_kept() {
        let mut tally = Tally::new();
        for _ in 0..100 {
            tally.count(one_refused(0), 3, 1, &[]);
        }
        assert_eq!((tally.codes["key_missing"], tally.samples.len()), (100, SAMPLES_MAX));
    }
}

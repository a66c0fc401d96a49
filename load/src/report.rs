//! What a run came to, as a table or as JSON. Measures nothing itself.

use std::fmt::Write;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::client::Failure;
use crate::exit::Exit;
use crate::record::{Kind, Record, Series};
use crate::source::SourceError;
use crate::verify::Verification;

/// All kinds but the writes.
const READS: &[Kind] = Kind::ALL.split_at(1).1;

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
    pub(crate) record: Record,
    pub(crate) failure: Option<Stop>,
    /// Of a verified run; the error says why it could not be verified.
    pub(crate) verification: Option<Result<Verification, String>>,
}

impl Outcome {
    pub(crate) fn exit(&self) -> Exit {
        let refused = |series: &Series| series.rejected > 0 || series.failed > 0;
        let wrong = |verification: &Verification| !verification.verdict.holds();
        match (&self.failure, &self.verification) {
            (_, Some(Ok(verification))) if wrong(verification) => Exit::Wrong,
            (Some(_), _) | (_, Some(Err(_))) => Exit::BrokenOff,
            _ if self.record.skipped > 0 || self.record.series.values().any(refused) => Exit::Refused,
            _ => Exit::Done,
        }
    }

    fn per_second(&self, n: u64) -> f64 {
        n as f64 / self.record.took.as_secs_f64().max(1e-9)
    }

    /// The summary for a person.
    pub(crate) fn table(&self) -> String {
        let record = &self.record;
        let mut rows = Vec::new();
        if let Some(write) = record.series.get(&Kind::Write) {
            rows.extend([
                ("events", write.events.to_string()),
                ("stored", write.stored.to_string()),
                ("rejected", write.rejected.to_string()),
                ("requests", format!("{} ({} sent again)", write.requests, write.retries)),
                ("body MB", format!("{:.1}", write.bytes as f64 / 1e6)),
                ("events/s", format!("{:.0}", self.per_second(write.events))),
                ("requests/s", format!("{:.0}", self.per_second(write.requests))),
                ("latency ms", percentiles(&write.latency)),
            ]);
        }
        for (kind, series) in READS.iter().filter_map(|kind| Some((kind, record.series.get(kind)?))) {
            let rate = self.per_second(series.requests);
            rows.push((
                kind.name(),
                format!("{} ({} failed) {rate:.0}/s  ms {}", series.requests, series.failed, percentiles(&series.latency)),
            ));
        }
        rows.push(("seconds", format!("{:.3}", record.took.as_secs_f64())));
        rows.push(("backlog", format!("{} at most, {} events skipped", record.backlog_max, record.skipped)));
        let mut text = rows.iter().map(|(name, value)| format!("{name:<11} {value}")).collect::<Vec<_>>().join("\n");
        for (code, n) in &record.codes {
            let _ = write!(text, "\nrefused     {n} {code}");
        }
        for sample in &record.refusals {
            let place = sample.line.map(|line| format!("line {line}: ")).unwrap_or_default();
            let _ = write!(text, "\n  {place}{}: {}", sample.code, sample.detail);
        }
        match &self.verification {
            Some(Ok(verification)) => text + &verified(verification),
            Some(Err(why)) => text + "\nverify      could not be done: " + why,
            None => text,
        }
    }

    /// The summary for a program, one JSON object.
    pub(crate) fn json(&self) -> String {
        let record = &self.record;
        let mut json = record.series.get(&Kind::Write).map_or_else(|| json!({}), |write| self.series(write));
        let reads = READS.iter().filter_map(|kind| Some((kind.name().to_owned(), self.series(record.series.get(kind)?))));
        json["reads"] = reads.collect();
        json["seconds"] = record.took.as_secs_f64().into();
        json["backlog_max"] = record.backlog_max.into();
        json["skipped"] = record.skipped.into();
        json["refused"] = json!(record.codes);
        json["refused_samples"] = json!(record.refusals);
        json["verify"] = match &self.verification {
            Some(Ok(verification)) => json!(verification),
            Some(Err(why)) => json!({ "failure": why }),
            None => Value::Null,
        };
        json["failure"] = self.failure.as_ref().map(ToString::to_string).into();
        json.to_string()
    }

    fn series(&self, series: &Series) -> Value {
        json!({
            "events": series.events,
            "stored": series.stored,
            "rejected": series.rejected,
            "unknown": series.unknown,
            "requests": series.requests,
            "failed": series.failed,
            "retries": series.retries,
            "retry_after": series.told_to_wait,
            "body_bytes": series.bytes,
            "events_per_second": self.per_second(series.events),
            "requests_per_second": self.per_second(series.requests),
            "latency_ms": millis_of(&series.latency),
            "service_ms": millis_of(&series.service),
        })
    }
}

/// What verification found, for a person; every event that is named is.
fn verified(verification: &Verification) -> String {
    let verdict = &verification.verdict;
    let mut text = format!(
        "\nverify      {} acknowledged, {} found in {:.1} s; of unknown outcome {} found, {} absent",
        verdict.acknowledged, verdict.found, verification.seconds, verdict.unknown_found, verdict.unknown_absent
    );
    for (name, faults) in verdict.faults() {
        let _ = write!(text, "\n{name:<11} {}", faults.count);
        for event in &faults.named {
            let _ = write!(text, "\n  key {} id {} ts {}", event.key, event.id, event.ts);
        }
    }
    text
}

fn millis(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e3
}

fn millis_of(histogram: &Histogram<u64>) -> Value {
    let at = |quantile| millis(histogram, quantile);
    json!({"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999), "max": at(1.0)})
}

fn percentiles(histogram: &Histogram<u64>) -> String {
    let at = |quantile| millis(histogram, quantile);
    format!("p50 {:.3}  p90 {:.3}  p99 {:.3}  p99.9 {:.3}  max {:.3}", at(0.5), at(0.9), at(0.99), at(0.999), at(1.0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use crate::client::RowError;
    use crate::oracle;
    use crate::record::{self, Recorder, Sample};

    use super::*;

    fn outcome(rejected: u64) -> Outcome {
        let began = Instant::now();
        let recorder = Recorder::new(began, Duration::ZERO, Vec::new());
        let ended = began + Duration::from_secs(2);
        recorder.sample(&Sample {
            kind: Kind::Write,
            intended: began,
            started: began,
            ended,
            events: 3,
            rejected,
            bytes: 100,
            outcome: record::Outcome::Done,
            retries: 1,
            told_to_wait: 0,
        });
        if rejected > 0 {
            recorder.refused(RowError { index: 1, code: "key_missing".into(), detail: "no key".into() }, Some(9));
        }
        Outcome { record: recorder.finish(ended), failure: None, verification: None }
    }

    #[test]
    fn the_summary_adds_up_and_names_the_lines_that_were_refused() {
        let outcome = outcome(1);
        let json: Value = serde_json::from_str(&outcome.json()).unwrap();
        assert_eq!((&json["events"], &json["stored"], &json["refused"]["key_missing"]), (&json!(3), &json!(2), &json!(1)));
        assert_eq!(json["events_per_second"], 1.5);
        assert!(outcome.table().contains("line 9: key_missing: no key"), "{}", outcome.table());
        assert_eq!(outcome.exit(), Exit::Refused);
    }

    #[test]
    fn a_run_is_done_when_all_is_stored_and_broken_off_when_it_stopped() {
        assert_eq!(outcome(0).exit(), Exit::Done);
        let failure = Some(Failure::Refused("404".into()).into());
        assert_eq!(Outcome { failure, ..outcome(0) }.exit(), Exit::BrokenOff);
        let mut skipped = outcome(0);
        skipped.record.skipped = 1;
        assert_eq!(skipped.exit(), Exit::Refused);
    }

    #[test]
    fn what_is_lost_outweighs_all_else_and_what_could_not_be_verified_is_not_done() {
        let mut verdict = oracle::Verdict::default();
        let verified = |verdict: &oracle::Verdict| Some(Ok(Verification { verdict: verdict.clone(), seconds: 1.0 }));
        assert_eq!(Outcome { verification: verified(&verdict), ..outcome(0) }.exit(), Exit::Done);
        verdict.lost.count = 1;
        let failure = Some(Failure::Refused("404".into()).into());
        let lost = Outcome { verification: verified(&verdict), failure, ..outcome(1) };
        assert_eq!(lost.exit(), Exit::Wrong);
        assert!(lost.table().contains("lost        1"), "{}", lost.table());
        assert_eq!(Outcome { verification: Some(Err("gone".into())), ..outcome(1) }.exit(), Exit::BrokenOff);
    }
}

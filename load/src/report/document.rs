//! The result of a run as a document (`--json`): what is written, and what `compare` reads.
//!
//! docs/LOAD.md describes it field by field. A field may be added; one that is taken away, or means
//! something else, makes a new [`SCHEMA`].

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Outcome;
use super::machine::Machine;
use crate::record::{ByKind, Interval, Kind, Refusal, Series};

/// Version of the document.
pub(crate) const SCHEMA: u32 = 1;

/// Settings of a command line by their names, defaults included.
pub(crate) type Settings = BTreeMap<String, String>;

/// What a run was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The command line.
    pub(crate) command: String,
    /// When it began, RFC 3339.
    pub(crate) started: String,
    /// What the events were drawn from; none where they came from a file.
    pub(crate) seed: Option<u64>,
    /// The generator's version and the commit it was built from.
    pub(crate) version: String,
    pub(crate) commit: String,
    /// Settings that say what was sent and how.
    pub(crate) workload: Settings,
    pub(crate) machine: Machine,
}

/// A result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) schema: u32,
    pub(crate) run: Run,
    /// Writes; their members stand at the top level.
    #[serde(flatten)]
    pub(crate) write: Option<Summary>,
    /// Reads by kind.
    pub(crate) reads: BTreeMap<String, Summary>,
    /// From the end of the warm-up to the last answer, or the end of an open loop if that is later.
    pub(crate) seconds: f64,
    pub(crate) warmup_requests: u64,
    pub(crate) backlog_max: u64,
    pub(crate) skipped: u64,
    /// Refused events by code, and the first of them.
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) refused_samples: Vec<Refusal>,
    /// What `--verify` found, or why it found nothing; null without it.
    pub(crate) verify: Value,
    /// Why the run broke off, if it did.
    pub(crate) failure: Option<String>,
    pub(crate) intervals: Vec<Row>,
}

/// All requests of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) events: u64,
    pub(crate) stored: u64,
    pub(crate) rejected: u64,
    pub(crate) unknown: u64,
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    pub(crate) retries: u64,
    pub(crate) retry_after: u64,
    pub(crate) body_bytes: u64,
    /// Capacity units of DynamoDB.
    #[serde(default)]
    pub(crate) units: f64,
    pub(crate) events_per_second: f64,
    pub(crate) requests_per_second: f64,
    /// From the intended time of a request.
    pub(crate) latency_ms: Quantiles,
    /// From its actual time.
    pub(crate) service_ms: Quantiles,
}

/// Milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// An interval of a run, about a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// From the run's beginning, seconds.
    pub(crate) start: f64,
    pub(crate) seconds: f64,
    pub(crate) warmup: bool,
    pub(crate) backlog: u64,
    /// Requests by kind that ended in it.
    pub(crate) kinds: BTreeMap<String, Cell>,
}

/// The requests of a kind that ended in an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) events: u64,
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    pub(crate) retries: u64,
    pub(crate) latency_ms: Quantiles,
}

impl Quantiles {
    /// Of a histogram in microseconds.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Quantiles {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Quantiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }

    /// Names and values, for tables.
    pub(crate) fn rows(&self) -> [(&'static str, f64); 5] {
        [("p50", self.p50), ("p90", self.p90), ("p99", self.p99), ("p99.9", self.p999), ("max", self.max)]
    }
}

impl Summary {
    fn of(series: &Series, seconds: f64) -> Summary {
        Summary {
            events: series.events,
            stored: series.stored,
            rejected: series.rejected,
            unknown: series.unknown,
            requests: series.requests,
            failed: series.failed,
            retries: series.retries,
            retry_after: series.told_to_wait,
            body_bytes: series.bytes,
            units: series.units,
            events_per_second: series.events as f64 / seconds.max(1e-9),
            requests_per_second: series.requests as f64 / seconds.max(1e-9),
            latency_ms: Quantiles::of(&series.latency),
            service_ms: Quantiles::of(&series.service),
        }
    }
}

impl Row {
    pub(crate) fn of(interval: &Interval) -> Row {
        let cell = |series: &Series| Cell {
            events: series.events,
            requests: series.requests,
            failed: series.failed,
            retries: series.retries,
            latency_ms: Quantiles::of(&series.latency),
        };
        Row {
            start: interval.start.as_secs_f64(),
            seconds: interval.length.as_secs_f64(),
            warmup: interval.warmup,
            backlog: interval.backlog,
            kinds: interval.series.iter().map(|(kind, series)| (kind.name().to_owned(), cell(series))).collect(),
        }
    }
}

impl Document {
    /// The result of a run that saw `intervals`.
    pub(crate) fn new(run: Run, outcome: &Outcome, intervals: Vec<Row>) -> Document {
        let record = &outcome.record;
        let seconds = record.took.as_secs_f64();
        let reads = |series: &ByKind| {
            let reads = series.iter().filter(|(kind, _)| **kind != Kind::Write);
            reads.map(|(kind, series)| (kind.name().to_owned(), Summary::of(series, seconds))).collect()
        };
        Document {
            schema: SCHEMA,
            run,
            write: record.series.get(&Kind::Write).map(|series| Summary::of(series, seconds)),
            reads: reads(&record.series),
            seconds,
            warmup_requests: record.warmup_requests,
            backlog_max: record.backlog_max,
            skipped: record.skipped,
            refused: record.codes.clone(),
            refused_samples: record.refusals.clone(),
            verify: match &outcome.verification {
                Some(Ok(verification)) => json!(verification),
                Some(Err(why)) => json!({ "failure": why }),
                None => Value::Null,
            },
            failure: outcome.failure.as_ref().map(ToString::to_string),
            intervals,
        }
    }

    /// The summaries by name, writes first.
    pub(crate) fn summaries(&self) -> impl Iterator<Item = (&str, &Summary)> {
        let write = self.write.iter().map(|write| (Kind::Write.name(), write));
        write.chain(self.reads.iter().map(|(name, read)| (name.as_str(), read)))
    }

    /// What was charged for, a part a kind; none where nothing was.
    pub(crate) fn units(&self) -> Option<String> {
        let of = |(name, summary): (&str, &Summary)| {
            let (count, each) = if summary.events > 0 { (summary.events, "an event") } else { (summary.requests, "each") };
            let units = summary.units;
            (units > 0.0).then(|| format!("{name} {units:.1}, {:.3} {each}", units / count.max(1) as f64))
        };
        let parts: Vec<String> = self.summaries().filter_map(of).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Reads a document that this program, or an older one, wrote.
    pub(crate) fn read(text: &str) -> Result<Document, String> {
        #[derive(Deserialize)]
        struct Versioned {
            schema: u32,
        }
        let schema = serde_json::from_str::<Versioned>(text).map_err(|error| format!("no result of braid-load: {error}"))?.schema;
        if schema != SCHEMA {
            return Err(format!("a result of schema {schema}; this program reads {SCHEMA}"));
        }
        serde_json::from_str(text).map_err(|error| format!("a damaged result: {error}"))
    }

    /// One line of JSON.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }
}

#[cfg(test)]
mod tests {
    use crate::report::samples;

    use super::*;

    #[test]
    fn a_result_adds_up_and_stands_under_the_documented_names() {
        let (document, _) = samples::result();
        let json: Value = serde_json::from_str(&document.json()).unwrap();
        assert_eq!((&json["events"], &json["stored"], &json["rejected"]), (&json!(30_000), &json!(29_999), &json!(1)));
        assert_eq!((&json["refused"], &json["refused_samples"][0]["line"]), (&json!({"key_missing": 1}), &json!(9)));
        // From the beginning to the last answer: 299 · 10 ms + 2 ms + (299 mod 40) ms.
        assert_eq!(json["seconds"], 3.011);
        assert_eq!(json["events_per_second"], 30_000.0 / 3.011);
        let of_intervals = json["intervals"].as_array().unwrap().iter().map(|row| row["kinds"]["write"]["requests"].as_u64().unwrap());
        assert_eq!(of_intervals.sum::<u64>(), 300);
        assert_eq!(json["reads"]["read:last"]["requests"], 300);
        assert_eq!((&json["units"], document.units()), (&json!(750.0), Some("write 750.0, 0.025 an event".to_owned())));
    }

    #[test]
    fn the_page_about_results_names_every_member() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/LOAD.md")).unwrap();
        let json: Value = serde_json::from_str(&samples::result().0.json()).unwrap();
        let of = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let row = &json["intervals"][0];
        let members =
            [of(&json), of(&json["run"]), of(&json["run"]["machine"]), of(row), of(&row["kinds"]["write"]), of(&json["latency_ms"])];
        let missing: Vec<_> = members.concat().into_iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "not in docs/LOAD.md: {missing:?}");
    }

    #[test]
    fn a_result_reads_back_as_it_was_written_and_another_schema_is_refused() {
        let (document, _) = samples::result();
        assert_eq!(Document::read(&document.json()).unwrap(), document);
        let reads_only = Document { write: None, ..document.clone() };
        assert_eq!(Document::read(&reads_only.json()).unwrap().write, None);
        let newer = document.json().replace("\"schema\":1", "\"schema\":2");
        assert!(Document::read(&newer).unwrap_err().contains("schema 2"));
        assert!(Document::read("{}").unwrap_err().contains("no result") && Document::read("no").is_err());
    }
}

//! What is measured, and in which form: one [`Sample`] a request, folded into [`Interval`]s.
//!
//! Every connection hands each request that ended to the one [`Recorder`] of the run. The recorder
//! keeps a histogram per kind of request for the interval under way and one for all of the run (what
//! was meant to leave in the warm-up apart). Once a second [`Recorder::tick`] closes the interval and
//! shows it to every observer: progress, interval log and plots are observers, and each keeps of it
//! what it needs. [`Recorder::finish`] gives the [`Record`], from which tables and files are made.
//!
//! Latency is from when a request was *meant* to leave to its answer, so that a stall shows in all
//! that had to wait for it; service is from when it did leave. Microseconds, three digits. Here is no
//! output and no clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

use crate::client::RowError;

/// Longest latency that is told apart, an hour.
const LATENCY_MAX: Duration = Duration::from_secs(3_600);
/// Refused events that are kept in full.
const REFUSALS_MAX: usize = 10;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Write,
    ReadLast,
    ReadRange,
    ReadPoint,
}

impl Kind {
    #[cfg(test)]
    pub(crate) const ALL: [Kind; 4] = [Kind::Write, Kind::ReadLast, Kind::ReadRange, Kind::ReadPoint];

    /// As it stands in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Write => "write",
            Kind::ReadLast => "read:last",
            Kind::ReadRange => "read:range",
            Kind::ReadPoint => "read:point",
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Answered; its events are stored but for those that were refused one by one.
    Done,
    /// Refused whole.
    Refused,
    /// Given up without knowing what became of it.
    Unknown,
}

/// A request that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) kind: Kind,
    /// When it was meant to leave; in a closed loop, when it did.
    pub(crate) intended: Instant,
    /// When its first try left.
    pub(crate) started: Instant,
    /// When its last answer was read.
    pub(crate) ended: Instant,
    /// Events of its body; 0 for reads.
    pub(crate) events: u64,
    /// Of these, refused one by one.
    pub(crate) rejected: u64,
    /// Bytes of its body as sent, once; of a read, of the answer.
    pub(crate) bytes: u64,
    /// Capacity units that DynamoDB charged for it.
    pub(crate) units: f64,
    pub(crate) outcome: Outcome,
    /// Tries after the first.
    pub(crate) retries: u64,
    /// Of these, after the time that the server asked for (`Retry-After`).
    pub(crate) told_to_wait: u64,
}

/// The requests of a kind, added up.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) requests: u64,
    /// Requests that were not answered.
    pub(crate) failed: u64,
    pub(crate) events: u64,
    pub(crate) stored: u64,
    pub(crate) rejected: u64,
    pub(crate) unknown: u64,
    pub(crate) bytes: u64,
    pub(crate) units: f64,
    pub(crate) retries: u64,
    pub(crate) told_to_wait: u64,
    /// From the intended time, µs; of the requests that were answered.
    pub(crate) latency: Histogram<u64>,
    /// From the actual time, µs; of the same.
    pub(crate) service: Histogram<u64>,
}

impl Series {
    fn new() -> Series {
        let micros = LATENCY_MAX.as_micros() as u64;
        let histogram = Histogram::new_with_bounds(1, micros, 3).expect("these bounds are sound");
        Series {
            requests: 0,
            failed: 0,
            events: 0,
            stored: 0,
            rejected: 0,
            unknown: 0,
            bytes: 0,
            units: 0.0,
            retries: 0,
            told_to_wait: 0,
            latency: histogram.clone(),
            service: histogram,
        }
    }

    fn count(&mut self, sample: &Sample) {
        self.requests += 1;
        self.events += sample.events;
        self.bytes += sample.bytes;
        self.units += sample.units;
        self.retries += sample.retries;
        self.told_to_wait += sample.told_to_wait;
        match sample.outcome {
            Outcome::Done => {
                self.rejected += sample.rejected;
                self.stored += sample.events - sample.rejected;
                self.latency.saturating_record(micros(sample.ended - sample.intended));
                self.service.saturating_record(micros(sample.ended - sample.started));
            }
            Outcome::Refused => {
                self.failed += 1;
                self.rejected += sample.events;
            }
            Outcome::Unknown => {
                self.failed += 1;
                self.unknown += sample.events;
            }
        }
    }

    /// Adds another series of the same kind.
    pub(crate) fn add(&mut self, other: &Series) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.events += other.events;
        self.stored += other.stored;
        self.rejected += other.rejected;
        self.unknown += other.unknown;
        self.bytes += other.bytes;
        self.units += other.units;
        self.retries += other.retries;
        self.told_to_wait += other.told_to_wait;
        self.latency.add(&other.latency).expect("both have the same bounds");
        self.service.add(&other.service).expect("both have the same bounds");
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Series by kind; a kind that never was is not there.
pub(crate) type ByKind = BTreeMap<Kind, Series>;

/// About a second of a run, by when requests ended.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    /// From the run's beginning.
    pub(crate) start: Duration,
    pub(crate) length: Duration,
    /// Whether it began in the warm-up.
    pub(crate) warmup: bool,
    /// Events due and not yet sent at its end; 0 in a closed loop.
    pub(crate) backlog: u64,
    pub(crate) series: ByKind,
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Record {
    /// From the end of the warm-up to the last answer, or the end of an open loop if that is later.
    pub(crate) took: Duration,
    /// All that was meant to leave after the warm-up.
    pub(crate) series: ByKind,
    /// Requests that were meant to leave in the warm-up, of all kinds.
    pub(crate) warmup_requests: u64,
    /// Events that were never sent, because they were too late when a connection was free.
    pub(crate) skipped: u64,
    /// Most events due and not yet sent at the end of an interval.
    pub(crate) backlog_max: u64,
    /// Refused events by code.
    pub(crate) codes: BTreeMap<String, u64>,
    /// The first of them.
    pub(crate) refusals: Vec<Refusal>,
}

/// A refused event; `line` where the events come from a file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Refusal {
    pub(crate) line: Option<u64>,
    pub(crate) code: String,
    pub(crate) detail: String,
}

/// Sees every interval once it is over.
pub(crate) type Observer = Box<dyn FnMut(&Interval) + Send>;

/// Takes the samples of a run. Clones share it; its lock is held for nanoseconds, by one thread.
#[derive(Clone)]
pub(crate) struct Recorder {
    state: Arc<Mutex<State>>,
}

struct State {
    began: Instant,
    counted_from: Instant,
    last: Instant,
    interval_began: Instant,
    interval: ByKind,
    record: Record,
    observers: Vec<Observer>,
}

impl Recorder {
    /// For a run that begins at `began`; what is meant to leave within `warmup` of it is not counted.
    pub(crate) fn new(began: Instant, warmup: Duration, observers: Vec<Observer>) -> Recorder {
        let counted_from = began + warmup;
        let record = Record {
            took: Duration::ZERO,
            series: ByKind::new(),
            warmup_requests: 0,
            skipped: 0,
            backlog_max: 0,
            codes: BTreeMap::new(),
            refusals: Vec::new(),
        };
        let state = State { began, counted_from, last: counted_from, interval_began: began, interval: ByKind::new(), record, observers };
        Recorder { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere left counts, at worst one too few.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request.
    pub(crate) fn sample(&self, sample: &Sample) {
        let mut state = self.state();
        state.interval.entry(sample.kind).or_insert_with(Series::new).count(sample);
        if sample.intended < state.counted_from {
            state.record.warmup_requests += 1;
            return;
        }
        state.last = state.last.max(sample.ended);
        state.record.series.entry(sample.kind).or_insert_with(Series::new).count(sample);
    }

    /// Counts a refused event by its code, and keeps it while few are.
    pub(crate) fn refused(&self, error: RowError, line: Option<u64>) {
        let record = &mut self.state().record;
        if record.refusals.len() < REFUSALS_MAX {
            record.refusals.push(Refusal { line, code: error.code.clone(), detail: error.detail });
        }
        *record.codes.entry(error.code).or_default() += 1;
    }

    /// Counts events that were never sent.
    pub(crate) fn skipped(&self, events: u64) {
        self.state().record.skipped += events;
    }

    /// The run lasts until then, though its last answer may have come before.
    pub(crate) fn lasts(&self, until: Instant) {
        let mut state = self.state();
        state.last = state.last.max(until);
    }

    /// Closes the interval under way, `backlog` events being due and not sent.
    pub(crate) fn tick(&self, now: Instant, backlog: u64) {
        let state = &mut *self.state();
        state.record.backlog_max = state.record.backlog_max.max(backlog);
        let interval = Interval {
            start: state.interval_began - state.began,
            length: now - state.interval_began,
            warmup: state.interval_began < state.counted_from,
            backlog,
            series: std::mem::take(&mut state.interval),
        };
        state.interval_began = now;
        state.observers.iter_mut().for_each(|observer| observer(&interval));
    }

    /// Closes the last interval and takes what the run came to.
    pub(crate) fn finish(&self, now: Instant) -> Record {
        self.tick(now, 0);
        let state = &mut *self.state();
        let taken = Record {
            took: state.last - state.counted_from,
            series: std::mem::take(&mut state.record.series),
            codes: std::mem::take(&mut state.record.codes),
            refusals: std::mem::take(&mut state.record.refusals),
            ..state.record
        };
        state.observers.clear();
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn sample(began: Instant, [intended, started, ended]: [u64; 3], kind: Kind) -> Sample {
        let at = |millis| began + Duration::from_millis(millis);
        Sample {
            kind,
            intended: at(intended),
            started: at(started),
            ended: at(ended),
            events: 10,
            rejected: 1,
            bytes: 100,
            units: 0.5,
            outcome: Outcome::Done,
            retries: 2,
            told_to_wait: 1,
        }
    }

    #[test]
    fn latency_counts_from_the_intended_time_and_service_from_the_actual_one() {
        let began = Instant::now();
        let recorder = Recorder::new(began, Duration::ZERO, Vec::new());
        recorder.sample(&sample(began, [1_000, 3_000, 3_004], Kind::Write));
        let record = recorder.finish(began + Duration::from_secs(4));
        let write = &record.series[&Kind::Write];
        assert!(write.latency.equivalent(write.latency.max(), 2_004_000), "{}", write.latency.max());
        assert!(write.service.equivalent(write.service.max(), 4_000), "{}", write.service.max());
        assert_eq!((write.events, write.stored, write.rejected, write.retries, write.told_to_wait), (10, 9, 1, 2, 1));
        assert_eq!(write.units, 0.5);
        assert_eq!(record.took, Duration::from_millis(3_004));
    }

    #[test]
    fn a_run_lasts_beyond_its_last_answer_where_it_is_said_to() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        for (lasts, took) in [(2_000, 2_000), (900, 1_000)] {
            let recorder = Recorder::new(began, Duration::ZERO, Vec::new());
            recorder.sample(&sample(began, [0, 0, 1_000], Kind::Write));
            recorder.lasts(at(lasts));
            assert_eq!(recorder.finish(at(1_001)).took, Duration::from_millis(took));
        }
    }

    #[test]
    fn the_warm_up_is_seen_but_not_counted() {
        let began = Instant::now();
        let (seen, intervals) = mpsc::channel();
        let observer = move |interval: &Interval| {
            seen.send((interval.warmup, interval.series[&Kind::Write].requests)).unwrap();
        };
        let recorder = Recorder::new(began, Duration::from_millis(500), vec![Box::new(observer)]);
        recorder.sample(&sample(began, [100, 100, 900], Kind::Write));
        recorder.tick(began + Duration::from_secs(1), 70);
        recorder.sample(&sample(began, [600, 600, 1_500], Kind::Write));
        let record = recorder.finish(began + Duration::from_secs(2));
        assert_eq!(intervals.iter().collect::<Vec<_>>(), [(true, 1), (false, 1)]);
        assert_eq!((record.series[&Kind::Write].requests, record.warmup_requests, record.backlog_max), (1, 1, 70));
        assert_eq!(record.took, Duration::from_secs(1));
    }

    #[test]
    fn what_was_not_answered_has_no_latency() {
        let began = Instant::now();
        let recorder = Recorder::new(began, Duration::ZERO, Vec::new());
        for outcome in [Outcome::Refused, Outcome::Unknown] {
            recorder.sample(&Sample { outcome, ..sample(began, [0, 0, 5], Kind::Write) });
        }
        let write = recorder.finish(began).series.remove(&Kind::Write).unwrap();
        assert_eq!((write.failed, write.stored, write.rejected, write.unknown, write.latency.len()), (2, 0, 10, 10, 0));
    }

    #[test]
    fn kinds_are_kept_apart_and_refused_events_are_counted_by_code() {
        let began = Instant::now();
        let recorder = Recorder::new(began, Duration::ZERO, Vec::new());
        Kind::ALL.iter().for_each(|kind| recorder.sample(&sample(began, [0, 0, 1], *kind)));
        let error = RowError { index: 0, code: "key_missing".into(), detail: "no key".into() };
        (0..100).for_each(|line| recorder.refused(error.clone(), Some(line)));
        let record = recorder.finish(began);
        assert!(record.series.keys().eq(&Kind::ALL) && record.series.values().all(|series| series.requests == 1));
        assert_eq!((record.codes["key_missing"], record.refusals.len(), record.refusals[3].line), (100, REFUSALS_MAX, Some(3)));
    }
}

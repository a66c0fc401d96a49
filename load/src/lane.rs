//! What one connection of a run does from its first request to its last: take a job, wait until it
//! is due, do it, say how it went.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::{Delivery, Failure, Link, RowError};
use crate::history::History;
use crate::pace::{Job, Pace, Ticket};
use crate::record::{Kind, Outcome, Recorder, Sample};
use crate::report::Stop;
use crate::workload::{Portion, Read, ReadMix, Workload};

/// What the connections of a run share.
pub(crate) struct Lane {
    pub(crate) pace: Arc<Pace>,
    /// Where reads find what was written.
    pub(crate) written: Arc<Pace>,
    /// Slots below it were written before the run.
    pub(crate) known: u64,
    pub(crate) workload: Arc<Workload>,
    pub(crate) recorder: Recorder,
    pub(crate) reads: ReadMix,
    /// Of a verified run.
    pub(crate) history: Option<Arc<History>>,
}

impl Lane {
    /// Does jobs until there are no more. A write that does not go through ends the run; a read that
    /// does not is counted.
    pub(crate) async fn drive(self: Arc<Self>, mut link: Link) -> Option<Failure> {
        while let Some(Ticket { job, intended }) = self.pace.take() {
            let ended = match job {
                Job::Write(portion) => self.write(&mut link, portion, intended).await,
                Job::Read(n) => {
                    self.read(&mut link, n, intended).await;
                    None
                }
            };
            if ended.is_some() {
                self.pace.close();
                return ended;
            }
        }
        None
    }

    async fn write(&self, link: &mut Link, portion: Portion, due: Option<Instant>) -> Option<Failure> {
        self.workload.times.note(portion.first, self.pace.elapsed().as_millis() as i64);
        link.prepare(portion);
        if let Some(due) = due {
            self.pace.wait(due).await;
        }
        let delivery = link.write().await;
        self.pace.done(portion);
        self.recorder.sample(&sample(Kind::Write, due, portion.events, &delivery));
        if let Some(history) = &self.history {
            history.note(&self.workload, portion, &delivery);
        }
        match delivery.result {
            Ok(answer) => {
                answer.errors.into_iter().for_each(|error| self.recorder.refused(error, None));
                None
            }
            Err(failure) => Some(failure),
        }
    }

    async fn read(&self, link: &mut Link, n: u64, due: Option<Instant>) {
        let read = self.reads.read(&self.workload, n, self.written.settled().max(self.known));
        if let Some(due) = due {
            self.pace.wait(due).await;
        }
        let delivery = link.read(&read).await;
        let kind = kind(&read);
        self.recorder.sample(&sample(kind, due, 0, &delivery));
        if let Err(failure) = delivery.result {
            self.recorder.refused(RowError { index: 0, code: kind.name().to_owned(), detail: failure.to_string() }, None);
        }
    }
}

fn kind(read: &Read) -> Kind {
    match read {
        Read::Last { .. } => Kind::ReadLast,
        Read::Range { .. } => Kind::ReadRange,
        Read::Point { .. } => Kind::ReadPoint,
    }
}

/// What a request that ended is to the recorder.
pub(crate) fn sample(kind: Kind, due: Option<Instant>, events: u64, delivery: &Delivery) -> Sample {
    let (outcome, rejected) = match &delivery.result {
        Ok(answer) => (Outcome::Done, answer.rejected.min(events)),
        Err(Failure::Refused(_)) if !delivery.doubtful => (Outcome::Refused, 0),
        Err(_) => (Outcome::Unknown, 0),
    };
    Sample {
        kind,
        intended: due.unwrap_or(delivery.started),
        started: delivery.started,
        ended: delivery.ended,
        events,
        rejected,
        bytes: delivery.bytes,
        units: delivery.units,
        outcome,
        retries: delivery.retries,
        told_to_wait: delivery.told_to_wait,
    }
}

/// Closes an interval of the recorder every second, until it is aborted.
pub(crate) async fn tick(recorder: Recorder, backlog: impl Fn() -> u64) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    seconds.tick().await;
    loop {
        seconds.tick().await;
        recorder.tick(Instant::now(), backlog());
    }
}

/// Waits for all connections; a failure, or an interrupt, ends the run for all of them by `close`. The
/// first reason stands.
pub(crate) async fn gather<F: Into<Stop> + 'static>(mut drivers: JoinSet<Option<F>>, close: impl Fn()) -> Option<Stop> {
    let mut first = None;
    loop {
        let stop = tokio::select! {
            done = drivers.join_next() => match done {
                None => return first,
                Some(Ok(failure)) => failure.map(Into::into),
                Some(Err(error)) => Some(Stop::from(error)),
            },
            Ok(()) = tokio::signal::ctrl_c() => {
                // The first one lets what is under way be answered, the second does not.
                if matches!(first, Some(Stop::Interrupted)) {
                    drivers.abort_all();
                }
                Some(Stop::Interrupted)
            }
        };
        if stop.is_some() {
            close();
            first = first.or(stop);
        }
    }
}

/// What comes of some work, unless a person does not wait for it.
pub(crate) async fn unless_interrupted<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    tokio::select! {
        done = work => done,
        Ok(()) = tokio::signal::ctrl_c() => Err("interrupted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use crate::pace::Plan;
    use crate::record::Record;
    use crate::workload::{Choice, EventTimes, Keys, Shape, Share};

    use super::*;

    /// 100 requests a second for 10 s over `connections` of a server that answers after `takes` milliseconds.
    async fn run(rate: Option<&str>, connections: usize, takes: impl Fn(Duration) -> u64 + Clone + Send + 'static) -> Record {
        let began = Instant::now();
        let plan = Plan {
            schedule: rate.map(|rate| Arc::new(rate.parse().unwrap())),
            batch: 1,
            events_max: u64::MAX,
            until: Some(Duration::from_secs(10)),
            lag_max: Duration::from_secs(30),
            reads: Share::default(),
            reads_alone: false,
            seed: 1,
            awake: Duration::ZERO,
        };
        let pace = Arc::new(Pace::new(plan, began));
        let workload = Workload::new(1, Keys::new("k", Choice::One), Shape::default(), EventTimes::spaced(0, 1));
        let recorder = Recorder::new(began, Duration::ZERO, Vec::new());
        let written = Arc::clone(&pace);
        let reads = ReadMix::Point;
        let lane = Arc::new(Lane { pace, written, known: 0, workload, recorder: recorder.clone(), reads, history: None });
        let mut all = JoinSet::new();
        for _ in 0..connections {
            let takes = takes.clone();
            let link = Link::Fake(Box::new(move || Duration::from_millis(takes(began.elapsed()))));
            all.spawn(Arc::clone(&lane).drive(link));
        }
        assert!(all.join_all().await.iter().all(Option::is_none));
        recorder.finish(Instant::now())
    }

    /// From 4 s on nothing is answered before 6 s; else an answer takes a millisecond.
    fn stalled(elapsed: Duration) -> u64 {
        let millis = elapsed.as_millis() as u64;
        if (4_000..6_000).contains(&millis) { 6_001 - millis } else { 1 }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_of_two_seconds_shows_in_every_request_that_was_due_in_it() {
        let record = run(Some("100"), 2, stalled).await;
        let write = &record.series[&Kind::Write];
        assert_eq!(write.requests, 1_000, "every request that was due was sent");
        // Of the 200 that were due in the stall, the first waits 2 s, the last 10 ms.
        let millis = |quantile| write.latency.value_at_quantile(quantile) / 1_000;
        assert!((1_990..=2_010).contains(&millis(0.999)), "p99.9 {} ms", millis(0.999));
        assert!((980..=1_200).contains(&millis(0.9)), "p90 {} ms", millis(0.9));
        assert!(millis(0.5) <= 2, "p50 {} ms", millis(0.5));
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_stall_hides_from_a_closed_loop() {
        let record = run(None, 2, stalled).await;
        let write = &record.series[&Kind::Write];
        assert!(write.requests > 10_000 && write.latency.value_at_quantile(0.999) < 10_000, "two requests of many were slow");
    }
}

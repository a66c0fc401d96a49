//! Which request leaves next, and when. Requests are dealt out in order to whichever connection is
//! free; one that is due while all are busy waits here, and its waiting is part of its latency.
//!
//! Nothing is queued: what waits is a difference of two numbers. It is bounded all the same: a
//! request that could not leave within `lag_max` of its time is skipped, counted and never sent.
//! No I/O here; the clock is tokio's, so that tests can hold it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::schedule::Schedule;
use crate::workload::{Portion, Share, chance_of};

/// tokio's timers wake up to a millisecond late; the rest of the way is waited awake.
pub(crate) const TIMER_GRAIN: Duration = Duration::from_millis(1);

/// How requests are dealt out.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// None: a closed loop, the next request leaves when a connection is free.
    pub(crate) schedule: Option<Arc<Schedule>>,
    /// Events a request.
    pub(crate) batch: u64,
    pub(crate) events_max: u64,
    pub(crate) until: Option<Duration>,
    pub(crate) lag_max: Duration,
    /// Requests that are reads, and what decides which.
    pub(crate) reads: Share,
    /// All requests are reads.
    pub(crate) reads_alone: bool,
    pub(crate) seed: u64,
    /// How long before a request is due its waiting is awake.
    pub(crate) awake: Duration,
}

/// What a connection is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    Write(Portion),
    /// The number of the read.
    Read(u64),
}

/// A job and when it is meant to begin; in a closed loop, when it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) job: Job,
    pub(crate) intended: Option<Instant>,
}

/// What was dealt out so far.
#[derive(Debug, Default)]
struct Dealt {
    events: u64,
    reads: u64,
    skipped: u64,
    closed: bool,
    /// First slots of the portions that are under way.
    under_way: BTreeSet<u64>,
}

impl Dealt {
    fn settled(&self) -> u64 {
        self.under_way.first().copied().unwrap_or(self.events)
    }
}

/// Deals out the requests of a run.
#[derive(Debug)]
pub(crate) struct Pace {
    plan: Plan,
    began: Instant,
    dealt: Mutex<Dealt>,
}

impl Pace {
    pub(crate) fn new(plan: Plan, began: Instant) -> Pace {
        Pace { plan, began, dealt: Mutex::default() }
    }

    fn dealt(&self) -> MutexGuard<'_, Dealt> {
        self.dealt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next request; `None` when all is done. One that lies ahead is not waited for here.
    pub(crate) fn take(&self) -> Option<Ticket> {
        let now = Instant::now();
        let dealt = &mut *self.dealt();
        loop {
            if dealt.closed || dealt.events >= self.plan.events_max {
                return None;
            }
            let due = self.due(if self.plan.reads_alone { dealt.reads } else { dealt.events })?;
            if self.is_over(due.unwrap_or(now)) {
                return None;
            }
            // Before the first answer there is nothing to read.
            let reads =
                self.plan.reads_alone || dealt.settled() > 0 && chance_of(self.plan.seed, dealt.events + dealt.reads, self.plan.reads);
            if reads {
                dealt.reads += 1;
                return Some(Ticket { job: Job::Read(dealt.reads - 1), intended: due });
            }
            let portion = Portion { first: dealt.events, events: self.plan.batch.min(self.plan.events_max - dealt.events) };
            dealt.events += portion.events;
            if due.is_none_or(|due| now.saturating_duration_since(due) <= self.plan.lag_max) {
                dealt.under_way.insert(portion.first);
                return Some(Ticket { job: Job::Write(portion), intended: due });
            }
            dealt.skipped += portion.events;
        }
    }

    /// When the request that begins with event `next` is due; the outer `None` is never, the inner at any time.
    fn due(&self, next: u64) -> Option<Option<Instant>> {
        match &self.plan.schedule {
            Some(schedule) => self.began.checked_add(schedule.due(next)).map(Some),
            None => Some(None),
        }
    }

    fn is_over(&self, at: Instant) -> bool {
        self.plan.until.is_some_and(|until| at >= self.began + until)
    }

    /// A portion is no longer under way.
    pub(crate) fn done(&self, portion: Portion) {
        self.dealt().under_way.remove(&portion.first);
    }

    /// All slots below it were sent and answered, given up or skipped.
    pub(crate) fn settled(&self) -> u64 {
        self.dealt().settled()
    }

    /// Waits until something is settled, or nothing ever will be.
    pub(crate) async fn first_settled(&self) {
        let waits = || {
            let dealt = self.dealt();
            dealt.settled() == 0 && !dealt.closed && self.plan.events_max > 0
        };
        while waits() {
            tokio::time::sleep(TIMER_GRAIN).await;
        }
    }

    /// Until when an open loop that came to its end lasts: the next request, if there were one, would be due then.
    pub(crate) fn ends(&self) -> Option<Instant> {
        let dealt = self.dealt();
        let schedule = self.plan.schedule.as_ref().filter(|_| !dealt.closed)?;
        let due = schedule.due(if self.plan.reads_alone { dealt.reads } else { dealt.events });
        self.began.checked_add(self.plan.until.map_or(due, |until| due.min(until)))
    }

    /// How long the run has been going on.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits until a request is due.
    pub(crate) async fn wait(&self, due: Instant) {
        wait(due, self.plan.awake).await;
    }

    /// Events due by now that no connection took; 0 in a closed loop.
    pub(crate) fn backlog(&self) -> u64 {
        let Some(schedule) = &self.plan.schedule else { return 0 };
        let elapsed = self.began.elapsed();
        let due = schedule.due_by(self.plan.until.map_or(elapsed, |until| elapsed.min(until)));
        due.min(self.plan.events_max).saturating_sub(self.dealt().events)
    }

    /// Events dealt out, skipped ones among them: the slots of the run.
    pub(crate) fn slots(&self) -> u64 {
        self.dealt().events
    }

    /// Events that were skipped.
    pub(crate) fn skipped(&self) -> u64 {
        self.dealt().skipped
    }

    /// Nothing more is to be sent.
    pub(crate) fn close(&self) {
        self.dealt().closed = true;
    }
}

/// Waits until `due`, the last bit awake.
pub(crate) async fn wait(due: Instant, awake: Duration) {
    if due.saturating_duration_since(Instant::now()) > awake {
        tokio::time::sleep_until(due - awake).await;
    }
    while Instant::now() < due {
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(rate: Option<&str>, events_max: u64, until: Option<u64>) -> Pace {
        let plan = Plan {
            schedule: rate.map(|rate| Arc::new(rate.parse().unwrap())),
            batch: 10,
            events_max,
            until: until.map(Duration::from_secs),
            lag_max: Duration::from_secs(30),
            reads: Share::default(),
            reads_alone: false,
            seed: 1,
            awake: Duration::ZERO,
        };
        Pace::new(plan, Instant::now())
    }

    fn portions(pace: &Pace) -> Vec<u64> {
        let events = |ticket: Ticket| match ticket.job {
            Job::Write(portion) => portion.events,
            Job::Read(_) => 0,
        };
        std::iter::from_fn(|| pace.take()).map(events).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn exactly_as_many_events_are_dealt_as_were_asked_for() {
        assert_eq!(portions(&pace(None, 25, None)), [10, 10, 5]);
        assert_eq!(portions(&pace(Some("100"), 25, Some(1))), [10, 10, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_loop_lasts_as_long_as_its_last_request_counts_for() {
        for (rate, events, until, seconds) in [("100", 250, None, 2.5), ("100", 9_999, Some(3), 3.0), ("100/1s,0/4s", 9_999, Some(5), 5.0)]
        {
            let pace = pace(Some(rate), events, until);
            portions(&pace);
            assert_eq!(pace.ends().map(|ends| (ends - pace.began).as_secs_f64()), Some(seconds), "{rate}");
            pace.close();
            assert_eq!(pace.ends(), None, "it did not come to its end");
        }
        assert_eq!(pace(None, 10, None).ends(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_loop_deals_what_is_due_within_the_run_at_its_time() {
        let pace = pace(Some("100"), u64::MAX, Some(2));
        let began = Instant::now();
        let due: Vec<u128> = std::iter::from_fn(|| pace.take()).map(|ticket| (ticket.intended.unwrap() - began).as_millis()).collect();
        assert_eq!(due, (0..20).map(|n| n * 100).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_loop_ends_with_its_time() {
        let pace = pace(None, u64::MAX, Some(2));
        assert!(pace.take().is_some());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(pace.take(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_took_is_the_backlog_and_what_waited_too_long_is_skipped() {
        let pace = pace(Some("100"), u64::MAX, Some(60));
        tokio::time::advance(Duration::from_millis(20_500)).await;
        assert_eq!(pace.backlog(), 2_050);
        tokio::time::advance(Duration::from_secs(20)).await;
        let Some(Ticket { job: Job::Write(portion), intended: Some(due) }) = pace.take() else { panic!("more is due") };
        assert_eq!((portion.first, pace.skipped()), (1_050, 1_050));
        assert_eq!(Instant::now() - due, Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_pace_deals_nothing_more() {
        let pace = pace(None, u64::MAX, None);
        pace.close();
        assert_eq!([pace.take(), pace.take()], [None, None]);
    }

    #[tokio::test(start_paused = true)]
    async fn reads_are_their_share_of_the_requests_and_take_no_slot() {
        let plan = Plan { reads: Share::new(0.5), ..pace(None, 10_000, None).plan };
        let pace = Pace::new(plan, Instant::now());
        let done = |ticket: Ticket| match ticket.job {
            Job::Read(_) => true,
            Job::Write(portion) => {
                pace.done(portion);
                false
            }
        };
        let reads = std::iter::from_fn(|| pace.take()).filter(|ticket| done(*ticket)).count();
        assert!((800..1_250).contains(&reads), "{reads} beside 1,000 writes");
        assert_eq!(pace.slots(), 10_000);
    }

    #[tokio::test(start_paused = true)]
    async fn reads_alone_have_their_own_times() {
        let plan = Plan { reads_alone: true, ..pace(Some("10"), u64::MAX, Some(1)).plan };
        let pace = Pace::new(plan, Instant::now());
        let began = Instant::now();
        let tickets: Vec<_> = std::iter::from_fn(|| pace.take()).collect();
        assert_eq!(tickets.len(), 10);
        assert_eq!(tickets[9], Ticket { job: Job::Read(9), intended: Some(began + Duration::from_millis(900)) });
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_settled_ends_before_the_first_portion_under_way() {
        let pace = pace(None, u64::MAX, None);
        let portions: Vec<Portion> = (0..3).map(|n| Portion { first: n * 10, events: 10 }).collect();
        assert_eq!((0..3).filter_map(|_| pace.take()).count(), 3);
        pace.done(portions[1]);
        assert_eq!(pace.settled(), 0);
        pace.done(portions[0]);
        assert_eq!(pace.settled(), 20);
        pace.done(portions[2]);
        assert_eq!(pace.settled(), 30);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_when_the_request_is_due() {
        let due = Instant::now() + Duration::from_millis(1_500);
        pace(None, 1, None).wait(due).await;
        assert_eq!(Instant::now(), due);
    }
}

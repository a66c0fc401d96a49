//! `run`: a closed loop; each connection sends its next request when its last one is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;

use crate::args::{Rate, RunArgs};
use crate::client::{Connection, Endpoint, Format};
use crate::progress::{Progress, Track};
use crate::report::{Outcome, Stop, Tally, gather};
use crate::workload::Workload;

const DURATION_DEFAULT: Duration = Duration::from_secs(10);

/// What all connections of a run share: how much is left to do.
struct Quota {
    batch: u64,
    events_max: u64,
    until: Option<Instant>,
    /// Events that were taken on.
    taken: AtomicU64,
    /// Events that were answered.
    done: Arc<AtomicU64>,
}

/// Writes until the time or the events are used up. The error is one of usage: nothing was sent.
pub(crate) async fn run(args: RunArgs) -> Result<Outcome, String> {
    let format = args.format;
    let path = match format {
        Format::Ndjson => format!("/v1/{}/events", args.namespace),
        Format::Line => format!("/write?db={}&precision=ms&id_tag=id", args.namespace),
    };
    let client = &args.client;
    let endpoint = Endpoint::new(&client.url, &path, format, false, client.timeout.duration(), client.retry_for.duration())?;
    let (endpoint, quota) = (Arc::new(endpoint), Arc::new(quota(&args)));
    let seed = args.seed.unwrap_or_else(rand::random);

    let began = Instant::now();
    let progress = Progress::start(Track { done: Arc::clone(&quota.done), whole: args.events }, Arc::clone(&quota.done));
    let mut senders = JoinSet::new();
    for n in 0..u64::from(args.connections) {
        let workload = Workload::new(format, &args.key, args.keys, seed.wrapping_add(n));
        match args.rate {
            Rate::Max => senders.spawn(closed_loop(Connection::new(Arc::clone(&endpoint)), workload, Arc::clone(&quota))),
        };
    }
    let (tally, failure) = gather(senders).await;
    progress.stop();
    Ok(Outcome { tally, took: began.elapsed(), failure })
}

fn quota(args: &RunArgs) -> Quota {
    let duration = match (args.duration, args.events) {
        (Some(duration), _) => Some(duration.duration()),
        (None, Some(_)) => None,
        (None, None) => Some(DURATION_DEFAULT),
    };
    Quota {
        batch: args.batch as u64,
        events_max: args.events.unwrap_or(u64::MAX),
        until: duration.map(|duration| Instant::now() + duration),
        taken: AtomicU64::new(0),
        done: Arc::new(AtomicU64::new(0)),
    }
}

impl Quota {
    /// The events of the next request; `None` when all is done.
    fn take(&self) -> Option<u64> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        let more = |taken: u64| (taken < self.events_max).then(|| self.events_max.min(taken.saturating_add(self.batch)));
        let before = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some((self.events_max - before).min(self.batch))
    }

    /// Nothing more is to be sent.
    fn close(&self) {
        self.taken.store(self.events_max, Ordering::Relaxed);
    }
}

async fn closed_loop(mut connection: Connection, mut workload: Workload, quota: Arc<Quota>) -> (Tally, Option<Stop>) {
    let mut tally = Tally::new();
    while let Some(events) = quota.take() {
        let body = workload.body(events as usize, millis_now());
        let bytes = body.len();
        match connection.post(body, events).await {
            Ok(sent) => tally.count(sent, events, bytes, &[]),
            Err(failure) => {
                quota.close();
                return (tally, Some(failure.into()));
            }
        }
        quota.done.fetch_add(events, Ordering::Relaxed);
    }
    (tally, None)
}

fn millis_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(events_max: u64) -> Quota {
        Quota { batch: 10, events_max, until: None, taken: AtomicU64::new(0), done: Arc::default() }
    }

    #[test]
    fn exactly_as_many_events_are_taken_as_were_asked_for() {
        let quota = of(25);
        let taken: Vec<u64> = std::iter::from_fn(|| quota.take()).collect();
        assert_eq!(taken, [10, 10, 5]);
    }

    #[test]
    fn a_closed_quota_gives_nothing_more() {
        let quota = of(u64::MAX);
        quota.close();
        assert_eq!([quota.take(), quota.take()], [None, None]);
    }
}

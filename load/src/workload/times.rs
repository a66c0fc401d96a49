//! The time that events are for. A function of the slot, or, in a closed loop, what was written down
//! when the request was made, so that an event that is sent or made again has the time it had.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::schedule::Schedule;

/// Event times in milliseconds since the Unix epoch, before lateness.
#[derive(Debug)]
pub(crate) struct EventTimes {
    start: i64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Slot by slot, so many nanoseconds apart.
    Spaced(u64),
    /// When the schedule wants the slot's request to leave.
    Scheduled(Arc<Schedule>, u64),
    /// The clock when the slot's request was made; 8 bytes a request.
    Clock(u64, Mutex<Vec<i64>>),
}

impl EventTimes {
    /// Events `nanos` apart, whatever the pace they are sent at.
    pub(crate) fn spaced(start: i64, nanos: u64) -> EventTimes {
        EventTimes { start, kind: Kind::Spaced(nanos) }
    }

    /// A request's events have the time it is meant to leave.
    pub(crate) fn scheduled(start: i64, schedule: Arc<Schedule>, batch: u64) -> EventTimes {
        EventTimes { start, kind: Kind::Scheduled(schedule, batch) }
    }

    /// A request's events have the time it was made.
    pub(crate) fn clock(start: i64, batch: u64) -> EventTimes {
        EventTimes { start, kind: Kind::Clock(batch, Mutex::default()) }
    }

    /// The time of the run's beginning.
    pub(crate) fn start(&self) -> i64 {
        self.start
    }

    /// Notes when the request that begins with `first` is made, `elapsed` milliseconds into the run.
    pub(crate) fn note(&self, first: u64, elapsed: i64) {
        if let Kind::Clock(batch, noted) = &self.kind {
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            let request = (first / batch) as usize;
            if noted.len() <= request {
                noted.resize(request + 1, i64::MIN);
            }
            noted[request] = self.start + elapsed;
        }
    }

    /// The time of a slot that was noted, if it had to be.
    pub(crate) fn base(&self, slot: u64) -> i64 {
        match &self.kind {
            Kind::Spaced(nanos) => self.start.saturating_add((u128::from(slot) * u128::from(*nanos) / 1_000_000) as i64),
            Kind::Scheduled(schedule, batch) => self.start.saturating_add(millis(schedule.due(slot - slot % batch))),
            Kind::Clock(batch, noted) => {
                let noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                noted.get((slot / batch) as usize).copied().unwrap_or(self.start)
            }
        }
    }

    pub(super) fn varies_within_a_request(&self) -> bool {
        matches!(self.kind, Kind::Spaced(_))
    }
}

fn millis(at: Duration) -> i64 {
    i64::try_from(at.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaced_events_lie_as_far_apart_as_was_asked() {
        let times = EventTimes::spaced(1_000, 1_800_000);
        assert_eq!([0, 1, 2, 5, 10].map(|slot| times.base(slot)), [1_000, 1_001, 1_003, 1_009, 1_018]);
    }

    #[test]
    fn a_request_has_the_time_it_is_due() {
        let schedule = Arc::new("1000".parse::<Schedule>().unwrap());
        let times = EventTimes::scheduled(5_000, schedule, 100);
        assert_eq!([0, 99, 100, 250].map(|slot| times.base(slot)), [5_000, 5_000, 5_100, 5_200]);
    }

    #[test]
    fn a_request_keeps_the_time_it_was_made() {
        let times = EventTimes::clock(7_000, 10);
        times.note(10, 42);
        times.note(0, 40);
        assert_eq!([0, 9, 10, 19].map(|slot| times.base(slot)), [7_040, 7_040, 7_042, 7_042]);
    }
}

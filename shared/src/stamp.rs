//! Write order: a hybrid logical clock whose reach is promised in the catalog.
//!
//! STAMP-MONOTONE: a stamp orders writes of one identity. A node issues stamps only below the catalog's stamp
//! ceiling, and starts above it, so what one node acknowledged later wins also after its clock
//! stepped back and after a restart, without one write of its own.

use std::sync::Mutex;

use crate::model::Timestamp;

/// When a row was written, and by whom: unique, ordered by time, then by node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// Hybrid logical time, nanoseconds.
    pub time: u64,
    /// Random bits of the process that wrote it.
    pub node: u64,
}

/// The ceiling at hand is used up: it must be raised before another stamp is issued.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stamp ceiling is reached")]
pub struct CeilingReached;

/// Issues stamps, each greater than the one before.
#[derive(Debug)]
pub struct StampSource {
    node: u64,
    last: Mutex<u64>,
}

impl StampSource {
    /// A source for a process with random bits `node` that starts at `floor`, the catalog's
    /// ceiling when the process began.
    pub fn new(node: u64, floor: u64) -> StampSource {
        StampSource { node, last: Mutex::new(floor) }
    }

    /// The next stamp below `ceiling`: the wall clock's time where that is ahead, else one more
    /// than the last.
    pub fn next(&self, now: Timestamp, ceiling: u64) -> Result<Stamp, CeilingReached> {
        let mut last = self.last.lock().expect("no holder panics");
        let time = wall(now).min(ceiling.saturating_sub(1)).max(last.saturating_add(1));
        if time >= ceiling {
            return Err(CeilingReached);
        }
        *last = time;
        Ok(Stamp { time, node: self.node })
    }

    /// The stamp time that is used up by `now`: the last one issued, or the wall clock's where that
    /// is ahead. A ceiling must lie above it by more than one.
    pub fn used(&self, now: Timestamp) -> u64 {
        wall(now).max(*self.last.lock().expect("no holder panics"))
    }
}

/// Wall-clock time as a stamp time; 0 before 1970.
fn wall(now: Timestamp) -> u64 {
    u64::try_from(now.nanos()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: i64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    #[test]
    fn stamps_grow_while_the_clock_stands_or_steps_back() {
        let source = StampSource::new(7, 0);
        let times: Vec<_> = [100, 100, 50, -3, 102, 200].map(|now| source.next(at(now), 1_000).unwrap().time).into();
        assert_eq!(times, [100, 101, 102, 103, 104, 200]);
    }

    #[test]
    fn a_new_process_begins_above_every_stamp_that_the_ceiling_allowed_before() {
        let before = StampSource::new(7, 0);
        let last = before.next(at(i64::MAX), 1_000).unwrap();
        let after = StampSource::new(8, 1_000);
        assert_eq!(after.next(at(5), 1_000), Err(CeilingReached));
        assert!(after.next(at(5), 2_000).unwrap() > last);
    }

    #[test]
    fn no_stamp_is_issued_at_or_above_the_ceiling() {
        let source = StampSource::new(7, 0);
        assert_eq!(source.next(at(5_000), 10).unwrap().time, 9);
        assert_eq!(source.next(at(5_000), 10), Err(CeilingReached));
        assert_eq!(source.next(at(0), 0), Err(CeilingReached));
        assert_eq!(source.used(at(5_000)), 5_000);
        assert_eq!(source.used(at(-1)), 9);
    }
}

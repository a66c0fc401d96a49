//! A node's clocks, which the run moves: the wall clock may jump, the boot clock counts what passed.

use std::sync::Mutex;
use std::time::Duration;

use braid_shared::clock::Clock;
use braid_shared::model::Timestamp;

/// 2026-11-29T02:00:00Z, when runs begin: the oldest events are of the first seconds of the day, or, where a clock is
/// behind, of the day before. Later in the day, reads would plan many more buckets that hold nothing.
pub(crate) const START: i64 = 1_795_917_600_000_000_000;

/// Clocks that stand still between two ticks.
#[derive(Debug)]
pub(crate) struct NodeClock(Mutex<Hands>);

#[derive(Clone, Copy, Debug)]
struct Hands {
    passed: Duration,
    /// How far the wall clock is off, nanoseconds.
    off: i64,
}

impl NodeClock {
    pub(crate) fn new(passed: Duration, off: i64) -> NodeClock {
        NodeClock(Mutex::new(Hands { passed, off }))
    }

    pub(crate) fn set_passed(&self, passed: Duration) {
        self.0.lock().expect("no holder panics").passed = passed;
    }

    pub(crate) fn set_off(&self, off: i64) {
        self.0.lock().expect("no holder panics").off = off;
    }

    fn hands(&self) -> Hands {
        *self.0.lock().expect("no holder panics")
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        let Hands { passed, off } = self.hands();
        Timestamp::from_nanos(START + passed.as_nanos() as i64 + off)
    }

    fn boot(&self) -> Duration {
        self.hands().passed
    }
}

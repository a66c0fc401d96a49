//! A node's clocks, which the run moves: the wall clock may jump, the boot clock counts what passed.

use std::sync::Mutex;
use std::time::Duration;

use braid_shared::clock::Clock;
use braid_shared::model::Timestamp;

/// 2026-11-29T00:00:00Z, shortly after which runs begin.
pub(crate) const MIDNIGHT: i64 = 1_795_910_400_000_000_000;

/// Clocks that stand still between two ticks.
#[derive(Debug)]
pub(crate) struct NodeClock(Mutex<Hands>);

#[derive(Clone, Copy, Debug)]
struct Hands {
    /// When the run began.
    start: i64,
    passed: Duration,
    /// How far the wall clock is off, nanoseconds.
    off: i64,
}

impl NodeClock {
    pub(crate) fn new(start: i64, off: i64) -> NodeClock {
        NodeClock(Mutex::new(Hands { start, passed: Duration::ZERO, off }))
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
        let Hands { start, passed, off } = self.hands();
        Timestamp::from_nanos(start + passed.as_nanos() as i64 + off)
    }

    fn boot(&self) -> Duration {
        self.hands().passed
    }
}

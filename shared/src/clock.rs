//! The one door to time. Nothing else in Braid reads a clock.

use std::sync::Mutex;
use std::time::Duration;

use crate::model::Timestamp;

/// Where time comes in.
pub trait Clock: Send + Sync + 'static {
    /// Wall-clock time; may jump either way.
    fn now(&self) -> Timestamp;

    /// Time since boot; never steps back and, unlike `std::time::Instant`, counts suspension.
    fn boot(&self) -> Duration;

    /// Both, taken together: the start of a span that [`Clock::elapsed`] measures.
    fn mark(&self) -> Mark {
        Mark { wall: self.now(), boot: self.boot() }
    }

    /// How long ago `mark` was: the larger of what the two clocks say, so that neither a wall
    /// clock set back nor a boot clock that stood still can make it look shorter.
    fn elapsed(&self, mark: Mark) -> Duration {
        let wall = self.now().nanos().saturating_sub(mark.wall.nanos()).max(0);
        self.boot().saturating_sub(mark.boot).max(Duration::from_nanos(wall as u64))
    }
}

/// An instant on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Wall-clock time.
    pub wall: Timestamp,
    /// Time since boot.
    pub boot: Duration,
}

/// The machine's clocks.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Timestamp::from_nanos(t.tv_sec.saturating_mul(1_000_000_000).saturating_add(t.tv_nsec))
    }

    fn boot(&self) -> Duration {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(t.tv_sec.max(0) as u64, t.tv_nsec as u32)
    }
}

/// Clocks that a test moves by hand.
#[derive(Debug)]
pub struct ManualClock(Mutex<Mark>);

impl ManualClock {
    /// Both clocks standing still, the wall clock at `now`.
    pub fn at(now: Timestamp) -> ManualClock {
        ManualClock(Mutex::new(Mark { wall: now, boot: Duration::from_secs(1_000) }))
    }

    /// Lets `by` pass on both clocks.
    pub fn advance(&self, by: Duration) {
        let mut mark = self.0.lock().expect("no holder panics");
        mark.wall = Timestamp::from_nanos(mark.wall.nanos().saturating_add(by.as_nanos() as i64));
        mark.boot += by;
    }

    /// Sets the wall clock, as an operator or NTP would; the boot clock does not move.
    pub fn set_wall(&self, now: Timestamp) {
        self.0.lock().expect("no holder panics").wall = now;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.0.lock().expect("no holder panics").wall
    }

    fn boot(&self) -> Duration {
        self.0.lock().expect("no holder panics").boot
    }
}

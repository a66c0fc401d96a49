//! Write order: a hybrid logical clock whose reach is promised in the catalog.
//!
//! A stamp orders writes of one identity. A node issues stamps only below the catalog's stamp
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
        let time = (now.nanos().max(0) as u64).min(ceiling.saturating_sub(1)).max(*last + 1);
        if time >= ceiling {
            return Err(CeilingReached);
        }
        *last = time;
        Ok(Stamp { time, node: self.node })
    }
}

//! How much happened, so that a test can tell that it tests anything.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// Events that were acknowledged, in doubt, refused.
    Acknowledged,
    Unknown,
    Refused,
    /// Answers to reads that were held against the oracle, and errors instead of one.
    Reads,
    ReadsRefused,
    /// Requests refused for want of a fresh catalog.
    LayoutStale,
    /// Layouts that clients published, withdrew, and that controllers published.
    Published,
    Withdrawn,
    Automatic,
    /// Layouts with more shards than the one before them, and with fewer.
    Ups,
    Downs,
    Crashes,
    StandStills,
    ClockJumps,
    /// Times that a node was cut off from the store or the catalog.
    Cuts,
    /// Requests that the store did after nobody waited any more.
    LateCalls,
    /// Partitions whose blocks were compacted.
    Compacted,
    /// Generations that archivers published, and swept the blocks of.
    Archived,
    Swept,
    /// Marks that writers set on buckets for late events.
    LateMarks,
    /// Buckets whose history was dropped.
    Dropped,
    /// Archivers killed right behind one of their steps.
    ArchiversKilled,
}

/// Counts by what they count.
pub(crate) type Counts = BTreeMap<What, u64>;

/// The counts of a run; clones count together.
#[derive(Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<Counts>>);

impl Tally {
    pub(crate) fn add(&self, what: What, times: usize) {
        *self.0.lock().expect("no holder panics").entry(what).or_default() += times as u64;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.0.lock().expect("no holder panics").clone()
    }
}

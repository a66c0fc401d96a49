//! Blocks whose replacement stands, in a store that can't put the one in the place of the other in one step.
//!
//! They are deleted once the grace has passed, in which every read that was planned on them has ended. Lost at a
//! restart, they stay as doubles, which reads merge and the next compaction finds.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::partition::Partition;
use crate::store::BlockAddress;

/// Most groups that wait; beyond, nothing more is rewritten.
const GROUPS_MAX: usize = 1_024;

/// One group's old blocks.
pub(super) struct Old {
    pub(super) partition: Partition,
    pub(super) blocks: Vec<BlockAddress>,
    since: Instant,
}

/// Groups in the order in which they were rewritten.
#[derive(Default)]
pub(super) struct Replaced(Mutex<VecDeque<Old>>);

impl Replaced {
    /// The replacement of these blocks stands from now on.
    pub(super) fn push(&self, partition: &Partition, blocks: Vec<BlockAddress>) {
        // Tokio's clock does not count a suspension of this machine, so it never has too much.
        let old = Old { partition: partition.clone(), blocks, since: Instant::now() };
        self.0.lock().expect("no holder panics").push_back(old);
    }

    /// The first group whose grace has passed; it is the caller's to delete, or to give back.
    pub(super) fn pop(&self, grace: Duration) -> Option<Old> {
        let mut groups = self.0.lock().expect("no holder panics");
        let due = groups.front().is_some_and(|old| old.since.elapsed() > grace);
        if due { groups.pop_front() } else { None }
    }

    /// Takes back a group that could not be deleted.
    pub(super) fn give_back(&self, old: Old) {
        self.0.lock().expect("no holder panics").push_front(old);
    }

    /// Whether blocks of a partition are known to go.
    pub(super) fn has(&self, partition: &Partition) -> bool {
        self.0.lock().expect("no holder panics").iter().any(|old| old.partition == *partition)
    }

    /// Whether a partition must be left alone: what it holds is known to go, or there is no room.
    pub(super) fn holds_back(&self, partition: &Partition) -> bool {
        let full = self.0.lock().expect("no holder panics").len() >= GROUPS_MAX;
        full || self.has(partition)
    }
}

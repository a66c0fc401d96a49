//! Tidying: once many records were removed and the store is quiet, the engine is made to compact its tree.
//!
//! A removed block stays in the engine, and under a tombstone that every walk steps over, until the
//! engine compacts the files it is in; with no more writes that would be never. Never runs beside
//! many writes, nor on a tree so large that writers could have to wait for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use fjall::{AbstractTree, Keyspace};

use super::failure;
use super::metrics::TidyMetrics;
use super::state::State;
use crate::background;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Looks in a row that must find the store quiet.
const QUIET_LOOKS: u32 = 3;
/// A store that wrote no more than this between two looks, and removed nothing, is quiet; bytes.
const QUIET_BYTES: u64 = 256 * 1024;
/// Fewest removed records that are worth it …
const REMOVED_LEAST: u64 = 4_096;
/// … and what share of all records they must be: one in so many, so that each is written anew
/// seldom.
const REMOVED_SHARE: u64 = 8;
/// Most records of a tree that is compacted whole, which takes a second or two.
const RECORDS_MAX: u64 = 2_000_000;
/// Bytes of removed blocks in files that stand, from which on those files are rewritten.
const STALE_BYTES_LEAST: u64 = 8 * 1024 * 1024;
/// Longest wait for a memtable to be flushed.
const FLUSH_WAIT: Duration = Duration::from_secs(10);
const FLUSH_POLL: Duration = Duration::from_millis(5);

/// What the committer writes and removes.
#[derive(Debug, Default)]
pub(super) struct Waste {
    /// Records removed since the engine last compacted its tree.
    removed: AtomicU64,
    /// Bytes written since the start.
    written: AtomicU64,
}

impl Waste {
    /// Counts a commit.
    pub(super) fn count(&self, removed: u64, written: u64) {
        self.removed.fetch_add(removed, Relaxed);
        self.written.fetch_add(written, Relaxed);
    }

    fn now(&self) -> (u64, u64) {
        (self.removed.load(Relaxed), self.written.load(Relaxed))
    }
}

/// The thread that tidies.
pub(super) struct Tidier {
    pub(super) keyspace: Keyspace,
    pub(super) state: Arc<State>,
    pub(super) waste: Arc<Waste>,
    pub(super) metrics: TidyMetrics,
}

impl Tidier {
    /// Looks, and tidies, until the sender of `closing` is gone.
    pub(super) fn run(&self, closing: &Receiver<()>) {
        background::give_way();
        let (mut seen, mut quiet) = (self.waste.now(), 0);
        while let Err(RecvTimeoutError::Timeout) = closing.recv_timeout(LOOK) {
            let now = self.waste.now();
            quiet = if now.0 == seen.0 && now.1 - seen.1 <= QUIET_BYTES { quiet + 1 } else { 0 };
            seen = now;
            self.metrics.removed(now.0);
            if quiet >= QUIET_LOOKS && self.is_worth_it(now.0) && self.state.writable().is_ok() {
                self.tidy();
                seen = self.waste.now();
            }
        }
    }

    fn is_worth_it(&self, removed: u64) -> bool {
        let records = self.keyspace.approximate_len() as u64;
        removed >= REMOVED_LEAST && removed >= records / REMOVED_SHARE && records <= RECORDS_MAX
    }

    /// One compaction of it all. What fails is tried again when as much was removed anew.
    pub(super) fn tidy(&self) {
        let began = Instant::now();
        let (removed, _) = self.waste.now();
        match self.compact() {
            Ok(()) => self.metrics.tidied(began.elapsed()),
            Err(error) => tracing::warn!(%error, "the engine could not compact its tree"),
        }
        self.waste.removed.fetch_sub(removed, Relaxed);
        self.metrics.removed(self.waste.now().0);
    }

    fn compact(&self) -> fjall::Result<()> {
        if let Err(error) = self.keyspace.rotate_memtable() {
            self.state.halt(failure::halted(self.state.path(), &error));
            return Err(error);
        }
        let began = Instant::now();
        while self.keyspace.tree.sealed_memtable_count() > 0 && began.elapsed() < FLUSH_WAIT {
            std::thread::sleep(FLUSH_POLL);
        }
        self.keyspace.major_compact()?;
        // Only now is it known how much of the files of large values is stale.
        if self.keyspace.fragmented_blob_bytes() >= STALE_BYTES_LEAST {
            self.keyspace.major_compact()?;
        }
        Ok(())
    }
}

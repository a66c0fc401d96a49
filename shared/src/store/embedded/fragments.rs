//! Which partitions have many small blocks, and where in them: counted as they are written, found
//! by a walk over keys after a start.
//!
//! A hint, never the truth: what it names is counted anew, from keys alone, before it is answered;
//! and only where small blocks can be, so that a partition that grows is not walked whole each time.
//! Small blocks that stand alone between full ones are no reason to read those: compaction leaves them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use fjall::{Database, Keyspace, Readable, Snapshot};

use super::keys::{self, BlockTail};
use crate::model::{TimeRange, Timestamp};
use crate::partition::{Partition, ordered_time};
use crate::store::{SMALL_RUN_LEAST, is_small};

/// Most partitions that are remembered; beyond, a walk finds the others later.
const PARTITIONS_MAX: usize = 1 << 16;
/// Most keys that one call walks.
const WALK_KEYS_MAX: usize = 100_000;

/// Small blocks by partition.
#[derive(Debug, Default)]
pub(super) struct Fragments(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    /// By the prefix of the partition's keys.
    small: BTreeMap<Vec<u8>, Small>,
    walk: Walk,
}

/// Event time that some blocks lie in, ends included.
#[derive(Clone, Copy, Debug)]
struct Extent {
    first: Timestamp,
    last: Timestamp,
}

impl Extent {
    const NONE: Extent = Extent { first: Timestamp::MAX, last: Timestamp::MIN };

    fn and(self, other: Extent) -> Extent {
        Extent { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// The small blocks of a partition.
#[derive(Clone, Copy, Debug)]
struct Small {
    /// How many, roughly.
    count: u32,
    /// Where those lie that were there when they were last counted …
    counted: Extent,
    /// … and those that came since that count began.
    since: Extent,
}

impl Small {
    const NONE: Small = Small { count: 0, counted: Extent::NONE, since: Extent::NONE };

    fn add(&mut self, count: u32, extent: Extent) {
        self.count = self.count.saturating_add(count);
        self.since = self.since.and(extent);
    }
}

/// How far the walk over all keys came.
#[derive(Debug)]
enum Walk {
    /// Goes on behind this key.
    Behind(Vec<u8>),
    Done,
    /// Done, but partitions were left out for want of room.
    Overflowed,
}

impl Default for Counts {
    fn default() -> Self {
        Counts { small: BTreeMap::new(), walk: Walk::Behind(keys::all_blocks().start) }
    }
}

impl Fragments {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().expect("no holder panics")
    }

    /// Takes in what a commit wrote.
    pub(super) fn changed(&self, records: &BTreeMap<Vec<u8>, Option<Bytes>>) {
        let mut counts = self.counts();
        for (key, value) in records.range(keys::all_blocks()) {
            match BlockOfKey::of(key).filter(|block| block.small) {
                Some(block) if value.is_some() => counts.add(block.prefix, 1, block.extent),
                Some(block) => counts.remove(block.prefix),
                None => {}
            }
        }
    }

    /// Where in a partition its small blocks are: all of time where that is not known.
    pub(super) fn range_of(&self, prefix: &[u8]) -> TimeRange {
        let Some(small) = self.counts().small.get(prefix).copied() else { return TimeRange::ALL };
        let Extent { first, last } = small.counted.and(small.since);
        TimeRange { from: first, to: Timestamp::from_nanos(last.nanos().saturating_add(1)) }
    }

    /// Partitions with at least `least` small blocks behind `after`, in the order of their keys.
    pub(super) fn find(
        &self,
        database: &Database,
        keyspace: &Keyspace,
        least: usize,
        after: Option<&Partition>,
        most: usize,
    ) -> fjall::Result<Vec<Partition>> {
        self.walk(keyspace, &database.snapshot())?;
        let after = after.map(keys::partition_prefix);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let named: Vec<Vec<u8>> = {
            let counts = self.counts();
            let enough = counts.small.range((from, Bound::Unbounded)).filter(|(_, small)| small.count as usize >= least);
            enough.map(|(prefix, _)| prefix.clone()).collect()
        };
        let mut found = Vec::new();
        for prefix in named {
            if found.len() == most {
                break;
            }
            if self.count(database, keyspace, &prefix)? as usize >= least {
                found.extend(keys::partition_of(&prefix));
            }
        }
        Ok(found)
    }

    /// Counts the small blocks of a partition anew, where there can be any.
    fn count(&self, database: &Database, keyspace: &Keyspace, prefix: &[u8]) -> fjall::Result<u32> {
        // What was counted as written before this is seen by the snapshot; what the snapshot shows
        // beyond that is counted later, and keeps its place in `since`.
        let Some(known) = self.counts().begin_count(prefix) else { return Ok(0) };
        let (count, extent) = match known.counted {
            Extent { first, last } if first <= last => Runs::among(&database.snapshot(), keyspace, prefix, known.counted)?.finish(),
            _ => (0, Extent::NONE),
        };
        self.counts().end_count(prefix, known.count, count, extent);
        Ok(count)
    }

    /// Walks on over keys, a bounded number of them, until all were seen once.
    fn walk(&self, keyspace: &Keyspace, snapshot: &Snapshot) -> fjall::Result<()> {
        let from = match self.counts().resume() {
            Some(key) => key,
            None => return Ok(()),
        };
        let mut seen: BTreeMap<Vec<u8>, (u32, Extent)> = BTreeMap::new();
        let mut last = None;
        let range = (Bound::Excluded(from), Bound::Excluded(keys::all_blocks().end));
        for guard in snapshot.range(keyspace, range).take(WALK_KEYS_MAX) {
            let key = guard.key()?;
            if let Some(block) = BlockOfKey::of(&key).filter(|block| block.small) {
                let seen = seen.entry(block.prefix.to_vec()).or_insert((0, Extent::NONE));
                *seen = (seen.0 + 1, seen.1.and(block.extent));
            }
            last = Some(key.to_vec());
        }
        let mut counts = self.counts();
        counts.walk = last.map_or(Walk::Done, Walk::Behind);
        for (prefix, (count, extent)) in seen {
            // Appends since the start were counted already; too high a count is put right by find.
            counts.add(&prefix, count, extent);
        }
        Ok(())
    }
}

impl Counts {
    fn add(&mut self, prefix: &[u8], count: u32, extent: Extent) {
        if let Some(small) = self.small.get_mut(prefix) {
            return small.add(count, extent);
        }
        if self.small.len() >= PARTITIONS_MAX {
            return self.make_room();
        }
        self.small.entry(prefix.to_vec()).or_insert(Small::NONE).add(count, extent);
    }

    /// Keeps the partition, so that its extent stays that of the blocks there are.
    fn remove(&mut self, prefix: &[u8]) {
        if let Some(small) = self.small.get_mut(prefix) {
            small.count = small.count.saturating_sub(1);
        }
    }

    /// What is known of a partition that will be counted.
    fn begin_count(&mut self, prefix: &[u8]) -> Option<Small> {
        let small = self.small.get_mut(prefix)?;
        small.counted = small.counted.and(small.since);
        small.since = Extent::NONE;
        Some(*small)
    }

    /// Takes in a count that began when `known` blocks were counted.
    fn end_count(&mut self, prefix: &[u8], known: u32, count: u32, extent: Extent) {
        let Some(small) = self.small.get_mut(prefix) else { return };
        small.count = small.count.saturating_add(count).saturating_sub(known);
        small.counted = extent;
        if small.count == 0 && count == 0 {
            self.small.remove(prefix);
        }
    }

    /// Forgets partitions with a single small block, which nobody compacts, and notes that others
    /// may have been left out.
    fn make_room(&mut self) {
        self.small.retain(|_, small| small.count > 1);
        if matches!(self.walk, Walk::Done) {
            self.walk = Walk::Overflowed;
        }
    }

    /// Where the walk goes on; it begins anew when partitions were left out and there is room again.
    fn resume(&mut self) -> Option<Vec<u8>> {
        match &self.walk {
            Walk::Behind(key) => Some(key.clone()),
            Walk::Overflowed if self.small.len() < PARTITIONS_MAX / 2 => {
                self.small.clear();
                Some(keys::all_blocks().start)
            }
            Walk::Done | Walk::Overflowed => None,
        }
    }
}

/// What the key of a block says of it.
struct BlockOfKey<'a> {
    /// What begins the keys of its partition.
    prefix: &'a [u8],
    extent: Extent,
    small: bool,
}

impl BlockOfKey<'_> {
    fn of(key: &[u8]) -> Option<BlockOfKey<'_>> {
        let (prefix, BlockTail { address, events, bytes }) = keys::split_block_key(key)?;
        let extent = Extent { first: address.min_ts, last: address.max_ts };
        Some(BlockOfKey { prefix, extent, small: is_small(events, bytes as usize) })
    }
}

/// Small blocks that stand together, told apart as compaction does: a full block that touches none of
/// those before it ends a run. Blocks come in order of their least times.
struct Runs {
    /// Small blocks of the runs that are long enough, and where they lie.
    count: u32,
    extent: Extent,
    /// The run under way: its small blocks, and the last time that a block of it reaches.
    run: u32,
    run_extent: Extent,
    reach: Timestamp,
}

impl Default for Runs {
    fn default() -> Self {
        Runs { count: 0, extent: Extent::NONE, run: 0, run_extent: Extent::NONE, reach: Timestamp::MIN }
    }
}

impl Runs {
    /// The runs of a partition that reach into `extent`, and the small blocks beside them.
    fn among(snapshot: &Snapshot, keyspace: &Keyspace, prefix: &[u8], extent: Extent) -> fjall::Result<Runs> {
        let mut start = [prefix, &ordered_time(extent.first)].concat();
        for guard in snapshot.range(keyspace, prefix.to_vec()..start.clone()).rev() {
            let key = guard.key()?;
            if !BlockOfKey::of(&key).is_some_and(|block| block.small) {
                break;
            }
            start = key.to_vec();
        }
        let mut runs = Runs::default();
        for guard in snapshot.range(keyspace, start..keys::behind(prefix)) {
            let key = guard.key()?;
            let Some(block) = BlockOfKey::of(&key) else { continue };
            runs.push(block.extent, block.small);
            if !block.small && block.extent.first > extent.last {
                break;
            }
        }
        Ok(runs)
    }

    fn push(&mut self, block: Extent, small: bool) {
        if small {
            (self.run, self.run_extent) = (self.run + 1, self.run_extent.and(block));
        } else if block.first > self.reach {
            let long = self.run as usize >= SMALL_RUN_LEAST;
            *self = if long { self.with_run() } else { Runs { count: self.count, extent: self.extent, ..Runs::default() } };
            return;
        }
        self.reach = self.reach.max(block.last);
    }

    fn with_run(&self) -> Runs {
        Runs { count: self.count + self.run, extent: self.extent.and(self.run_extent), ..Runs::default() }
    }

    /// How many, and where. The last run counts whatever its length: it may grow.
    fn finish(self) -> (u32, Extent) {
        let Runs { count, extent, .. } = self.with_run();
        (count, extent)
    }
}

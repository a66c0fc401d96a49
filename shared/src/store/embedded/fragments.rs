//! Which partitions have many small blocks: counted as they are written, found by a walk over keys
//! after a start.
//!
//! A hint, never the truth: what it names is counted anew, from keys alone, before it is answered.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use fjall::{Keyspace, Readable, Snapshot};

use super::keys;
use crate::partition::Partition;
use crate::store::is_small;

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
    small: BTreeMap<Vec<u8>, u32>,
    walk: Walk,
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
            if let Some(prefix) = small_block(key) {
                counts.add(prefix, if value.is_some() { 1 } else { -1 });
            }
        }
    }

    /// Partitions with at least `least` small blocks behind `after`, in the order of their keys.
    pub(super) fn find(
        &self,
        keyspace: &Keyspace,
        snapshot: &Snapshot,
        least: usize,
        after: Option<&Partition>,
        most: usize,
    ) -> fjall::Result<Vec<Partition>> {
        self.walk(keyspace, snapshot)?;
        let after = after.map(keys::partition_prefix);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let named: Vec<Vec<u8>> = {
            let counts = self.counts();
            let enough = counts.small.range((from, Bound::Unbounded)).filter(|(_, count)| **count as usize >= least);
            enough.map(|(prefix, _)| prefix.clone()).collect()
        };
        let mut found = Vec::new();
        for prefix in named {
            if found.len() == most {
                break;
            }
            let small = count(keyspace, snapshot, &prefix)?;
            self.counts().set(prefix.clone(), small);
            if small as usize >= least {
                found.extend(keys::partition_of(&prefix));
            }
        }
        Ok(found)
    }

    /// Walks on over keys, a bounded number of them, until all were seen once.
    fn walk(&self, keyspace: &Keyspace, snapshot: &Snapshot) -> fjall::Result<()> {
        let from = match self.counts().resume() {
            Some(key) => key,
            None => return Ok(()),
        };
        let mut seen: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let mut last = None;
        let range = (Bound::Excluded(from), Bound::Excluded(keys::all_blocks().end));
        for guard in snapshot.range(keyspace, range).take(WALK_KEYS_MAX) {
            let key = guard.key()?;
            if let Some(prefix) = small_block(&key) {
                *seen.entry(prefix.to_vec()).or_default() += 1;
            }
            last = Some(key.to_vec());
        }
        let mut counts = self.counts();
        counts.walk = last.map_or(Walk::Done, Walk::Behind);
        for (prefix, small) in seen {
            // Appends since the start were counted already; too high a count is put right by find.
            counts.add(&prefix, i64::from(small));
        }
        Ok(())
    }
}

impl Counts {
    fn add(&mut self, prefix: &[u8], by: i64) {
        let before = self.small.get(prefix).copied().unwrap_or(0);
        let after = (i64::from(before) + by).clamp(0, i64::from(u32::MAX));
        self.set(prefix.to_vec(), after as u32);
    }

    fn set(&mut self, prefix: Vec<u8>, small: u32) {
        if small == 0 {
            self.small.remove(&prefix);
        } else if self.small.len() < PARTITIONS_MAX || self.small.contains_key(&prefix) {
            self.small.insert(prefix, small);
        } else {
            self.make_room();
        }
    }

    /// Forgets partitions with a single small block, which nobody compacts, and notes that others
    /// may have been left out.
    fn make_room(&mut self) {
        self.small.retain(|_, count| *count > 1);
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

/// The prefix of the partition, if the block of this key is a small one.
fn small_block(key: &[u8]) -> Option<&[u8]> {
    let (prefix, tail) = keys::split_block_key(key)?;
    is_small(tail.events, tail.bytes as usize).then_some(prefix)
}

fn count(keyspace: &Keyspace, snapshot: &Snapshot, prefix: &[u8]) -> fjall::Result<u32> {
    let mut small = 0;
    for guard in snapshot.prefix(keyspace, prefix) {
        small += u32::from(small_block(&guard.key()?).is_some());
    }
    Ok(small)
}

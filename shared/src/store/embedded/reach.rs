//! Reach: how long the blocks of a partition last at most, so that a scan can begin where a block
//! that overlaps its range may stand, and not at the partition's first.
//!
//! One record a partition, a byte e: **no block of it lasts 2^e nanoseconds or more**; no record
//! means e = 0, every block a single instant. The committer writes the record in the batch of the
//! first block that needs it, so whatever snapshot shows a block shows a record that covers it.
//! Never lowered. Blocks that were written before there were such records are learned at the first
//! start, before a write is taken.

use std::collections::HashMap;

use fjall::{Database, Keyspace, PersistMode, Readable, Snapshot};

use super::keys::{self, BlockTail};
use crate::model::Timestamp;
use crate::partition::ordered_time;
use crate::store::BlockAddress;

/// Most partitions whose records the committer keeps at hand.
const KNOWN_MAX: usize = 1 << 16;
/// Records that are learned with one sync.
const LEARNED_AT_ONCE: usize = 1 << 14;

/// The least e that covers a block.
fn exponent(address: &BlockAddress) -> u8 {
    let lasts = address.max_ts.nanos().wrapping_sub(address.min_ts.nanos()) as u64;
    (u64::BITS - lasts.leading_zeros()) as u8
}

/// The least time at which a block covered by `exponent` can begin that holds an event at `from` or later.
fn earliest(from: Timestamp, exponent: u8) -> Timestamp {
    let lasts = 1u64.checked_shl(exponent.into()).map_or(u64::MAX, |longer| longer - 1);
    Timestamp::from_nanos(from.nanos().saturating_sub_unsigned(lasts))
}

fn decode(value: Option<&[u8]>) -> u8 {
    match value {
        None => 0,
        // What does not read as a record covers everything.
        Some(value) => value.first().copied().unwrap_or(u8::MAX),
    }
}

/// The first key among those of the partition of `prefix` at which a block can stand that holds an
/// event at `from` or later.
pub(super) fn start(snapshot: &Snapshot, keyspace: &Keyspace, prefix: &[u8], from: Timestamp) -> fjall::Result<Vec<u8>> {
    let record = snapshot.get(keyspace, keys::reach_key(prefix))?;
    let earliest = earliest(from, decode(record.as_deref()));
    Ok([prefix, &ordered_time(earliest)].concat())
}

/// The records as the committer knows them.
#[derive(Debug, Default)]
pub(super) struct Reaches(HashMap<Vec<u8>, u8>);

impl Reaches {
    /// The record, key and value, that must stand with a new block at `address`; `None` where one does.
    pub(super) fn raise(&mut self, keyspace: &Keyspace, prefix: &[u8], address: &BlockAddress) -> fjall::Result<Option<(Vec<u8>, u8)>> {
        let exponent = exponent(address);
        if exponent == 0 {
            return Ok(None);
        }
        let known = match self.0.get_mut(prefix) {
            Some(known) => known,
            None => {
                let stored = decode(keyspace.get(keys::reach_key(prefix))?.as_deref());
                if self.0.len() >= KNOWN_MAX {
                    self.0.clear();
                }
                self.0.entry(prefix.to_vec()).or_insert(stored)
            }
        };
        if *known >= exponent {
            return Ok(None);
        }
        *known = exponent;
        Ok(Some((keys::reach_key(prefix), exponent)))
    }

    /// Forgets what is known: what was raised last may not stand.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// Writes the records of all blocks there are. Blocks: a walk over every key.
pub(super) fn learn(database: &Database, keyspace: &Keyspace) -> fjall::Result<()> {
    let mut found: HashMap<Vec<u8>, u8> = HashMap::new();
    for guard in database.snapshot().range(keyspace, keys::all_blocks()) {
        let key = guard.key()?;
        let Some((prefix, BlockTail { address, .. })) = keys::split_block_key(&key) else { continue };
        match exponent(&address) {
            0 => {}
            more => match found.get_mut(prefix) {
                Some(known) => *known = (*known).max(more),
                None => drop(found.insert(prefix.to_vec(), more)),
            },
        }
        // Partitions follow one another, so those before this one are whole.
        if found.len() >= LEARNED_AT_ONCE {
            let last = found.remove_entry(prefix);
            write(database, keyspace, &found)?;
            found = last.into_iter().collect();
        }
    }
    write(database, keyspace, &found)
}

fn write(database: &Database, keyspace: &Keyspace, records: &HashMap<Vec<u8>, u8>) -> fjall::Result<()> {
    let mut batch = database.batch().durability(Some(PersistMode::SyncData));
    records.iter().for_each(|(prefix, exponent)| batch.insert(keyspace, keys::reach_key(prefix), [*exponent]));
    batch.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Stamp;

    fn address(min: i64, max: i64) -> BlockAddress {
        BlockAddress { min_ts: Timestamp::from_nanos(min), max_ts: Timestamp::from_nanos(max), id: Stamp { time: 0, node: 0 } }
    }

    #[test]
    fn an_exponent_covers_every_block_that_needs_no_greater_one() {
        for (min, max, wanted) in [(5, 5, 0), (5, 6, 1), (0, 3, 2), (0, 4, 3), (-1, 0, 1), (i64::MIN, i64::MAX, 64), (0, i64::MAX, 63)] {
            assert_eq!(exponent(&address(min, max)), wanted, "{min} {max}");
        }
    }

    #[test]
    fn a_block_that_reaches_in_never_begins_before_the_earliest() {
        let edges = [i64::MIN, i64::MIN + 1, -1_000, -1, 0, 1, 7, 8, 1 << 40, i64::MAX - 1, i64::MAX];
        for (min, max) in edges.iter().flat_map(|min| edges.iter().filter(move |max| min <= *max).map(move |max| (*min, *max))) {
            for from in edges.iter().filter(|from| **from <= max) {
                let earliest = earliest(Timestamp::from_nanos(*from), exponent(&address(min, max)));
                assert!(earliest.nanos() <= min, "[{min}, {max}] from {from}: {earliest:?}");
            }
        }
        assert_eq!(earliest(Timestamp::from_nanos(1_000), 3).nanos(), 993);
    }
}

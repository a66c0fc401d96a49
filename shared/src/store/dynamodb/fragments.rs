//! Which partitions this process has written many small blocks to: a hint for compaction.
//!
//! Only what was written since the start is known: looking for more would cost a read of the whole table.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Mutex;

use super::BLOCK_BYTES_MAX;
use crate::partition::Partition;
use crate::store::{EncodedBlock, is_small_of};

/// Most partitions that are remembered.
const PARTITIONS_MAX: usize = 1 << 16;

/// Small blocks by partition, in the order of the partitions' encoding.
#[derive(Debug, Default)]
pub(super) struct Fragments(Mutex<BTreeMap<Vec<u8>, u32>>);

impl Fragments {
    /// The partition keys of those of these blocks that are small.
    pub(super) fn small(blocks: &[EncodedBlock]) -> Vec<Vec<u8>> {
        let small = blocks.iter().filter(|block| is_small_of(block.events, block.bytes.len(), BLOCK_BYTES_MAX));
        small.map(|block| block.partition.encode()).collect()
    }

    /// Small blocks were written, one for each of these partitions.
    pub(super) fn written(&self, small: Vec<Vec<u8>>) {
        let mut counts = self.0.lock().expect("no holder panics");
        for partition in small {
            if counts.len() >= PARTITIONS_MAX && !counts.contains_key(&partition) {
                // One with a single small block is compacted by nobody.
                counts.retain(|_, count| *count > 1);
            }
            if counts.len() < PARTITIONS_MAX || counts.contains_key(&partition) {
                let count = counts.entry(partition).or_default();
                *count = count.saturating_add(1);
            }
        }
    }

    /// So many blocks of a partition were deleted.
    pub(super) fn deleted(&self, partition: &Partition, blocks: usize) {
        let mut counts = self.0.lock().expect("no holder panics");
        let key = partition.encode();
        let Some(count) = counts.get_mut(&key) else { return };
        *count = count.saturating_sub(u32::try_from(blocks).unwrap_or(u32::MAX));
        if *count == 0 {
            counts.remove(&key);
        }
    }

    /// Partitions with at least `least` small blocks behind `after`.
    pub(super) fn find(&self, least: usize, after: Option<&Partition>, most: usize) -> Vec<Partition> {
        let counts = self.0.lock().expect("no holder panics");
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.encode()));
        let enough = counts.range((from, Bound::Unbounded)).filter(|(_, count)| **count as usize >= least);
        enough.filter_map(|(key, _)| Partition::decode(key).map(|(partition, _)| partition)).take(most).collect()
    }
}

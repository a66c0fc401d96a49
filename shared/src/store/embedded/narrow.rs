//! Narrowing from keys alone: a block's key holds its times and its count.
//!
//! One walk a partition, from the end that is asked for, joined by the blocks' least times; few
//! keys are read, and no value.

use std::collections::BinaryHeap;

use fjall::{Iter, Keyspace, Readable, Snapshot};

use super::keys::{self, BlockTail};
use super::scan::ScanError;
use crate::model::TimeRange;
use crate::partition::{Partition, ordered_time};
use crate::store::narrow::Narrowing;
use crate::store::{End, Enough, Scan};

/// A partition's walk and its next block.
struct Walk {
    keys: Iter,
    end: End,
    next: Option<BlockTail>,
}

impl Walk {
    /// Blocks that begin in `range`: only those can lie inside.
    fn new(snapshot: &Snapshot, keyspace: &Keyspace, partition: &Partition, range: TimeRange, end: End) -> Walk {
        let prefix = keys::partition_prefix(partition);
        let bound = |ts| [&prefix[..], &ordered_time(ts)].concat();
        Walk { keys: snapshot.range(keyspace, bound(range.from)..bound(range.to)), end, next: None }
    }

    /// Steps to the next block; gives its rank: the block of the highest rank comes first.
    fn step(&mut self) -> Result<Option<i64>, ScanError> {
        let (guard, sign): (_, fn(i64) -> i64) = match self.end {
            End::First => (self.keys.next(), |min| !min),
            End::Last => (self.keys.next_back(), |min| min),
        };
        let Some(guard) = guard else { return Ok(None) };
        let key = guard.key()?;
        let (_, tail) = keys::split_block_key(&key).ok_or(ScanError::Damaged("a block's key is too short"))?;
        self.next = Some(tail);
        Ok(Some(sign(tail.address.min_ts.nanos())))
    }
}

/// Answers [`crate::store::Store::narrow`].
pub(super) fn narrow(snapshot: &Snapshot, keyspace: &Keyspace, scan: &Scan, enough: Enough) -> Result<TimeRange, ScanError> {
    if scan.range.is_empty() {
        return Ok(scan.range);
    }
    let open = |partition| Walk::new(snapshot, keyspace, partition, scan.range, enough.end);
    let mut walks: Vec<Walk> = scan.partitions.iter().map(open).collect();
    let mut heads = BinaryHeap::new();
    for (at, walk) in walks.iter_mut().enumerate() {
        heads.extend(walk.step()?.map(|rank| (rank, at)));
    }
    let mut narrowing = Narrowing::new(scan.range, enough);
    while let Some((_, at)) = heads.pop() {
        if let Some(tail) = walks[at].next.take()
            && let Some(found) = narrowing.take(&tail.address, tail.events)
        {
            return Ok(found);
        }
        heads.extend(walks[at].step()?.map(|rank| (rank, at)));
    }
    Ok(narrowing.finish())
}

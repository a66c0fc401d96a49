//! Scans: one snapshot for all pages, one forward walk over keys, values only of blocks that are wanted.
//!
//! The planned partitions and the keys are both sorted, so they are merged: partitions that the
//! walk steps over are empty, and where many keys in a row are of no partition that was asked for,
//! the walk seeks the next one instead.

use std::cell::Cell;
use std::ops::Bound;
use std::sync::Arc;

use fjall::{Iter, Keyspace, Readable, Snapshot};

use super::keys::{self, BlockTail};
use crate::model::TimeRange;
use crate::store::{Scan, ScanPage, StoredBlock, overlaps};

/// Keys stepped over one by one before a seek (some ten µs, as long as ~30 steps) is tried.
const STEPS_MAX: usize = 24;
/// What a block costs a page besides its bytes.
const BLOCK_OVERHEAD_BYTES: usize = 128;

/// A scan between two pages.
#[derive(Clone)]
pub(super) struct Cursor {
    snapshot: Snapshot,
    plan: Arc<Plan>,
    /// The first planned partition that is not answered yet.
    position: usize,
    /// The last key that was given.
    behind: Option<Vec<u8>>,
}

/// The planned partitions in the order of their keys.
struct Plan {
    range: TimeRange,
    /// Prefix of the partition's keys, and its index in the scan.
    partitions: Vec<(Vec<u8>, u32)>,
}

/// Why a page could not be made.
pub(super) enum ScanError {
    Engine(fjall::Error),
    /// A key or value is not what the store writes.
    Damaged(&'static str),
}

impl From<fjall::Error> for ScanError {
    fn from(error: fjall::Error) -> Self {
        ScanError::Engine(error)
    }
}

/// What a key means to a scan.
#[derive(Clone, Copy)]
enum Meaning {
    /// Of a planned partition, and in the range.
    Wanted(usize, BlockTail),
    /// Of a planned partition, outside the range; blocks behind it may be inside.
    Outside(usize),
    /// Of a planned partition, and like all behind it beyond the range.
    Beyond(usize),
    /// Of a partition that was not asked for; the next one that was, by its place in the plan.
    Foreign(usize),
}

impl Plan {
    fn new(scan: &Scan) -> Plan {
        let mut partitions: Vec<_> = scan.partitions.iter().map(keys::partition_prefix).zip(0..).collect();
        if !partitions.is_sorted() {
            partitions.sort_unstable();
        }
        Plan { range: scan.range, partitions }
    }

    /// What `key` means, at or behind the partition at `from`. Partition prefixes are prefix-free.
    fn meaning(&self, from: usize, key: &[u8]) -> Meaning {
        let next = from + self.count_before(from, key);
        let Some(place) = next.checked_sub(1).filter(|place| *place >= from && key.starts_with(&self.partitions[*place].0)) else {
            return Meaning::Foreign(next);
        };
        match keys::split_block_key(key) {
            Some((_, tail)) if tail.address.min_ts >= self.range.to => Meaning::Beyond(place),
            Some((_, tail)) if overlaps(&tail.address, self.range) => Meaning::Wanted(place, tail),
            _ => Meaning::Outside(place),
        }
    }

    /// How many partitions from `from` on begin at or before `key`; near ones are found fast.
    fn count_before(&self, from: usize, key: &[u8]) -> usize {
        let rest = &self.partitions[from..];
        let mut reach = 1;
        while reach < rest.len() && rest[reach - 1].0.as_slice() <= key {
            reach *= 2;
        }
        rest[..reach.min(rest.len())].partition_point(|(prefix, _)| prefix.as_slice() <= key)
    }
}

impl Cursor {
    /// Begins a scan of what `snapshot` shows.
    pub(super) fn new(snapshot: Snapshot, scan: &Scan) -> Cursor {
        Cursor { snapshot, plan: Arc::new(Plan::new(scan)), position: 0, behind: None }
    }

    /// The next page, of about `page_bytes`.
    pub(super) fn page(mut self, keyspace: &Keyspace, page_bytes: usize) -> Result<ScanPage, ScanError> {
        let mut page = ScanPage::default();
        if self.plan.range.is_empty() {
            self.answer_until(self.plan.partitions.len(), &mut page);
        }
        let mut bytes = 0;
        while let Some(mut walk) = self.seek(keyspace) {
            if self.walk(&mut walk, &mut page, &mut bytes, page_bytes)? {
                page.next = Some(Arc::new(self));
                break;
            }
        }
        Ok(page)
    }

    /// A walk from the next unanswered partition to the last; `None` where all are answered.
    fn seek(&self, keyspace: &Keyspace) -> Option<Iter> {
        let (first, _) = self.plan.partitions.get(self.position)?;
        let (last, _) = self.plan.partitions.last()?;
        let from = self.behind.as_ref().filter(|key| *key > first).map_or(Bound::Included(first), Bound::Excluded);
        let to = keys::behind(last);
        Some(self.snapshot.range::<&[u8], _>(keyspace, (from.map(Vec::as_slice), Bound::Excluded(to.as_slice()))))
    }

    /// Walks until the page is full (`true`), or the end or a long foreign stretch is reached.
    fn walk(&mut self, walk: &mut Iter, page: &mut ScanPage, bytes: &mut usize, page_bytes: usize) -> Result<bool, ScanError> {
        let mut steps = 0;
        for guard in walk {
            let meaning = Cell::new(Meaning::Foreign(self.position));
            let (key, value) = guard.into_inner_if(|key| {
                meaning.set(self.plan.meaning(self.position, key));
                matches!(meaning.get(), Meaning::Wanted(..))
            })?;
            steps += 1;
            match (meaning.get(), value) {
                (Meaning::Wanted(place, tail), Some(value)) => {
                    steps = 0;
                    self.answer_until(place, page);
                    if value.len() != tail.bytes as usize {
                        return Err(ScanError::Damaged("a block's length is not what its key says"));
                    }
                    *bytes += value.len() + BLOCK_OVERHEAD_BYTES;
                    page.blocks.push((self.plan.partitions[place].1, StoredBlock { address: tail.address, bytes: value.into() }));
                    if *bytes >= page_bytes {
                        self.behind = Some(key.to_vec());
                        return Ok(true);
                    }
                }
                (Meaning::Wanted(place, _) | Meaning::Outside(place), _) => {
                    steps = 0;
                    self.answer_until(place, page);
                }
                (Meaning::Beyond(place), _) => self.answer_until(place + 1, page),
                (Meaning::Foreign(next), _) => self.answer_until(next, page),
            }
            if self.position == self.plan.partitions.len() {
                return Ok(false);
            }
            if steps > STEPS_MAX {
                return Ok(false);
            }
        }
        self.answer_until(self.plan.partitions.len(), page);
        Ok(false)
    }

    /// Says that every partition before `place` was answered to its end.
    fn answer_until(&mut self, place: usize, page: &mut ScanPage) {
        let done = &self.plan.partitions[self.position.min(place)..place];
        page.answered.extend(done.iter().map(|(_, index)| *index));
        self.position = self.position.max(place);
    }
}

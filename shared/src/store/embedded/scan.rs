//! Scans: one snapshot for all pages, forward walks over keys, values only of blocks that are wanted.
//!
//! The planned partitions and the keys are both sorted, so they are merged: partitions that a
//! walk steps over are empty, and where many keys in a row are not wanted, the walk seeks the next
//! that can be: the next planned partition, or where in its partition the first block that reaches
//! into the range can stand (see [`super::reach`]). Where few partitions begin before the range,
//! each of them has a walk of its own, since to step over what was deleted in it costs as much as
//! to step over keys, and isn't seen here.

use std::cell::Cell;
use std::ops::Bound;
use std::sync::Arc;

use fjall::{Iter, Keyspace, Readable, Snapshot};

use super::keys::{self, BlockTail};
use super::reach;
use crate::partition::ordered_time;
use crate::store::{Scan, ScanPage, StoredBlock, overlaps};

/// Keys stepped over one by one before a seek (some ten µs, as long as ~30 steps) is tried.
const STEPS_MAX: usize = 24;
/// Most partitions of one scan that begin before its range and are walked each for itself.
const OWN_WALKS_MAX: usize = 64;
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
    scan: Scan,
    partitions: Vec<Planned>,
}

/// A planned partition.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Planned {
    /// Of its keys.
    prefix: Vec<u8>,
    /// In the scan.
    index: u32,
    /// The place up to which a walk that begins with it goes.
    end: usize,
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
    /// Of a planned partition, before the range; blocks behind it may be inside.
    Before(usize),
    /// Of a planned partition, and like all behind it beyond the range.
    Beyond(usize),
    /// Of a partition that was not asked for; the next one that was, by its place in the plan.
    Foreign(usize),
}

impl Plan {
    fn new(scan: &Scan) -> Plan {
        let prefixes = scan.partitions.iter().map(keys::partition_prefix).zip(0..);
        let mut partitions: Vec<Planned> = prefixes.map(|(prefix, index)| Planned { prefix, index, end: 0 }).collect();
        if !partitions.is_sorted() {
            partitions.sort_unstable();
        }
        let mut plan = Plan { scan: scan.clone(), partitions };
        plan.divide();
        plan
    }

    /// Whether the partition at `place` begins before the range.
    fn begins_before(&self, place: usize) -> bool {
        let partition = &self.scan.partitions[self.partitions[place].index as usize];
        partition.bucket < self.scan.range.from
    }

    /// Says how far a walk from each partition goes.
    fn divide(&mut self) {
        let places = 0..self.partitions.len();
        let apart = places.clone().filter(|place| self.begins_before(*place)).count() <= OWN_WALKS_MAX;
        let mut end = places.end;
        for place in places.rev() {
            let alone = apart && self.begins_before(place);
            self.partitions[place].end = if alone { place + 1 } else { end };
            end = if alone { place } else { end };
        }
    }

    /// What `key` means, at or behind the partition at `from`. Partition prefixes are prefix-free.
    fn meaning(&self, from: usize, key: &[u8]) -> Meaning {
        let next = from + self.count_before(from, key);
        let Some(place) = next.checked_sub(1).filter(|place| *place >= from && key.starts_with(&self.partitions[*place].prefix)) else {
            return Meaning::Foreign(next);
        };
        match keys::split_block_key(key) {
            Some((_, tail)) if tail.address.min_ts >= self.scan.range.to => Meaning::Beyond(place),
            Some((_, tail)) if overlaps(&tail.address, self.scan.range) => Meaning::Wanted(place, tail),
            _ => Meaning::Before(place),
        }
    }

    /// How many partitions from `from` on begin at or before `key`; near ones are found fast.
    fn count_before(&self, from: usize, key: &[u8]) -> usize {
        let rest = &self.partitions[from..];
        let mut reach = 1;
        while reach < rest.len() && rest[reach - 1].prefix.as_slice() <= key {
            reach *= 2;
        }
        rest[..reach.min(rest.len())].partition_point(|planned| planned.prefix.as_slice() <= key)
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
        if self.plan.scan.range.is_empty() {
            self.answer_until(self.plan.partitions.len(), &mut page);
        }
        let mut bytes = 0;
        while self.position < self.plan.partitions.len() {
            if self.walk(keyspace, &mut page, &mut bytes, page_bytes)? {
                page.next = Some(Arc::new(self));
                break;
            }
        }
        Ok(page)
    }

    /// The first key that can be wanted of the partition at `place`.
    fn first(&self, keyspace: &Keyspace, place: usize) -> fjall::Result<Vec<u8>> {
        let Planned { prefix, .. } = &self.plan.partitions[place];
        match self.plan.begins_before(place) {
            true => reach::start(&self.snapshot, keyspace, prefix, self.plan.scan.range.from),
            false => Ok(prefix.clone()),
        }
    }

    /// A walk from the partition that is to be answered next.
    fn seek(&self, keyspace: &Keyspace, end: usize) -> fjall::Result<Iter> {
        let first = self.first(keyspace, self.position)?;
        let first = self.behind.as_ref().filter(|key| **key >= first).map_or(Bound::Included(&first), Bound::Excluded);
        let last = &self.plan.partitions[end - 1].prefix;
        let last = match end - self.position {
            1 => [last, &ordered_time(self.plan.scan.range.to)[..]].concat(),
            _ => keys::behind(last),
        };
        let range = (first.map(Vec::as_slice), Bound::Excluded(last.as_slice()));
        Ok(self.snapshot.range::<&[u8], _>(keyspace, range))
    }

    /// Walks until the page is full (`true`), or the walk's end or many keys that are not wanted are reached.
    fn walk(&mut self, keyspace: &Keyspace, page: &mut ScanPage, bytes: &mut usize, page_bytes: usize) -> Result<bool, ScanError> {
        let end = self.plan.partitions[self.position].end;
        let mut steps = 0;
        for guard in self.seek(keyspace, end)? {
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
                    page.blocks.push((self.plan.partitions[place].index, StoredBlock { address: tail.address, bytes: value.into() }));
                    if *bytes >= page_bytes {
                        self.behind = Some(key.to_vec());
                        return Ok(true);
                    }
                }
                (Meaning::Wanted(place, _) | Meaning::Before(place), _) => self.answer_until(place, page),
                (Meaning::Beyond(place), _) => self.answer_until(place + 1, page),
                (Meaning::Foreign(next), _) => self.answer_until(next, page),
            }
            if self.position == end {
                return Ok(false);
            }
            if steps > STEPS_MAX {
                if *key < *self.first(keyspace, self.position)? {
                    return Ok(false);
                }
                steps = 0;
            }
        }
        self.answer_until(end, page);
        Ok(false)
    }

    /// Says that every partition before `place` was answered to its end.
    fn answer_until(&mut self, place: usize, page: &mut ScanPage) {
        let done = &self.plan.partitions[self.position.min(place)..place];
        page.answered.extend(done.iter().map(|planned| planned.index));
        self.position = self.position.max(place);
    }
}

//! Narrow: the least part of a range, at one end of it, that is sure to hold so many rows, going by
//! addresses and counts alone.
//!
//! Pure; shared by the stores that can walk addresses without reading blocks. Its answer only says
//! what to scan: nothing is ever left out of an answer because of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::BlockAddress;
use crate::model::{TimeRange, Timestamp};

/// Most blocks that are looked at; what they reach is the answer then.
const BLOCKS_MAX: usize = 16_384;

/// An end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where it begins.
    First,
    /// Where it ends.
    Last,
}

/// How much of a range a reader needs, and from which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enough {
    /// From where the range is read.
    pub end: End,
    /// Rows that are wanted.
    pub rows: usize,
}

/// A narrowing under way. Blocks are taken in the order of their least times: ascending from the
/// first end, descending from the last.
#[derive(Debug)]
pub(super) struct Narrowing {
    range: TimeRange,
    enough: Enough,
    taken: usize,
    /// Rows of blocks that no block to come can stand before.
    held: usize,
    /// From the first end: blocks that may reach over those to come, by their greatest times.
    open: BinaryHeap<Reverse<(Timestamp, u32)>>,
}

impl Narrowing {
    pub(super) fn new(range: TimeRange, enough: Enough) -> Narrowing {
        Narrowing { range, enough, taken: 0, held: 0, open: BinaryHeap::new() }
    }

    /// Takes a block; gives the answer once it is known.
    pub(super) fn take(&mut self, address: &BlockAddress, rows: u32) -> Option<TimeRange> {
        self.taken += 1;
        let found = match self.enough.end {
            End::First => self.take_ascending(address, rows),
            End::Last => self.take_descending(address, rows),
        };
        let reached = || match self.enough.end {
            End::First => self.until(address.min_ts),
            End::Last => self.since(address.min_ts),
        };
        found.or_else(|| (self.taken >= BLOCKS_MAX).then(reached))
    }

    /// The answer when every block was taken.
    pub(super) fn finish(mut self) -> TimeRange {
        self.close(Timestamp::MAX).unwrap_or(self.range)
    }

    fn take_ascending(&mut self, address: &BlockAddress, rows: u32) -> Option<TimeRange> {
        let found = self.close(address.min_ts);
        if found.is_none() && self.range.from <= address.min_ts && address.max_ts < self.range.to {
            self.open.push(Reverse((address.max_ts, rows)));
        }
        found
    }

    /// Counts the open blocks that end before `ts`; those that are enough are the answer.
    fn close(&mut self, ts: Timestamp) -> Option<TimeRange> {
        while let Some(&Reverse((end, rows))) = self.open.peek().filter(|Reverse((end, _))| *end < ts) {
            self.open.pop();
            self.held += rows as usize;
            if self.held >= self.enough.rows {
                return Some(self.until(end));
            }
        }
        None
    }

    fn take_descending(&mut self, address: &BlockAddress, rows: u32) -> Option<TimeRange> {
        if self.range.from <= address.min_ts && address.max_ts < self.range.to {
            self.held += rows as usize;
        }
        (self.held >= self.enough.rows).then(|| self.since(address.min_ts))
    }

    /// The range as far as `last`, which is inside.
    fn until(&self, last: Timestamp) -> TimeRange {
        let to = Timestamp::from_nanos(last.nanos().saturating_add(1)).min(self.range.to);
        TimeRange { to, ..self.range }
    }

    /// The range from `first` on.
    fn since(&self, first: Timestamp) -> TimeRange {
        TimeRange { from: first.max(self.range.from), ..self.range }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Stamp;

    fn range(from: i64, to: i64) -> TimeRange {
        TimeRange { from: Timestamp::from_nanos(from), to: Timestamp::from_nanos(to) }
    }

    /// What is answered of blocks (least time, greatest time, rows).
    fn narrowed(end: End, rows: usize, asked: TimeRange, blocks: &[(i64, i64, u32)]) -> TimeRange {
        let mut blocks = blocks.to_vec();
        blocks.sort_unstable();
        if end == End::Last {
            blocks.reverse();
        }
        let mut narrowing = Narrowing::new(asked, Enough { end, rows });
        let address = |min, max| BlockAddress {
            min_ts: Timestamp::from_nanos(min),
            max_ts: Timestamp::from_nanos(max),
            id: Stamp { time: 0, node: 0 },
        };
        let found = blocks.iter().find_map(|(min, max, rows)| narrowing.take(&address(*min, *max), *rows));
        found.unwrap_or_else(|| narrowing.finish())
    }

    #[test]
    fn the_blocks_nearest_to_an_end_decide() {
        let blocks = [(0, 9, 5), (10, 19, 5), (20, 29, 5), (30, 39, 5)];
        assert_eq!(narrowed(End::Last, 6, range(0, 100), &blocks), range(20, 100));
        assert_eq!(narrowed(End::First, 6, range(0, 100), &blocks), range(0, 20));
    }

    #[test]
    fn fewer_rows_than_wanted_need_the_whole_range() {
        for end in [End::First, End::Last] {
            assert_eq!(narrowed(end, 11, range(0, 100), &[(0, 9, 5), (10, 19, 5)]), range(0, 100));
            assert_eq!(narrowed(end, 1, range(0, 100), &[]), range(0, 100));
        }
    }

    #[test]
    fn a_block_that_reaches_far_does_not_widen_what_others_fill() {
        let blocks = [(0, 90, 5), (1, 2, 5), (3, 4, 5), (5, 6, 5)];
        assert_eq!(narrowed(End::First, 6, range(0, 100), &blocks), range(0, 5));
        assert_eq!(narrowed(End::Last, 6, range(0, 100), &blocks), range(3, 100));
    }

    #[test]
    fn blocks_partly_outside_are_not_counted() {
        let blocks = [(0, 12, 5), (11, 15, 5), (16, 40, 5)];
        assert_eq!(narrowed(End::First, 5, range(10, 30), &blocks), range(10, 16));
        assert_eq!(narrowed(End::Last, 6, range(10, 30), &blocks), range(10, 30));
    }
}

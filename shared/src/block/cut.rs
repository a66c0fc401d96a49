//! Cutting sorted rows into blocks that keep the limits: events, encoded bytes, decoded bytes.
//!
//! Prefers to cut where the time changes, so that blocks of one partition do not touch, and never
//! cuts between rows of one event unless they alone are too much.

use std::ops::Range;
use std::sync::Arc;

use super::format::{FRAME_BYTES_MAX, header, seal};
use super::table::{Table, Values};
use super::write::{Body, Sorted};
use crate::layout::Layout;
use crate::limits::BLOCK_EVENTS_MAX;
use crate::model::Timestamp;
use crate::partition::Partition;
use crate::stamp::Stamp;
use crate::store::{BlockAddress, EncodedBlock};

/// Most bytes of values that are tried as one block; larger ones rarely keep any limit, and the
/// reader's bound is four times as much.
const RAW_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What any value and a row are charged against [`RAW_BYTES_MAX`], beside strings.
const CELL_BYTES: usize = 8;

/// Where blocks go and what they must keep.
pub(super) struct Cutter<'a> {
    pub(super) partition: &'a Arc<Partition>,
    pub(super) layout: &'a Layout,
    pub(super) bytes_max: usize,
    pub(super) rows: Sorted<'a>,
    /// Rows of the same event as the row before, ascending.
    pub(super) joined: &'a [u32],
}

impl Cutter<'_> {
    /// All rows as blocks; `stamp` gives each its id.
    pub(super) fn blocks<E>(&self, mut stamp: impl FnMut() -> Result<Stamp, E>) -> Result<Vec<EncodedBlock>, E> {
        let weights = Weights::of(self.rows.table);
        let columns: Vec<usize> = (0..self.rows.table.columns.len()).collect();
        let mut blocks = Vec::new();
        // What is left to do, the first rows on top.
        let mut pieces = vec![(0..self.rows.table.ts.len(), columns)];
        while let Some((range, columns)) = pieces.pop().filter(|(range, _)| !range.is_empty()) {
            let parts = weights.parts(&range);
            if parts > 1 && self.divide(&range, &columns, parts, &mut pieces) {
                continue;
            }
            let body = Body::of(self.rows, range.clone(), &columns);
            let parts = (body.len() + FRAME_BYTES_MAX).div_ceil(self.bytes_max.max(1));
            if parts > 1 && self.divide(&range, &columns, parts, &mut pieces) {
                continue;
            }
            blocks.push(self.seal(range, &body, stamp()?));
        }
        Ok(blocks)
    }

    /// Puts smaller pieces in the place of one; whether that was possible.
    fn divide(&self, range: &Range<usize>, columns: &[usize], parts: usize, pieces: &mut Vec<(Range<usize>, Vec<usize>)>) -> bool {
        if range.len() > 1 {
            let middle = self.boundary(range, range.start + range.len().div_ceil(parts).min(range.len() - 1));
            pieces.push((middle..range.end, columns.to_vec()));
            pieces.push((range.start..middle, columns.to_vec()));
            return true;
        }
        // One event too large for a block (many writes of it came together): its columns are dealt
        // to several blocks, and every read puts them together again as it does with any doubles.
        let shard_tag = |column: &usize| {
            let column = &self.rows.table.columns[*column];
            column.tag && self.layout.shard_by.tag() == Some(&*column.name)
        };
        let (shared, dealt): (Vec<usize>, Vec<usize>) = columns.iter().partition(|column| shard_tag(column));
        if dealt.len() < 2 {
            return false;
        }
        // Columns stand in their order in every block.
        let with_shared = |part: &[usize]| {
            let mut columns = [part, &shared].concat();
            columns.sort_unstable();
            columns
        };
        let (left, right) = dealt.split_at(dealt.len() / 2);
        pieces.push((range.clone(), with_shared(right)));
        pieces.push((range.clone(), with_shared(left)));
        true
    }

    /// The best cut at or not far before `target`, inside `range`.
    fn boundary(&self, range: &Range<usize>, target: usize) -> usize {
        let ts = &self.rows.table.ts;
        let slack = (target - range.start) / 4;
        let near = (target - slack).max(range.start + 1)..=target;
        let new_time = near.clone().rev().find(|row| ts[*row] != ts[row - 1]);
        let new_event = |row: &usize| self.joined.binary_search(&(*row as u32)).is_err();
        let candidates = (range.start + 1..=target).rev().chain(target + 1..range.end);
        new_time.or_else(|| candidates.clone().find(new_event)).unwrap_or(target)
    }

    fn seal(&self, range: Range<usize>, body: &Body, id: Stamp) -> EncodedBlock {
        let ts = &self.rows.table.ts;
        let at = |row: usize| Timestamp::from_nanos(ts[row]);
        let address = BlockAddress { min_ts: at(range.start), max_ts: at(range.end - 1), id };
        let first_inside = self.joined.partition_point(|row| (*row as usize) <= range.start);
        let distinct = self.joined.get(first_inside).is_none_or(|row| (*row as usize) >= range.end);
        let header = header(self.partition, self.layout, range.len(), address, distinct);
        let bytes = seal(&header, body.columns, &body.parts());
        EncodedBlock { partition: Arc::clone(self.partition), address, events: range.len() as u32, bytes }
    }
}

/// What rows weigh once decoded.
enum Weights {
    /// So little in all that it does not matter.
    Light,
    /// Bytes of all rows up to each, itself included.
    Sums(Vec<usize>),
}

impl Weights {
    fn of(table: &Table) -> Weights {
        let cells: usize = table.columns.iter().map(|column| column.values.len()).sum();
        let texts: usize = table.columns.iter().map(|column| text_bytes(&column.values)).sum();
        if (cells + table.ts.len() * 3) * CELL_BYTES + texts + table.ids.bytes.len() <= RAW_BYTES_MAX {
            return Weights::Light;
        }
        let mut weights: Vec<usize> = (0..table.ts.len()).map(|row| 3 * CELL_BYTES + table.ids.bytes_at(row).len()).collect();
        for column in &table.columns {
            for (index, row) in column.cells() {
                weights[row as usize] += CELL_BYTES + column.values.bytes_at(index).len();
            }
        }
        for row in 1..weights.len() {
            weights[row] += weights[row - 1];
        }
        Weights::Sums(weights)
    }

    /// How many blocks these rows need at least.
    fn parts(&self, range: &Range<usize>) -> usize {
        let by_events = range.len().div_ceil(BLOCK_EVENTS_MAX);
        let by_bytes = match self {
            Weights::Light => 1,
            Weights::Sums(sums) => {
                let before = if range.start == 0 { 0 } else { sums[range.start - 1] };
                (sums[range.end - 1] - before).div_ceil(RAW_BYTES_MAX)
            }
        };
        by_events.max(by_bytes)
    }
}

fn text_bytes(values: &Values) -> usize {
    match values {
        Values::Str(strings) => strings.bytes.len(),
        Values::Dict(entries, indices) => indices.iter().map(|index| entries.bytes_at(*index as usize).len()).sum(),
        _ => 0,
    }
}

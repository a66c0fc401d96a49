//! Merge: verified blocks → the events of a stretch, in order, as JSON.
//!
//! Pure. Doubles of one identity lie in one partition and are merged there (`block::merge`);
//! partitions are then joined k-way by (ts, key, id, shard tag), so that the same closed range
//! gives the same bytes whatever the layout, and desc is the exact reverse of asc.

use std::cmp::Ordering;
use std::sync::Arc;

use braid_shared::block::{self, Block, Projection, Table};
use braid_shared::model::{TimeRange, Timestamp};
use braid_shared::store::overlaps;

use crate::cursor::Position;
use crate::error::QueryError;
use crate::filter::{Filter, tag_of};
use crate::json;
use crate::plan::Order;
use crate::verify::Verified;

/// Events of one partition that were not given yet.
#[derive(Debug)]
struct Part {
    key: Arc<str>,
    table: Table,
    shard_tag: Option<String>,
    passing: Option<Vec<bool>>,
    /// Rows not given yet; those before or behind are.
    left: std::ops::Range<usize>,
    fields: Vec<Label>,
    tags: Vec<Label>,
}

/// A column's place in its table and its name as JSON with a colon.
#[derive(Debug)]
struct Label {
    column: usize,
    name: Vec<u8>,
}

/// Merged events that were not given yet: a heap of partitions by their next row.
#[derive(Debug)]
pub struct Rows {
    parts: Vec<Part>,
    heap: Vec<usize>,
    order: Order,
}

/// How much to give at once, and what stands between two events.
#[derive(Clone, Copy, Debug)]
pub struct Portion {
    /// Most events.
    pub rows: usize,
    /// No event is added once so many bytes are written.
    pub bytes: usize,
    /// Between two events; a line break also ends the last one.
    pub separator: u8,
}

/// Merges some of a partition's blocks.
fn merge_blocks(verified: &Verified, blocks: &[Block], range: TimeRange) -> Result<Table, QueryError> {
    block::merge(&verified.planned.epoch.layout, blocks, range, &Projection::All).map_err(|error| verified.damaged(&error))
}

/// A partition's runs, each a table.
fn of_runs(verified: &Verified, range: TimeRange) -> impl Iterator<Item = Result<Table, QueryError>> + '_ {
    verified.runs.iter().map(move |run| run.table(range, &Projection::All).map_err(|error| verified.damaged(&error)))
}

/// The blocks in which an id occurs, since no others take part in the events that have it, and the
/// least range of time that holds those events; nothing where there are none.
fn blocks_with(verified: &Verified, range: TimeRange, id: &str) -> Result<Option<(Vec<Block>, TimeRange)>, QueryError> {
    let (mut blocks, mut times) = (Vec::new(), Vec::new());
    for block in verified.blocks.iter().filter(|block| overlaps(&block.header().address, range)) {
        let found = block.times_of_id(id, range).map_err(|error| verified.damaged(&error))?;
        if !found.is_empty() {
            blocks.push(block.clone());
            times.extend(found);
        }
    }
    let (Some(first), Some(last)) = (times.iter().min(), times.iter().max()) else { return Ok(None) };
    let to = Timestamp::from_nanos(last.saturating_add(1)).min(range.to);
    Ok(Some((blocks, TimeRange { from: Timestamp::from_nanos(*first), to })))
}

/// The newest event with this id that lies in `range` and passes `filter`, as JSON.
pub fn newest(verified: &[Verified], range: TimeRange, filter: &Filter, id: &str) -> Result<Option<Vec<u8>>, QueryError> {
    let mut newest: Option<(Part, usize)> = None;
    for verified in verified {
        let of_blocks = blocks_with(verified, range, id)?.map(|(blocks, range)| merge_blocks(verified, &blocks, range));
        for table in of_blocks.into_iter().chain(of_runs(verified, range)) {
            let part = Part::new(verified, table?, filter);
            let Some(row) = part.last_with(id) else { continue };
            if newest.as_ref().is_none_or(|(best, at)| best.place(*at) < part.place(row)) {
                newest = Some((part, row));
            }
        }
    }
    Ok(newest.map(|(part, row)| {
        let mut json = Vec::new();
        part.write(row, &mut json);
        json
    }))
}

impl Rows {
    /// Merges partitions; only events in `range` that pass `filter` and lie behind `after` are left.
    pub fn new(
        verified: &[Verified],
        range: TimeRange,
        order: Order,
        filter: &Filter,
        after: Option<&Position>,
    ) -> Result<Rows, QueryError> {
        let mut parts = Vec::new();
        for verified in verified {
            let of_blocks = Some(&verified.blocks).filter(|blocks| !blocks.is_empty()).map(|blocks| merge_blocks(verified, blocks, range));
            for table in of_blocks.into_iter().chain(of_runs(verified, range)) {
                let mut part = Part::new(verified, table?, filter);
                part.skip(order, after);
                if !part.left.is_empty() {
                    parts.push(part);
                }
            }
        }
        let mut rows = Rows { heap: (0..parts.len()).collect(), parts, order };
        (0..rows.heap.len() / 2).rev().for_each(|at| rows.sift_down(at));
        Ok(rows)
    }

    /// No events.
    pub fn none(order: Order) -> Rows {
        Rows { parts: Vec::new(), heap: Vec::new(), order }
    }

    /// Events that were not given yet; those that the filter refuses are counted.
    pub fn left(&self) -> usize {
        self.parts.iter().map(|part| part.left.len()).sum()
    }

    /// Whether every event was given.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Appends the next events; gives their number and the place of the last one.
    pub fn render(&mut self, portion: Portion, out: &mut Vec<u8>) -> (usize, Option<Position>) {
        let (start, mut given, mut last) = (out.len(), 0, None);
        while given < portion.rows && out.len() - start < portion.bytes {
            let Some((part, row)) = self.next() else { break };
            if given > 0 && portion.separator != b'\n' {
                out.push(portion.separator);
            }
            self.parts[part].write(row, out);
            if portion.separator == b'\n' {
                out.push(b'\n');
            }
            given += 1;
            last = Some((part, row));
        }
        (given, last.map(|(part, row)| self.parts[part].position(row)))
    }

    /// Takes the next row off the heap.
    fn next(&mut self) -> Option<(usize, usize)> {
        let part = *self.heap.first()?;
        let row = self.parts[part].head(self.order);
        self.parts[part].advance(self.order);
        if self.parts[part].left.is_empty() {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Some((part, row))
    }

    /// Whether partition `a` comes before `b`.
    fn before(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.parts[a], &self.parts[b]);
        let (row_a, row_b) = (a.head(self.order), b.head(self.order));
        // Times alone nearly always decide.
        let by_place = a.table.ts[row_a].cmp(&b.table.ts[row_b]).then_with(|| a.place(row_a).cmp(&b.place(row_b)));
        by_place == if self.order == Order::Asc { Ordering::Less } else { Ordering::Greater }
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let children = 2 * at + 1..(2 * at + 3).min(self.heap.len());
            let Some(first) = children.reduce(|a, b| if self.before(self.heap[b], self.heap[a]) { b } else { a }) else { return };
            if !self.before(self.heap[first], self.heap[at]) {
                return;
            }
            self.heap.swap(at, first);
            at = first;
        }
    }
}

impl Part {
    fn new(verified: &Verified, table: Table, filter: &Filter) -> Part {
        let labels = |tag: bool| {
            let mut columns: Vec<usize> = (0..table.columns.len()).filter(|i| table.columns[*i].tag == tag).collect();
            columns.sort_by(|a, b| table.columns[*a].name.cmp(&table.columns[*b].name));
            columns.into_iter().map(|column| Label::new(column, &table.columns[column].name)).collect()
        };
        Part {
            key: verified.planned.partition.key.clone(),
            shard_tag: verified.planned.epoch.layout.shard_by.tag().map(str::to_owned),
            passing: filter.passing(&table),
            left: 0..table.ts.len(),
            fields: labels(false),
            tags: labels(true),
            table,
        }
    }

    /// The last row with this id that passes.
    fn last_with(&self, id: &str) -> Option<usize> {
        let passes = |row: usize| self.passing.as_ref().is_none_or(|passing| passing[row]);
        (0..self.table.ts.len()).rev().find(|row| self.table.ids.bytes_at(*row) == id.as_bytes() && passes(*row))
    }

    /// Leaves behind what lies before or at `after`, and what the filter refuses in front.
    fn skip(&mut self, order: Order, after: Option<&Position>) {
        if let Some(after) = after {
            let after = (after.ts.nanos(), &*after.key, &*after.id, after.tag.as_deref());
            match order {
                Order::Asc => self.left.start = self.partition_point(|place| place <= after),
                Order::Desc => self.left.end = self.partition_point(|place| place < after),
            }
        }
        self.skip_refused(order);
    }

    /// How many rows from the first on are `before`.
    fn partition_point(&self, before: impl Fn((i64, &str, &str, Option<&str>)) -> bool) -> usize {
        let (mut low, mut high) = (0, self.table.ts.len());
        while low < high {
            let middle = low.midpoint(high);
            if before(self.place(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn skip_refused(&mut self, order: Order) {
        let Some(passing) = &self.passing else { return };
        let left = &passing[self.left.clone()];
        match order {
            Order::Asc => self.left.start += left.iter().position(|passes| *passes).unwrap_or(left.len()),
            Order::Desc => self.left.end -= left.iter().rev().position(|passes| *passes).unwrap_or(left.len()),
        }
    }

    /// The next row; there is one.
    fn head(&self, order: Order) -> usize {
        match order {
            Order::Asc => self.left.start,
            Order::Desc => self.left.end - 1,
        }
    }

    fn advance(&mut self, order: Order) {
        match order {
            Order::Asc => self.left.start += 1,
            Order::Desc => self.left.end -= 1,
        }
        self.skip_refused(order);
    }

    /// What a row is ordered by.
    fn place(&self, row: usize) -> (i64, &str, &str, Option<&str>) {
        let tag = self.shard_tag.as_ref().and_then(|tag| tag_of(&self.table, tag, row));
        (self.table.ts[row], &self.key, self.table.ids.get(row), tag)
    }

    fn position(&self, row: usize) -> Position {
        let (ts, key, id, tag) = self.place(row);
        Position { ts: Timestamp::from_nanos(ts), key: key.to_owned(), id: id.to_owned(), tag: tag.map(str::to_owned) }
    }

    /// Appends a row as JSON.
    fn write(&self, row: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"key\":");
        json::put(out, &*self.key);
        out.extend_from_slice(b",\"id\":");
        json::put(out, self.table.ids.get(row));
        out.extend_from_slice(b",\"ts\":");
        json::put_time(out, Timestamp::from_nanos(self.table.ts[row]));
        out.extend_from_slice(b",\"fields\":{");
        self.write_members(&self.fields, row, out);
        out.extend_from_slice(b"},\"tags\":{");
        self.write_members(&self.tags, row, out);
        out.extend_from_slice(b"}}");
    }

    fn write_members(&self, labels: &[Label], row: usize, out: &mut Vec<u8>) {
        let start = out.len();
        for label in labels {
            let column = &self.table.columns[label.column];
            let Some(i) = column.index_of(row as u32) else { continue };
            if out.len() > start {
                out.push(b',');
            }
            out.extend_from_slice(&label.name);
            json::put_value(out, column, i);
        }
    }
}

impl Label {
    fn new(column: usize, text: &str) -> Label {
        let mut name = Vec::with_capacity(text.len() + 3);
        json::put(&mut name, text);
        name.push(b':');
        Label { column, name }
    }
}

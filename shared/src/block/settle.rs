//! Blocks of one partition as merged events that still know when each part of them was written, and
//! back: what leaves the store for a table file, and comes from one.
//!
//! A merge to come may bring a write that is older than some parts of an event and newer than
//! others, so an event is its parts, each with its stamp; nothing else can matter to any merge.

use std::collections::HashSet;
use std::sync::Arc;

use super::BlockError;
use super::cut::Cutter;
use super::decode::Block;
use super::gather::{gather, gather_ids};
use super::merge::in_order;
use super::order::{Order, Place, Run, order};
use super::rows::RowBuffer;
use super::source::Source;
use super::table::{Column, Strings, Table};
use super::write::Sorted;
use crate::layout::Layout;
use crate::limits::BLOCK_BYTES_MAX;
use crate::model::{TimeRange, Timestamp, ValueRef};
use crate::partition::Partition;
use crate::stamp::Stamp;
use crate::store::overlaps;

/// A field or tag of an event, and when it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell<'a> {
    /// Whether it is a tag.
    pub tag: bool,
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: ValueRef<'a>,
    /// When it was written.
    pub stamp: Stamp,
}

/// Merged events of one partition, each part with its stamp, ascending by (ts, id, shard tag).
#[derive(Debug)]
pub struct Settled {
    table: Table,
    /// Latest write of each event.
    stamps: Vec<Stamp>,
    /// Parts that are older than their event's latest write: row, column, stamp; ascending.
    older: Vec<(u32, u32, Stamp)>,
    /// The column of the tag that is part of the identity.
    shard_tag: Option<usize>,
}

/// Merges one partition's blocks, rows in `range` only.
pub fn settle(layout: &Layout, blocks: &[Block], range: TimeRange) -> Result<Settled, BlockError> {
    let touching = in_order(blocks).into_iter().filter(|block| overlaps(&block.header().address, range));
    let mut sources = touching.map(|block| Source::within(block, range)).collect::<Result<Vec<_>, _>>()?;
    sources.retain(|source| !source.ts.is_empty());
    let runs: Vec<Run<'_>> = sources.iter().map(Source::run).collect();
    let order = order::<BlockError>(&runs, |source| Ok(sources[source].identity(layout)))?;
    let ids: Vec<&Strings> = sources.iter().map(|source| &source.ids).collect();
    let columns: Vec<&[Column]> = sources.iter().map(|source| &source.columns[..]).collect();
    let ts = order.firsts().map(|place| sources[place.source as usize].ts[place.row as usize]).collect();
    let table = Table { ts, ids: gather_ids(&order, &ids), columns: gather(&order, &columns) };
    let stamp_of = |place: &Place| sources[place.source as usize].stamps.at(place.row as usize);
    let stamps = order.events().filter_map(|places| places.last().map(stamp_of)).collect();
    let older = older(&order, &sources, &table);
    let shard_tag = shard_tag_at(layout, &table);
    Ok(Settled { table, stamps, older, shard_tag })
}

fn shard_tag_at(layout: &Layout, table: &Table) -> Option<usize> {
    let name = layout.shard_by.tag()?;
    table.columns.iter().position(|column| column.tag && column.name == name)
}

/// The parts that an event has from another write than its latest one. The shard tag, which all
/// writes of an event have, is from the latest.
fn older(order: &Order, sources: &[Source], table: &Table) -> Vec<(u32, u32, Stamp)> {
    let mut older = Vec::new();
    for (row, places) in order.events().enumerate().filter(|(_, places)| places.len() > 1) {
        let mut seen = HashSet::new();
        let latest = places.last();
        for place in places.iter().rev() {
            let source = &sources[place.source as usize];
            for name in source.names(place.row).filter(|name| seen.insert(*name)).collect::<Vec<_>>() {
                let column = table
                    .columns
                    .iter()
                    .position(|column| (column.tag, column.name.as_str()) == name && column.index_of(row as u32).is_some());
                if let Some(column) = column.filter(|_| Some(place) != latest) {
                    older.push((row as u32, column as u32, source.stamps.at(place.row as usize)));
                }
            }
        }
    }
    older.sort_unstable();
    older
}

impl Settled {
    /// Events.
    pub fn len(&self) -> usize {
        self.table.ts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.ts.is_empty()
    }

    /// What an event is ordered by: time, id, shard tag.
    pub fn place(&self, row: usize) -> (i64, &str, Option<&str>) {
        let tag = self.shard_tag.and_then(|at| {
            let column = &self.table.columns[at];
            match column.values.get(column.index_of(row as u32)?)? {
                ValueRef::Str(tag) => Some(tag),
                _ => None,
            }
        });
        (self.table.ts[row], self.table.ids.get(row), tag)
    }

    /// When the latest write of an event was made.
    pub fn stamp(&self, row: usize) -> Stamp {
        self.stamps[row]
    }

    /// Puts the parts of an event into `cells`, sorted by (tag, name).
    pub fn cells<'a>(&'a self, row: usize, cells: &mut Vec<Cell<'a>>) {
        cells.clear();
        let from = self.older.partition_point(|(older, ..)| (*older as usize) < row);
        let older = &self.older[from..];
        for (at, column) in self.table.columns.iter().enumerate() {
            let Some(value) = column.index_of(row as u32).and_then(|index| column.values.get(index)) else { continue };
            let own = older.iter().take_while(|(of, ..)| *of as usize == row).find(|(_, column, _)| *column as usize == at);
            let stamp = own.map_or(self.stamps[row], |(.., stamp)| *stamp);
            cells.push(Cell { tag: column.tag, name: &column.name, value, stamp });
        }
    }
}

/// Events of one partition on their way back into blocks.
#[derive(Debug, Default)]
pub struct Resettle {
    rows: RowBuffer,
    stamps: Vec<Stamp>,
    joined: Vec<u32>,
}

impl Resettle {
    /// Adds an event; they come ascending by (ts, id, shard tag), each once. `stamp` is its latest write's.
    pub fn push(&mut self, layout: &Layout, ts: Timestamp, id: &str, cells: &[Cell<'_>], stamp: Stamp) {
        if cells.iter().all(|cell| cell.stamp == stamp) {
            return self.push_row(ts, id, cells.iter(), stamp, false);
        }
        let identifies = |cell: &&Cell<'_>| cell.tag && layout.shard_by.tag() == Some(cell.name);
        let mut stamps: Vec<Stamp> = cells.iter().map(|cell| cell.stamp).chain([stamp]).collect();
        stamps.sort_unstable();
        stamps.dedup();
        for (nth, of) in stamps.into_iter().enumerate() {
            let of_write = cells.iter().filter(|cell| cell.stamp == of || identifies(cell));
            self.push_row(ts, id, of_write, of, nth > 0);
        }
    }

    fn push_row<'a: 'b, 'b>(
        &mut self,
        ts: Timestamp,
        id: &str,
        cells: impl Iterator<Item = &'b Cell<'a>> + Clone,
        stamp: Stamp,
        joined: bool,
    ) {
        if joined {
            self.joined.push(self.rows.rows() as u32);
        }
        let fields = cells.clone().filter(|cell| !cell.tag).map(|cell| (cell.name, cell.value));
        let tags = cells.filter(|cell| cell.tag).filter_map(|cell| match cell.value {
            ValueRef::Str(tag) => Some((cell.name, tag)),
            _ => None,
        });
        self.rows.push(ts, id, fields, tags);
        self.stamps.push(stamp);
    }

    /// Rows inside; an event that was written in several parts has several.
    pub fn rows(&self) -> usize {
        self.rows.rows()
    }

    /// Memory held, bytes, roughly.
    pub fn bytes(&self) -> usize {
        self.rows.bytes() + self.stamps.len() * size_of::<Stamp>()
    }

    /// The events as blocks that merge with any others of the partition. `nonce` keeps their ids apart.
    pub fn blocks(self, partition: &Arc<Partition>, layout: &Layout, mut nonce: impl FnMut() -> u64) -> Result<Vec<Block>, BlockError> {
        let time = self.stamps.iter().map(|stamp| stamp.time).max().unwrap_or(0);
        let table = self.rows.into_table();
        let rows = Sorted { table: &table, stamps: Some(&self.stamps) };
        let cutter = Cutter { partition, layout, bytes_max: BLOCK_BYTES_MAX, rows, joined: &self.joined };
        let blocks = cutter.blocks(|| Ok::<Stamp, BlockError>(Stamp { time, node: nonce() }))?;
        blocks.into_iter().map(|block| Block::open(block.bytes)).collect()
    }
}

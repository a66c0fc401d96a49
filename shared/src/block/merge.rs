//! Blocks of one partition as one table: events in order, doubles merged.
//!
//! Blocks that overlap no other go straight to columns; the others are ordered row by row.
//! MERGE-ASSOCIATIVE: the answer does not depend on the order or the cutting of the blocks.

use std::borrow::Cow;
use std::ops::Range;

use super::BlockError;
use super::builder::TableBuilder;
use super::decode::Block;
use super::gather::{gather, gather_ids};
use super::order::{Identity, Run, order};
use super::table::{Column, Strings, Table};
use crate::layout::Layout;
use crate::model::TimeRange;

/// Which columns a read needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Projection {
    /// Ids and every column.
    All,
    /// These fields and tags only (identity columns are read where they are needed to merge).
    Only {
        /// Field names.
        fields: Vec<String>,
        /// Tag names.
        tags: Vec<String>,
    },
}

/// A [`Projection`] made ready.
enum Wanted<'a> {
    All,
    Only { fields: Vec<&'a str>, tags: Vec<&'a str> },
}

/// A block's part in a merge.
struct Source<'a> {
    block: &'a Block,
    /// The block's rows that take part; what follows is of these alone.
    rows: Range<usize>,
    ts: Vec<i64>,
    ids: Option<Strings>,
    columns: Vec<Column>,
}

/// Merges one partition's blocks: rows in `range` only, doubles of one identity (ts, id, shard tag)
/// merged field by field and tag by tag in write order. Blocks that overlap no other are decoded
/// straight into columns. The answer does not depend on the order or the cutting of the blocks.
pub fn merge(layout: &Layout, blocks: &[Block], range: TimeRange, projection: &Projection) -> Result<Table, BlockError> {
    let mut table = TableBuilder::default();
    for piece in pieces(layout, blocks, range, projection) {
        table.append(piece?);
    }
    Ok(table.finish())
}

/// As [`merge`], piece by piece: tables that follow one another in time, of few blocks each.
pub fn pieces<'a>(
    layout: &'a Layout,
    blocks: &'a [Block],
    range: TimeRange,
    projection: &'a Projection,
) -> impl Iterator<Item = Result<Table, BlockError>> + use<'a> {
    let wanted = Wanted::of(projection);
    let mut blocks = in_order(blocks);
    blocks.retain(|block| overlaps(block, range));
    let mut done = 0;
    std::iter::from_fn(move || {
        let cluster = cluster(&blocks[done..]);
        done += cluster.len();
        match cluster {
            [] => None,
            [block] if block.header().distinct => Some(Source::read(block, range, &wanted).map(|source| source.into_table(&wanted))),
            several => Some(merge_rows(layout, several, range, &wanted)),
        }
    })
}

/// Whether a block can have events in `range`.
fn overlaps(block: &Block, range: TimeRange) -> bool {
    let address = block.header().address;
    !range.is_empty() && address.min_ts < range.to && range.from <= address.max_ts
}

/// Blocks by time and id, each once.
pub(super) fn in_order(blocks: &[Block]) -> Vec<&Block> {
    let mut blocks: Vec<&Block> = blocks.iter().collect();
    // The bytes decide between blocks of one address, which only a fault could make.
    blocks.sort_by(|a, b| (a.header().address, a.bytes()).cmp(&(b.header().address, b.bytes())));
    blocks.dedup_by(|a, b| a.header().address == b.header().address && a.bytes() == b.bytes());
    blocks
}

/// The first blocks of which each touches one before it.
fn cluster<'a, 'b>(blocks: &'b [&'a Block]) -> &'b [&'a Block] {
    let mut reach = None;
    let touching = |block: &&&Block| {
        let address = block.header().address;
        let touches = reach.is_none_or(|reach| address.min_ts <= reach);
        reach = reach.max(Some(address.max_ts));
        touches
    };
    let len = blocks.iter().take_while(touching).count();
    &blocks[..len]
}

impl<'a> Wanted<'a> {
    fn of(projection: &'a Projection) -> Wanted<'a> {
        match projection {
            Projection::All => Wanted::All,
            Projection::Only { fields, tags } => Wanted::Only { fields: sorted(fields), tags: sorted(tags) },
        }
    }
}

fn sorted(names: &[String]) -> Vec<&str> {
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl<'a> Source<'a> {
    /// Decodes what is wanted of a block's rows in `range`.
    fn read(block: &'a Block, range: TimeRange, wanted: &Wanted<'_>) -> Result<Source<'a>, BlockError> {
        let (rows, ts) = block.rows_in(range)?;
        if rows.is_empty() {
            return Ok(Source { block, rows, ts, ids: None, columns: Vec::new() });
        }
        let mut ids = None;
        let columns = match wanted {
            Wanted::All => {
                ids = Some(block.ids(&rows)?);
                block.all_columns(&rows, &mut ids)?
            }
            Wanted::Only { fields, tags } => block.some_columns(fields, tags, &rows, &mut ids)?,
        };
        Ok(Source { block, rows, ts, ids, columns })
    }

    fn into_table(self, wanted: &Wanted<'_>) -> Table {
        let ids = match wanted {
            Wanted::All => self.ids.unwrap_or_default(),
            Wanted::Only { .. } => Strings::default(),
        };
        Table { ts: self.ts, ids, columns: self.columns }
    }

    fn run(&self) -> Run<'_> {
        Run { ts: &self.ts, distinct: self.block.header().distinct }
    }

    fn identity(&self, layout: &Layout) -> Result<Identity<'_>, BlockError> {
        let tag = layout.shard_by.tag().map(|name| self.block.tag(name, &self.rows)).transpose()?.flatten();
        Ok(Identity {
            ids: match &self.ids {
                Some(ids) => Cow::Borrowed(ids),
                None => Cow::Owned(self.block.ids(&self.rows)?),
            },
            tag: tag.map(Cow::Owned),
            stamps: Cow::Owned(self.block.stamps(&self.rows)?),
        })
    }
}

fn merge_rows(layout: &Layout, blocks: &[&Block], range: TimeRange, wanted: &Wanted<'_>) -> Result<Table, BlockError> {
    let mut sources = blocks.iter().map(|block| Source::read(block, range, wanted)).collect::<Result<Vec<_>, _>>()?;
    sources.retain(|source| !source.ts.is_empty());
    let runs: Vec<Run<'_>> = sources.iter().map(Source::run).collect();
    let order = order(&runs, |source| sources[source].identity(layout))?;
    let columns: Vec<&[Column]> = sources.iter().map(|source| &source.columns[..]).collect();
    let ids = match wanted {
        Wanted::All => gather_ids(&order, &sources.iter().filter_map(|source| source.ids.as_ref()).collect::<Vec<_>>()),
        Wanted::Only { .. } => Strings::default(),
    };
    let ts = order.firsts().map(|place| sources[place.source as usize].ts[place.row as usize]).collect();
    Ok(Table { ts, ids, columns: gather(&order, &columns) })
}

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
    ts: Vec<i64>,
    rows: Range<usize>,
    ids: Option<Strings>,
    columns: Vec<Column>,
}

/// Merges one partition's blocks: rows in `range` only, doubles of one identity (ts, id, shard tag)
/// merged field by field and tag by tag in write order. Blocks that overlap no other are decoded
/// straight into columns. The answer does not depend on the order or the cutting of the blocks.
pub fn merge(layout: &Layout, blocks: &[Block], range: TimeRange, projection: &Projection) -> Result<Table, BlockError> {
    let wanted = Wanted::of(projection);
    let mut blocks = in_order(blocks);
    blocks.retain(|block| overlaps(block, range));
    let mut table = TableBuilder::default();
    for cluster in clusters(&blocks) {
        match cluster {
            [block] if block.header().distinct => {
                let Some(source) = Source::read(block, range, &wanted)? else { continue };
                let rows = source.rows.clone();
                table.append(source.into_table(&wanted), rows);
            }
            cluster => {
                let piece = merge_rows(layout, cluster, range, &wanted)?;
                let rows = 0..piece.ts.len();
                table.append(piece, rows);
            }
        }
    }
    Ok(table.finish())
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

/// Runs of blocks in which each touches one before it.
fn clusters<'a, 'b>(blocks: &'b [&'a Block]) -> impl Iterator<Item = &'b [&'a Block]> {
    let mut rest = blocks;
    std::iter::from_fn(move || {
        let mut reach = rest.first()?.header().address.max_ts;
        let touching = |block: &&&Block| {
            let address = block.header().address;
            let touches = address.min_ts <= reach;
            reach = reach.max(address.max_ts);
            touches
        };
        let len = rest.iter().take_while(touching).count();
        let (cluster, after) = rest.split_at(len);
        rest = after;
        Some(cluster)
    })
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
    /// Decodes what is wanted of a block; nothing where no row lies in `range`.
    fn read(block: &'a Block, range: TimeRange, wanted: &Wanted<'_>) -> Result<Option<Source<'a>>, BlockError> {
        let ts = block.ts()?;
        let rows = rows_in(&ts, range);
        if rows.is_empty() {
            return Ok(None);
        }
        let mut ids = None;
        let columns = match wanted {
            Wanted::All => {
                ids = Some(block.ids()?);
                block.all_columns(&mut ids)?
            }
            Wanted::Only { fields, tags } => block.some_columns(fields, tags, &mut ids)?,
        };
        Ok(Some(Source { block, ts, rows, ids, columns }))
    }

    fn into_table(self, wanted: &Wanted<'_>) -> Table {
        let ids = match wanted {
            Wanted::All => self.ids.unwrap_or_default(),
            Wanted::Only { .. } => Strings::default(),
        };
        Table { ts: self.ts, ids, columns: self.columns }
    }

    fn run(&self) -> Run<'_> {
        Run { ts: &self.ts, rows: self.rows.clone(), distinct: self.block.header().distinct }
    }

    fn identity(&self, layout: &Layout) -> Result<Identity<'_>, BlockError> {
        let tag = layout.shard_by.tag().map(|name| self.block.tag(name)).transpose()?.flatten();
        Ok(Identity {
            ids: match &self.ids {
                Some(ids) => Cow::Borrowed(ids),
                None => Cow::Owned(self.block.ids()?),
            },
            tag: tag.map(Cow::Owned),
            stamps: Cow::Owned(self.block.stamps()?),
        })
    }
}

/// Which of ascending times lie in `range`.
fn rows_in(ts: &[i64], range: TimeRange) -> Range<usize> {
    let before = |bound: i64| ts.partition_point(|t| *t < bound);
    before(range.from.nanos())..before(range.to.nanos())
}

fn merge_rows(layout: &Layout, blocks: &[&Block], range: TimeRange, wanted: &Wanted<'_>) -> Result<Table, BlockError> {
    let sources = blocks.iter().filter_map(|block| Source::read(block, range, wanted).transpose()).collect::<Result<Vec<_>, _>>()?;
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

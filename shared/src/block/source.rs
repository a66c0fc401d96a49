//! Rows of one block, decoded with all that belongs to them: what is merged into new blocks or tables.

use std::borrow::Cow;
use std::ops::Range;

use super::BlockError;
use super::decode::Block;
use super::encode::shard_tag;
use super::order::{Identity, Run};
use super::stamps::Stamps;
use super::table::{Column, Strings};
use crate::layout::Layout;
use crate::model::TimeRange;

/// Some rows of a block, all columns of them.
pub(super) struct Source {
    pub(super) ts: Vec<i64>,
    pub(super) ids: Strings,
    pub(super) columns: Vec<Column>,
    pub(super) stamps: Stamps,
    distinct: bool,
}

impl Source {
    /// All rows.
    pub(super) fn whole(block: &Block) -> Result<Source, BlockError> {
        let ts = block.ts()?;
        Source::read(block, 0..ts.len(), ts)
    }

    /// The rows in `range`.
    pub(super) fn within(block: &Block, range: TimeRange) -> Result<Source, BlockError> {
        let (rows, ts) = block.rows_in(range)?;
        Source::read(block, rows, ts)
    }

    fn read(block: &Block, rows: Range<usize>, ts: Vec<i64>) -> Result<Source, BlockError> {
        let mut ids = Some(block.ids(&rows)?);
        let columns = block.all_columns(&rows, &mut ids)?;
        let stamps = block.stamps(&rows)?;
        Ok(Source { ts, ids: ids.unwrap_or_default(), columns, stamps, distinct: block.header().distinct })
    }

    pub(super) fn run(&self) -> Run<'_> {
        Run { ts: &self.ts, distinct: self.distinct }
    }

    pub(super) fn identity(&self, layout: &Layout) -> Identity<'_> {
        let tag = shard_tag(&self.columns, layout).map(Cow::Borrowed);
        Identity { ids: Cow::Borrowed(&self.ids), tag, stamps: Cow::Borrowed(&self.stamps) }
    }

    /// Names of the fields and tags that a row has.
    pub(super) fn names(&self, row: u32) -> impl Iterator<Item = (bool, &str)> {
        self.columns.iter().filter(move |column| column.index_of(row).is_some()).map(|column| (column.tag, column.name.as_str()))
    }
}

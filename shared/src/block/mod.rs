//! The block (format 1): a sorted run of events of one partition, encoded together.
//!
//! Write side: [`RowBuffer`] gathers rows, [`encode`] makes blocks of them. Read side:
//! [`Block::open`] checks a block, [`merge`] turns one partition's blocks into a [`Table`] of
//! events, doubles merged. [`compact`] rewrites many blocks as few.

// INTERFACE SKETCH: bodies are the block owner's work; split into files as DESIGN section 12 says.

use std::sync::Arc;

use bytes::Bytes;

use crate::layout::Layout;
use crate::model::{Event, TimeRange, Timestamp, ValueRef};
use crate::partition::Partition;
use crate::stamp::Stamp;
use crate::store::{BlockAddress, EncodedBlock};

/// Rows of one partition on their way into blocks: columns that grow, in order of arrival.
#[derive(Debug, Default)]
pub struct RowBuffer {}

impl RowBuffer {
    /// Adds a row. Strings are copied into the columns' arenas; nothing is allocated per row once warm.
    /// `fields`: a name given twice: the last wins. `tags`: names distinct.
    pub fn push<'a>(
        &mut self,
        ts: Timestamp,
        id: &str,
        fields: impl Iterator<Item = (&'a str, ValueRef<'a>)>,
        tags: impl Iterator<Item = (&'a str, &'a str)>,
    ) {
        let _ = (ts, id, fields.count(), tags.count());
        todo!()
    }

    /// Rows inside.
    pub fn rows(&self) -> usize {
        todo!()
    }

    /// Memory held, bytes, roughly.
    pub fn bytes(&self) -> usize {
        todo!()
    }
}

/// Encodes a partition's rows into as few blocks as the limits allow (4,096 events, `bytes_max`
/// encoded). Sorted by (ts, id, shard tag); doubles inside merged, the later arrival winning field
/// by field. `stamp` gives each block its id, which is also its rows' write order.
pub fn encode<E>(
    partition: &Arc<Partition>,
    layout: &Layout,
    rows: RowBuffer,
    bytes_max: usize,
    stamp: impl FnMut() -> Result<Stamp, E>,
) -> Result<Vec<EncodedBlock>, E> {
    let _ = (partition, layout, rows, bytes_max, stamp);
    todo!()
}

/// Why bytes are not a sound block, or not the block that was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// Not a block, cut short, or altered.
    #[error("damaged block: {0}")]
    Damaged(&'static str),
    /// A format this build does not know.
    #[error("block format {0} is not known to this build")]
    Format(u16),
    /// Sound, but of another partition, version, N or suffix than planned, or with events outside its bucket.
    #[error("block of another place: {0}")]
    Misplaced(&'static str),
}

/// What a block says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Hash of namespace and key.
    pub key_hash: u64,
    /// Start of the bucket.
    pub bucket: Timestamp,
    /// Layout version.
    pub version: crate::layout::LayoutVersion,
    /// N of that layout.
    pub shards: u32,
    /// Suffix.
    pub suffix: u32,
    /// Events (rows) inside.
    pub count: u32,
    /// Least and greatest event time, and the block's id.
    pub address: BlockAddress,
    /// Whether every row is an identity of its own (false only after compaction kept several
    /// writes of one event).
    pub distinct: bool,
}

/// A checked block: header and column directory read, columns decoded on demand.
#[derive(Clone, Debug)]
pub struct Block {}

/// What one column says of its values without being decoded.
#[derive(Clone, Debug)]
pub struct ColumnStats {
    /// Rows that have a value.
    pub count: u32,
    /// Numeric columns: least and greatest value, and the exact sum; `None` otherwise.
    pub numbers: Option<NumberStats>,
}

/// Statistics of a numeric column.
#[derive(Clone, Debug)]
pub enum NumberStats {
    /// f64: least, greatest, and an exact sum as a short list of doubles whose exact sum it is.
    F64 { min: f64, max: f64, sum: Vec<f64> },
    /// i64.
    I64 { min: i64, max: i64, sum: i128 },
    /// u64.
    U64 { min: u64, max: u64, sum: i128 },
}

impl Block {
    /// Checks checksum, format and directory. Total: any bytes give a block or an error.
    pub fn open(bytes: Bytes) -> Result<Block, BlockError> {
        let _ = bytes;
        todo!()
    }

    /// What the block says of itself.
    pub fn header(&self) -> &Header {
        todo!()
    }

    /// Checks the header against what was planned: partition, N, address, times inside bucket and epoch.
    pub fn verify(&self, partition: &Partition, layout: &Layout, epoch: TimeRange, address: &BlockAddress) -> Result<(), BlockError> {
        let _ = (partition, layout, epoch, address);
        todo!()
    }

    /// Statistics of every column of field `name`, one per type that occurs; `None` where one of
    /// them has none (the column must then be decoded).
    pub fn field_stats(&self, name: &str) -> Option<Vec<ColumnStats>> {
        let _ = name;
        todo!()
    }
}

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

/// Strings end to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    /// End of each string in `bytes`.
    pub ends: Vec<u32>,
    /// The strings, concatenated.
    pub bytes: Vec<u8>,
}

/// Which rows of a table a column has values for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// All of them.
    All,
    /// These, ascending.
    Rows(Vec<u32>),
}

/// Values of a column, one per row that has one.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Doubles.
    F64(Vec<f64>),
    /// Signed integers.
    I64(Vec<i64>),
    /// Unsigned integers.
    U64(Vec<u64>),
    /// Booleans.
    Bool(Vec<bool>),
    /// Strings.
    Str(Strings),
    /// Strings of few distinct values: the distinct ones, and an index per row.
    Dict(Strings, Vec<u32>),
}

/// A field of one type, or a tag (always `Str` or `Dict`).
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name.
    pub name: String,
    /// Whether it is a tag.
    pub tag: bool,
    /// Rows that have a value.
    pub presence: Presence,
    /// Their values.
    pub values: Values,
}

/// Merged events of one partition, as columns, ascending by (ts, id, shard tag). A field whose
/// type differs between rows has several columns; a row has a value in at most one of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Event times, nanoseconds.
    pub ts: Vec<i64>,
    /// Ids; empty where the projection left them out.
    pub ids: Strings,
    /// Columns.
    pub columns: Vec<Column>,
}

impl Table {
    /// The rows as events of `key`, in order. Needs [`Projection::All`].
    pub fn events(&self, key: &str) -> Vec<Event> {
        let _ = key;
        todo!()
    }
}

/// Merges one partition's blocks: rows in `range` only, doubles of one identity (ts, id, shard tag)
/// merged field by field and tag by tag in write order. Blocks that overlap no other are decoded
/// straight into columns. The answer does not depend on the order or the cutting of the blocks.
pub fn merge(layout: &Layout, blocks: &[Block], range: TimeRange, projection: &Projection) -> Result<Table, BlockError> {
    let _ = (layout, blocks, range, projection);
    todo!()
}

/// Rewrites one partition's blocks as full, disjoint ones; a row is dropped only where later
/// writes of the same identity cover all its fields and tags, so that every merge to come gives
/// what it gave before. Ids are made from the blocks' greatest stamp and `nonce`.
pub fn compact(
    partition: &Arc<Partition>,
    layout: &Layout,
    blocks: &[Block],
    bytes_max: usize,
    nonce: impl FnMut() -> u64,
) -> Result<Vec<EncodedBlock>, BlockError> {
    let _ = (partition, layout, blocks, bytes_max, nonce);
    todo!()
}

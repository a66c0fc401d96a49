//! From bytes to columns: a checked block, whose columns are decoded on demand.
//!
//! Total: any bytes give values or an error, and nothing is allocated beyond what
//! `format::DECODED_BYTES_MAX` bounds. Only the rows that are asked for are decoded, as far as the
//! encodings allow; the checksum vouches for the others.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::bools::take_bools;
use super::floats::take_floats;
use super::format::{ColumnKind, Entry, Header, key_hash, parse};
use super::ints::{take_ints, take_times};
use super::presence::take_presence;
use super::stamps::{Stamps, take_stamps};
use super::strings::{copies_ids, find_string, take_strings};
use super::table::{Column, Kind, Strings, Values};
use super::wire::Reader;
use super::{BlockError, ColumnStats};
use crate::layout::Layout;
use crate::model::{TimeRange, Timestamp};
use crate::partition::Partition;
use crate::store::BlockAddress;

/// Rows that a search for the end of a range looks at first.
const REACH_FIRST: usize = 64;

/// A checked block: header and column directory read, columns decoded on demand. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Block(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    bytes: Bytes,
    header: Header,
    entries: Vec<Entry>,
}

impl Block {
    /// Checks checksum, format and directory. Total: any bytes give a block or an error.
    pub fn open(bytes: Bytes) -> Result<Block, BlockError> {
        let (header, entries) = parse(&bytes)?;
        Ok(Block(Arc::new(Opened { bytes, header, entries })))
    }

    /// What the block says of itself.
    pub fn header(&self) -> &Header {
        &self.0.header
    }

    /// The encoding it was opened from.
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// Checks the header against what was planned: partition, N, address, times inside bucket and epoch.
    pub fn verify(&self, partition: &Partition, layout: &Layout, epoch: TimeRange, address: &BlockAddress) -> Result<(), BlockError> {
        let header = self.header();
        let within = layout.bucket_range(partition.bucket).intersect(epoch);
        let checks = [
            (header.key_hash == key_hash(partition), "another namespace or key"),
            (header.bucket == partition.bucket, "another bucket"),
            (header.version == partition.version, "another layout version"),
            (header.shards == layout.shards, "another number of shards"),
            (header.suffix == partition.suffix, "another suffix"),
            (header.address == *address, "another address"),
            (within.from <= header.address.min_ts, "events before its bucket or epoch"),
            (header.address.max_ts < within.to, "events behind its bucket or epoch"),
        ];
        match checks.iter().find(|(sound, _)| !sound) {
            Some((_, what)) => Err(BlockError::Misplaced(what)),
            None => Ok(()),
        }
    }

    /// Statistics of every column of field `name`, one per type that occurs; `None` where one of
    /// them has none (the column must then be decoded). They speak of events only where the block
    /// is [`Header::distinct`] and overlaps no other.
    pub fn field_stats(&self, name: &str) -> Option<Vec<ColumnStats>> {
        let stats = |entry: &Entry| {
            let numbers = entry.statistics(&self.0.bytes);
            let complete = numbers.is_some() || !entry.kind.has_stats();
            complete.then_some(ColumnStats { count: entry.rows as u32, numbers })
        };
        self.named(name, false).map(stats).collect()
    }

    /// Directory entries of a field (one per type) or a tag.
    fn named(&self, name: &str, tag: bool) -> std::slice::Iter<'_, Entry> {
        let class = if tag { ColumnKind::Tag } else { ColumnKind::Field(Kind::F64) }.class();
        let order = |entry: &Entry| entry.kind.class().cmp(&class).then_with(|| self.0.bytes[entry.name.clone()].cmp(name.as_bytes()));
        let start = self.0.entries.partition_point(|entry| order(entry).is_lt());
        let len = self.0.entries[start..].partition_point(|entry| order(entry).is_eq());
        self.0.entries[start..start + len].iter()
    }

    fn rows(&self) -> usize {
        self.header().count as usize
    }

    fn name(&self, entry: &Entry) -> &str {
        std::str::from_utf8(&self.0.bytes[entry.name.clone()]).unwrap_or_default()
    }

    fn values<'a>(&'a self, entry: &Entry) -> Reader<'a> {
        Reader::new(&self.0.bytes[entry.values_at.clone()])
    }

    /// Event times, row by row, ascending.
    pub fn ts(&self) -> Result<Vec<i64>, BlockError> {
        self.ts_of(0..self.rows())
    }

    /// Event times of `rows`; few at either end cost no more than they are.
    pub fn ts_of(&self, rows: Range<usize>) -> Result<Vec<i64>, BlockError> {
        let address = &self.header().address;
        let mut reader = self.values(&self.0.entries[0]);
        let ts = take_times(&mut reader, self.rows(), rows, address.min_ts.nanos(), address.max_ts.nanos())?;
        reader.finish()?;
        Ok(ts)
    }

    /// The rows in `range`, and their times. Decodes from the end of the block that lies in the range, if one
    /// does, as far as the range goes.
    pub(super) fn rows_in(&self, range: TimeRange) -> Result<(Range<usize>, Vec<i64>), BlockError> {
        let (all, address) = (self.rows(), &self.header().address);
        let (holds_first, holds_last) = (range.from <= address.min_ts, address.max_ts < range.to);
        let mut reach = if holds_first == holds_last { all } else { REACH_FIRST.min(all) };
        loop {
            let rows = if holds_last { all - reach..all } else { 0..reach };
            let mut ts = self.ts_of(rows.clone())?;
            let inside = rows_in(&ts, range);
            let is_end = if holds_last { inside.start > 0 } else { inside.end < ts.len() };
            if is_end || reach == all {
                ts.truncate(inside.end);
                ts.drain(..inside.start);
                return Ok((rows.start + inside.start..rows.start + inside.end, ts));
            }
            reach = (reach * 4).min(all);
        }
    }

    /// Ids of `rows`.
    pub(super) fn ids(&self, rows: &Range<usize>) -> Result<Strings, BlockError> {
        let entry = &self.0.entries[1];
        let mut reader = self.values(entry);
        let values = take_strings(&mut reader, self.rows(), rows.clone(), entry.arena, None)?;
        reader.finish()?;
        Ok(match values {
            Values::Str(ids) => ids,
            values => {
                let mut ids = Strings::default();
                (0..rows.len()).for_each(|row| ids.push(values.bytes_at(row)));
                ids
            }
        })
    }

    /// The times in `range` at which a row has this id, ascending.
    pub fn times_of_id(&self, id: &str, range: TimeRange) -> Result<Vec<i64>, BlockError> {
        let entry = &self.0.entries[1];
        let mut reader = self.values(entry);
        let rows = find_string(&mut reader, self.rows(), entry.arena, id.as_bytes())?;
        reader.finish()?;
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(Vec::new()) };
        let ts = self.ts_of(*first..last + 1)?;
        let times = rows.iter().map(|row| ts[row - first]);
        Ok(times.filter(|ts| range.contains(Timestamp::from_nanos(*ts))).collect())
    }

    /// When each of `rows` was written.
    pub(super) fn stamps(&self, rows: &Range<usize>) -> Result<Stamps, BlockError> {
        let Some(entry) = self.0.entries.get(2).filter(|entry| entry.kind == ColumnKind::Stamps) else {
            return Ok(Stamps::One(self.header().address.id));
        };
        let mut reader = self.values(entry);
        let stamps = take_stamps(&mut reader, self.rows(), rows.clone())?;
        reader.finish()?;
        Ok(Stamps::Each(stamps))
    }

    /// The column of a tag, of `rows`.
    pub(super) fn tag(&self, name: &str, rows: &Range<usize>) -> Result<Option<Column>, BlockError> {
        self.named(name, true).next().map(|entry| self.column(entry, rows, &mut None)).transpose()
    }

    /// Every field and tag of `rows`, in the order of the directory. Their `ids` are decoded if a
    /// column needs them, and kept there.
    pub(super) fn all_columns(&self, rows: &Range<usize>, ids: &mut Option<Strings>) -> Result<Vec<Column>, BlockError> {
        self.0.entries.iter().filter(|entry| entry.kind.has_name()).map(|entry| self.column(entry, rows, ids)).collect()
    }

    /// The columns of these fields and tags, of `rows`. Names are sorted and distinct.
    pub(super) fn some_columns(
        &self,
        fields: &[&str],
        tags: &[&str],
        rows: &Range<usize>,
        ids: &mut Option<Strings>,
    ) -> Result<Vec<Column>, BlockError> {
        let fields = fields.iter().flat_map(|name| self.named(name, false));
        let tags = tags.iter().flat_map(|name| self.named(name, true));
        fields.chain(tags).map(|entry| self.column(entry, rows, ids)).collect()
    }

    fn column(&self, entry: &Entry, rows: &Range<usize>, ids: &mut Option<Strings>) -> Result<Column, BlockError> {
        let presence = take_presence(&self.0.bytes[entry.presence_at.clone()], entry.presence, entry.rows, self.rows())?;
        let cells = presence.cells_in(rows);
        let mut reader = self.values(entry);
        let values = match entry.kind {
            ColumnKind::Field(Kind::F64) => Values::F64(take_floats(&mut reader, entry.rows, cells.clone())?),
            ColumnKind::Field(Kind::U64) => {
                Values::U64(take_ints(&mut reader, entry.rows, cells.clone())?.into_iter().map(|v| v as u64).collect())
            }
            ColumnKind::Field(Kind::Bool) => Values::Bool(take_bools(&mut reader, entry.rows, cells.clone())?),
            ColumnKind::Field(Kind::Str) | ColumnKind::Tag => self.strings(&mut reader, entry, rows, &cells, ids)?,
            ColumnKind::Field(Kind::I64) => Values::I64(take_ints(&mut reader, entry.rows, cells.clone())?),
            ColumnKind::Ts | ColumnKind::Ids | ColumnKind::Stamps => return Err(BlockError::Damaged("a column without a name")),
        };
        reader.finish()?;
        let presence = presence.part(cells, rows);
        Ok(Column { name: self.name(entry).to_owned(), tag: entry.kind == ColumnKind::Tag, presence, values })
    }

    fn strings(
        &self,
        reader: &mut Reader<'_>,
        entry: &Entry,
        rows: &Range<usize>,
        cells: &Range<usize>,
        ids: &mut Option<Strings>,
    ) -> Result<Values, BlockError> {
        if copies_ids(reader) {
            if (entry.rows, entry.arena) != (self.rows(), self.0.entries[1].arena) {
                return Err(BlockError::Damaged("a copy of other ids than there are"));
            }
            if ids.is_none() {
                *ids = Some(self.ids(rows)?);
            }
        }
        take_strings(reader, entry.rows, cells.clone(), entry.arena, ids.as_ref())
    }
}

/// Which of ascending times lie in `range`.
fn rows_in(ts: &[i64], range: TimeRange) -> Range<usize> {
    let before = |bound: i64| ts.partition_point(|t| *t < bound);
    let from = before(range.from.nanos());
    from..before(range.to.nanos()).max(from)
}

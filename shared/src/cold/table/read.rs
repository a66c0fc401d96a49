//! A table file back to events. Total: any bytes give events or an error, because none are decoded but
//! those that were written; the Parquet library may panic on others.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use parquet::bloom_filter::Sbbf;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, Int32Type, Int64Type};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use xxhash_rust::xxh3::xxh3_64;

use super::schema::{ABOUT, MICRO, SCHEMA, U64_BYTES, leaf};
use super::{About, FORMAT, TableError};
use crate::block::Cell;
use crate::model::{TimeRange, ValueRef};
use crate::stamp::Stamp;

/// An opened file: footer read, rows decoded on demand.
pub struct TableReader {
    bytes: Bytes,
    file: SerializedFileReader<Bytes>,
}

impl fmt::Debug for TableReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableReader").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// Part of an event that is older than its latest write: whether it is a tag, its name, its stamp.
type Older = (bool, String, u64, u64);

impl TableReader {
    /// Opens a file that must be the one that `about` says, of this `xxh3_64`.
    pub fn open(bytes: Bytes, checksum: u64, about: &About) -> Result<TableReader, TableError> {
        if xxh3_64(&bytes) != checksum {
            return Err(TableError::Damaged("its bytes are not those that were written"));
        }
        let mut file = SerializedFileReader::new(bytes.clone())?;
        if file.metadata().row_groups().iter().any(|group| group.column(leaf::TS).offset_index_offset().is_some()) {
            file = SerializedFileReader::new_with_options(bytes.clone(), ReadOptionsBuilder::new().with_page_index().build())?;
        }
        let metadata = file.metadata().file_metadata();
        let said = metadata.key_value_metadata().and_then(|all| all.iter().find(|entry| entry.key == ABOUT)?.value.clone());
        let said = said.ok_or(TableError::Damaged("it does not say what it is"))?;
        let said: About = serde_json::from_str(&said).map_err(|_| TableError::Damaged("what it says of itself can't be read"))?;
        if said.format != FORMAT {
            return Err(TableError::Misplaced(format!("its format is {}, and this program knows {FORMAT}", said.format)));
        }
        if said != *about {
            return Err(TableError::Misplaced(format!("{said:?}")));
        }
        if metadata.schema_descr().root_schema() != &**SCHEMA {
            return Err(TableError::Damaged("its columns are not those of a table"));
        }
        Ok(TableReader { bytes, file })
    }

    /// Bytes that it keeps.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Events inside, as the footer says.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.file.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Row groups inside.
    pub(super) fn row_groups(&self) -> usize {
        self.file.num_row_groups()
    }

    pub(super) fn row_group(&self, at: usize) -> Result<Box<dyn RowGroupReader + '_>, TableError> {
        Ok(self.file.get_row_group(at)?)
    }

    /// Events in the pages that are read for `range`.
    pub fn rows_near(&self, range: TimeRange) -> u64 {
        (0..self.file.num_row_groups()).map(|at| self.near(at, range).len() as u64).sum()
    }

    /// Whether there may be an event with this id in `range`: neither the bounds of pages nor bloom filters rule it out.
    pub fn may_hold(&self, range: TimeRange, id: &str) -> Result<bool, TableError> {
        for at in 0..self.file.num_row_groups() {
            let near = self.near(at, range);
            if near.is_empty() || !self.bounds_hold(at, &near, id) {
                continue;
            }
            let ids = self.file.metadata().row_group(at).column(leaf::ID);
            if Sbbf::read_from_column_chunk(ids, &self.bytes)?.is_none_or(|filter| filter.check(id)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether an id is within the bounds of a page that has some of these rows.
    fn bounds_hold(&self, group: usize, rows: &Range<usize>, id: &str) -> bool {
        let index = self.file.metadata().page_index_for_row_group(group);
        let (Some(ColumnIndexMetaData::BYTE_ARRAY(ids)), Some(pages)) = (index.column_index(leaf::ID), index.page_locations(leaf::ID))
        else {
            return true;
        };
        let begins = |page: usize| pages.get(page).map_or(i64::MAX, |page| page.first_row_index);
        (0..pages.len()).any(|page| {
            let touches = begins(page) < rows.end as i64 && rows.start as i64 <= begins(page + 1).saturating_sub(1);
            let bounds = ids.min_value(page).zip(ids.max_value(page));
            touches && bounds.is_none_or(|(min, max)| min <= id.as_bytes() && id.as_bytes() <= max)
        })
    }

    /// Gives every event in `range` to `each`: time, id, parts, latest stamp. Pages outside are not decoded.
    pub fn each<E: From<TableError>>(
        &self,
        range: TimeRange,
        mut each: impl FnMut(i64, &str, &[Cell<'_>], Stamp) -> Result<(), E>,
    ) -> Result<(), E> {
        for at in 0..self.file.num_row_groups() {
            let near = self.near(at, range);
            if !near.is_empty() {
                let group = self.file.get_row_group(at).map_err(TableError::from)?;
                Group::read(&*group, near)?.each(range, &mut each)?;
            }
        }
        Ok(())
    }

    /// The rows of a group whose pages may hold events of `range`, by the page index of their times. One
    /// run, since rows ascend by time.
    pub(super) fn near(&self, group: usize, range: TimeRange) -> Range<usize> {
        let metadata = self.file.metadata();
        let rows = usize::try_from(metadata.row_group(group).num_rows()).unwrap_or(0);
        let index = metadata.page_index_for_row_group(group);
        let (Some(ColumnIndexMetaData::INT64(times)), Some(pages)) = (index.column_index(leaf::TS), index.page_locations(leaf::TS)) else {
            return 0..rows;
        };
        let (from, to) = (range.from.nanos().div_euclid(MICRO), range.to.nanos().div_euclid(MICRO));
        let begins = |page: usize| pages.get(page).map_or(rows, |page| usize::try_from(page.first_row_index).unwrap_or(0));
        let first = (0..pages.len()).find(|page| times.max_value(*page).is_none_or(|max| *max >= from)).unwrap_or(pages.len());
        let last = (first..pages.len()).find(|page| times.min_value(*page).is_some_and(|min| *min > to)).unwrap_or(pages.len());
        if range.is_empty() { 0..0 } else { begins(first)..begins(last) }
    }
}

/// The columns of a run of rows of a row group.
struct Group {
    ts: Vec<i64>,
    ts_ns: Vec<i32>,
    ids: Vec<ByteArray>,
    tags: Map<ByteArray>,
    f64s: Map<f64>,
    i64s: Map<i64>,
    u64s: Map<parquet::data_type::FixedLenByteArray>,
    bools: Map<bool>,
    strs: Map<ByteArray>,
    written_ts: Vec<i64>,
    written_by: Vec<i64>,
    before: Vec<Option<ByteArray>>,
}

/// A map column: where each row's entries end.
struct Map<T> {
    ends: Vec<usize>,
    keys: Vec<ByteArray>,
    values: Vec<T>,
}

/// A column's values and levels.
pub(super) struct Leaf<T> {
    pub(super) values: Vec<T>,
    pub(super) definition: Vec<i16>,
    pub(super) repetition: Vec<i16>,
}

pub(super) fn leaf_of<T: DataType>(group: &dyn RowGroupReader, at: usize, rows: &Range<usize>) -> Result<Leaf<T::T>, TableError> {
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(at)?);
    let mut leaf = Leaf { values: Vec::new(), definition: Vec::new(), repetition: Vec::new() };
    let skipped = reader.skip_records(rows.start)?;
    let (read, ..) = reader.read_records(rows.len(), Some(&mut leaf.definition), Some(&mut leaf.repetition), &mut leaf.values)?;
    if skipped != rows.start || read != rows.len() {
        return Err(TableError::Damaged("a column has another number of rows than its row group"));
    }
    Ok(leaf)
}

/// The values of a column that has one in each row.
pub(super) fn required<T: DataType>(group: &dyn RowGroupReader, at: usize, rows: &Range<usize>) -> Result<Vec<T::T>, TableError> {
    let values = leaf_of::<T>(group, at, rows)?.values;
    if values.len() != rows.len() {
        return Err(TableError::Damaged("a column lacks values"));
    }
    Ok(values)
}

fn map_of<T: DataType>(group: &dyn RowGroupReader, at: usize, rows: &Range<usize>) -> Result<Map<T::T>, TableError> {
    let keys = leaf_of::<ByteArrayType>(group, at, rows)?;
    let values = leaf_of::<T>(group, at + 1, rows)?;
    if keys.definition != values.definition || keys.repetition != values.repetition {
        return Err(TableError::Damaged("the keys and values of a map do not match"));
    }
    let mut ends: Vec<usize> = Vec::with_capacity(rows.len());
    let mut entries = 0;
    for (definition, repetition) in keys.definition.iter().zip(&keys.repetition) {
        if *repetition == 0 {
            ends.push(entries);
        }
        entries += usize::from(*definition > 0);
        if let Some(end) = ends.last_mut() {
            *end = entries;
        }
    }
    if ends.len() != rows.len() || entries != keys.values.len() || entries != values.values.len() {
        return Err(TableError::Damaged("the entries of a map do not match its rows"));
    }
    Ok(Map { ends, keys: keys.values, values: values.values })
}

impl<T> Map<T> {
    fn of(&self, row: usize) -> impl Iterator<Item = (&ByteArray, &T)> {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        let range = start..self.ends[row];
        self.keys[range.clone()].iter().zip(&self.values[range])
    }
}

impl Group {
    fn read(group: &dyn RowGroupReader, rows: Range<usize>) -> Result<Group, TableError> {
        let rows = &rows;
        let before = leaf_of::<ByteArrayType>(group, leaf::WRITTEN_BEFORE, rows)?;
        let mut older = before.values.into_iter();
        Ok(Group {
            ts: required::<Int64Type>(group, leaf::TS, rows)?,
            ts_ns: required::<Int32Type>(group, leaf::TS_NS, rows)?,
            ids: required::<ByteArrayType>(group, leaf::ID, rows)?,
            tags: map_of::<ByteArrayType>(group, leaf::TAGS, rows)?,
            f64s: map_of::<DoubleType>(group, leaf::F64, rows)?,
            i64s: map_of::<Int64Type>(group, leaf::I64, rows)?,
            u64s: map_of::<FixedLenByteArrayType>(group, leaf::U64, rows)?,
            bools: map_of::<BoolType>(group, leaf::BOOL, rows)?,
            strs: map_of::<ByteArrayType>(group, leaf::STR, rows)?,
            written_ts: required::<Int64Type>(group, leaf::WRITTEN_TS, rows)?,
            written_by: required::<Int64Type>(group, leaf::WRITTEN_BY, rows)?,
            before: before.definition.iter().map(|level| if *level > 0 { older.next() } else { None }).collect(),
        })
    }

    fn each<E: From<TableError>>(
        &self,
        range: TimeRange,
        each: &mut impl FnMut(i64, &str, &[Cell<'_>], Stamp) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut cells = Vec::new();
        for row in 0..self.ts.len() {
            let ts = nanos(self.ts[row], self.ts_ns[row])?;
            if ts < range.from.nanos() || ts >= range.to.nanos() {
                continue;
            }
            let stamp = Stamp { time: self.written_ts[row] as u64, node: self.written_by[row] as u64 };
            cells.clear();
            self.cells(row, stamp, &mut cells)?;
            self.age(row, &mut cells)?;
            each(ts, text(&self.ids[row])?, &cells, stamp)?;
        }
        Ok(())
    }

    fn cells<'a>(&'a self, row: usize, stamp: Stamp, cells: &mut Vec<Cell<'a>>) -> Result<(), TableError> {
        let mut push = |tag: bool, name: &'a ByteArray, value: ValueRef<'a>| {
            cells.push(Cell { tag, name: text(name)?, value, stamp });
            Ok::<(), TableError>(())
        };
        for (name, value) in self.f64s.of(row) {
            push(false, name, ValueRef::F64(*value))?;
        }
        for (name, value) in self.i64s.of(row) {
            push(false, name, ValueRef::I64(*value))?;
        }
        for (name, value) in self.u64s.of(row) {
            push(false, name, ValueRef::U64(unsigned(value.data())?))?;
        }
        for (name, value) in self.bools.of(row) {
            push(false, name, ValueRef::Bool(*value))?;
        }
        for (name, value) in self.strs.of(row) {
            push(false, name, ValueRef::Str(text(value)?))?;
        }
        for (name, value) in self.tags.of(row) {
            push(true, name, ValueRef::Str(text(value)?))?;
        }
        Ok(())
    }

    /// Gives the parts that are older than the row's latest write their own stamps.
    fn age(&self, row: usize, cells: &mut [Cell<'_>]) -> Result<(), TableError> {
        let Some(before) = &self.before[row] else { return Ok(()) };
        let older: Vec<Older> = serde_json::from_slice(before.data()).map_err(|_| TableError::Damaged("stamps that can't be read"))?;
        let older: HashMap<(bool, &str), Stamp> =
            older.iter().map(|(tag, name, time, node)| ((*tag, name.as_str()), Stamp { time: *time, node: *node })).collect();
        for cell in cells {
            if let Some(stamp) = older.get(&(cell.tag, cell.name)) {
                cell.stamp = *stamp;
            }
        }
        Ok(())
    }
}

/// A time of two columns, in 128 bits: the first microsecond of 64-bit nanoseconds begins before them.
pub(super) fn nanos(micros: i64, ns: i32) -> Result<i64, TableError> {
    let nanos = i128::from(micros) * i128::from(MICRO) + i128::from(ns);
    i64::try_from(nanos).map_err(|_| TableError::Damaged("a time beyond 64-bit nanoseconds"))
}

pub(super) fn text(bytes: &ByteArray) -> Result<&str, TableError> {
    std::str::from_utf8(bytes.data()).map_err(|_| TableError::Damaged("a string that is not UTF-8"))
}

pub(super) fn unsigned(bytes: &[u8]) -> Result<u64, TableError> {
    match bytes.split_at_checked(U64_BYTES - size_of::<u64>()) {
        Some(([0], low)) => low.try_into().map(u64::from_be_bytes).map_err(|_| TableError::Damaged("a decimal of another length")),
        _ => Err(TableError::Damaged("a decimal that is no u64")),
    }
}

//! Events to a table file, row group by row group: a bucket's in memory, an export's wherever it goes.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use xxhash_rust::xxh3::xxh3_64;

use super::digest::Digest;
use super::schema::{MICRO, ROW_GROUP_BYTES, ROW_GROUP_ROWS, SCHEMA, U64_BYTES, properties};
use super::{About, TableError};
use crate::block::Cell;
use crate::model::ValueRef;
use crate::stamp::Stamp;

/// What a value costs beside its string, bytes, roughly.
const CELL_BYTES: usize = 24;

/// A file under way.
pub struct TableWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    key: ByteArray,
    rows: RowGroup,
    names: HashMap<Box<str>, ByteArray>,
    digest: Digest,
    span: Option<(i64, i64)>,
}

/// A file that is done.
#[derive(Debug)]
pub struct Written {
    /// Its bytes.
    pub bytes: Bytes,
    /// Their `xxh3_64`.
    pub checksum: u64,
    /// What is in it.
    pub digest: Digest,
    /// Least event time inside, nanoseconds.
    pub min_ts: i64,
    /// Greatest event time inside, nanoseconds.
    pub max_ts: i64,
}

/// Columns of a row group that gathers.
#[derive(Default)]
struct RowGroup {
    keys: Vec<ByteArray>,
    ts: Vec<i64>,
    ts_ns: Vec<i32>,
    ids: Vec<ByteArray>,
    tags: Map<ByteArray>,
    f64s: Map<f64>,
    i64s: Map<i64>,
    u64s: Map<FixedLenByteArray>,
    bools: Map<bool>,
    strs: Map<ByteArray>,
    written_ts: Vec<i64>,
    written_by: Vec<i64>,
    before: Vec<ByteArray>,
    before_levels: Vec<i16>,
    bytes: usize,
}

/// A map column: levels of its entries, and one level of its own for an empty map.
struct Map<T> {
    definition: Vec<i16>,
    repetition: Vec<i16>,
    keys: Vec<ByteArray>,
    values: Vec<T>,
    /// Entries of the row under way.
    entries: usize,
}

impl<T> Default for Map<T> {
    fn default() -> Self {
        Map { definition: Vec::new(), repetition: Vec::new(), keys: Vec::new(), values: Vec::new(), entries: 0 }
    }
}

impl<T> Map<T> {
    fn push(&mut self, key: ByteArray, value: T) {
        self.definition.push(1);
        self.repetition.push(i16::from(self.entries > 0));
        self.keys.push(key);
        self.values.push(value);
        self.entries += 1;
    }

    fn end_row(&mut self) {
        if std::mem::take(&mut self.entries) == 0 {
            self.definition.push(0);
            self.repetition.push(0);
        }
    }
}

impl TableWriter<Vec<u8>> {
    /// An empty file of a bucket, in memory.
    pub fn new(about: &About) -> Result<TableWriter<Vec<u8>>, TableError> {
        TableWriter::over(Vec::new(), Some(about))
    }

    /// The file; nothing where no event was added.
    pub fn finish(mut self) -> Result<Option<Written>, TableError> {
        self.flush()?;
        let Some((min_ts, max_ts)) = self.span else { return Ok(None) };
        let bytes: Bytes = self.file.into_inner()?.into();
        Ok(Some(Written { checksum: xxh3_64(&bytes), bytes, digest: self.digest, min_ts, max_ts }))
    }
}

impl<W: Write + Send> TableWriter<W> {
    /// An empty file of no bucket: whoever reads tables for a bucket refuses it.
    pub fn export(sink: W) -> Result<TableWriter<W>, TableError> {
        TableWriter::over(sink, None)
    }

    fn over(sink: W, about: Option<&About>) -> Result<TableWriter<W>, TableError> {
        let file = SerializedFileWriter::new(sink, SCHEMA.clone(), Arc::new(properties(about)?))?;
        let key = ByteArray::from(about.map_or("", |about| &about.key));
        Ok(TableWriter { file, key, rows: RowGroup::default(), names: HashMap::new(), digest: Digest::default(), span: None })
    }

    /// The key of the events that are added from now on.
    pub fn set_key(&mut self, key: &str) {
        if self.key.data() != key.as_bytes() {
            self.key = ByteArray::from(key);
        }
    }

    /// Ends the file; gives back what it was written to.
    pub fn close(mut self) -> Result<W, TableError> {
        self.flush()?;
        Ok(self.file.into_inner()?)
    }

    /// Adds an event; those of a key come ascending by (ts, id, shard tag).
    pub fn push(&mut self, ts: i64, id: &str, cells: &[Cell<'_>], stamp: Stamp) -> Result<(), TableError> {
        self.digest.add(ts, id, cells, stamp);
        self.span = Some((self.span.map_or(ts, |(min, _)| min.min(ts)), self.span.map_or(ts, |(_, max)| max.max(ts))));
        self.rows.push(self.key.clone(), ts, id, stamp);
        for cell in cells {
            let name = match self.names.get(cell.name) {
                Some(name) => name.clone(),
                None => self.names.entry(cell.name.into()).or_insert_with(|| ByteArray::from(cell.name)).clone(),
            };
            self.rows.push_cell(cell, name);
        }
        self.rows.end_row(cells, stamp);
        if self.rows.ts.len() >= ROW_GROUP_ROWS || self.rows.bytes >= ROW_GROUP_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Bytes written so far, and of values that wait, before they are encoded.
    pub fn bytes(&self) -> usize {
        self.file.bytes_written() + self.rows.bytes
    }

    fn flush(&mut self) -> Result<(), TableError> {
        let rows = std::mem::take(&mut self.rows);
        if rows.ts.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        put::<ByteArrayType, W>(&mut group, &rows.keys, None, None)?;
        put::<Int64Type, W>(&mut group, &rows.ts, None, None)?;
        put::<Int32Type, W>(&mut group, &rows.ts_ns, None, None)?;
        put::<ByteArrayType, W>(&mut group, &rows.ids, None, None)?;
        put_map::<ByteArrayType, W>(&mut group, &rows.tags)?;
        put_map::<DoubleType, W>(&mut group, &rows.f64s)?;
        put_map::<Int64Type, W>(&mut group, &rows.i64s)?;
        put_map::<FixedLenByteArrayType, W>(&mut group, &rows.u64s)?;
        put_map::<BoolType, W>(&mut group, &rows.bools)?;
        put_map::<ByteArrayType, W>(&mut group, &rows.strs)?;
        put::<Int64Type, W>(&mut group, &rows.written_ts, None, None)?;
        put::<Int64Type, W>(&mut group, &rows.written_by, None, None)?;
        put::<ByteArrayType, W>(&mut group, &rows.before, Some(&rows.before_levels), None)?;
        group.close()?;
        Ok(())
    }
}

/// Writes the next column of a row group.
fn put<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    definition: Option<&[i16]>,
    repetition: Option<&[i16]>,
) -> Result<(), TableError> {
    let mut column = group.next_column()?.ok_or(TableError::Damaged("the schema has fewer columns"))?;
    column.typed::<T>().write_batch(values, definition, repetition)?;
    column.close()?;
    Ok(())
}

fn put_map<T: DataType, W: Write + Send>(group: &mut SerializedRowGroupWriter<'_, W>, map: &Map<T::T>) -> Result<(), TableError> {
    put::<ByteArrayType, W>(group, &map.keys, Some(&map.definition), Some(&map.repetition))?;
    put::<T, W>(group, &map.values, Some(&map.definition), Some(&map.repetition))
}

impl RowGroup {
    fn push(&mut self, key: ByteArray, ts: i64, id: &str, stamp: Stamp) {
        self.keys.push(key);
        self.ts.push(ts.div_euclid(MICRO));
        self.ts_ns.push(ts.rem_euclid(MICRO) as i32);
        self.ids.push(ByteArray::from(id));
        self.written_ts.push(stamp.time as i64);
        self.written_by.push(stamp.node as i64);
        self.bytes += 4 * CELL_BYTES + id.len();
    }

    fn push_cell(&mut self, cell: &Cell<'_>, name: ByteArray) {
        self.bytes += CELL_BYTES;
        match cell.value {
            ValueRef::Str(value) => {
                self.bytes += value.len();
                let map = if cell.tag { &mut self.tags } else { &mut self.strs };
                map.push(name, ByteArray::from(value));
            }
            ValueRef::F64(value) => self.f64s.push(name, value),
            ValueRef::I64(value) => self.i64s.push(name, value),
            ValueRef::U64(value) => {
                let mut bytes = vec![0; U64_BYTES - size_of::<u64>()];
                bytes.extend_from_slice(&value.to_be_bytes());
                self.u64s.push(name, ByteArray::from(bytes).into());
            }
            ValueRef::Bool(value) => self.bools.push(name, value),
        }
    }

    /// Ends a row. Parts that are older than its latest write are named, each with its stamp.
    fn end_row(&mut self, cells: &[Cell<'_>], stamp: Stamp) {
        let older: Vec<_> = cells.iter().filter(|cell| cell.stamp != stamp).collect();
        self.before_levels.push(i16::from(!older.is_empty()));
        if !older.is_empty() {
            let listed: Vec<_> = older.iter().map(|cell| (cell.tag, cell.name, cell.stamp.time, cell.stamp.node)).collect();
            let json = serde_json::to_vec(&listed).unwrap_or_default();
            self.bytes += json.len();
            self.before.push(ByteArray::from(json));
        }
        self.tags.end_row();
        self.f64s.end_row();
        self.i64s.end_row();
        self.u64s.end_row();
        self.bools.end_row();
        self.strs.end_row();
    }
}

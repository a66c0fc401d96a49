//! The events of a row group while they gather: columns side by side, strings end to end.

use std::collections::HashMap;
use std::io::Write;
use std::ops::Range;

use bytes::Bytes;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::file::writer::SerializedRowGroupWriter;

use super::TableError;
use super::encoding::{Bounds, Columns, DOUBLES, FEW, INTEGERS, OTHERS, STRINGS, TIMES, Way, bloom};
use super::schema::{MICRO, U64_BYTES};
use crate::block::{Cell, Strings};
use crate::model::ValueRef;
use crate::stamp::Stamp;

/// What a row costs beside its id and its parts, bytes, roughly.
const ROW_BYTES: usize = 56;
/// What a part costs beside its string, bytes.
const CELL_BYTES: usize = 12;

/// Names of fields and tags, each once for a file.
#[derive(Default)]
pub(super) struct Names {
    listed: Vec<ByteArray>,
    codes: HashMap<Box<str>, u32>,
}

/// Events of a row group.
#[derive(Default)]
pub(super) struct RowGroup {
    /// Each key, and how many rows it has.
    keys: Vec<(ByteArray, usize)>,
    ts: Vec<i64>,
    ids: Strings,
    tags: Map<Strings>,
    f64s: Map<Vec<f64>>,
    i64s: Map<Vec<i64>>,
    u64s: Map<Vec<u64>>,
    bools: Map<Vec<bool>>,
    strs: Map<Strings>,
    written_ts: Vec<i64>,
    written_by: Vec<i64>,
    before: Map<Strings>,
    bytes: usize,
}

/// A map column: how many entries each row has, and their names and values.
#[derive(Default)]
struct Map<T> {
    counts: Vec<u32>,
    names: Vec<u32>,
    values: T,
}

/// Strings that are done, for a reader that shares them.
struct Texts {
    bytes: Bytes,
    ends: Vec<u32>,
}

impl Names {
    fn code(&mut self, name: &str) -> u32 {
        if let Some(code) = self.codes.get(name) {
            return *code;
        }
        self.listed.push(ByteArray::from(name));
        self.codes.insert(name.into(), self.listed.len() as u32 - 1);
        self.listed.len() as u32 - 1
    }
}

impl RowGroup {
    /// Rows.
    pub(super) fn len(&self) -> usize {
        self.ts.len()
    }

    /// Memory held, bytes, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an event.
    pub(super) fn push(&mut self, key: &ByteArray, ts: i64, id: &str, cells: &[Cell<'_>], stamp: Stamp, names: &mut Names) {
        match self.keys.last_mut() {
            Some((last, rows)) if last == key => *rows += 1,
            _ => self.keys.push((key.clone(), 1)),
        }
        self.ts.push(ts);
        self.ids.push(id.as_bytes());
        self.written_ts.push(stamp.time as i64);
        self.written_by.push(stamp.node as i64);
        self.bytes += ROW_BYTES + id.len() + cells.len() * CELL_BYTES;
        self.begin_row();
        for cell in cells {
            self.push_cell(cell, names.code(cell.name));
        }
        self.push_before(cells, stamp);
    }

    fn begin_row(&mut self) {
        self.tags.counts.push(0);
        self.f64s.counts.push(0);
        self.i64s.counts.push(0);
        self.u64s.counts.push(0);
        self.bools.counts.push(0);
        self.strs.counts.push(0);
        self.before.counts.push(0);
    }

    fn push_cell(&mut self, cell: &Cell<'_>, name: u32) {
        match cell.value {
            ValueRef::Str(value) => {
                self.bytes += value.len();
                let map = if cell.tag { &mut self.tags } else { &mut self.strs };
                map.name(name).push(value.as_bytes());
            }
            ValueRef::F64(value) => self.f64s.name(name).push(value),
            ValueRef::I64(value) => self.i64s.name(name).push(value),
            ValueRef::U64(value) => self.u64s.name(name).push(value),
            ValueRef::Bool(value) => self.bools.name(name).push(value),
        }
    }

    /// Parts that are older than their event's latest write are named, each with its stamp.
    fn push_before(&mut self, cells: &[Cell<'_>], stamp: Stamp) {
        let mut older = cells.iter().filter(|cell| cell.stamp != stamp).peekable();
        if older.peek().is_some() {
            let listed: Vec<_> = older.map(|cell| (cell.tag, cell.name, cell.stamp.time, cell.stamp.node)).collect();
            let json = serde_json::to_vec(&listed).unwrap_or_default();
            self.bytes += json.len();
            self.before.name(0).push(&json);
        }
    }

    /// Writes them, column by column; with an index of pages where that is of use.
    pub(super) fn write<W: Write + Send>(
        self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        names: &Names,
        paged: bool,
    ) -> Result<(), TableError> {
        let (ts, by) = (&self.ts, &self.written_by);
        let filter = bloom(&self.ids)?;
        let ids = Texts::of(self.ids);
        let mut columns = Columns::new(group, ts.len(), paged);
        columns.put::<ByteArrayType>(FEW, Bounds::RowGroup, None, |rows| keys_of(&self.keys, rows))?;
        columns.put::<Int64Type>(TIMES, Bounds::Pages, None, |rows| ts[rows].iter().map(|ts| ts.div_euclid(MICRO)).collect())?;
        columns.put::<Int32Type>(FEW, Bounds::RowGroup, None, |rows| ts[rows].iter().map(|ts| ts.rem_euclid(MICRO) as i32).collect())?;
        columns.put_with::<ByteArrayType>(STRINGS, Bounds::Pages, None, |rows| ids.of_range(rows), filter)?;
        self.tags.texts(&mut columns, names)?;
        self.f64s.write::<DoubleType, _>(&mut columns, names, DOUBLES, |values| values.to_vec())?;
        self.i64s.write::<Int64Type, _>(&mut columns, names, INTEGERS, |values| values.to_vec())?;
        self.u64s.write::<FixedLenByteArrayType, _>(&mut columns, names, OTHERS, |values| values.iter().map(decimal).collect())?;
        self.bools.write::<BoolType, _>(&mut columns, names, OTHERS, |values| values.to_vec())?;
        self.strs.texts(&mut columns, names)?;
        columns.put::<Int64Type>(INTEGERS, Bounds::None, None, |rows| self.written_ts[rows].to_vec())?;
        columns.put::<Int64Type>(FEW, Bounds::None, None, |rows| by[rows].to_vec())?;
        let before = Texts::of(self.before.values);
        columns.put::<ByteArrayType>(FEW, Bounds::None, Some(&self.before.counts), |entries| before.of_range(entries))
    }
}

impl<T> Map<T> {
    /// An entry of the row under way; gives where its value goes.
    fn name(&mut self, name: u32) -> &mut T {
        if let Some(count) = self.counts.last_mut() {
            *count += 1;
        }
        self.names.push(name);
        &mut self.values
    }

    fn write_names<W: Write + Send>(&self, columns: &mut Columns<'_, '_, W>, names: &Names) -> Result<(), TableError> {
        let named = |entries: Range<usize>| self.names[entries].iter().map(|code| names.listed[*code as usize].clone()).collect();
        columns.put::<ByteArrayType>(FEW, Bounds::RowGroup, Some(&self.counts), named)
    }
}

impl<T> Map<Vec<T>> {
    fn write<D: DataType, W: Write + Send>(
        &self,
        columns: &mut Columns<'_, '_, W>,
        names: &Names,
        ways: &[Way],
        values: impl Fn(&[T]) -> Vec<D::T>,
    ) -> Result<(), TableError> {
        self.write_names(columns, names)?;
        columns.put::<D>(ways, Bounds::None, Some(&self.counts), |entries| values(&self.values[entries]))
    }
}

impl Map<Strings> {
    fn texts<W: Write + Send>(mut self, columns: &mut Columns<'_, '_, W>, names: &Names) -> Result<(), TableError> {
        self.write_names(columns, names)?;
        let texts = Texts::of(std::mem::take(&mut self.values));
        columns.put::<ByteArrayType>(STRINGS, Bounds::None, Some(&self.counts), |entries| texts.of_range(entries))
    }
}

impl Texts {
    fn of(strings: Strings) -> Texts {
        Texts { bytes: strings.bytes.into(), ends: strings.ends }
    }

    fn of_range(&self, range: Range<usize>) -> Vec<ByteArray> {
        let mut start = if range.start == 0 { 0 } else { self.ends[range.start - 1] as usize };
        let text = |end: &u32| {
            let text = self.bytes.slice(start..*end as usize);
            start = *end as usize;
            ByteArray::from(text)
        };
        self.ends[range].iter().map(text).collect()
    }
}

/// The keys of a range of rows.
fn keys_of(keys: &[(ByteArray, usize)], rows: Range<usize>) -> Vec<ByteArray> {
    let mut first = 0;
    let inside = |(key, of): &(ByteArray, usize)| {
        let inside = rows.start.max(first)..rows.end.min(first + of);
        first += of;
        std::iter::repeat_n(key.clone(), inside.len())
    };
    keys.iter().flat_map(inside).collect()
}

/// As a `DECIMAL(20,0)`.
fn decimal(value: &u64) -> FixedLenByteArray {
    let mut bytes = vec![0; U64_BYTES - size_of::<u64>()];
    bytes.extend_from_slice(&value.to_be_bytes());
    ByteArray::from(bytes).into()
}

//! Rows of a table file as columns: what a read takes that has nothing to merge them with. Only the
//! columns that it asks for are decoded, a run of rows at a time.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::file::reader::RowGroupReader;
use parquet::file::statistics::Statistics;

use super::TableError;
use super::read::{Leaf, TableReader, leaf_of, nanos, required, text, unsigned};
use super::schema::leaf;
use crate::block::{Column, Presence, Projection, Strings, Table, Values};
use crate::model::TimeRange;

/// Rows that are decoded at once: some pages, so that a dictionary is read few times and a run stays small in memory.
const RUN_ROWS: usize = 64 * 1024;

/// Some rows of a row group of a checked file. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Run {
    reader: Arc<TableReader>,
    group: usize,
    rows: Range<usize>,
}

impl TableReader {
    /// The rows whose pages may hold events of `range`, in order.
    pub fn runs(self: &Arc<Self>, range: TimeRange) -> Vec<Run> {
        let of_group = |group: usize| {
            let near = self.near(group, range);
            let run = move |first: usize| Run { reader: self.clone(), group, rows: first..near.end.min(first + RUN_ROWS) };
            self.near(group, range).step_by(RUN_ROWS).map(run)
        };
        (0..self.row_groups()).flat_map(of_group).collect()
    }
}

impl Run {
    /// Its share of the file's bytes, and no less than its times take.
    pub fn bytes(&self) -> usize {
        let share = self.reader.bytes() as u128 * self.rows.len() as u128 / u128::from(self.reader.rows().max(1));
        (share as usize).max(self.rows.len() * size_of::<i64>())
    }

    /// Whether a page of it may hold events of `range`.
    fn touches(&self, range: TimeRange) -> bool {
        let near = self.reader.near(self.group, range);
        near.start < self.rows.end && self.rows.start < near.end
    }

    /// Event times in `range`, row by row, ascending.
    pub fn ts(&self, range: TimeRange) -> Result<Vec<i64>, TableError> {
        if !self.touches(range) {
            return Ok(Vec::new());
        }
        let mut ts = self.all_ts(&*self.reader.row_group(self.group)?)?;
        ts.truncate(inside(&ts, range).end);
        ts.drain(..inside(&ts, range).start);
        Ok(ts)
    }

    fn all_ts(&self, group: &dyn RowGroupReader) -> Result<Vec<i64>, TableError> {
        let micros = required::<Int64Type>(group, leaf::TS, &self.rows)?;
        if let Some(ns) = self.one_ts_ns(group) {
            return micros.into_iter().map(|micros| nanos(micros, ns)).collect();
        }
        let ns = required::<Int32Type>(group, leaf::TS_NS, &self.rows)?;
        micros.into_iter().zip(ns).map(|(micros, ns)| nanos(micros, ns)).collect()
    }

    /// The nanoseconds beside the microseconds, where all rows have the same.
    fn one_ts_ns(&self, group: &dyn RowGroupReader) -> Option<i32> {
        match group.metadata().column(leaf::TS_NS).statistics() {
            Some(Statistics::Int32(bounds)) => bounds.min_opt().filter(|min| bounds.max_opt() == Some(min)).copied(),
            _ => None,
        }
    }

    /// The events in `range`, as far as they are asked for.
    pub fn table(&self, range: TimeRange, projection: &Projection) -> Result<Table, TableError> {
        if !self.touches(range) {
            return Ok(Table::default());
        }
        let group = &*self.reader.row_group(self.group)?;
        let ts = self.all_ts(group)?;
        let inside = inside(&ts, range);
        let rows = self.rows.start + inside.start..self.rows.start + inside.end;
        let (ids, fields, tags) = match projection {
            Projection::All => (strings(required::<ByteArrayType>(group, leaf::ID, &rows)?)?, None, None),
            Projection::Only { fields, tags } => (Strings::default(), Some(&fields[..]), Some(&tags[..])),
        };
        let mut columns = Vec::new();
        let mut maps = Maps { group, rows, columns: &mut columns };
        maps.read::<DoubleType>(leaf::F64, fields, |values| Ok(Values::F64(values)))?;
        maps.read::<Int64Type>(leaf::I64, fields, |values| Ok(Values::I64(values)))?;
        maps.read::<FixedLenByteArrayType>(leaf::U64, fields, decimals)?;
        maps.read::<BoolType>(leaf::BOOL, fields, |values| Ok(Values::Bool(values)))?;
        maps.read::<ByteArrayType>(leaf::STR, fields, |values| Ok(Values::Str(strings(values)?)))?;
        maps.read::<ByteArrayType>(leaf::TAGS, tags, |values| Ok(Values::Str(strings(values)?)))?;
        // Stable: types of one name stay in their order.
        columns.sort_by(|a, b| (a.tag, &a.name).cmp(&(b.tag, &b.name)));
        Ok(Table { ts: ts[inside].to_vec(), ids, columns })
    }
}

/// The map columns of some rows on their way to columns by name.
struct Maps<'a> {
    group: &'a dyn RowGroupReader,
    rows: Range<usize>,
    columns: &'a mut Vec<Column>,
}

/// A column while values are added.
struct Growing<'a, T> {
    name: &'a [u8],
    rows: Vec<u32>,
    values: Vec<T>,
}

impl Maps<'_> {
    /// Adds the columns of a map: those of these names, if any are given.
    fn read<T: DataType>(
        &mut self,
        at: usize,
        wanted: Option<&[String]>,
        values_of: fn(Vec<T::T>) -> Result<Values, TableError>,
    ) -> Result<(), TableError> {
        if !self.may_have(at, wanted) {
            return Ok(());
        }
        let Leaf { values, definition, repetition } = leaf_of::<T>(self.group, at + 1, &self.rows)?;
        let one = self.one_name(at);
        if let Some(name) = one.filter(|_| values.len() == self.rows.len() && definition.len() == values.len()) {
            self.columns.push(Column {
                name: text(&name)?.to_owned(),
                tag: at == leaf::TAGS,
                presence: Presence::All,
                values: values_of(values)?,
            });
            return Ok(());
        }
        let names = leaf_of::<ByteArrayType>(self.group, at, &self.rows)?;
        if (&names.definition, &names.repetition) != (&definition, &repetition) || names.values.len() != values.len() {
            return Err(TableError::Damaged("the keys and values of a map do not match"));
        }
        for Growing { name, rows, values } in by_name(&names, values, wanted) {
            let presence = if rows.len() == self.rows.len() { Presence::All } else { Presence::Rows(rows) };
            let name = std::str::from_utf8(name).map_err(|_| TableError::Damaged("a string that is not UTF-8"))?;
            self.columns.push(Column { name: name.to_owned(), tag: at == leaf::TAGS, presence, values: values_of(values)? });
        }
        Ok(())
    }

    /// Whether the bounds of a map's names leave room for a wanted one.
    fn may_have(&self, at: usize, wanted: Option<&[String]>) -> bool {
        let chunk = self.group.metadata().column(at);
        let Some(Statistics::ByteArray(bounds)) = chunk.statistics() else { return true };
        let empty = bounds.null_count_opt() == u64::try_from(chunk.num_values()).ok();
        let (min, max) = (bounds.min_opt().map(ByteArray::data), bounds.max_opt().map(ByteArray::data));
        let within = |name: &String| min.is_none_or(|min| min <= name.as_bytes()) && max.is_none_or(|max| name.as_bytes() <= max);
        !empty && wanted.is_none_or(|wanted| wanted.iter().any(within))
    }

    /// The name that all entries of a map have.
    fn one_name(&self, at: usize) -> Option<ByteArray> {
        let Some(Statistics::ByteArray(bounds)) = self.group.metadata().column(at).statistics() else { return None };
        let exact = bounds.min_is_exact() && bounds.max_is_exact();
        bounds.min_opt().filter(|min| exact && bounds.max_opt() == Some(min)).cloned()
    }
}

/// A map's entries by name. Rows tend to be alike: what the nth entry of a row was, it is again.
fn by_name<'a, T>(names: &'a Leaf<ByteArray>, values: Vec<T>, wanted: Option<&[String]>) -> Vec<Growing<'a, T>> {
    let mut columns: Vec<Growing<'a, T>> = Vec::new();
    let mut known: HashMap<&[u8], Option<usize>> = HashMap::new();
    let mut guesses: Vec<(&[u8], Option<usize>)> = Vec::new();
    let mut entries = names.values.iter().map(ByteArray::data).zip(values);
    let (mut rows, mut nth) = (0, 0);
    for (definition, repetition) in names.definition.iter().zip(&names.repetition) {
        if *repetition == 0 {
            (rows, nth) = (rows + 1, 0);
        }
        let Some((name, value)) = (*definition > 0).then(|| entries.next()).flatten() else { continue };
        let guess = guesses.get(nth).filter(|(guess, _)| *guess == name).map(|(_, column)| *column);
        let column = guess.unwrap_or_else(|| {
            let column = *known.entry(name).or_insert_with(|| {
                let is_wanted = wanted.is_none_or(|wanted| wanted.iter().any(|wanted| wanted.as_bytes() == name));
                is_wanted.then(|| {
                    columns.push(Growing { name, rows: Vec::new(), values: Vec::new() });
                    columns.len() - 1
                })
            });
            guesses.resize(guesses.len().max(nth + 1), (name, column));
            guesses[nth] = (name, column);
            column
        });
        if let Some(column) = column {
            columns[column].rows.push(rows - 1);
            columns[column].values.push(value);
        }
        nth += 1;
    }
    columns
}

/// Which of ascending times lie in `range`.
fn inside(ts: &[i64], range: TimeRange) -> Range<usize> {
    let before = |bound: i64| ts.partition_point(|ts| *ts < bound);
    let from = before(range.from.nanos());
    from..before(range.to.nanos()).max(from)
}

fn strings(values: Vec<ByteArray>) -> Result<Strings, TableError> {
    let mut strings = Strings { ends: Vec::with_capacity(values.len()), bytes: Vec::new() };
    for value in &values {
        strings.push(text(value)?.as_bytes());
    }
    Ok(strings)
}

fn decimals(values: Vec<FixedLenByteArray>) -> Result<Values, TableError> {
    Ok(Values::U64(values.iter().map(|value| unsigned(value.data())).collect::<Result<_, _>>()?))
}

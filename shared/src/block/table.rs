//! Events as columns: what a block decodes to and what a merge gives. Plain data; no codec, no order.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::model::{Event, FieldValue, Timestamp, ValueRef};

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

/// Merged events of one partition, as columns, ascending by (ts, id, shard tag). Columns are in
/// order of (tag, name, type). A field whose type differs between rows has several columns; a row
/// has a value in at most one of them. Whether strings stand as `Str` or `Dict` may differ between
/// tables of the same events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Event times, nanoseconds.
    pub ts: Vec<i64>,
    /// Ids; empty where the projection left them out.
    pub ids: Strings,
    /// Columns.
    pub columns: Vec<Column>,
}

/// A column's type, in the order in which columns of one name stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    F64,
    I64,
    U64,
    Bool,
    Str,
}

impl Kind {
    pub(super) const COUNT: usize = 5;

    pub(super) fn of(value: &ValueRef<'_>) -> Kind {
        match value {
            ValueRef::F64(_) => Kind::F64,
            ValueRef::I64(_) => Kind::I64,
            ValueRef::U64(_) => Kind::U64,
            ValueRef::Bool(_) => Kind::Bool,
            ValueRef::Str(_) => Kind::Str,
        }
    }
}

impl Strings {
    /// How many.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of string `index`; empty where there is none.
    pub fn bytes_at(&self, index: usize) -> &[u8] {
        let Some(&end) = self.ends.get(index) else { return &[] };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }

    /// String `index`; empty where there is none or it is not UTF-8 (decoded ones always are).
    pub fn get(&self, index: usize) -> &str {
        std::str::from_utf8(self.bytes_at(index)).unwrap_or_default()
    }

    /// Adds one at the end.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len() as u32);
    }

    /// Drops the last one.
    pub(super) fn pop(&mut self) {
        self.ends.pop();
        self.bytes.truncate(self.ends.last().map_or(0, |end| *end as usize));
    }

    /// Adds those of `other`.
    pub(super) fn extend(&mut self, other: &Strings) {
        let base = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| end + base));
    }
}

impl Values {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Values::F64(v) => v.len(),
            Values::I64(v) => v.len(),
            Values::U64(v) => v.len(),
            Values::Bool(v) => v.len(),
            Values::Str(v) => v.len(),
            Values::Dict(_, v) => v.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Value `index` of the column's values (not of the table's rows).
    pub fn get(&self, index: usize) -> Option<ValueRef<'_>> {
        Some(match self {
            Values::F64(v) => ValueRef::F64(*v.get(index)?),
            Values::I64(v) => ValueRef::I64(*v.get(index)?),
            Values::U64(v) => ValueRef::U64(*v.get(index)?),
            Values::Bool(v) => ValueRef::Bool(*v.get(index)?),
            Values::Str(v) if index < v.len() => ValueRef::Str(v.get(index)),
            Values::Str(_) => return None,
            Values::Dict(dict, v) => ValueRef::Str(dict.get(*v.get(index)? as usize)),
        })
    }

    /// The bytes of string `index`; empty for other types.
    pub(super) fn bytes_at(&self, index: usize) -> &[u8] {
        match self {
            Values::Str(v) => v.bytes_at(index),
            Values::Dict(dict, v) => v.get(index).map_or(&[], |entry| dict.bytes_at(*entry as usize)),
            _ => &[],
        }
    }

    /// No values of a type.
    pub(super) fn empty(kind: Kind) -> Values {
        match kind {
            Kind::F64 => Values::F64(Vec::new()),
            Kind::I64 => Values::I64(Vec::new()),
            Kind::U64 => Values::U64(Vec::new()),
            Kind::Bool => Values::Bool(Vec::new()),
            Kind::Str => Values::Str(Strings::default()),
        }
    }

    /// Drops the last value.
    pub(super) fn pop(&mut self) {
        match self {
            Values::F64(v) => drop(v.pop()),
            Values::I64(v) => drop(v.pop()),
            Values::U64(v) => drop(v.pop()),
            Values::Bool(v) => drop(v.pop()),
            Values::Str(v) => v.pop(),
            Values::Dict(_, v) => drop(v.pop()),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Values::F64(_) => Kind::F64,
            Values::I64(_) => Kind::I64,
            Values::U64(_) => Kind::U64,
            Values::Bool(_) => Kind::Bool,
            Values::Str(_) | Values::Dict(..) => Kind::Str,
        }
    }
}

impl Presence {
    /// Which of a column's values belong to rows `range`.
    pub fn cells_in(&self, range: &Range<usize>) -> Range<usize> {
        match self {
            Presence::All => range.clone(),
            Presence::Rows(rows) => {
                let start = rows.partition_point(|row| (*row as usize) < range.start);
                start..start + rows[start..].partition_point(|row| (*row as usize) < range.end)
            }
        }
    }

    /// The presence of `cells`, those of rows `range`, in a table of no other rows.
    pub(super) fn part(self, cells: Range<usize>, range: &Range<usize>) -> Presence {
        match self {
            Presence::Rows(rows) if cells.len() < range.len() => {
                Presence::Rows(rows[cells].iter().map(|row| row - range.start as u32).collect())
            }
            _ => Presence::All,
        }
    }
}

impl Column {
    /// Where the values of `row` stands among the column's values, if it has one.
    pub fn index_of(&self, row: u32) -> Option<usize> {
        match &self.presence {
            Presence::All => Some(row as usize),
            Presence::Rows(rows) => rows.binary_search(&row).ok(),
        }
    }

    /// Each value's index and row, ascending.
    pub(super) fn cells(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        (0..self.values.len()).map(|index| match &self.presence {
            Presence::All => (index, index as u32),
            Presence::Rows(rows) => (index, rows[index]),
        })
    }

    /// Which of the column's values belong to rows `range`.
    pub(super) fn cells_in(&self, range: &Range<usize>) -> Range<usize> {
        self.presence.cells_in(range)
    }

    /// What columns are sorted by.
    pub(super) fn sort_key(&self) -> (bool, &str, Kind) {
        (self.tag, &self.name, self.values.kind())
    }
}

impl Table {
    /// The rows as events of `key`, in order. Needs [`super::Projection::All`].
    pub fn events(&self, key: &str) -> Vec<Event> {
        let event = |(row, ts): (usize, &i64)| Event {
            key: key.to_owned(),
            ts: Timestamp::from_nanos(*ts),
            id: self.ids.get(row).to_owned(),
            fields: BTreeMap::new(),
            tags: BTreeMap::new(),
        };
        let mut events: Vec<Event> = self.ts.iter().enumerate().map(event).collect();
        for column in &self.columns {
            for (index, row) in column.cells() {
                let (Some(event), Some(value)) = (events.get_mut(row as usize), column.values.get(index)) else { continue };
                put(event, column, value.to_owned());
            }
        }
        events
    }
}

fn put(event: &mut Event, column: &Column, value: FieldValue) {
    match value {
        FieldValue::Str(text) if column.tag => {
            event.tags.insert(column.name.clone(), text);
        }
        value => {
            event.fields.insert(column.name.clone(), value);
        }
    }
}

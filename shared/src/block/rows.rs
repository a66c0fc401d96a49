//! Rows of one partition on their way into blocks. Owns gathering them into columns in order of
//! arrival; sorts and merges nothing.

use std::collections::HashMap;

use super::table::{Column, Kind, Presence, Strings, Table, Values};
use crate::model::{Timestamp, ValueRef};

/// Rows of one partition on their way into blocks: columns that grow, in order of arrival.
#[derive(Debug, Default)]
pub struct RowBuffer {
    ts: Vec<i64>,
    ids: Strings,
    columns: Vec<Growing>,
    fields: Names,
    tags: Names,
    bytes: usize,
}

/// A column while rows are added.
#[derive(Debug)]
struct Growing {
    name: usize,
    rows: Vec<u32>,
    values: Values,
}

/// The names of one side (fields or tags), and where their columns are.
#[derive(Debug, Default)]
struct Names {
    slots: Vec<Slot>,
    by_name: HashMap<Box<str>, usize>,
    /// The column that the previous row's i-th value went to: rows tend to be alike, and comparing
    /// one name is cheaper than finding it.
    guess: Vec<usize>,
}

#[derive(Debug)]
struct Slot {
    name: Box<str>,
    /// Column of each type.
    columns: [Option<usize>; Kind::COUNT],
    /// The last row that has a value of this name, and its column.
    last: Option<(u32, usize)>,
}

/// What a row costs beside its strings, bytes.
const ROW_BYTES: usize = 12;
/// What a value costs beside its string, bytes.
const CELL_BYTES: usize = 12;
/// What a column costs beside its values, bytes.
const COLUMN_BYTES: usize = 256;

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
        let row = self.ts.len() as u32;
        self.ts.push(ts.nanos());
        self.ids.push(id.as_bytes());
        self.bytes += ROW_BYTES + id.len();
        for (nth, (name, value)) in fields.enumerate() {
            put(&mut self.columns, &mut self.fields, &mut self.bytes, row, nth, name, value);
        }
        for (nth, (name, value)) in tags.enumerate() {
            put(&mut self.columns, &mut self.tags, &mut self.bytes, row, nth, name, ValueRef::Str(value));
        }
    }

    /// Rows inside.
    pub fn rows(&self) -> usize {
        self.ts.len()
    }

    /// Memory held, bytes, roughly.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The rows as a table, still in order of arrival.
    pub(super) fn into_table(self) -> Table {
        let count = self.ts.len();
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut growing: Vec<Option<Growing>> = self.columns.into_iter().map(Some).collect();
        for (names, tag) in [(self.fields, false), (self.tags, true)] {
            for index in names.slots.iter().flat_map(|slot| slot.columns).flatten() {
                let Some(column) = growing[index].take().filter(|column| !column.rows.is_empty()) else { continue };
                let presence = if column.rows.len() == count { Presence::All } else { Presence::Rows(column.rows) };
                columns.push(Column { name: names.slots[column.name].name.to_string(), tag, presence, values: column.values });
            }
        }
        columns.sort_unstable_by(|a, b| a.sort_key().cmp(&b.sort_key()));
        Table { ts: self.ts, ids: self.ids, columns }
    }
}

/// Puts the `nth` value of a row where it belongs.
fn put(columns: &mut Vec<Growing>, names: &mut Names, bytes: &mut usize, row: u32, nth: usize, name: &str, value: ValueRef<'_>) {
    let kind = Kind::of(&value);
    let guessed = names.guess.get(nth).copied().filter(|column| {
        let guess = &columns[*column];
        guess.values.kind() == kind && *names.slots[guess.name].name == *name
    });
    let at = guessed.unwrap_or_else(|| find(columns, names, bytes, nth, name, kind));
    let slot = &mut names.slots[columns[at].name];
    if let Some((last_row, last_column)) = slot.last
        && last_row == row
    {
        columns[last_column].pop();
    }
    slot.last = Some((row, at));
    *bytes += columns[at].push(row, value);
}

/// The column of `name` and `kind`, made if it is new; it is the next row's guess.
fn find(columns: &mut Vec<Growing>, names: &mut Names, bytes: &mut usize, nth: usize, name: &str, kind: Kind) -> usize {
    let slot = match names.by_name.get(name) {
        Some(slot) => *slot,
        None => {
            names.slots.push(Slot { name: name.into(), columns: [None; Kind::COUNT], last: None });
            names.by_name.insert(name.into(), names.slots.len() - 1);
            *bytes += COLUMN_BYTES + 2 * name.len();
            names.slots.len() - 1
        }
    };
    let column = *names.slots[slot].columns[kind as usize].get_or_insert_with(|| {
        *bytes += COLUMN_BYTES;
        columns.push(Growing { name: slot, rows: Vec::new(), values: Values::empty(kind) });
        columns.len() - 1
    });
    if names.guess.len() <= nth {
        names.guess.resize(nth + 1, column);
    }
    names.guess[nth] = column;
    column
}

impl Growing {
    /// Adds a value of the column's type; gives the bytes it takes.
    fn push(&mut self, row: u32, value: ValueRef<'_>) -> usize {
        self.rows.push(row);
        match (&mut self.values, value) {
            (Values::F64(values), ValueRef::F64(value)) => values.push(value),
            (Values::I64(values), ValueRef::I64(value)) => values.push(value),
            (Values::U64(values), ValueRef::U64(value)) => values.push(value),
            (Values::Bool(values), ValueRef::Bool(value)) => values.push(value),
            (Values::Str(values), ValueRef::Str(value)) => {
                values.push(value.as_bytes());
                return CELL_BYTES + value.len();
            }
            // Columns are found by type, so there is no other case; a row without a value is harmless.
            _ => {
                self.rows.pop();
            }
        }
        CELL_BYTES
    }

    fn pop(&mut self) {
        self.rows.pop();
        self.values.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(buffer: &mut RowBuffer, ts: i64, fields: &[(&str, ValueRef<'_>)], tags: &[(&str, &str)]) {
        buffer.push(Timestamp::from_nanos(ts), &format!("id{ts}"), fields.iter().copied(), tags.iter().copied());
    }

    #[test]
    fn of_a_field_given_twice_the_last_value_stays_whatever_its_type() {
        let mut buffer = RowBuffer::default();
        push(&mut buffer, 1, &[("x", ValueRef::I64(1)), ("x", ValueRef::Str("two"))], &[]);
        push(&mut buffer, 2, &[("x", ValueRef::I64(1)), ("x", ValueRef::I64(2))], &[]);
        let table = buffer.into_table();
        let column = |rows: Vec<u32>, values| Column { name: "x".into(), tag: false, presence: Presence::Rows(rows), values };
        let two = Strings { ends: vec![3], bytes: b"two".to_vec() };
        assert_eq!(table.columns, [column(vec![1], Values::I64(vec![2])), column(vec![0], Values::Str(two))]);
    }

    #[test]
    fn a_tag_and_a_field_of_one_name_are_two_columns() {
        let mut buffer = RowBuffer::default();
        push(&mut buffer, 1, &[("x", ValueRef::Str("field"))], &[("x", "tag")]);
        let table = buffer.into_table();
        assert_eq!(table.columns.iter().map(|column| column.tag).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn thousands_of_distinct_names_stay_sparse() {
        let mut buffer = RowBuffer::default();
        for ts in 0..4_096 {
            push(&mut buffer, ts, &[(&format!("f{ts}"), ValueRef::Bool(true))], &[]);
        }
        assert_eq!(buffer.rows(), 4_096);
        assert!(buffer.bytes() < 4_096 * 700);
        assert!(buffer.into_table().columns.iter().all(|column| column.values.len() == 1));
    }
}

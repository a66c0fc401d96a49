//! Tables end to end as one. Owns no order: the pieces come in the order of their rows.

use std::collections::HashMap;

use super::dict::{Dictionary, Translation};
use super::table::{Column, Kind, Presence, Strings, Table, Values};

/// A table that grows by pieces.
#[derive(Default)]
pub(super) struct TableBuilder {
    ts: Vec<i64>,
    ids: Strings,
    columns: Vec<Growing>,
    by_name: HashMap<(bool, Kind, String), usize>,
    /// Where the last piece's columns went: pieces tend to have the same ones.
    guess: Vec<usize>,
}

struct Growing {
    name: String,
    tag: bool,
    /// Rows with a value; empty as long as those are all from 0 on.
    rows: Vec<u32>,
    values: Pieces,
}

enum Pieces {
    /// Anything but a dictionary.
    Plain(Values),
    Dict(Dictionary, Vec<u32>),
}

/// Dictionaries up to this many entries stay dictionaries however few rows use them.
const ENTRIES_KEPT: usize = 64;

impl TableBuilder {
    /// Adds the rows of `piece` at the end.
    pub(super) fn append(&mut self, piece: Table) {
        let (base, rows) = (self.ts.len(), piece.ts.len());
        self.ts.extend_from_slice(&piece.ts);
        self.ids.extend(&piece.ids);
        for (nth, column) in piece.columns.into_iter().enumerate() {
            if !column.values.is_empty() {
                let at = self.find(nth, &column);
                self.columns[at].append(column, rows, base);
            }
        }
    }

    fn find(&mut self, nth: usize, column: &Column) -> usize {
        let kind = column.values.kind();
        let is_it = |growing: &Growing| growing.tag == column.tag && growing.values.kind() == kind && growing.name == column.name;
        if let Some(guess) = self.guess.get(nth).copied().filter(|guess| is_it(&self.columns[*guess])) {
            return guess;
        }
        let at = *self.by_name.entry((column.tag, kind, column.name.clone())).or_insert_with(|| {
            let (name, tag) = (column.name.clone(), column.tag);
            self.columns.push(Growing { name, tag, rows: Vec::new(), values: Pieces::Plain(Values::empty(kind)) });
            self.columns.len() - 1
        });
        if self.guess.len() <= nth {
            self.guess.resize(nth + 1, at);
        }
        self.guess[nth] = at;
        at
    }

    /// The whole table.
    pub(super) fn finish(self) -> Table {
        let count = self.ts.len();
        let mut columns: Vec<Column> = self.columns.into_iter().map(|column| column.finish(count)).collect();
        columns.sort_unstable_by(|a, b| a.sort_key().cmp(&b.sort_key()));
        Table { ts: self.ts, ids: self.ids, columns }
    }
}

impl Growing {
    /// Adds a column of a piece of `count` rows behind the first `base`.
    fn append(&mut self, column: Column, count: usize, base: usize) {
        let gapless = self.rows.is_empty() && self.values.len() == base && column.presence == Presence::All;
        if !gapless {
            if self.rows.is_empty() {
                self.rows.extend(0..self.values.len() as u32);
            }
            match &column.presence {
                Presence::All => self.rows.extend(base as u32..(base + count) as u32),
                Presence::Rows(rows) => self.rows.extend(rows.iter().map(|row| row + base as u32)),
            }
        }
        self.values.append(column.values);
    }

    fn finish(self, count: usize) -> Column {
        let values = self.values.finish();
        let presence = match self.rows {
            _ if values.len() == count => Presence::All,
            rows if rows.is_empty() => Presence::Rows((0..values.len() as u32).collect()),
            rows => Presence::Rows(rows),
        };
        Column { name: self.name, tag: self.tag, presence, values }
    }
}

impl Pieces {
    fn len(&self) -> usize {
        match self {
            Pieces::Plain(values) => values.len(),
            Pieces::Dict(_, indices) => indices.len(),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Pieces::Plain(values) => values.kind(),
            Pieces::Dict(..) => Kind::Str,
        }
    }

    fn append(&mut self, values: Values) {
        if let Values::Dict(entries, indices) = &values
            && self.len() == 0
        {
            *self = Pieces::Dict(Dictionary::default(), Vec::with_capacity(indices.len()));
            return self.append_dict(entries, indices);
        }
        match (&mut *self, values) {
            (Pieces::Plain(old), new) if old.is_empty() => *old = new,
            (Pieces::Dict(..), Values::Dict(entries, indices)) => self.append_dict(&entries, &indices),
            (Pieces::Dict(dictionary, indices), new) => {
                *self = Pieces::Plain(Values::Str(spelt_out(&dictionary.entries, indices)));
                self.append(new);
            }
            (Pieces::Plain(Values::F64(old)), Values::F64(new)) => old.extend_from_slice(&new),
            (Pieces::Plain(Values::I64(old)), Values::I64(new)) => old.extend_from_slice(&new),
            (Pieces::Plain(Values::U64(old)), Values::U64(new)) => old.extend_from_slice(&new),
            (Pieces::Plain(Values::Bool(old)), Values::Bool(new)) => old.extend_from_slice(&new),
            (Pieces::Plain(Values::Str(old)), Values::Str(new)) => old.extend(&new),
            (Pieces::Plain(Values::Str(old)), new) => (0..new.len()).for_each(|index| old.push(new.bytes_at(index))),
            // Columns are found by type, so there is no other case.
            (Pieces::Plain(_), _) => {}
        }
    }

    fn append_dict(&mut self, entries: &Strings, new: &[u32]) {
        if let Pieces::Dict(dictionary, indices) = self {
            let mut translation = Translation::new(entries);
            indices.extend(new.iter().map(|index| translation.translate(dictionary, *index)));
        }
    }

    fn finish(self) -> Values {
        match self {
            Pieces::Plain(values) => values,
            Pieces::Dict(dictionary, indices) if dictionary.entries.len() > ENTRIES_KEPT.max(indices.len() / 2) => {
                Values::Str(spelt_out(&dictionary.entries, &indices))
            }
            Pieces::Dict(dictionary, indices) => Values::Dict(dictionary.entries, indices),
        }
    }
}

fn spelt_out(entries: &Strings, indices: &[u32]) -> Strings {
    let mut strings = Strings { ends: Vec::with_capacity(indices.len()), bytes: Vec::new() };
    indices.iter().for_each(|index| strings.push(entries.bytes_at(*index as usize)));
    strings
}

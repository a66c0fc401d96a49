//! Some rows of a sorted table as a block's body: the column directory and the columns.
//!
//! Chooses nothing but encodings; which rows and columns make a block is the cutter's work.

use std::ops::Range;

use super::bools::put_bools;
use super::floats::put_floats;
use super::format::ColumnKind;
use super::ints::{put_ints, put_times};
use super::presence::{PresenceCode, put_presence};
use super::stamps::put_stamps;
use super::stats::put_stats;
use super::strings::{StringRun, put_strings};
use super::table::{Column, Presence, Table, Values};
use super::wire::{put_bytes, put_varint};
use crate::stamp::Stamp;

/// Rows ready to be written, ascending by identity.
#[derive(Clone, Copy)]
pub(super) struct Sorted<'a> {
    pub(super) table: &'a Table,
    /// When each row was written, where that is not the block's id.
    pub(super) stamps: Option<&'a [Stamp]>,
}

/// Directory and columns of a block.
#[derive(Default)]
pub(super) struct Body {
    pub(super) columns: usize,
    directory: Vec<u8>,
    values: Vec<u8>,
}

impl Body {
    /// The rows of `range`, with those of the `chosen` columns that have a value there.
    pub(super) fn of(rows: Sorted<'_>, range: Range<usize>, chosen: &[usize]) -> Body {
        let mut body = Body::default();
        let ids = StringRun::new(&rows.table.ids, range.clone());
        let start = body.begin(ColumnKind::Ts, PresenceCode::All);
        put_times(&mut body.values, &rows.table.ts[range.clone()]);
        body.end(start);
        let start = body.begin(ColumnKind::Ids, PresenceCode::All);
        let arena = put_strings(&mut body.values, ids, None);
        put_varint(&mut body.directory, arena as u64);
        body.end(start);
        if let Some(stamps) = rows.stamps {
            let start = body.begin(ColumnKind::Stamps, PresenceCode::All);
            put_stamps(&mut body.values, &stamps[range.clone()]);
            body.end(start);
        }
        for column in chosen {
            body.column(&rows.table.columns[*column], &range, ids);
        }
        body
    }

    /// Bytes of it all.
    pub(super) fn len(&self) -> usize {
        self.directory.len() + self.values.len()
    }

    /// Directory and columns, as they stand in a block.
    pub(super) fn parts(&self) -> [&[u8]; 2] {
        [&self.directory, &self.values]
    }

    fn begin(&mut self, kind: ColumnKind, presence: PresenceCode) -> usize {
        self.columns += 1;
        self.directory.push(kind.to_byte() | (presence as u8) << 4);
        self.values.len()
    }

    /// Ends a column whose values begin at `start`.
    fn end(&mut self, start: usize) {
        put_varint(&mut self.directory, (self.values.len() - start) as u64);
    }

    fn column(&mut self, column: &Column, rows: &Range<usize>, ids: StringRun<'_>) {
        let cells = column.cells_in(rows);
        if cells.is_empty() {
            return;
        }
        let kind = if column.tag { ColumnKind::Tag } else { ColumnKind::Field(column.values.kind()) };
        let presence = PresenceCode::smallest(cells.len(), rows.len());
        self.begin(kind, presence);
        put_bytes(&mut self.directory, column.name.as_bytes());
        if presence != PresenceCode::All {
            put_varint(&mut self.directory, cells.len() as u64);
        }
        if let Presence::Rows(present) = &column.presence {
            let offsets = present[cells.clone()].iter().map(|row| row - rows.start as u32);
            put_presence(&mut self.values, presence, offsets, rows.len());
        }
        let start = self.values.len();
        let copied = (presence == PresenceCode::All).then_some(ids);
        self.values_of(column, cells, copied, kind);
        self.end(start);
    }

    fn values_of(&mut self, column: &Column, cells: Range<usize>, ids: Option<StringRun<'_>>, kind: ColumnKind) {
        if let Some(run) = StringRun::of(&column.values, cells.clone()) {
            let arena = put_strings(&mut self.values, run, ids);
            put_varint(&mut self.directory, arena as u64);
        }
        if kind.has_stats() {
            put_stats(&mut self.directory, &column.values, cells.clone());
        }
        match &column.values {
            Values::F64(values) => put_floats(&mut self.values, &values[cells]),
            Values::I64(values) => put_ints(&mut self.values, &values[cells]),
            Values::U64(values) => put_ints(&mut self.values, &values[cells].iter().map(|v| *v as i64).collect::<Vec<_>>()),
            Values::Bool(values) => put_bools(&mut self.values, &values[cells]),
            Values::Str(_) | Values::Dict(..) => {}
        }
    }
}

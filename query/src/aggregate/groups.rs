//! The groups of an aggregate: which rows of a table belong to which, and each group's cells.

use std::collections::HashMap;

use braid_shared::block::{Column, Presence, Table, Values};
use braid_shared::limits::{ANSWER_GROUPS_MAX, ANSWER_ROWS_MAX};
use smallvec::SmallVec;

use super::TooLarge;
use super::cell::Cell;

/// A row that belongs to no group: the filter refused it.
pub(super) const NO_GROUP: u32 = u32::MAX;

/// Values of the tags that are grouped by; `None` where an event does not have the tag.
pub(super) type GroupName = Vec<Option<String>>;

/// Groups by number, each with a cell per step.
#[derive(Debug, Default)]
pub(super) struct Groups {
    steps: usize,
    codes: HashMap<String, u32>,
    texts: Vec<String>,
    numbers: HashMap<SmallVec<[u32; 4]>, u32>,
    names: Vec<GroupName>,
    cells: Vec<Vec<Cell>>,
}

impl Groups {
    pub(super) fn new(steps: usize) -> Groups {
        Groups { steps, ..Groups::default() }
    }

    /// The cells of a group.
    pub(super) fn cells(&mut self, group: u32) -> &mut [Cell] {
        &mut self.cells[group as usize]
    }

    /// Groups and their cells.
    pub(super) fn into_cells(self) -> impl Iterator<Item = (GroupName, Vec<Cell>)> {
        self.names.into_iter().zip(self.cells)
    }

    /// The group of this name, made where there is none.
    pub(super) fn named(&mut self, name: &GroupName) -> Result<u32, TooLarge> {
        let codes = name.iter().map(|text| text.as_deref().map_or(0, |text| self.code(text))).collect();
        self.numbered(codes)
    }

    /// The group of every row of a table; [`NO_GROUP`] where `passing` says no.
    pub(super) fn of_rows(&mut self, table: &Table, tags: &[String], passing: Option<&[bool]>) -> Result<Vec<u32>, TooLarge> {
        let passes = |row: usize| passing.is_none_or(|passing| passing[row]);
        let codes: Vec<Vec<u32>> = tags.iter().map(|tag| self.codes(table, tag, passes)).collect();
        let mut groups = Vec::with_capacity(table.ts.len());
        let mut before: Option<(SmallVec<[u32; 4]>, u32)> = None;
        for row in 0..table.ts.len() {
            if !passes(row) {
                groups.push(NO_GROUP);
                continue;
            }
            let key: SmallVec<[u32; 4]> = codes.iter().map(|codes| codes[row]).collect();
            let group = match &before {
                Some((same, group)) if *same == key => *group,
                _ => self.numbered(key.clone())?,
            };
            before = Some((key, group));
            groups.push(group);
        }
        Ok(groups)
    }

    /// The code of a tag's value in every row that passes. A text of a dictionary is looked up once.
    fn codes(&mut self, table: &Table, tag: &str, passes: impl Fn(usize) -> bool) -> Vec<u32> {
        let mut codes = vec![0; table.ts.len()];
        for column in table.columns.iter().filter(|column| column.tag && column.name == tag) {
            let mut of_entries = match &column.values {
                Values::Dict(entries, _) => vec![None; entries.len()],
                _ => Vec::new(),
            };
            for i in 0..column.values.len() {
                let row = row_of(column, i);
                if !passes(row) {
                    continue;
                }
                codes[row] = match &column.values {
                    Values::Dict(entries, indices) => {
                        let entry = indices[i] as usize;
                        *of_entries[entry].get_or_insert_with(|| self.code(entries.get(entry)))
                    }
                    Values::Str(texts) => self.code(texts.get(i)),
                    _ => 0,
                };
            }
        }
        codes
    }

    /// A number for a tag's value, from 1; 0 stands for its absence. Only values of rows that are
    /// grouped have one, so a table adds at most its rows before a bound is noticed.
    fn code(&mut self, text: &str) -> u32 {
        if let Some(code) = self.codes.get(text) {
            return *code;
        }
        self.texts.push(text.to_owned());
        let code = self.texts.len() as u32;
        self.codes.insert(text.to_owned(), code);
        code
    }

    fn numbered(&mut self, codes: SmallVec<[u32; 4]>) -> Result<u32, TooLarge> {
        if let Some(number) = self.numbers.get(&codes) {
            return Ok(*number);
        }
        let number = self.names.len();
        if number >= ANSWER_GROUPS_MAX {
            return Err(TooLarge(format!("more than {ANSWER_GROUPS_MAX} groups")));
        }
        if (number + 1).saturating_mul(self.steps) > ANSWER_ROWS_MAX {
            return Err(TooLarge(format!("more than {ANSWER_ROWS_MAX} rows (groups times steps)")));
        }
        let text = |code: &u32| code.checked_sub(1).map(|i| self.texts[i as usize].clone());
        self.names.push(codes.iter().map(text).collect());
        self.numbers.insert(codes, number as u32);
        self.cells.push(vec![Cell::default(); self.steps]);
        Ok(number as u32)
    }
}

/// The row of the i-th value of a column.
pub(super) fn row_of(column: &Column, i: usize) -> usize {
    match &column.presence {
        Presence::All => i,
        Presence::Rows(rows) => rows[i] as usize,
    }
}

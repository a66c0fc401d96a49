//! The groups of an aggregate: which rows of a table belong to which, and each group's cells.

use std::collections::HashMap;

use braid_shared::block::Table;
use braid_shared::limits::{ANSWER_GROUPS_MAX, ANSWER_ROWS_MAX};
use smallvec::SmallVec;

use super::TooLarge;
use super::cell::Cell;
use crate::filter::for_each_text;

/// A row that belongs to no group: the filter refused it.
pub(super) const NO_GROUP: u32 = u32::MAX;

/// Values of the tags that are grouped by; `None` where an event does not have the tag.
pub(super) type GroupName = Vec<Option<String>>;

/// Groups by number, each with a cell per step.
#[derive(Debug, Default)]
pub(super) struct Groups {
    steps: usize,
    texts: HashMap<String, u32>,
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
        self.numbered(codes, || name.clone())
    }

    /// The group of every row of a table; [`NO_GROUP`] where `passing` says no.
    pub(super) fn of_rows(&mut self, table: &Table, tags: &[String], passing: Option<&[bool]>) -> Result<Vec<u32>, TooLarge> {
        let passes = |row: usize| passing.is_none_or(|passing| passing[row]);
        let mut texts: Vec<Vec<Option<&str>>> = vec![vec![None; table.ts.len()]; tags.len()];
        for (texts, tag) in texts.iter_mut().zip(tags) {
            let columns = table.columns.iter().filter(|column| column.tag && column.name == *tag);
            columns.for_each(|column| for_each_text(column, |row, text| texts[row] = Some(text)));
        }
        (0..table.ts.len())
            .map(|row| {
                if !passes(row) {
                    return Ok(NO_GROUP);
                }
                let codes = texts.iter().map(|texts| texts[row].map_or(0, |text| self.code(text))).collect();
                self.numbered(codes, || texts.iter().map(|texts| texts[row].map(str::to_owned)).collect())
            })
            .collect()
    }

    /// A number for a tag's value, from 1; 0 stands for its absence. There are no more of them
    /// than groups times tags, since a new one makes a new group or ends the query.
    fn code(&mut self, text: &str) -> u32 {
        if let Some(code) = self.texts.get(text) {
            return *code;
        }
        let code = self.texts.len() as u32 + 1;
        self.texts.insert(text.to_owned(), code);
        code
    }

    fn numbered(&mut self, codes: SmallVec<[u32; 4]>, name: impl FnOnce() -> GroupName) -> Result<u32, TooLarge> {
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
        self.numbers.insert(codes, number as u32);
        self.names.push(name());
        self.cells.push(vec![Cell::default(); self.steps]);
        Ok(number as u32)
    }
}

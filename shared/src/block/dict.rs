//! Bringing dictionaries of several columns together as one.

use std::collections::HashMap;

use super::table::Strings;

/// A dictionary that grows.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    pub(super) entries: Strings,
    known: HashMap<Box<[u8]>, u32>,
}

/// Indices of another dictionary in a [`Dictionary`], found as they are needed.
pub(super) struct Translation<'a> {
    from: &'a Strings,
    to: Vec<u32>,
}

const NOT_YET: u32 = u32::MAX;

impl Dictionary {
    fn index_of(&mut self, text: &[u8]) -> u32 {
        if let Some(index) = self.known.get(text) {
            return *index;
        }
        let index = self.entries.len() as u32;
        self.entries.push(text);
        self.known.insert(text.into(), index);
        index
    }
}

impl<'a> Translation<'a> {
    pub(super) fn new(from: &'a Strings) -> Translation<'a> {
        Translation { from, to: vec![NOT_YET; from.len()] }
    }

    /// The index in `dictionary` of what is `index` in the other one.
    pub(super) fn translate(&mut self, dictionary: &mut Dictionary, index: u32) -> u32 {
        let known = &mut self.to[index as usize];
        if *known == NOT_YET {
            *known = dictionary.index_of(self.from.bytes_at(index as usize));
        }
        *known
    }
}

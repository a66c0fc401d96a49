//! Strings: constant, the same as the ids, a dictionary, or plain (the prefix they share, their
//! lengths, the rest squeezed).
//!
//! What is read is UTF-8, string by string, and exactly as long in all as the directory says.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use super::BlockError;
use super::bits::{pack, packed_len, unpack, width_of};
use super::ints::{put_ints, take_constant, take_ints};
use super::squeeze::{find_pieces, put_blob, take_blob};
use super::table::{Strings, Values};
use super::wire::{Reader, put_bytes, put_varint};

const CONSTANT: u8 = 0;
const SAME_AS_IDS: u8 = 1;
const DICTIONARY: u8 = 2;
const PLAIN: u8 = 3;

/// Most entries of a dictionary.
const ENTRIES_MAX: usize = 1_024;

/// Rows after which a dictionary with an entry for more than half of them is given up.
const PATIENCE_ROWS: usize = 32;

const NOT_UTF8: BlockError = BlockError::Damaged("a string that is not UTF-8");

/// Some strings of a column.
#[derive(Clone, Copy)]
pub(super) struct StringRun<'a> {
    entries: &'a Strings,
    /// Which entry each row has; in order where there are none.
    indices: Option<&'a [u32]>,
    start: usize,
    len: usize,
}

impl<'a> StringRun<'a> {
    /// Strings `range`.
    pub(super) fn new(strings: &'a Strings, range: Range<usize>) -> StringRun<'a> {
        StringRun { entries: strings, indices: None, start: range.start, len: range.len() }
    }

    /// Strings `range` of a column; `None` for other types.
    pub(super) fn of(values: &'a Values, range: Range<usize>) -> Option<StringRun<'a>> {
        match values {
            Values::Str(strings) => Some(StringRun::new(strings, range)),
            Values::Dict(entries, indices) => Some(StringRun { indices: Some(indices), ..StringRun::new(entries, range) }),
            _ => None,
        }
    }

    fn at(&self, index: usize) -> &'a [u8] {
        let index = self.start + index;
        self.entries.bytes_at(self.indices.map_or(index, |indices| indices[index] as usize))
    }

    fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        (0..self.len).map(move |index| self.at(index))
    }

    fn equals(&self, other: &StringRun<'_>) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

/// Appends strings; gives the bytes they decode to in all, which the directory keeps. `ids` are
/// those of the same rows, where the strings may be a copy of them.
pub(super) fn put_strings(out: &mut Vec<u8>, run: StringRun<'_>, ids: Option<StringRun<'_>>) -> usize {
    if let Some(ids) = ids
        && run.equals(&ids)
    {
        out.push(SAME_AS_IDS);
        return run.iter().map(<[u8]>::len).sum();
    }
    match dictionary(run) {
        Some((entries, _)) if entries.len() == 1 => {
            out.push(CONSTANT);
            put_bytes(out, &entries.bytes);
            entries.bytes.len()
        }
        Some((entries, indices)) => {
            out.push(DICTIONARY);
            put_varint(out, entries.len() as u64);
            let (count, arena) = (entries.len(), entries.bytes.len());
            put_plain(out, StringRun::new(&entries, 0..count));
            pack(out, width_of(count as u64 - 1), indices.iter().map(|index| u64::from(*index)));
            arena
        }
        None => {
            out.push(PLAIN);
            put_plain(out, run)
        }
    }
}

/// The distinct strings in order of appearance and an index for each row, if they are few.
fn dictionary(run: StringRun<'_>) -> Option<(Strings, Vec<u32>)> {
    if run.len == 0 {
        return None;
    }
    let most = (run.len / 2).clamp(1, ENTRIES_MAX);
    let mut slots = vec![0u32; (most * 2 + 2).next_power_of_two()];
    let mut entries = Strings::default();
    let mut indices: Vec<u32> = Vec::with_capacity(run.len);
    for (row, text) in run.iter().enumerate() {
        if let Some(last) = indices.last()
            && entries.bytes_at(*last as usize) == text
        {
            indices.push(*last);
            continue;
        }
        let index = entry(&mut slots, &mut entries, text);
        let given_up = row >= PATIENCE_ROWS && entries.len() * 2 > row;
        if entries.len() > most || given_up {
            return None;
        }
        indices.push(index);
    }
    Some((entries, indices))
}

/// The index of `text` among `entries`, added if it is new. `slots` (index + 1, or 0) is an open
/// hash table that is never more than half full.
fn entry(slots: &mut [u32], entries: &mut Strings, text: &[u8]) -> u32 {
    let mask = slots.len() - 1;
    let mut slot = xxh3_64(text) as usize & mask;
    loop {
        match slots[slot] {
            0 => {
                entries.push(text);
                slots[slot] = entries.len() as u32;
                return slots[slot] - 1;
            }
            taken if entries.bytes_at(taken as usize - 1) == text => return taken - 1,
            _ => slot = (slot + 1) & mask,
        }
    }
}

fn put_plain(out: &mut Vec<u8>, run: StringRun<'_>) -> usize {
    let first = if run.len > 1 { run.at(0) } else { &[] };
    let shared = run.iter().fold(first.len(), |shared, text| first[..shared].iter().zip(text).take_while(|(a, b)| a == b).count());
    let (mut lengths, mut rest) = (Vec::with_capacity(run.len), Vec::new());
    for text in run.iter() {
        lengths.push((text.len() - shared) as i64);
        rest.extend_from_slice(&text[shared..]);
    }
    put_bytes(out, &first[..shared]);
    put_ints(out, &lengths);
    put_blob(out, &rest);
    rest.len() + shared * run.len
}

/// Whether what comes next are the block's ids once more.
pub(super) fn copies_ids(reader: &Reader<'_>) -> bool {
    reader.clone().u8() == Ok(SAME_AS_IDS)
}

/// Reads strings `part` of `n`, which are of `arena` bytes in all (as [`put_strings`] gave it);
/// `ids` are the ids of the same rows, if they are at hand.
pub(super) fn take_strings(
    reader: &mut Reader<'_>,
    n: usize,
    part: Range<usize>,
    arena: usize,
    ids: Option<&Strings>,
) -> Result<Values, BlockError> {
    match reader.u8()? {
        CONSTANT => {
            let mut entries = Strings::default();
            entries.push(reader.bytes(arena)?);
            check_utf8(&entries)?;
            Ok(Values::Dict(entries, vec![0; part.len()]))
        }
        SAME_AS_IDS => match ids {
            Some(ids) if ids.len() == part.len() => Ok(Values::Str(ids.clone())),
            _ => Err(BlockError::Damaged("a copy of ids that are not there")),
        },
        DICTIONARY => {
            let count = reader.varint_up_to(n.min(ENTRIES_MAX))?;
            let entries = take_plain(reader, count, 0..count, arena)?;
            let width = width_of((count as u64).saturating_sub(1));
            let indices: Vec<u32> = unpack(reader.take(packed_len(n, width))?, part, width).map(|index| index as u32).collect();
            if indices.iter().any(|index| *index as usize >= count) {
                return Err(BlockError::Damaged("an index beyond its dictionary"));
            }
            Ok(Values::Dict(entries, indices))
        }
        PLAIN => Ok(Values::Str(take_plain(reader, n, part, arena)?)),
        _ => Err(BlockError::Damaged("an unknown encoding of strings")),
    }
}

/// Which of `n` strings are `wanted`; of one length, they are compared as they are stored.
pub(super) fn find_string(reader: &mut Reader<'_>, n: usize, arena: usize, wanted: &[u8]) -> Result<Vec<usize>, BlockError> {
    let mut ahead = reader.clone();
    if ahead.u8()? == PLAIN
        && let Some(found) = find_plain(&mut ahead, n, arena, wanted)?
    {
        *reader = ahead;
        return Ok(found);
    }
    let strings = take_strings(reader, n, 0..n, arena, None)?;
    Ok((0..n).filter(|index| strings.bytes_at(*index) == wanted).collect())
}

/// `None` where they are not of one length, or differ in nothing.
fn find_plain(reader: &mut Reader<'_>, n: usize, arena: usize, wanted: &[u8]) -> Result<Option<Vec<usize>>, BlockError> {
    let shared = reader.bytes(arena)?;
    let lengths = Lengths::take(reader, n)?;
    let total = lengths.checked_total(n, shared.len(), arena)?;
    let Lengths::Same(length @ 1..) = lengths else { return Ok(None) };
    let rest = wanted.strip_prefix(shared).filter(|rest| rest.len() == length as usize);
    let Some(rest) = rest else {
        take_blob(reader, total, 0..0)?;
        return Ok(Some(Vec::new()));
    };
    find_pieces(reader, total, rest).map(Some)
}

fn take_plain(reader: &mut Reader<'_>, n: usize, part: Range<usize>, arena: usize) -> Result<Strings, BlockError> {
    let shared = reader.bytes(arena)?;
    let lengths = Lengths::take(reader, n)?;
    let total = lengths.checked_total(n, shared.len(), arena)?;
    let (before, inside) = (lengths.sum(0..part.start), lengths.sum(part.clone()));
    let rest = take_blob(reader, total, before..before + inside)?;
    let mut strings = Strings { ends: Vec::with_capacity(part.len()), bytes: Vec::with_capacity(inside + part.len() * shared.len()) };
    let mut at = 0;
    for index in part {
        let end = at + lengths.at(index);
        strings.bytes.extend_from_slice(shared);
        strings.push(&rest[at..end]);
        at = end;
    }
    check_utf8(&strings)?;
    Ok(strings)
}

/// What each string adds to the prefix that all share.
enum Lengths {
    /// All the same: ids mostly are, and few of them are then found without a look at the others.
    Same(i64),
    Each(Vec<i64>),
}

impl Lengths {
    fn take(reader: &mut Reader<'_>, n: usize) -> Result<Lengths, BlockError> {
        match take_constant(reader)? {
            Some(length) => Ok(Lengths::Same(length)),
            None => Ok(Lengths::Each(take_ints(reader, n, 0..n)?)),
        }
    }

    /// The sum of all `n`, if none is negative and with the shared prefix they make up the arena.
    fn checked_total(&self, n: usize, shared: usize, arena: usize) -> Result<usize, BlockError> {
        let fits = |length: i64| usize::try_from(length).ok().filter(|length| *length <= arena);
        let total = match self {
            Lengths::Same(length) => fits(*length).and_then(|length| length.checked_mul(n)),
            Lengths::Each(lengths) => lengths.iter().try_fold(0usize, |total, length| total.checked_add(fits(*length)?)),
        };
        let total = total.ok_or(BlockError::Damaged("a string longer than its arena"))?;
        let whole = n.checked_mul(shared).and_then(|prefixes| prefixes.checked_add(total));
        if whole == Some(arena) { Ok(total) } else { Err(BlockError::Damaged("strings that do not fill their arena")) }
    }

    // The following are asked only after `checked_total`: none is negative, and their sums fit.

    fn at(&self, index: usize) -> usize {
        match self {
            Lengths::Same(length) => *length as usize,
            Lengths::Each(lengths) => lengths[index] as usize,
        }
    }

    fn sum(&self, part: Range<usize>) -> usize {
        match self {
            Lengths::Same(length) => *length as usize * part.len(),
            Lengths::Each(lengths) => lengths[part].iter().sum::<i64>() as usize,
        }
    }
}

fn check_utf8(strings: &Strings) -> Result<(), BlockError> {
    if strings.bytes.is_ascii() {
        return Ok(());
    }
    let text = std::str::from_utf8(&strings.bytes).map_err(|_| NOT_UTF8)?;
    if strings.ends.iter().all(|end| text.is_char_boundary(*end as usize)) { Ok(()) } else { Err(NOT_UTF8) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(texts: &[&str]) -> Strings {
        let mut strings = Strings::default();
        texts.iter().for_each(|text| strings.push(text.as_bytes()));
        strings
    }

    fn back(texts: &[&str]) -> Vec<u8> {
        let values = strings(texts);
        let mut out = Vec::new();
        let arena = put_strings(&mut out, StringRun::new(&values, 0..texts.len()), None);
        let mut reader = Reader::new(&out);
        let n = texts.len();
        let read = take_strings(&mut reader, n, 0..n, arena, None).unwrap();
        assert_eq!(reader.finish(), Ok(()));
        for part in [0..n / 2, n / 3..n, n / 2..n / 2 + 1, n..n] {
            let read = take_strings(&mut Reader::new(&out), n, part.clone(), arena, None).unwrap();
            let read: Vec<&[u8]> = (0..part.len()).map(|index| read.bytes_at(index)).collect();
            assert_eq!(read, texts[part].iter().map(|text| text.as_bytes()).collect::<Vec<_>>());
        }
        for wanted in texts.iter().copied().chain(["", "a", "e-22 ", "E-000001"]) {
            let found = find_string(&mut Reader::new(&out), n, arena, wanted.as_bytes());
            assert_eq!(found, Ok((0..n).filter(|index| texts[*index] == wanted).collect()));
        }
        let read: Vec<&[u8]> = (0..texts.len()).map(|index| read.bytes_at(index)).collect();
        assert_eq!(read, texts.iter().map(|text| text.as_bytes()).collect::<Vec<_>>());
        out
    }

    #[test]
    fn few_distinct_strings_become_a_dictionary_with_packed_indices() {
        let texts: Vec<&str> = (0..800).map(|i| ["eu", "us", "asia", "af"][i * i % 4]).collect();
        let out = back(&texts);
        assert_eq!(out[0], DICTIONARY);
        assert!(out.len() < 200 + 20, "{}", out.len());
    }

    #[test]
    fn strings_of_every_shape_come_back() {
        assert_eq!(back(&["x"; 9]), [CONSTANT, 1, b'x']);
        back(&["", "a", "", "b", "c", "d"]);
        back(&["e-1", "e-22", "e-333", "e-", "é", "ü\0"]);
        back(&["ä", "å"]);
        let many: Vec<String> = (0..2_000).map(|i| format!("e-{i:06}")).collect();
        assert!(back(&many.iter().map(String::as_str).collect::<Vec<_>>()).len() < 6_000);
    }

    #[test]
    fn a_copy_of_the_ids_costs_one_byte() {
        let ids = strings(&["a", "b", "c"]);
        let run = StringRun::new(&ids, 0..3);
        let mut out = Vec::new();
        assert_eq!(put_strings(&mut out, run, Some(run)), 3);
        assert_eq!(out, [SAME_AS_IDS]);
    }

    #[test]
    fn strings_cut_inside_a_character_are_damage() {
        let mut out = vec![PLAIN];
        put_bytes(&mut out, b"");
        put_ints(&mut out, &[1, 1]);
        put_blob(&mut out, "é".as_bytes());
        assert_eq!(take_strings(&mut Reader::new(&out), 2, 0..2, 2, None), Err(NOT_UTF8));
    }
}

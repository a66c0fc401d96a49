//! Which rows of a block a column has values for: all, a bitmap, or a list, whichever is smaller.

use super::BlockError;
use super::bits::{pack, packed_len, unpack, width_of};
use super::table::Presence;

/// How a column's presence is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PresenceCode {
    All,
    Bitmap,
    List,
}

impl PresenceCode {
    pub(super) fn from_byte(byte: u8) -> Option<PresenceCode> {
        [PresenceCode::All, PresenceCode::Bitmap, PresenceCode::List].into_iter().find(|code| *code as u8 == byte)
    }

    /// Bytes it takes for `present` of `count` rows.
    pub(super) fn len(self, present: usize, count: usize) -> usize {
        match self {
            PresenceCode::All => 0,
            PresenceCode::Bitmap => count.div_ceil(8),
            PresenceCode::List => packed_len(present, row_width(count)),
        }
    }

    /// The smallest for `present` of `count` rows.
    pub(super) fn smallest(present: usize, count: usize) -> PresenceCode {
        if present == count {
            PresenceCode::All
        } else if PresenceCode::List.len(present, count) < PresenceCode::Bitmap.len(present, count) {
            PresenceCode::List
        } else {
            PresenceCode::Bitmap
        }
    }
}

fn row_width(count: usize) -> u32 {
    width_of((count as u64).saturating_sub(1))
}

/// Appends ascending rows below `count`.
pub(super) fn put_presence(out: &mut Vec<u8>, code: PresenceCode, rows: impl Iterator<Item = u32>, count: usize) {
    match code {
        PresenceCode::All => {}
        PresenceCode::Bitmap => {
            let start = out.len();
            out.resize(start + count.div_ceil(8), 0);
            rows.for_each(|row| out[start + row as usize / 8] |= 1 << (row % 8));
        }
        PresenceCode::List => pack(out, row_width(count), rows.map(u64::from)),
    }
}

/// Reads `present` rows below `count` from exactly the bytes that [`PresenceCode::len`] says.
pub(super) fn take_presence(bytes: &[u8], code: PresenceCode, present: usize, count: usize) -> Result<Presence, BlockError> {
    let mut rows = Vec::with_capacity(present.min(count));
    match code {
        PresenceCode::All => return Ok(Presence::All),
        PresenceCode::Bitmap => {
            let set = |row: &u32| bytes.get(*row as usize / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1);
            rows.extend((0..count as u32).filter(set));
        }
        PresenceCode::List => rows.extend(unpack(bytes, 0..present, row_width(count)).map(|row| row as u32)),
    }
    let ascending = rows.windows(2).all(|pair| pair[0] < pair[1]);
    let below = rows.last().is_none_or(|last| (*last as usize) < count);
    if rows.len() == present && ascending && below { Ok(Presence::Rows(rows)) } else { Err(BlockError::Damaged("impossible rows")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(rows: &[u32], count: usize) -> (PresenceCode, Vec<u8>) {
        let code = PresenceCode::smallest(rows.len(), count);
        let mut out = Vec::new();
        put_presence(&mut out, code, rows.iter().copied(), count);
        assert_eq!(out.len(), code.len(rows.len(), count));
        assert_eq!(take_presence(&out, code, rows.len(), count), Ok(Presence::Rows(rows.to_vec())));
        (code, out)
    }

    #[test]
    fn one_row_of_thousands_takes_two_bytes() {
        assert_eq!(back(&[4_095], 4_096), (PresenceCode::List, vec![0xff, 0x0f]));
    }

    #[test]
    fn every_second_row_takes_a_bitmap() {
        assert_eq!(back(&[0, 2, 4, 6, 8], 10), (PresenceCode::Bitmap, vec![0x55, 0x01]));
    }

    #[test]
    fn rows_that_repeat_fall_or_lie_beyond_are_damage() {
        for bytes in [[0x33], [0x01], [0xf0]] {
            assert!(take_presence(&bytes, PresenceCode::List, 2, 14).is_err());
        }
        assert!(take_presence(&[0x03], PresenceCode::Bitmap, 1, 8).is_err());
    }
}

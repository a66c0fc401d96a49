//! Booleans: constant, or a bit each.

use std::ops::Range;

use super::BlockError;
use super::bits::{pack, packed_len, unpack};
use super::wire::Reader;

const CONSTANT: u8 = 0;
const PACKED: u8 = 1;

/// Appends booleans; their count is not stored.
pub(super) fn put_bools(out: &mut Vec<u8>, values: &[bool]) {
    if let Some(first) = values.first()
        && values.iter().all(|value| value == first)
    {
        out.extend_from_slice(&[CONSTANT, u8::from(*first)]);
    } else {
        out.push(PACKED);
        pack(out, 1, values.iter().map(|value| u64::from(*value)));
    }
}

/// Reads `part` of `n` booleans.
pub(super) fn take_bools(reader: &mut Reader<'_>, n: usize, part: Range<usize>) -> Result<Vec<bool>, BlockError> {
    match reader.u8()? {
        CONSTANT => Ok(vec![reader.u8()? != 0; part.len()]),
        PACKED => Ok(unpack(reader.take(packed_len(n, 1))?, part, 1).map(|bit| bit == 1).collect()),
        _ => Err(BlockError::Damaged("an unknown encoding of booleans")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_take_a_bit_each_or_none_where_all_are_equal() {
        for (values, bytes) in [(vec![true; 99], vec![CONSTANT, 1]), (vec![true, false, true], vec![PACKED, 0b101])] {
            let mut out = Vec::new();
            put_bools(&mut out, &values);
            assert_eq!(out, bytes);
            assert_eq!(take_bools(&mut Reader::new(&out), values.len(), 1..3).as_deref(), Ok(&values[1..3]));
            assert_eq!(take_bools(&mut Reader::new(&out), values.len(), 0..values.len()), Ok(values));
        }
    }
}

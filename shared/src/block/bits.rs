//! Bit-packing: n numbers of one width, lowest bit first. Knows nothing of what they mean.

use std::ops::Range;

/// Widths above this are stored as whole 64-bit words, so that any value lies within the eight
/// bytes that begin where its first bit is.
const WIDTH_PACKED_MAX: u32 = 56;

/// Bits a number up to `max` takes.
pub(super) fn width_of(max: u64) -> u32 {
    let width = u64::BITS - max.leading_zeros();
    if width > WIDTH_PACKED_MAX { u64::BITS } else { width }
}

/// Whether `width` is one that [`width_of`] gives.
pub(super) fn is_width(width: u32) -> bool {
    width <= WIDTH_PACKED_MAX || width == u64::BITS
}

/// Bytes that `n` numbers of `width` bits take.
pub(super) fn packed_len(n: usize, width: u32) -> usize {
    (n * width as usize).div_ceil(8)
}

/// Appends numbers, each below 2^width.
pub(super) fn pack(out: &mut Vec<u8>, width: u32, values: impl Iterator<Item = u64>) {
    if width == 0 {
        return;
    }
    if width == u64::BITS {
        values.for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
        return;
    }
    let (mut word, mut filled) = (0u64, 0u32);
    for value in values {
        word |= value << filled;
        filled += width;
        if filled >= u64::BITS {
            out.extend_from_slice(&word.to_le_bytes());
            filled -= u64::BITS;
            word = value.checked_shr(width - filled).unwrap_or(0);
        }
    }
    out.extend_from_slice(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// Numbers `part` of those of `width` bits in `bytes`; what lies behind the bytes reads as 0.
pub(super) fn unpack(bytes: &[u8], part: Range<usize>, width: u32) -> impl Iterator<Item = u64> + use<> {
    let mask = if width == 0 { 0 } else { u64::MAX >> (u64::BITS - width) };
    let width = width as usize;
    let (first, last) = (part.start * width / 8, (part.end * width).div_ceil(8));
    let bytes = bytes.get(first..last.min(bytes.len())).unwrap_or_default();
    // A word can then be read wherever a number begins, so the loop has no special last rounds.
    let mut padded = Vec::with_capacity(bytes.len() + 8);
    padded.extend_from_slice(bytes);
    padded.extend_from_slice(&[0; 8]);
    part.map(move |index| {
        let bit = index * width - first * 8;
        let word = padded.get(bit / 8..bit / 8 + 8).and_then(<[u8]>::first_chunk::<8>);
        word.map_or(0, |word| (u64::from_le_bytes(*word) >> (bit % 8)) & mask)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_bit_numbers_lie_lowest_bit_first() {
        let mut out = Vec::new();
        pack(&mut out, 3, [1, 2, 3, 4, 5].into_iter());
        // 001 | 010 << 3 | 011 << 6 | 100 << 9 | 101 << 12
        assert_eq!(out, [0xd1, 0x58]);
    }

    #[test]
    fn numbers_of_every_width_and_count_come_back() {
        for width in (0..=64).filter(|w| is_width(*w)) {
            for n in [0, 1, 2, 7, 8, 9, 63, 64, 65, 200] {
                let mask = if width == 0 { 0 } else { u64::MAX >> (64 - width) };
                let values: Vec<u64> = (0..n as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) & mask).collect();
                let mut out = Vec::new();
                pack(&mut out, width, values.iter().copied());
                assert_eq!(out.len(), packed_len(n, width));
                assert_eq!(unpack(&out, 0..n, width).collect::<Vec<_>>(), values, "width {width}, {n} values");
                for part in [0..n / 2, n / 3..n, n / 2..n / 2, n..n] {
                    assert_eq!(unpack(&out, part.clone(), width).collect::<Vec<_>>(), values[part], "width {width}, {n} values");
                }
            }
        }
    }
}

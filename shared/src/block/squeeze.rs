//! General compression of a run of bytes whose length the reader knows: as they are, two hex
//! digits a byte, or zstd. Contexts are kept per thread; nothing else is.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

use super::BlockError;
use super::wire::{Reader, put_bytes};

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
const HEX: u8 = 2;

/// Shorter runs are not worth zstd's time and frame.
const ZSTD_BYTES_MIN: usize = 64;

/// zstd's fastest regular level: its entropy stage does most of the work on ids.
const ZSTD_LEVEL: i32 = 1;

/// Bits of entropy a hex digit has from which zstd can't do better than half a byte a digit.
const HEX_ENTROPY_MIN: f64 = 3.9;

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Appends `bytes`, squeezed where that helps; their length is not stored.
pub(super) fn put_blob(out: &mut Vec<u8>, bytes: &[u8]) {
    let counts = counts(bytes);
    let hex = counts.iter().zip(&HEX_DIGITS).all(|(count, digit)| *count == 0 || *digit != NO_DIGIT);
    let hex_len = if hex { bytes.len().div_ceil(2) } else { bytes.len() };
    if bytes.len() >= ZSTD_BYTES_MIN && !(hex && entropy(&counts, bytes.len()) >= HEX_ENTROPY_MIN) {
        let mark = out.len();
        out.push(ZSTD);
        // Two bytes are the length in front.
        if compress(bytes, hex_len.saturating_sub(2), |squeezed| put_bytes(out, squeezed)) {
            return;
        }
        out.truncate(mark);
    }
    if hex && !bytes.is_empty() {
        out.push(HEX);
        out.extend(packed_digits(bytes));
    } else {
        out.push(PLAIN);
        out.extend_from_slice(bytes);
    }
}

/// Hex digits, two a byte.
fn packed_digits(digits: &[u8]) -> impl Iterator<Item = u8> {
    let digit = |byte: u8| HEX_DIGITS[usize::from(byte)];
    digits.chunks(2).map(move |pair| digit(pair[0]) | pair.get(1).map_or(0, |high| digit(*high) << 4))
}

/// How often each byte occurs; two tables, as equal bytes often are neighbours and would wait for
/// each other.
fn counts(bytes: &[u8]) -> [u32; 256] {
    let (mut even, mut odd) = ([0u32; 256], [0u32; 256]);
    for pair in bytes.chunks(2) {
        even[usize::from(pair[0])] += 1;
        if let Some(second) = pair.get(1) {
            odd[usize::from(*second)] += 1;
        }
    }
    std::array::from_fn(|byte| even[byte] + odd[byte])
}

/// Hands `put` the zstd frame of `bytes` if it is shorter than `worth`; whether it was.
fn compress(bytes: &[u8], worth: usize, put: impl FnOnce(&[u8])) -> bool {
    COMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Compressor::new(ZSTD_LEVEL).ok();
            // The reader knows the length, and the block has a checksum of its own.
            if let Some(compressor) = slot {
                let _ = compressor.set_parameter(CParameter::ContentSizeFlag(false));
            }
        }
        let Some(compressor) = slot else { return false };
        let mut frame = Vec::with_capacity(zstd::zstd_safe::compress_bound(bytes.len()));
        match compressor.compress_to_buffer(bytes, &mut frame) {
            Ok(len) if len < worth => {
                put(&frame);
                true
            }
            _ => false,
        }
    })
}

/// Entropy of single bytes, bits each.
fn entropy(counts: &[u32; 256], total: usize) -> f64 {
    let share = |count: &u32| f64::from(*count) / total as f64;
    counts.iter().filter(|count| **count > 0).map(share).map(|share| -share * share.log2()).sum()
}

/// Reads `part` of a run of exactly `len` bytes; the caller has bounded `len`.
pub(super) fn take_blob<'a>(reader: &mut Reader<'a>, len: usize, part: Range<usize>) -> Result<Cow<'a, [u8]>, BlockError> {
    match reader.u8()? {
        PLAIN => Ok(Cow::Borrowed(&reader.take(len)?[part])),
        ZSTD => {
            let mut bytes = decompress(reader.bytes(reader.left())?, len)?;
            bytes.truncate(part.end);
            bytes.drain(..part.start);
            Ok(Cow::Owned(bytes))
        }
        HEX => {
            let pairs = &reader.take(len.div_ceil(2))?[part.start / 2..part.end.div_ceil(2)];
            let mut bytes = Vec::with_capacity(pairs.len() * 2);
            pairs.iter().for_each(|pair| bytes.extend_from_slice(&HEX_PAIRS[usize::from(*pair)]));
            bytes.truncate(part.end - part.start / 2 * 2);
            bytes.drain(..part.start % 2);
            Ok(Cow::Owned(bytes))
        }
        _ => Err(BlockError::Damaged("an unknown compression")),
    }
}

/// Which of the pieces that a run of exactly `len` bytes falls into, each as long as `wanted`, are `wanted`.
/// Packed digits are compared as they are.
pub(super) fn find_pieces(reader: &mut Reader<'_>, len: usize, wanted: &[u8]) -> Result<Vec<usize>, BlockError> {
    let mut ahead = reader.clone();
    if ahead.u8()? != HEX || wanted.len() % 2 == 1 {
        return Ok(positions(&take_blob(reader, len, 0..len)?, wanted));
    }
    let packed = ahead.take(len.div_ceil(2))?;
    *reader = ahead;
    if wanted.iter().any(|byte| HEX_DIGITS[usize::from(*byte)] == NO_DIGIT) {
        return Ok(Vec::new());
    }
    Ok(positions(packed, &packed_digits(wanted).collect::<Vec<u8>>()))
}

fn positions(run: &[u8], wanted: &[u8]) -> Vec<usize> {
    // One byte tells most pieces apart, at a fraction of a comparison.
    let is_wanted = |piece: &[u8]| piece.last() == wanted.last() && piece == wanted;
    let pieces = run.chunks_exact(wanted.len().max(1)).enumerate();
    pieces.filter(|(_, piece)| is_wanted(piece)).map(|(at, _)| at).collect()
}

const NO_DIGIT: u8 = u8::MAX;

/// Value of every byte as a lower-case hex digit.
static HEX_DIGITS: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Two digits of every byte, the low half first.
static HEX_PAIRS: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [digits[byte & 0xf], digits[byte >> 4]];
        byte += 1;
    }
    pairs
};

fn decompress(frame: &[u8], len: usize) -> Result<Vec<u8>, BlockError> {
    DECOMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Decompressor::new().ok();
        }
        let decompressor = slot.as_mut().ok_or(BlockError::Damaged("no memory to decompress"))?;
        let mut bytes = Vec::with_capacity(len);
        match decompressor.decompress_to_buffer(frame, &mut bytes) {
            Ok(got) if got == len => Ok(bytes),
            _ => Err(BlockError::Damaged("a broken zstd frame")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_blob(&mut out, bytes);
        let mut reader = Reader::new(&out);
        let n = bytes.len();
        assert_eq!(take_blob(&mut reader, n, 0..n).as_deref(), Ok(bytes));
        assert_eq!(reader.finish(), Ok(()));
        for part in [0..n / 2, n / 3..n, n / 2..n / 2, n..n, n / 2..n / 2 + (n - n / 2).min(3)] {
            let mut reader = Reader::new(&out);
            assert_eq!(take_blob(&mut reader, n, part.clone()).as_deref(), Ok(&bytes[part]));
            assert_eq!(reader.finish(), Ok(()));
        }
        out
    }

    #[test]
    fn hex_digits_take_half_a_byte_each_the_first_one_low() {
        assert_eq!(back(b"1f0"), [HEX, 0xf1, 0x00]);
        let noise: Vec<u8> = (0..1_000u64).map(|i| b"0123456789abcdef"[(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize]).collect();
        assert_eq!(back(&noise).len(), 501);
    }

    #[test]
    fn pieces_are_found_where_they_begin_and_nowhere_else() {
        let find = |run: &[u8], wanted: &[u8]| {
            let mut out = Vec::new();
            put_blob(&mut out, run);
            let mut reader = Reader::new(&out);
            let found = find_pieces(&mut reader, run.len(), wanted).unwrap();
            assert_eq!(reader.finish(), Ok(()));
            (out[0], found)
        };
        assert_eq!(find(b"0a1b0a1b1b0a", b"0a1b"), (HEX, vec![0, 1]));
        assert_eq!(find(b"0a1b0a1b1b0a", b"1b0a"), (HEX, vec![2]));
        assert_eq!(find(b"0a1b0a", b"0A"), (HEX, vec![]));
        assert_eq!(find(b"0a10a1", b"0a1"), (HEX, vec![0, 1]));
        assert_eq!(find(b"x-y-x-", b"x-"), (PLAIN, vec![0, 2]));
        assert_eq!(find(&b"again, ".repeat(50), b"again, "), (ZSTD, (0..50).collect()));
        assert_eq!(find(b"", b"a"), (PLAIN, vec![]));
    }

    #[test]
    fn what_repeats_is_compressed_and_noise_is_kept() {
        assert!(back(&b"the same again, ".repeat(50)).len() < 60);
        assert_eq!(back(&[])[..], [PLAIN]);
        assert_eq!(back(b"Not hex!").len(), 9);
        let noise: Vec<u8> = (0..500u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) >> 40) as u8).collect();
        assert!(back(&noise).len() <= 501);
    }

    #[test]
    fn a_frame_of_another_length_than_declared_is_damage() {
        let mut out = Vec::new();
        put_blob(&mut out, &[b'x'; 5_000]);
        for len in [0, 1, 4_999, 5_001] {
            assert!(take_blob(&mut Reader::new(&out), len, 0..len).is_err(), "{len}");
        }
    }
}

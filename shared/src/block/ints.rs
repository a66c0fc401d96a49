//! Whole numbers, packed: constant, or offsets from the least, or steps between neighbours,
//! whichever is smallest. Timestamps first lose the factor they share.
//!
//! Exact for every i64; all arithmetic wraps, so u64 values pass through as their bits.

use std::ops::Range;

use super::BlockError;
use super::bits::{is_width, pack, packed_len, unpack, width_of};
use super::wire::{Reader, put_signed};

const CONSTANT: u8 = 0;
const OFFSETS: u8 = 1;
const STEPS: u8 = 2;

/// Factors that timestamps share where they were given in s, ms or µs.
const TIME_FACTORS: [u64; 4] = [1_000_000_000, 1_000_000, 1_000, 1];

/// What choosing an encoding needs to know of some numbers.
struct Shape {
    min: i64,
    offset_max: u64,
    step_min: i64,
    step_max: u64,
}

fn shape(values: &[i64]) -> Shape {
    let first = values.first().copied().unwrap_or(0);
    let (mut min, mut max, mut last) = (first, first, first);
    let (mut step_min, mut step_max) = (i64::MAX, i64::MIN);
    for &value in values.iter().skip(1) {
        min = min.min(value);
        max = max.max(value);
        let step = value.wrapping_sub(last);
        step_min = step_min.min(step);
        step_max = step_max.max(step);
        last = value;
    }
    Shape { min, offset_max: max.wrapping_sub(min) as u64, step_min, step_max: step_max.wrapping_sub(step_min) as u64 }
}

/// Appends numbers; their count is not stored.
pub(super) fn put_ints(out: &mut Vec<u8>, values: &[i64]) {
    let shape = shape(values);
    if shape.offset_max == 0 {
        out.push(CONSTANT);
        put_signed(out, shape.min);
        return;
    }
    let (offset_width, step_width) = (width_of(shape.offset_max), width_of(shape.step_max));
    // Two bytes are what a step needs more in front of the packed numbers, on average.
    if packed_len(values.len(), offset_width) <= packed_len(values.len() - 1, step_width) + 2 {
        out.extend_from_slice(&[OFFSETS, offset_width as u8]);
        put_signed(out, shape.min);
        pack(out, offset_width, values.iter().map(|value| value.wrapping_sub(shape.min) as u64));
    } else {
        out.extend_from_slice(&[STEPS, step_width as u8]);
        put_signed(out, values[0]);
        put_signed(out, shape.step_min);
        let steps = values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]).wrapping_sub(shape.step_min) as u64);
        pack(out, step_width, steps);
    }
}

/// Reads `part` of `n` numbers.
pub(super) fn take_ints(reader: &mut Reader<'_>, n: usize, part: Range<usize>) -> Result<Vec<i64>, BlockError> {
    take_part(reader, n, part, None)
}

/// Reads numbers that are all one; takes nothing where they are not.
pub(super) fn take_constant(reader: &mut Reader<'_>) -> Result<Option<i64>, BlockError> {
    let mut ahead = reader.clone();
    if ahead.u8()? != CONSTANT {
        return Ok(None);
    }
    let value = ahead.signed()?;
    *reader = ahead;
    Ok(Some(value))
}

/// As [`take_ints`]; the last of all numbers is known, so that few at the end are found from there.
fn take_part(reader: &mut Reader<'_>, n: usize, part: Range<usize>, last: Option<i64>) -> Result<Vec<i64>, BlockError> {
    match reader.u8()? {
        CONSTANT => Ok(vec![reader.signed()?; part.len()]),
        OFFSETS => {
            let width = take_width(reader)?;
            let min = reader.signed()?;
            let offsets = unpack(reader.take(packed_len(n, width))?, part, width);
            Ok(offsets.map(|offset| min.wrapping_add(offset as i64)).collect())
        }
        STEPS if n > 0 => {
            let width = take_width(reader)?;
            let (first, step_min) = (reader.signed()?, reader.signed()?);
            let packed = reader.take(packed_len(n - 1, width))?;
            let steps = |part: Range<usize>| unpack(packed, part, width).map(|step| step_min.wrapping_add(step as i64));
            let sum = |part| steps(part).fold(0, i64::wrapping_add);
            let start = match last {
                Some(last) if part.start > n / 2 => last.wrapping_sub(sum(part.start.min(n - 1)..n - 1)),
                _ => first.wrapping_add(sum(0..part.start.min(n - 1))),
            };
            let step = |at: &mut i64, step| Some(std::mem::replace(at, at.wrapping_add(step)));
            let steps = steps(part.start.min(n - 1)..part.end.min(n - 1)).chain([0]);
            Ok(steps.take(part.len()).scan(start, step).collect())
        }
        _ => Err(BlockError::Damaged("an unknown encoding of whole numbers")),
    }
}

fn take_width(reader: &mut Reader<'_>) -> Result<u32, BlockError> {
    let width = u32::from(reader.u8()?);
    if is_width(width) { Ok(width) } else { Err(BlockError::Damaged("an impossible bit width")) }
}

/// Appends ascending times as multiples of their common factor above the first.
pub(super) fn put_times(out: &mut Vec<u8>, ts: &[i64]) {
    let min = ts.first().copied().unwrap_or(0);
    let above = |t: &i64| t.wrapping_sub(min) as u64;
    let shared = |factor: u64| ts.iter().all(|t| above(t).is_multiple_of(factor));
    let code = TIME_FACTORS.iter().position(|factor| shared(*factor)).unwrap_or(TIME_FACTORS.len() - 1);
    out.push(code as u8);
    let multiples: Vec<i64> = ts.iter().map(|t| (above(t) / TIME_FACTORS[code]) as i64).collect();
    put_ints(out, &multiples);
}

/// Reads `part` of `n` times, which ascend from exactly `min` to exactly `max`.
pub(super) fn take_times(reader: &mut Reader<'_>, n: usize, part: Range<usize>, min: i64, max: i64) -> Result<Vec<i64>, BlockError> {
    let code = usize::from(reader.u8()?);
    let factor = *TIME_FACTORS.get(code).ok_or(BlockError::Damaged("an unknown unit of time"))?;
    let last = max.wrapping_sub(min) as u64 / factor;
    let mut ts = take_part(reader, n, part.clone(), Some(last as i64))?;
    for t in &mut ts {
        *t = min.wrapping_add(t.wrapping_mul(factor as i64));
    }
    // Checked at the end, in one pass: a product that wrapped breaks the order or the bounds.
    let begins = |first: i64| if part.start == 0 { first == min } else { first >= min };
    let ends = |last: i64| if part.end == n { last == max } else { last <= max };
    if ts.first().is_none_or(|first| begins(*first)) && ts.last().is_none_or(|last| ends(*last)) && ts.is_sorted() {
        Ok(ts)
    } else {
        Err(BlockError::Damaged("times out of order or bounds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(values: &[i64]) -> usize {
        let mut out = Vec::new();
        put_ints(&mut out, values);
        let mut reader = Reader::new(&out);
        assert_eq!(take_ints(&mut reader, values.len(), 0..values.len()).as_deref(), Ok(values));
        assert_eq!(reader.finish(), Ok(()));
        let n = values.len();
        for part in [0..0, 0..n / 2, n / 3..n, n / 2..n / 2, n.saturating_sub(1)..n, n..n] {
            let mut reader = Reader::new(&out);
            assert_eq!(take_ints(&mut reader, n, part.clone()).as_deref(), Ok(&values[part]));
            assert_eq!(reader.finish(), Ok(()));
        }
        out.len()
    }

    #[test]
    fn extremes_come_back_exactly() {
        back(&[]);
        back(&[i64::MIN, i64::MAX, 0, -1, 1]);
        back(&[i64::MAX, i64::MIN]);
        back(&[u64::MAX as i64, 0, u64::MAX as i64 - 1]);
    }

    #[test]
    fn equal_numbers_and_even_steps_take_no_space_per_row() {
        assert_eq!(back(&[7; 4_000]), 2);
        // Mode, width, three bytes of −1,000,000, two of 250.
        assert_eq!(back(&(0..4_000).map(|i| i * 250 - 1_000_000).collect::<Vec<_>>()), 7);
    }

    #[test]
    fn offsets_take_the_bits_of_the_range() {
        let values: Vec<i64> = (0..800).map(|i| 1_000_000 + (i * 7_919) % 1_024).collect();
        assert_eq!(back(&values), 2 + 3 + 1_000);
    }

    #[test]
    fn times_in_milliseconds_are_packed_as_milliseconds() {
        let ts: Vec<i64> = (0..100i64).map(|i| 1_700_000_000_000_000_000 + (i * i) * 1_000_000).collect();
        let mut out = Vec::new();
        put_times(&mut out, &ts);
        // Steps are 1, 3, … 197 ms: eight bits each.
        assert!(out.len() <= 99 + 6, "{}", out.len());
        let mut reader = Reader::new(&out);
        assert_eq!(take_times(&mut reader, 100, 0..100, ts[0], ts[99]).as_ref(), Ok(&ts));
        for part in [0..1, 0..60, 40..60, 60..100, 99..100, 100..100, 0..0] {
            assert_eq!(take_times(&mut Reader::new(&out), 100, part.clone(), ts[0], ts[99]).as_deref(), Ok(&ts[part]));
        }
        assert!(take_times(&mut Reader::new(&out), 100, 0..100, ts[0], ts[99] + 1).is_err());
        // Found from an end that is wrong, they lie before the first.
        assert!(take_times(&mut Reader::new(&out), 100, 60..100, ts[0], ts[0]).is_err());
    }

    #[test]
    fn times_that_span_all_of_i64_come_back() {
        let ts = [i64::MIN, -1, 0, i64::MAX];
        let mut out = Vec::new();
        put_times(&mut out, &ts);
        assert_eq!(take_times(&mut Reader::new(&out), 4, 0..4, i64::MIN, i64::MAX).as_deref(), Ok(&ts[..]));
    }
}

//! What a numeric column says of its values without being decoded: least, greatest, exact sum.

use std::ops::Range;

use super::BlockError;
use super::table::Values;
use super::wire::{Reader, put_signed, put_signed_wide, put_varint};

/// What one column says of its values without being decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnStats {
    /// Rows that have a value.
    pub count: u32,
    /// Numeric columns: least and greatest value, and the exact sum; `None` otherwise.
    pub numbers: Option<NumberStats>,
}

/// Statistics of a numeric column.
#[derive(Clone, Debug, PartialEq)]
pub enum NumberStats {
    /// f64: least, greatest, and an exact sum as a short list of doubles whose exact sum it is.
    F64 {
        /// Least value.
        min: f64,
        /// Greatest value.
        max: f64,
        /// Doubles that do not overlap; their exact sum is the values' exact sum.
        sum: Vec<f64>,
    },
    /// i64.
    I64 {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
        /// Exact sum.
        sum: i128,
    },
    /// u64.
    U64 {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
        /// Exact sum.
        sum: i128,
    },
}

/// Most doubles that an exact sum is stored as; one that needs more is left out.
const SUM_PARTS_MAX: usize = 8;

/// Which statistics follow in the directory.
const NONE: u8 = 0;
const F64: u8 = 1;
const I64: u8 = 2;
const U64: u8 = 3;

/// An exact running sum of doubles (J. R. Shewchuk, "Adaptive Precision Floating-Point
/// Arithmetic", GROW-EXPANSION): parts that do not overlap, by growing magnitude.
#[derive(Default)]
struct ExactSum {
    parts: Vec<f64>,
}

impl ExactSum {
    fn add(&mut self, mut x: f64) {
        let mut kept = 0;
        for index in 0..self.parts.len() {
            let y = self.parts[index];
            let (large, small) = if x.abs() < y.abs() { (y, x) } else { (x, y) };
            let high = large + small;
            let low = small - (high - large);
            if low != 0.0 {
                self.parts[kept] = low;
                kept += 1;
            }
            x = high;
        }
        self.parts.truncate(kept);
        if x != 0.0 || kept == 0 {
            self.parts.push(x);
        }
    }

    /// The parts, unless they are too many or some sum on the way left f64.
    fn finish(self) -> Option<Vec<f64>> {
        let sound = self.parts.len() <= SUM_PARTS_MAX && self.parts.iter().all(|part| part.is_finite());
        sound.then_some(self.parts)
    }
}

/// Statistics of values `range` of a numeric column; `None` for others and where the sum is too long.
fn number_stats(values: &Values, range: Range<usize>) -> Option<NumberStats> {
    match values {
        Values::F64(v) => {
            let v = &v[range];
            let mut sum = ExactSum::default();
            v.iter().for_each(|x| sum.add(*x));
            let min = v.iter().copied().reduce(f64::min)?;
            let max = v.iter().copied().reduce(f64::max)?;
            Some(NumberStats::F64 { min, max, sum: sum.finish()? })
        }
        Values::I64(v) => {
            let v = &v[range];
            let sum = v.iter().map(|x| i128::from(*x)).sum();
            Some(NumberStats::I64 { min: *v.iter().min()?, max: *v.iter().max()?, sum })
        }
        Values::U64(v) => {
            let v = &v[range];
            let sum = v.iter().map(|x| i128::from(*x)).sum();
            Some(NumberStats::U64 { min: *v.iter().min()?, max: *v.iter().max()?, sum })
        }
        Values::Bool(_) | Values::Str(_) | Values::Dict(..) => None,
    }
}

/// Appends the statistics of values `range`, or that there are none.
pub(super) fn put_stats(out: &mut Vec<u8>, values: &Values, range: Range<usize>) {
    match number_stats(values, range) {
        None => out.push(NONE),
        Some(NumberStats::F64 { min, max, sum }) => {
            out.extend_from_slice(&[F64, sum.len() as u8]);
            [min, max].iter().chain(&sum).for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
        }
        Some(NumberStats::I64 { min, max, sum }) => {
            out.push(I64);
            put_signed(out, min);
            put_varint(out, max.wrapping_sub(min) as u64);
            put_signed_wide(out, sum);
        }
        Some(NumberStats::U64 { min, max, sum }) => {
            out.push(U64);
            put_varint(out, min);
            put_varint(out, max.wrapping_sub(min));
            put_signed_wide(out, sum);
        }
    }
}

/// Reads what [`put_stats`] wrote.
pub(super) fn take_stats(reader: &mut Reader<'_>) -> Result<Option<NumberStats>, BlockError> {
    match reader.u8()? {
        NONE => Ok(None),
        F64 => {
            let parts = usize::from(reader.u8()?);
            if parts > SUM_PARTS_MAX {
                return Err(BlockError::Damaged("a sum of too many parts"));
            }
            let (min, max) = (take_finite(reader)?, take_finite(reader)?);
            let sum = (0..parts).map(|_| take_finite(reader)).collect::<Result<_, _>>()?;
            Ok(Some(NumberStats::F64 { min, max, sum }))
        }
        I64 => {
            let min = reader.signed()?;
            let max = min.wrapping_add(reader.varint()? as i64);
            Ok(Some(NumberStats::I64 { min, max, sum: reader.signed_wide()? }))
        }
        U64 => {
            let min = reader.varint()?;
            let max = min.wrapping_add(reader.varint()?);
            Ok(Some(NumberStats::U64 { min, max, sum: reader.signed_wide()? }))
        }
        _ => Err(BlockError::Damaged("unknown statistics")),
    }
}

fn take_finite(reader: &mut Reader<'_>) -> Result<f64, BlockError> {
    let value = reader.f64()?;
    if value.is_finite() { Ok(value) } else { Err(BlockError::Damaged("a double that is not finite")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(values: Values) -> Option<NumberStats> {
        let mut out = Vec::new();
        let len = values.len();
        put_stats(&mut out, &values, 0..len);
        let mut reader = Reader::new(&out);
        let stats = take_stats(&mut reader).unwrap();
        assert_eq!(reader.finish(), Ok(()));
        stats
    }

    #[test]
    fn sums_of_doubles_lose_nothing() {
        let stats = back(Values::F64(vec![1e16, 1.0, -1e16, 0.5]));
        assert_eq!(stats, Some(NumberStats::F64 { min: -1e16, max: 1e16, sum: vec![1.5] }));
        // 2^53 + 1 has no double of its own: two parts.
        let stats = back(Values::F64(vec![9_007_199_254_740_992.0, 1.0]));
        let sum = vec![1.0, 9_007_199_254_740_992.0];
        assert_eq!(stats, Some(NumberStats::F64 { min: 1.0, max: 9_007_199_254_740_992.0, sum }));
    }

    #[test]
    fn sums_beyond_f64_or_of_too_many_parts_are_left_out() {
        assert_eq!(back(Values::F64(vec![f64::MAX, f64::MAX])), None);
        let scattered: Vec<f64> = (0..20).map(|i| 2f64.powi(i * 100 - 1_000)).collect();
        assert_eq!(back(Values::F64(scattered)), None);
    }

    #[test]
    fn sums_of_integers_do_not_wrap() {
        let sum = i128::from(i64::MIN) * 2;
        assert_eq!(back(Values::I64(vec![i64::MIN; 2])), Some(NumberStats::I64 { min: i64::MIN, max: i64::MIN, sum }));
        let sum = i128::from(u64::MAX) + 1;
        assert_eq!(back(Values::U64(vec![u64::MAX, 1])), Some(NumberStats::U64 { min: 1, max: u64::MAX, sum }));
        assert_eq!(back(Values::I64(vec![i64::MAX, i64::MIN])), Some(NumberStats::I64 { min: i64::MIN, max: i64::MAX, sum: -1 }));
    }

    #[test]
    fn text_has_no_numbers() {
        assert_eq!(back(Values::Bool(vec![true])), None);
    }
}

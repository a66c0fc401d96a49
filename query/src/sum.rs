//! Exact sums: any number of finite doubles and integers, added in any order, rounded once.
//!
//! A fixed-point number wide enough for every double, after Neal, "Fast Exact Summation Using
//! Small and Large Superaccumulators" (arXiv 1505.05571). Partial sums merge without loss, so
//! shards, block borders, compaction and arrival order can't show. Our own because crate `xsum`
//! 0.1.6 rounds negative sums wrongly (the sum of -1.0 alone is -1.0000000000000002).

/// Bits of a chunk; what lies above them in its i64 is carry that was not propagated yet.
const CHUNK_BITS: u32 = 32;
/// 2,098 bits hold every double; the rest holds what 2^64 of the greatest ones carry.
const CHUNKS: usize = 69;
/// Weight of the lowest bit is 2^-1074, that of the least subnormal.
const LOWEST_EXPONENT: u32 = 1_074;
/// One addition moves a chunk by less than 2^33, so that 2^29 of them stay inside i64.
const ADDITIONS_MAX: u32 = 1 << 29;
const LOW: u64 = (1 << CHUNK_BITS) - 1;
const MANTISSA_BITS: u32 = 52;
const MANTISSA: u64 = (1 << MANTISSA_BITS) - 1;
const EXPONENT_MAX: u32 = 0x7ff;

/// Doubles that are summed as integers together: 2^12.
const TOGETHER_MAX: usize = 1 << 12;
/// Exponents this far apart leave room in 127 bits: 53 of a mantissa, 12 of carries.
const SPREAD_MAX: u32 = 127 - (MANTISSA_BITS + 1) - 12;

/// The exponent as it stands in the bits.
fn exponent(value: f64) -> u32 {
    (value.to_bits() >> MANTISSA_BITS) as u32 & EXPONENT_MAX
}

/// The mantissa with the implicit bit.
fn mantissa(value: f64) -> u64 {
    (value.to_bits() & MANTISSA) | u64::from(exponent(value) != 0) << MANTISSA_BITS
}

/// A double as a multiple of what the lowest bit of one with exponent `least` is worth.
fn aligned(value: f64, least: u32) -> i128 {
    let magnitude = i128::from(mantissa(value)) << exponent(value).max(1).saturating_sub(least);
    if value.is_sign_negative() { -magnitude } else { magnitude }
}

/// A sum without error.
#[derive(Clone, Debug)]
pub struct ExactSum {
    chunks: [i64; CHUNKS],
    /// Additions since carries were propagated.
    additions: u32,
    /// Whether something that is no finite number was added.
    unbounded: bool,
}

impl Default for ExactSum {
    fn default() -> Self {
        ExactSum { chunks: [0; CHUNKS], additions: 0, unbounded: false }
    }
}

impl ExactSum {
    /// Adds a double.
    pub fn add(&mut self, value: f64) {
        match exponent(value) {
            EXPONENT_MAX => self.unbounded = true,
            exponent => self.add_bits(mantissa(value), exponent.max(1) - 1, value.is_sign_negative()),
        }
    }

    /// Adds doubles. Where their exponents lie near each other, which is usual, they are summed as
    /// one 128-bit integer first: several times faster, and as exact.
    pub fn add_all(&mut self, values: &[f64]) {
        for values in values.chunks(TOGETHER_MAX) {
            let mut exponents = (EXPONENT_MAX, 0);
            for value in values {
                let exponent = exponent(*value);
                // Zeros add nothing; subnormals share the exponent of the least normal numbers.
                let least = if *value == 0.0 { EXPONENT_MAX } else { exponent.max(1) };
                exponents = (exponents.0.min(least), exponents.1.max(exponent));
            }
            let (least, greatest) = exponents;
            if greatest < EXPONENT_MAX && greatest.saturating_sub(least) <= SPREAD_MAX {
                self.add_wide(values.iter().map(|value| aligned(*value, least)).sum(), least - 1);
            } else {
                values.iter().for_each(|value| self.add(*value));
            }
        }
    }

    /// Adds an integer.
    pub fn add_int(&mut self, value: i128) {
        self.add_wide(value, LOWEST_EXPONENT);
    }

    /// Adds an integer whose lowest bit stands at `position`; one that is not zero fits below the top.
    fn add_wide(&mut self, value: i128, position: u32) {
        let magnitude = value.unsigned_abs();
        for part in 0..4 {
            match (magnitude >> (part * CHUNK_BITS)) as u64 & LOW {
                0 => {}
                bits => self.add_bits(bits, position + part * CHUNK_BITS, value < 0),
            }
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &ExactSum) {
        let mut other = other.clone();
        other.propagate();
        self.propagate();
        self.chunks.iter_mut().zip(other.chunks).for_each(|(chunk, more)| *chunk += more);
        self.additions = 1;
        self.unbounded |= other.unbounded;
    }

    /// The sum, rounded to nearest, ties to even; infinite where it is beyond f64's range.
    pub fn value(&self) -> f64 {
        if self.unbounded {
            return f64::NAN;
        }
        let mut sum = self.clone();
        sum.propagate();
        let negative = sum.chunks[CHUNKS - 1] < 0;
        if negative {
            sum.chunks.iter_mut().for_each(|chunk| *chunk = -*chunk);
            sum.propagate();
        }
        let magnitude = f64::from_bits(sum.rounded_bits());
        if negative { -magnitude } else { magnitude }
    }

    /// Adds `bits` (at most 53 of them) whose lowest one stands at `position`.
    fn add_bits(&mut self, bits: u64, position: u32, negative: bool) {
        if self.additions >= ADDITIONS_MAX {
            self.propagate();
        }
        self.additions += 1;
        let wide = u128::from(bits) << (position % CHUNK_BITS);
        let sign = if negative { -1 } else { 1 };
        let first = (position / CHUNK_BITS) as usize;
        for (i, chunk) in self.chunks[first..first + 3].iter_mut().enumerate() {
            *chunk += sign * ((wide >> (i as u32 * CHUNK_BITS)) as u64 & LOW) as i64;
        }
    }

    /// Brings every chunk but the highest into `0..2^32`; the highest keeps the sign.
    fn propagate(&mut self) {
        let mut carry = 0;
        let (highest, lower) = self.chunks.split_last_mut().expect("there are chunks");
        for chunk in lower {
            let full = *chunk + carry;
            carry = full >> CHUNK_BITS;
            *chunk = full & LOW as i64;
        }
        *highest += carry;
        self.additions = 0;
    }

    /// The bits of a double nearest to this sum, which is propagated and not negative.
    fn rounded_bits(&self) -> u64 {
        let Some(top) = self.chunks.iter().rposition(|chunk| *chunk != 0) else { return 0 };
        let highest = top as u32 * CHUNK_BITS + (self.chunks[top] as u64).ilog2();
        // Up to 53 bits need no rounding, and a double's bits then read as this very number.
        if highest <= MANTISSA_BITS {
            return self.bits_at(0, MANTISSA_BITS + 1);
        }
        let lowest = highest - MANTISSA_BITS;
        let kept = self.bits_at(lowest, MANTISSA_BITS + 1);
        let half = self.bits_at(lowest - 1, 1) == 1;
        let up = half && (kept & 1 == 1 || self.any_below(lowest - 1));
        // Adding one may carry into the exponent, which is what rounding up to a power of two means.
        let bits = (u64::from(lowest) << MANTISSA_BITS) + kept + u64::from(up);
        bits.min(f64::INFINITY.to_bits())
    }

    /// `count` bits from `position` up.
    fn bits_at(&self, position: u32, count: u32) -> u64 {
        let first = (position / CHUNK_BITS) as usize;
        let wide = (0..3).fold(0u128, |wide, i| {
            let chunk = self.chunks.get(first + i).map_or(0, |chunk| *chunk as u64);
            wide | u128::from(chunk) << (i as u32 * CHUNK_BITS)
        });
        (wide >> (position % CHUNK_BITS)) as u64 & ((1 << count) - 1)
    }

    /// Whether a bit below `position` is set.
    fn any_below(&self, position: u32) -> bool {
        let (whole, rest) = ((position / CHUNK_BITS) as usize, position % CHUNK_BITS);
        self.chunks[..whole].iter().any(|chunk| *chunk != 0) || self.chunks[whole] as u64 & ((1 << rest) - 1) != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(values: &[f64]) -> f64 {
        let mut sum = ExactSum::default();
        values.iter().for_each(|value| sum.add(*value));
        sum.value()
    }

    #[test]
    fn a_sum_of_one_value_is_that_value() {
        for value in [0.0, 1.0, -1.0, 0.1, -0.1, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, -5e-324, 1e300, 4503599627370496.5] {
            assert_eq!(sum(&[value]).to_bits(), value.to_bits(), "{value}");
        }
    }

    #[test]
    fn huge_values_that_cancel_leave_the_tiny_ones() {
        assert_eq!(sum(&[1e308, 1e308, 5e-324, -1e308, 1.0, -1e308, -1.0]), 5e-324);
        assert_eq!(sum(&[f64::MAX, f64::MAX, -f64::MAX]), f64::MAX);
        assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(sum(&[f64::MIN, f64::MIN]), f64::NEG_INFINITY);
    }

    #[test]
    fn ties_go_to_even_and_a_bit_far_below_breaks_them() {
        let big = 9_007_199_254_740_992.0;
        assert_eq!(sum(&[big, 1.0]), big);
        assert_eq!(sum(&[big, 1.0, 1e-300]), big + 2.0);
        assert_eq!(sum(&[big + 2.0, 1.0]), big + 4.0);
        assert_eq!(sum(&[-big, -1.0]), -big);
        assert_eq!(sum(&[-big, -1.0, -1e-300]), -big - 2.0);
    }

    #[test]
    fn integers_beyond_f64_are_added_without_loss() {
        let mut sum = ExactSum::default();
        sum.add_int(i128::from(u64::MAX));
        sum.add_int(-i128::from(u64::MAX) + 1);
        sum.add(0.5);
        assert_eq!(sum.value(), 1.5);
        sum.add_int(i128::MIN);
        assert_eq!(sum.value(), i128::MIN as f64);
    }

    proptest! {
        #[test]
        fn integers_sum_to_the_nearest_double(values in proptest::collection::vec(any::<i64>(), 0..20)) {
            let mut sum = ExactSum::default();
            values.iter().for_each(|value| sum.add_int(i128::from(*value)));
            let exact: i128 = values.iter().map(|value| i128::from(*value)).sum();
            prop_assert_eq!(sum.value(), exact as f64);
        }

        #[test]
        fn order_and_cutting_do_not_show(mut values in proptest::collection::vec(any::<f64>().prop_filter("finite", |v| v.is_finite()), 0..40), cut in 0usize..40) {
            let whole = sum(&values);
            let cut = cut.min(values.len());
            let mut left = ExactSum::default();
            let mut right = ExactSum::default();
            values[..cut].iter().for_each(|value| left.add(*value));
            values[cut..].iter().for_each(|value| right.add(*value));
            right.merge(&left);
            prop_assert_eq!(right.value().to_bits(), whole.to_bits());
            values.sort_by(f64::total_cmp);
            prop_assert_eq!(sum(&values).to_bits(), whole.to_bits());
        }

        #[test]
        fn many_at_once_are_as_exact_as_one_by_one(
            near in proptest::collection::vec(-1.0e6..1.0e6, 0..30),
            any in proptest::collection::vec(any::<f64>().prop_filter("finite", |v| v.is_finite()), 0..3),
            tiny in proptest::collection::vec(prop_oneof![Just(0.0), Just(-0.0), Just(5e-324), Just(-f64::MIN_POSITIVE)], 0..4),
        ) {
            for values in [near.clone(), tiny.clone(), [near, any, tiny].concat()] {
                let mut at_once = ExactSum::default();
                at_once.add_all(&values);
                prop_assert_eq!(at_once.value().to_bits(), sum(&values).to_bits());
            }
        }

        #[test]
        fn two_doubles_sum_as_the_processor_rounds_them(a in any::<f64>(), b in any::<f64>()) {
            prop_assume!(a.is_finite() && b.is_finite());
            prop_assert_eq!(sum(&[a, b]), a + b);
        }
    }
}

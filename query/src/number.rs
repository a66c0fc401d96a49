//! A numeric value that keeps its type, compared exactly across types.

use std::cmp::Ordering;

use serde::Serialize;

/// A number of a field.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum Number {
    /// Signed.
    I64(i64),
    /// Unsigned.
    U64(u64),
    /// Finite.
    F64(f64),
}

impl Number {
    /// The value, where it is an integer.
    fn integer(self) -> Option<i128> {
        match self {
            Number::I64(v) => Some(v.into()),
            Number::U64(v) => Some(v.into()),
            Number::F64(_) => None,
        }
    }
}

/// By value; of equal ones an integer comes first, and -0.0 before 0.0, so that the least and the
/// greatest of a set are one value whatever the order it is looked through.
impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        match (*self, *other) {
            (Number::F64(a), Number::F64(b)) => a.total_cmp(&b),
            (Number::F64(a), b) => compare(b.integer().unwrap_or_default(), a).reverse(),
            (a, Number::F64(b)) => compare(a.integer().unwrap_or_default(), b),
            (a, b) => a.integer().cmp(&b.integer()),
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Number {}

/// An integer of 64 bits against a double, without rounding either; equal ones: the integer first.
fn compare(integer: i128, double: f64) -> Ordering {
    // Casting saturates, so that doubles beyond 128 bits still fall on the right side.
    let whole = double.trunc() as i128;
    let by_fraction = || if double.fract() < 0.0 { Ordering::Greater } else { Ordering::Less };
    integer.cmp(&whole).then_with(by_fraction)
}

#[cfg(test)]
mod tests {
    use super::Number::{F64, I64, U64};

    #[test]
    fn numbers_of_all_types_compare_by_value_without_rounding() {
        let ascending = [
            F64(-1e300),
            I64(i64::MIN),
            F64(-1.5),
            I64(-1),
            F64(-0.5),
            I64(0),
            F64(-0.0),
            F64(0.0),
            F64(0.5),
            I64(9_007_199_254_740_992),
            F64(9_007_199_254_740_992.0),
            I64(9_007_199_254_740_993),
            U64(u64::MAX),
            F64(18_446_744_073_709_551_616.0),
            F64(f64::MAX),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(a.cmp(b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn an_integer_is_the_same_whichever_type_holds_it() {
        assert_eq!(I64(7), U64(7));
    }
}

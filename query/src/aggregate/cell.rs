//! A cell: what is known of the values of one group in one step. Merges without loss.

use std::ops::Range;

use braid_shared::block::{ColumnStats, NumberStats, Values};

use super::Function;
use crate::number::Number;
use crate::sum::ExactSum;

/// Count, exact sum, extremes and, where percentiles are asked for, all values.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// Events that have the field, or events.
    pub(super) count: u64,
    numbers: u64,
    integers: i128,
    doubles: Option<Box<ExactSum>>,
    least: Option<Number>,
    greatest: Option<Number>,
    kept: Option<Box<Kept>>,
}

/// Values kept for percentiles, by type: half the size of keeping the type with each.
#[derive(Clone, Debug, Default)]
struct Kept {
    signed: Vec<i64>,
    unsigned: Vec<u64>,
    doubles: Vec<f64>,
}

impl Cell {
    /// Adds values of a column. Values that are no numbers count, and no more.
    pub(super) fn add(&mut self, values: &Values, range: Range<usize>, keep: bool) {
        self.count += range.len() as u64;
        if range.is_empty() {
            return;
        }
        match values {
            Values::I64(values) => self.add_signed(&values[range], keep),
            Values::U64(values) => self.add_unsigned(&values[range], keep),
            Values::F64(values) => self.add_doubles(&values[range], keep),
            Values::Bool(_) | Values::Str(_) | Values::Dict(..) => {}
        }
    }

    fn add_signed(&mut self, values: &[i64], keep: bool) {
        self.numbers += values.len() as u64;
        let (least, greatest) =
            values.iter().fold((i64::MAX, i64::MIN), |(least, greatest), value| (least.min(*value), greatest.max(*value)));
        self.integers += sum(values, least, greatest);
        self.reach(Some(Number::I64(least)), Some(Number::I64(greatest)));
        if keep {
            self.kept.get_or_insert_default().signed.extend_from_slice(values);
        }
    }

    fn add_unsigned(&mut self, values: &[u64], keep: bool) {
        self.numbers += values.len() as u64;
        self.integers += values.iter().map(|value| i128::from(*value)).sum::<i128>();
        self.reach(values.iter().min().copied().map(Number::U64), values.iter().max().copied().map(Number::U64));
        if keep {
            self.kept.get_or_insert_default().unsigned.extend_from_slice(values);
        }
    }

    fn add_doubles(&mut self, values: &[f64], keep: bool) {
        self.numbers += values.len() as u64;
        self.doubles.get_or_insert_default().add_all(values);
        let by = |a: &&f64, b: &&f64| a.total_cmp(b);
        self.reach(values.iter().min_by(by).copied().map(Number::F64), values.iter().max_by(by).copied().map(Number::F64));
        if keep {
            self.kept.get_or_insert_default().doubles.extend_from_slice(values);
        }
    }

    /// Adds a column of which a block's header says enough.
    pub(super) fn add_stats(&mut self, stats: &ColumnStats) {
        self.count += u64::from(stats.count);
        let Some(numbers) = &stats.numbers else { return };
        self.numbers += u64::from(stats.count);
        match numbers {
            NumberStats::F64 { min, max, sum } => {
                let exact = self.doubles.get_or_insert_default();
                exact.add_all(sum);
                self.reach(Some(Number::F64(*min)), Some(Number::F64(*max)));
            }
            NumberStats::I64 { min, max, sum } => {
                self.integers += sum;
                self.reach(Some(Number::I64(*min)), Some(Number::I64(*max)));
            }
            NumberStats::U64 { min, max, sum } => {
                self.integers += sum;
                self.reach(Some(Number::U64(*min)), Some(Number::U64(*max)));
            }
        }
    }

    /// Adds another cell.
    pub(super) fn merge(&mut self, other: Cell) {
        self.count += other.count;
        self.numbers += other.numbers;
        self.integers += other.integers;
        self.reach(other.least, other.greatest);
        if let Some(doubles) = other.doubles {
            self.doubles.get_or_insert_default().merge(&doubles);
        }
        if let Some(kept) = other.kept {
            let mine = self.kept.get_or_insert_default();
            mine.signed.extend(kept.signed);
            mine.unsigned.extend(kept.unsigned);
            mine.doubles.extend(kept.doubles);
        }
    }

    fn reach(&mut self, least: Option<Number>, greatest: Option<Number>) {
        self.least = self.least.into_iter().chain(least).min();
        self.greatest = self.greatest.into_iter().chain(greatest).max();
    }

    /// The sum as a double, rounded once.
    fn rounded_sum(&self) -> f64 {
        match &self.doubles {
            None => self.integers as f64,
            Some(doubles) => {
                let mut sum = (**doubles).clone();
                sum.add_int(self.integers);
                sum.value()
            }
        }
    }

    /// Appends the value of a function as JSON; `seconds` is the length of the row's span.
    pub(super) fn write(&mut self, function: Function, seconds: f64, out: &mut Vec<u8>) {
        use crate::json::put;
        match function {
            Function::Count => put(out, &self.count),
            Function::Sum if self.doubles.is_none() => put(out, &self.integers),
            Function::Sum => put(out, &self.rounded_sum()),
            Function::Avg => put(out, &(self.numbers > 0).then(|| self.rounded_sum() / self.numbers as f64)),
            Function::Min => put(out, &self.least),
            Function::Max => put(out, &self.greatest),
            Function::Rate => put(out, &(seconds > 0.0).then(|| self.count as f64 / seconds)),
            Function::Percentile { scaled, scale } => put(out, &self.kept.as_mut().map(|kept| kept.nearest(scaled, scale))),
        }
    }
}

/// The sum of values between `least` and `greatest`: small ones in 64 bits, several at once.
fn sum(values: &[i64], least: i64, greatest: i64) -> i128 {
    const SMALL: i64 = 1 << 50;
    const TOGETHER: usize = 1 << 12;
    if -SMALL < least && greatest < SMALL {
        return values.chunks(TOGETHER).map(|values| i128::from(values.iter().sum::<i64>())).sum();
    }
    values.iter().map(|value| i128::from(*value)).sum()
}

impl Kept {
    /// The nearest-rank percentile; there is a value.
    fn nearest(&mut self, scaled: u64, scale: u64) -> Number {
        let count = self.signed.len() + self.unsigned.len() + self.doubles.len();
        let at = Function::rank(scaled, scale, count) - 1;
        if self.signed.len() == count {
            return Number::I64(*self.signed.select_nth_unstable(at).1);
        }
        if self.doubles.len() == count {
            return Number::F64(*self.doubles.select_nth_unstable_by(at, f64::total_cmp).1);
        }
        let signed = self.signed.iter().copied().map(Number::I64);
        let unsigned = self.unsigned.iter().copied().map(Number::U64);
        let mut all: Vec<Number> = signed.chain(unsigned).chain(self.doubles.iter().copied().map(Number::F64)).collect();
        *all.select_nth_unstable(at).1
    }
}

//! The aggregate functions and their names.

use std::str::FromStr;

/// What is computed of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Events that have the field; without a field, events.
    Count,
    /// Exact sum.
    Sum,
    /// Sum / count of numeric values.
    Avg,
    /// Least value.
    Min,
    /// Greatest value.
    Max,
    /// Count per second of the row's span.
    Rate,
    /// Nearest rank: the ⌈p·n/100⌉-th value.
    Percentile {
        /// p × `scale`.
        scaled: u64,
        /// A power of ten.
        scale: u64,
    },
}

/// Most digits of a percentile.
const PERCENTILE_DIGITS_MAX: usize = 9;

impl FromStr for Function {
    type Err = String;

    fn from_str(name: &str) -> Result<Function, String> {
        match name {
            "count" => Ok(Function::Count),
            "sum" => Ok(Function::Sum),
            "avg" => Ok(Function::Avg),
            "min" => Ok(Function::Min),
            "max" => Ok(Function::Max),
            "rate" => Ok(Function::Rate),
            _ => percentile(name).ok_or_else(|| {
                format!("unknown function {name:?}; known: count, sum, avg, min, max, rate and p0.001 to p100, such as p99.9")
            }),
        }
    }
}

fn percentile(name: &str) -> Option<Function> {
    let number = name.strip_prefix('p')?;
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(whole, fraction)| (whole, Some(fraction)));
    let digits = format!("{whole}{}", fraction.unwrap_or_default());
    let sound =
        !whole.is_empty() && fraction != Some("") && digits.len() <= PERCENTILE_DIGITS_MAX && digits.bytes().all(|b| b.is_ascii_digit());
    let scaled: u64 = sound.then(|| digits.parse().ok())??;
    let scale = 10u64.pow(fraction.map_or(0, str::len) as u32);
    (scaled > 0 && scaled <= 100 * scale).then_some(Function::Percentile { scaled, scale })
}

impl Function {
    /// Whether it means something without a field.
    pub fn counts(self) -> bool {
        matches!(self, Function::Count | Function::Rate)
    }

    /// The rank, from 1, of a percentile among `count` > 0 values.
    pub fn rank(scaled: u64, scale: u64, count: usize) -> usize {
        let rank = (u128::from(scaled) * count as u128).div_ceil(100 * u128::from(scale));
        rank.max(1) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_decimals_above_0_up_to_100() {
        assert_eq!("p50".parse(), Ok(Function::Percentile { scaled: 50, scale: 1 }));
        assert_eq!("p99.9".parse(), Ok(Function::Percentile { scaled: 999, scale: 10 }));
        assert_eq!("p100".parse(), Ok(Function::Percentile { scaled: 100, scale: 1 }));
        for bad in ["p0", "p", "p100.1", "p-1", "p+5", "p1e1", "p5.", "p.5", "p1234567890", "mean", "Count", ""] {
            assert!(bad.parse::<Function>().is_err(), "{bad}");
        }
    }

    #[test]
    fn nearest_rank_is_the_ceiling() {
        assert_eq!(Function::rank(50, 1, 117_596), 58_798);
        assert_eq!(Function::rank(99, 1, 117_596), 116_421);
        assert_eq!(Function::rank(100, 1, 7), 7);
        assert_eq!(Function::rank(1, 1, 7), 1);
        assert_eq!(Function::rank(999, 10, 1_000), 999);
    }
}

//! A positive, fixed length of time (`1h`, `500ms`): bucket widths, steps, delays.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A length of time in nanoseconds, > 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(i64);

/// Why a length of time was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SpanError {
    /// Not a positive whole number followed by a unit.
    #[error("a length of time is a whole number and a unit of ns us ms s m h d w, such as 1h (a month has no fixed length)")]
    Malformed,
    /// Zero, or longer than i64 nanoseconds.
    #[error("a length of time must be more than 0 and less than 292 years")]
    OutOfRange,
}

/// Units by falling length; `w` is last so that a week prints as `7d`.
const UNITS: [(&str, i64); 8] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
    ("w", 7 * 86_400_000_000_000),
];

impl Span {
    /// One second.
    pub const SECOND: Span = Span(1_000_000_000);
    /// One hour.
    pub const HOUR: Span = Span(3_600_000_000_000);
    /// One day.
    pub const DAY: Span = Span(86_400_000_000_000);

    /// From nanoseconds; `None` unless positive.
    pub const fn from_nanos(nanos: i64) -> Option<Span> {
        if nanos > 0 { Some(Span(nanos)) } else { None }
    }

    /// Nanoseconds, > 0.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// The same length as std's type.
    pub const fn duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0 as u64)
    }
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Span, SpanError> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(SpanError::Malformed)?;
        if number.is_empty() {
            return Err(SpanError::Malformed);
        }
        let number: i64 = number.parse().map_err(|_| SpanError::OutOfRange)?;
        number.checked_mul(*nanos).and_then(Span::from_nanos).ok_or(SpanError::OutOfRange)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, nanos) = UNITS.iter().find(|(_, nanos)| self.0 % nanos == 0).unwrap_or(&UNITS[6]);
        write!(f, "{}{name}", self.0 / nanos)
    }
}

impl TryFrom<String> for Span {
    type Error = SpanError;
    fn try_from(text: String) -> Result<Span, SpanError> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> String {
        span.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, nanos) in [
            ("7ns", 7),
            ("7us", 7_000),
            ("7ms", 7_000_000),
            ("7s", 7_000_000_000),
            ("7m", 420_000_000_000),
            ("7h", 25_200_000_000_000),
            ("7d", 604_800_000_000_000),
            ("1w", 604_800_000_000_000),
        ] {
            assert_eq!(text.parse::<Span>().map(Span::nanos), Ok(nanos), "{text}");
        }
    }

    #[test]
    fn a_month_a_fraction_or_a_sign_is_malformed() {
        for text in ["", "1", "h", "1mo", "1M", "1y", "1.5h", "-1h", "+1h", "1 h", " 1h", "1h ", "1h30m", "٣h"] {
            assert_eq!(text.parse::<Span>(), Err(SpanError::Malformed), "{text}");
        }
    }

    #[test]
    fn zero_and_what_leaves_i64_are_out_of_range() {
        for text in ["0s", "9223372036854775808ns", "106752d", "99999999999999999999h"] {
            assert_eq!(text.parse::<Span>(), Err(SpanError::OutOfRange), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_length_survives_its_text(nanos in 1..=i64::MAX) {
            let span = Span::from_nanos(nanos);
            prop_assert_eq!(span.map(|s| s.to_string().parse()), span.map(Ok));
        }
    }
}

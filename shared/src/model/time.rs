//! Event time: i64 nanoseconds since the Unix epoch, its RFC 3339 form, and integer forms.
//!
//! Nothing here reads a clock.

use std::fmt;

use super::Span;

/// An instant, nanoseconds since 1970-01-01T00:00:00Z; all of i64 is legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// Unit of an integer timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Nanoseconds.
    Nanos,
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
    /// Seconds.
    Seconds,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
}

/// Why a timestamp was refused.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TimeError {
    /// Not RFC 3339.
    #[error("not an RFC 3339 time: {0}")]
    Malformed(&'static str),
    /// Does not fit i64 nanoseconds (1677-09-21 to 2262-04-11).
    #[error("the time does not fit 64-bit nanoseconds (1677-09-21 to 2262-04-11)")]
    OutOfRange,
}

/// A half-open range of event time, `[from, to)`; empty where `to <= from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeRange {
    /// First instant inside.
    pub from: Timestamp,
    /// First instant after.
    pub to: Timestamp,
}

impl Timestamp {
    /// The earliest instant; stands for −∞.
    pub const MIN: Timestamp = Timestamp(i64::MIN);
    /// The latest instant.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// From nanoseconds since the Unix epoch.
    pub const fn from_nanos(nanos: i64) -> Timestamp {
        Timestamp(nanos)
    }

    /// Nanoseconds since the Unix epoch.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// From an integer in `precision`; refused when the product leaves i64.
    pub fn from_int(value: i64, precision: Precision) -> Result<Timestamp, TimeError> {
        value.checked_mul(precision.nanos()).map(Timestamp).ok_or(TimeError::OutOfRange)
    }

    /// The last multiple of `width` at or before this instant; saturates at [`Timestamp::MIN`].
    pub fn floor(self, width: Span) -> Timestamp {
        let past = self.0.rem_euclid(width.nanos());
        Timestamp(self.0.saturating_sub(past))
    }

    /// Later by `span`; saturates.
    pub fn saturating_add(self, span: Span) -> Timestamp {
        Timestamp(self.0.saturating_add(span.nanos()))
    }

    /// Earlier by `span`; saturates.
    pub fn saturating_sub(self, span: Span) -> Timestamp {
        Timestamp(self.0.saturating_sub(span.nanos()))
    }
}

impl Precision {
    /// Nanoseconds of one unit.
    pub const fn nanos(self) -> i64 {
        match self {
            Precision::Nanos => 1,
            Precision::Micros => 1_000,
            Precision::Millis => 1_000_000,
            Precision::Seconds => 1_000_000_000,
            Precision::Minutes => 60_000_000_000,
            Precision::Hours => 3_600_000_000_000,
        }
    }
}

impl TimeRange {
    /// All of event time but its very last instant.
    pub const ALL: TimeRange = TimeRange { from: Timestamp::MIN, to: Timestamp::MAX };

    /// Whether nothing lies inside.
    pub fn is_empty(self) -> bool {
        self.to <= self.from
    }

    /// Whether `ts` lies inside.
    pub fn contains(self, ts: Timestamp) -> bool {
        self.from <= ts && ts < self.to
    }

    /// What both ranges hold.
    pub fn intersect(self, other: TimeRange) -> TimeRange {
        TimeRange { from: self.from.max(other.from), to: self.to.min(other.to) }
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC with only the digits of the fraction that are needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, mut rest) = (self.0.div_euclid(86_400_000_000_000), self.0.rem_euclid(86_400_000_000_000));
        let (year, month, day) = civil_from_days(days);
        let mut take = |unit: i64| {
            let whole = rest / unit;
            rest %= unit;
            whole
        };
        let (hour, minute, second) = (take(3_600_000_000_000), take(60_000_000_000), take(1_000_000_000));
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if rest != 0 {
            let digits = format!("{rest:09}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

/// Proleptic Gregorian date of a day counted from 1970-01-01 (Howard Hinnant, "chrono-Compatible
/// Low-Level Date Algorithms").
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
    let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

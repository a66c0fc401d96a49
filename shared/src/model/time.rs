//! Event time: i64 nanoseconds since the Unix epoch, its RFC 3339 form, integer forms, and the
//! forms that a query may name a time in.
//!
//! Nothing here reads a clock.

mod query;
mod rfc3339;

use std::fmt;

pub use rfc3339::RFC3339_BYTES_MAX;

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
    /// Begins as a relative time and does not go on as one.
    #[error("a relative time is now, now-1h or now+5m: a whole number and a unit of ns us ms s m h d w")]
    Relative,
    /// A space stands where a `+` was meant.
    #[error("in a query a + must be written %2B, else it reads as a space")]
    PlusAsSpace,
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

    /// From RFC 3339: any offset, `t`/`z` in either case, a space for `T`. Digits beyond
    /// nanoseconds are cut; the leap second 23:59:60 UTC is the last nanosecond before midnight.
    pub fn parse_rfc3339(text: &str) -> Result<Timestamp, TimeError> {
        rfc3339::parse(text)
    }

    /// From a query's parameter: RFC 3339, whole milliseconds, or relative to `now`
    /// (`now`, `now-1h`, `now+5m`).
    pub fn parse_query(text: &str, now: Timestamp) -> Result<Timestamp, TimeError> {
        query::parse(text, now)
    }

    /// The text that [`fmt::Display`] gives, written into `buffer`.
    pub fn write_rfc3339(self, buffer: &mut [u8; RFC3339_BYTES_MAX]) -> &str {
        rfc3339::write(self, buffer)
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
    /// From InfluxDB's `precision` parameter: `n ns u us µ ms s m h`.
    pub fn parse_influx(text: &str) -> Option<Precision> {
        match text {
            "n" | "ns" => Some(Precision::Nanos),
            // The micro sign and the Greek letter look alike.
            "u" | "us" | "\u{b5}" | "\u{3bc}" => Some(Precision::Micros),
            "ms" => Some(Precision::Millis),
            "s" => Some(Precision::Seconds),
            "m" => Some(Precision::Minutes),
            "h" => Some(Precision::Hours),
            _ => None,
        }
    }

    /// From the `precision` parameter of JSON events: `ns us ms s`.
    pub fn parse_json(text: &str) -> Option<Precision> {
        match text {
            "ns" => Some(Precision::Nanos),
            "us" => Some(Precision::Micros),
            "ms" => Some(Precision::Millis),
            "s" => Some(Precision::Seconds),
            _ => None,
        }
    }

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
        f.write_str(self.write_rfc3339(&mut [0; RFC3339_BYTES_MAX]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_floored_also_before_1970() {
        let hour = Span::HOUR;
        assert_eq!(Timestamp::from_nanos(-1).floor(hour).nanos(), -hour.nanos());
        assert_eq!(Timestamp::from_nanos(hour.nanos()).floor(hour).nanos(), hour.nanos());
        assert_eq!(Timestamp::MIN.floor(hour), Timestamp::MIN);
    }

    #[test]
    fn an_integer_that_leaves_i64_nanoseconds_is_out_of_range() {
        assert_eq!(Timestamp::from_int(i64::MAX, Precision::Nanos), Ok(Timestamp::MAX));
        assert_eq!(Timestamp::from_int(i64::MAX / 1_000 + 1, Precision::Micros), Err(TimeError::OutOfRange));
        assert_eq!(Timestamp::from_int(-2, Precision::Hours), Ok(Timestamp::from_nanos(-2 * Span::HOUR.nanos())));
    }

    #[test]
    fn each_precision_has_its_spellings_and_no_others() {
        for (text, nanos) in [("n", 1), ("ns", 1), ("u", 1_000), ("us", 1_000), ("µ", 1_000), ("ms", 1_000_000)] {
            assert_eq!(Precision::parse_influx(text).map(Precision::nanos), Some(nanos), "{text}");
        }
        for (text, seconds) in [("s", 1), ("m", 60), ("h", 3_600)] {
            assert_eq!(Precision::parse_influx(text).map(Precision::nanos), Some(seconds * 1_000_000_000), "{text}");
        }
        for text in ["", "S", "d", "ns ", "µs", "nanos"] {
            assert_eq!(Precision::parse_influx(text), None, "{text}");
        }
        assert_eq!(["ns", "us", "ms", "s"].map(|text| Precision::parse_json(text).is_some()), [true; 4]);
        assert_eq!(["n", "u", "µ", "m", "h", ""].map(|text| Precision::parse_json(text).is_some()), [false; 6]);
    }

    #[test]
    fn ranges_are_half_open() {
        let at = Timestamp::from_nanos;
        let range = TimeRange { from: at(1), to: at(3) };
        assert_eq!([0, 1, 2, 3].map(|n| range.contains(at(n))), [false, true, true, false]);
        assert!(range.intersect(TimeRange { from: at(3), to: at(9) }).is_empty());
    }
}

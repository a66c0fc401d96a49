//! The forms in which a query may name a time. Never reads a clock: `now` is handed in.

use super::{Precision, TimeError, Timestamp};
use crate::model::Span;

pub(super) fn parse(text: &str, now: Timestamp) -> Result<Timestamp, TimeError> {
    if let Some(distance) = text.strip_prefix("now") {
        return relative(distance, now);
    }
    if is_integer(text) {
        let millis = text.parse().map_err(|_| TimeError::OutOfRange)?;
        return Timestamp::from_int(millis, Precision::Millis);
    }
    Timestamp::parse_rfc3339(text).map_err(|error| if has_space_for_plus(text) { TimeError::PlusAsSpace } else { error })
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

fn relative(distance: &str, now: Timestamp) -> Result<Timestamp, TimeError> {
    if distance.is_empty() {
        return Ok(now);
    }
    let span = |text: &str| text.parse::<Span>().map_err(|_| TimeError::Relative);
    let moved = match distance.split_at_checked(1) {
        Some(("-", back)) => now.nanos().checked_sub(span(back)?.nanos()),
        Some(("+", ahead)) => now.nanos().checked_add(span(ahead)?.nanos()),
        Some((" ", ahead)) if span(ahead).is_ok() => return Err(TimeError::PlusAsSpace),
        _ => return Err(TimeError::Relative),
    };
    moved.map(Timestamp::from_nanos).ok_or(TimeError::OutOfRange)
}

/// Whether `text` would be a time, had its `+` not become the space that now stands before HH:MM.
fn has_space_for_plus(text: &str) -> bool {
    let Some((front, " ", offset)) =
        text.len().checked_sub(6).and_then(|at| Some((text.get(..at)?, text.get(at..at + 1)?, text.get(at + 1..)?)))
    else {
        return false;
    };
    !matches!(Timestamp::parse_rfc3339(&format!("{front}+{offset}")), Err(TimeError::Malformed(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_nanos(1_795_953_600_000_000_000);

    #[test]
    fn rfc_3339_milliseconds_and_relative_times_are_read() {
        assert_eq!(parse("1970-01-01T01:00:00+01:00", NOW), Ok(Timestamp::from_nanos(0)));
        assert_eq!(parse("1500", NOW), Ok(Timestamp::from_nanos(1_500_000_000)));
        assert_eq!(parse("-1", NOW), Ok(Timestamp::from_nanos(-1_000_000)));
        assert_eq!(parse("now", NOW), Ok(NOW));
        assert_eq!(parse("now-1h", NOW), Ok(NOW.saturating_sub(Span::HOUR)));
        assert_eq!(parse("now+5m", NOW), Ok(Timestamp::from_nanos(NOW.nanos() + 300_000_000_000)));
    }

    #[test]
    fn a_space_where_a_plus_was_meant_is_an_error_that_says_how_to_write_it() {
        for text in ["2026-01-01T00:00:00 01:00", "2026-01-01 00:00:00.5 01:00", "now 5m"] {
            let error = parse(text, NOW).unwrap_err();
            assert!(error.to_string().contains("%2B"), "{text}: {error}");
        }
        assert!(matches!(parse("2026-01-01 00:00:00", NOW), Err(TimeError::Malformed(_))));
        assert!(parse("2026-01-01 00:00:00Z", NOW).is_ok());
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "-", "+5", "1.5", "1e3", "yesterday", "é", "2026-01-01T00:00:0é1:00"] {
            assert!(matches!(parse(text, NOW), Err(TimeError::Malformed(_))), "{text}");
        }
        for text in ["now-", "now-1", "now-1mo", "now1h", "nowhere", "now -1h", "now--1h", "now-0s", "now ", "nowé"] {
            assert_eq!(parse(text, NOW), Err(TimeError::Relative), "{text}");
        }
        for text in ["99999999999999999999", "9223372036854775807", "now+106000d"] {
            assert_eq!(parse(text, NOW), Err(TimeError::OutOfRange), "{text}");
        }
    }
}

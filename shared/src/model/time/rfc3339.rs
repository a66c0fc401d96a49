//! RFC 3339 text ↔ nanoseconds, byte by byte and without allocation: both ends of the data path
//! pass through here once per event.

use super::{TimeError, Timestamp};

/// Longest text that [`write`] gives: `2026-11-29T12:00:00.123456789Z`.
pub const RFC3339_BYTES_MAX: usize = 30;

const NANOS: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;
/// The minute of the UTC day that a leap second ends.
const LAST_MINUTE: i64 = 23 * 60 + 59;

pub(super) fn parse(text: &str) -> Result<Timestamp, TimeError> {
    let (head, rest) = text.as_bytes().split_first_chunk::<19>().ok_or(TimeError::Malformed("it is cut short"))?;
    let days = date(head)?;
    let (minute, second) = time_of_day(head)?;
    let (fraction, rest) = fraction(rest)?;
    let utc_minute = minute - offset_minutes(rest)?;
    if second == 60 {
        return leap_second(days, utc_minute);
    }
    assemble(days * DAY_SECONDS + utc_minute * 60 + second, fraction)
}

/// Days since 1970-01-01 of the `YYYY-MM-DD` in front.
fn date(head: &[u8; 19]) -> Result<i64, TimeError> {
    if head[4] != b'-' || head[7] != b'-' {
        return Err(TimeError::Malformed("a date is YYYY-MM-DD"));
    }
    let year = digits([head[0], head[1]])? * 100 + digits([head[2], head[3]])?;
    let (month, day) = (digits([head[5], head[6]])?, digits([head[8], head[9]])?);
    if !(1..=12).contains(&month) {
        return Err(TimeError::Malformed("no such month"));
    }
    if day < 1 || day > days_of_month(year, month) {
        return Err(TimeError::Malformed("no such day in that month"));
    }
    Ok(days_from_civil(year, month, day))
}

/// Minute of the day, and second (60 is left to the caller to judge).
fn time_of_day(head: &[u8; 19]) -> Result<(i64, i64), TimeError> {
    if !matches!(head[10], b'T' | b't' | b' ') {
        return Err(TimeError::Malformed("a T or a space stands between date and time"));
    }
    if head[13] != b':' || head[16] != b':' {
        return Err(TimeError::Malformed("a time is HH:MM:SS"));
    }
    let (hour, minute, second) = (digits([head[11], head[12]])?, digits([head[14], head[15]])?, digits([head[17], head[18]])?);
    if hour > 23 || minute > 59 || second > 60 {
        return Err(TimeError::Malformed("no such time of day"));
    }
    Ok((hour * 60 + minute, second))
}

/// Nanoseconds of an optional fraction, and what follows it. Digits beyond nine are cut.
fn fraction(rest: &[u8]) -> Result<(i64, &[u8]), TimeError> {
    let rest = match rest.split_first() {
        Some((b'.', rest)) => rest,
        Some((b',', _)) => return Err(TimeError::Malformed("a fraction begins with a point")),
        _ => return Ok((0, rest)),
    };
    let count = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    if count == 0 {
        return Err(TimeError::Malformed("a fraction has digits"));
    }
    let kept = count.min(9);
    let value = rest[..kept].iter().fold(0, |n, b| n * 10 + i64::from(b - b'0'));
    Ok((value * TEN_TO[9 - kept], &rest[count..]))
}

const TEN_TO: [i64; 10] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, NANOS];

/// Minutes to take away to come to UTC.
fn offset_minutes(rest: &[u8]) -> Result<i64, TimeError> {
    match rest {
        [b'Z' | b'z'] => Ok(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (digits([*h1, *h2])?, digits([*m1, *m2])?);
            if hours > 23 || minutes > 59 {
                return Err(TimeError::Malformed("no such offset"));
            }
            let offset = hours * 60 + minutes;
            Ok(if *sign == b'-' { -offset } else { offset })
        }
        [] => Err(TimeError::Malformed("an offset is missing (Z or ±HH:MM)")),
        _ => Err(TimeError::Malformed("an offset is Z or ±HH:MM, and nothing follows it")),
    }
}

/// 23:59:60 UTC, whatever its fraction, is kept as the last nanosecond before midnight.
fn leap_second(days: i64, utc_minute: i64) -> Result<Timestamp, TimeError> {
    if utc_minute.rem_euclid(24 * 60) != LAST_MINUTE {
        return Err(TimeError::Malformed("a second 60 is only at 23:59:60 UTC"));
    }
    assemble(days * DAY_SECONDS + utc_minute * 60 + 59, NANOS - 1)
}

fn assemble(seconds: i64, fraction: i64) -> Result<Timestamp, TimeError> {
    // In 128 bits, since the seconds alone of the earliest instants leave i64.
    let nanos = i128::from(seconds) * i128::from(NANOS) + i128::from(fraction);
    i64::try_from(nanos).map(Timestamp::from_nanos).map_err(|_| TimeError::OutOfRange)
}

fn digits(pair: [u8; 2]) -> Result<i64, TimeError> {
    let [tens, ones] = pair.map(|b| b.wrapping_sub(b'0'));
    if tens > 9 || ones > 9 {
        return Err(TimeError::Malformed("a digit was expected"));
    }
    Ok(i64::from(tens) * 10 + i64::from(ones))
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Day, counted from 1970-01-01, of a proleptic Gregorian date (Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms", as its inverse below).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

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

/// Every i64 lies in the years 1677 to 2262, so a year always has four digits.
pub(super) fn write(ts: Timestamp, buffer: &mut [u8; RFC3339_BYTES_MAX]) -> &str {
    let (seconds, fraction) = (ts.nanos().div_euclid(NANOS), ts.nanos().rem_euclid(NANOS));
    let (days, second) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
    let (year, month, day) = civil_from_days(days);
    *buffer = *b"0000-00-00T00:00:00.000000000Z";
    put(buffer, 0, 4, year);
    put(buffer, 5, 2, month);
    put(buffer, 8, 2, day);
    put(buffer, 11, 2, second / 3_600);
    put(buffer, 14, 2, second / 60 % 60);
    put(buffer, 17, 2, second % 60);
    put(buffer, 20, 9, fraction);
    let mut end = RFC3339_BYTES_MAX - 1;
    if fraction == 0 {
        end = 19;
    } else {
        while buffer[end - 1] == b'0' {
            end -= 1;
        }
    }
    buffer[end] = b'Z';
    str::from_utf8(&buffer[..=end]).expect("only ASCII was written")
}

/// Writes the last `count` decimal digits of `value`, which is not negative.
fn put(buffer: &mut [u8; RFC3339_BYTES_MAX], at: usize, count: usize, mut value: i64) {
    for byte in buffer[at..at + count].iter_mut().rev() {
        *byte = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nanos(text: &str) -> i64 {
        parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).nanos()
    }

    #[test]
    fn known_instants() {
        for (text, want) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-29T12:00:00.123456789Z", 1_795_953_600_123_456_789),
            ("2000-02-29T00:00:00Z", 951_782_400 * NANOS),
            ("1969-12-31T23:59:59.5Z", -NANOS / 2),
            ("1677-09-21T00:12:43.145224192Z", i64::MIN),
            ("2262-04-11T23:47:16.854775807Z", i64::MAX),
        ] {
            assert_eq!(nanos(text), want, "{text}");
        }
    }

    #[test]
    fn offsets_cases_and_a_space_for_t_name_the_same_instant() {
        let want = nanos("2026-01-01T00:30:00Z");
        for text in [
            "2026-01-01t00:30:00z",
            "2026-01-01 00:30:00Z",
            "2026-01-01T01:30:00+01:00",
            "2025-12-31T19:00:00-05:30",
            "2026-01-01T00:30:00-00:00",
            "2026-01-02T00:29:00+23:59",
            "2026-01-01T00:30:00.0Z",
        ] {
            assert_eq!(nanos(text), want, "{text}");
        }
    }

    #[test]
    fn digits_beyond_nine_are_cut_never_rounded() {
        assert_eq!(nanos("1970-01-01T00:00:00.9999999999999Z"), 999_999_999);
        assert_eq!(nanos("1969-12-31T23:59:59.9999999999999Z"), -1);
        assert_eq!(nanos("1970-01-01T00:00:00.1Z"), 100_000_000);
    }

    #[test]
    fn a_leap_second_is_the_last_nanosecond_before_midnight_utc() {
        let want = nanos("2017-01-01T00:00:00Z") - 1;
        for text in ["2016-12-31T23:59:60Z", "2016-12-31T23:59:60.5Z", "2017-01-01T00:59:60+01:00", "2016-12-31T15:59:60-08:00"] {
            assert_eq!(nanos(text), want, "{text}");
        }
        for text in ["2016-12-31T23:58:60Z", "2016-12-31T23:59:60+01:00", "2016-12-31T00:59:60Z", "2016-12-31T23:59:61Z"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_not_rfc_3339_is_malformed() {
        for text in [
            "",
            "2026",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00,5Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+0530",
            "2026-01-01T00:00:00+05",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00+05:60",
            "2026-01-01T00:00:00 01:00",
            "2026-01-01T00:00:00ZZ",
            "2026-01-01T00:00:00 Z",
            "2026-01-01T00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01_00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "02026-01-01T00:00:00Z",
            "+026-01-01T00:00:00Z",
            "-026-01-01T00:00:00Z",
            "2026-1-01T00:00:00Z",
            " 2026-01-01T00:00:00Z",
            "２026-01-01T00:00:00Z",
        ] {
            assert!(matches!(parse(text), Err(TimeError::Malformed(_))), "{text}: {:?}", parse(text));
        }
    }

    #[test]
    fn years_without_room_in_i64_are_out_of_range() {
        for text in [
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "1677-09-21T00:12:43.145224191Z",
            "2262-04-11T23:47:16.854775808Z",
            "2262-04-11T23:47:16-00:01",
        ] {
            assert_eq!(parse(text), Err(TimeError::OutOfRange), "{text}");
        }
    }

    #[test]
    fn only_the_digits_needed_are_written() {
        for text in ["1970-01-01T00:00:00Z", "1970-01-01T00:00:00.5Z", "1969-12-31T23:59:59.999999999Z", "2024-02-29T01:02:03.04005Z"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn every_instant_survives_its_text(n in any::<i64>()) {
            let ts = Timestamp::from_nanos(n);
            prop_assert_eq!(parse(&ts.to_string()), Ok(ts));
        }

        #[test]
        fn no_text_panics(text in "\\PC*|[0-9TtZz:+., -]{0,40}") {
            let _ = parse(&text);
        }
    }
}

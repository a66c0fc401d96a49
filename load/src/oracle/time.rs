//! RFC 3339 times, to nanoseconds. The oracle's own, on purpose.

/// `2026-11-29T12:00:00Z`, or with up to nine decimals, or with an offset: nanoseconds since the Unix epoch.
pub(super) fn nanos(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let separated = bytes.len() >= 20 && [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')].iter().all(|(at, c)| bytes[*at] == *c);
    let (rest, offset) = zone(text.get(19..).filter(|_| separated && text.is_ascii())?)?;
    let number = |from: usize, to: usize| digits(&bytes[from..to]);
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let sound = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 60;
    let fraction = if rest.is_empty() { 0 } else { fraction(rest.strip_prefix('.')?)? };
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute - offset) * 60 + second;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction).filter(|_| sound)
}

/// What stands before the zone, and the zone's minutes east of UTC.
fn zone(rest: &str) -> Option<(&str, i64)> {
    if let Some(rest) = rest.strip_suffix('Z') {
        return Some((rest, 0));
    }
    let (rest, zone) = rest.split_at_checked(rest.len().checked_sub(6)?)?;
    let [sign, h1, h2, b':', m1, m2] = *zone.as_bytes() else { return None };
    let (hours, minutes) = (digits(&[h1, h2])?, digits(&[m1, m2])?);
    let east = match sign {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some((rest, east * (hours * 60 + minutes)))
}

fn digits(bytes: &[u8]) -> Option<i64> {
    bytes.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

fn fraction(text: &str) -> Option<i64> {
    let number = digits(text.as_bytes()).filter(|_| (1..=9).contains(&text.len()))?;
    Some(number * 10_i64.pow(9 - text.len() as u32))
}

/// Days from 1970-01-01, counting years from March so that a leap day comes last (Hinnant, `days_from_civil`).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let of_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_what_a_calendar_says() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59Z", -1),
            ("2000-02-29T00:00:00Z", 951_782_400),
            ("2023-11-14T22:13:20Z", 1_700_000_000),
            ("2024-12-31T23:59:59Z", 1_735_689_599),
            ("2100-03-01T00:00:00Z", 4_107_542_400),
        ] {
            assert_eq!(nanos(text), Some(seconds * 1_000_000_000), "{text}");
        }
        assert_eq!(nanos("1970-01-01T00:00:00.5Z"), Some(500_000_000));
        assert_eq!(nanos("1970-01-01T00:00:00.000000001Z"), Some(1));
        assert_eq!(nanos("1970-01-01T01:30:00.5+01:30"), Some(500_000_000));
        assert_eq!(nanos("1969-12-31T23:00:00-01:00"), Some(0));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00:00+0000",
            "1970-01-01T00:00:00+24:00",
            "1970-13-01T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00.0000000001Z",
            "1970-01-01T00:00:0xZ",
            "9999-01-01T00:00:00Z",
        ] {
            assert_eq!(nanos(text), None, "{text}");
        }
    }
}

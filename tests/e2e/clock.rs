//! The one place where tests ask what time it is, and read times that the server wrote.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch.
pub(crate) fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_nanos() as i64
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> i64 {
    now_ns() / 1_000_000
}

/// Nanoseconds of an RFC 3339 time in UTC; the tests' own reading of it, not the server's.
#[track_caller]
pub(crate) fn nanos(ts: &str) -> i64 {
    let number = |part: &str| part.parse::<i128>().unwrap_or_else(|_| panic!("not a time: {ts}"));
    let (date, time) = ts.strip_suffix('Z').and_then(|ts| ts.split_once('T')).unwrap_or_else(|| panic!("not a time: {ts}"));
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let date: Vec<i128> = date.split('-').map(number).collect();
    let time: Vec<i128> = time.split(':').map(number).collect();
    let seconds = ((days(date[0], date[1], date[2]) * 24 + time[0]) * 60 + time[1]) * 60 + time[2];
    i64::try_from(seconds * 1_000_000_000 + number(&format!("{fraction:0<9}"))).unwrap_or_else(|_| panic!("out of range: {ts}"))
}

/// Days since 1970-01-01; the year is counted from March, so that a leap day is its last.
fn days(year: i128, month: i128, day: i128) -> i128 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[test]
fn times_are_read_as_what_they_are() {
    let known = [
        ("1970-01-01T00:00:00Z", 0),
        ("2000-02-29T12:00:00.5Z", 951_825_600_500_000_000),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("2262-04-11T23:47:16.854775807Z", i64::MAX),
        ("1677-09-21T00:12:43.145224192Z", i64::MIN),
    ];
    for (text, expected) in known {
        assert_eq!(nanos(text), expected, "{text}");
    }
}

//! What a write was answered with: how many events are stored, and which were refused why.

use hyper::StatusCode;
use serde::Deserialize;

use super::Format;

/// What became of a body's events.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Answer {
    pub(crate) stored: u64,
    pub(crate) rejected: u64,
    pub(crate) errors: Vec<RowError>,
}

/// An event that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct RowError {
    /// Place in the body, from 0.
    pub(crate) index: usize,
    /// Stable code.
    pub(crate) code: String,
    /// For a person.
    pub(crate) detail: String,
}

impl Answer {
    /// All of a body's events are stored.
    pub(crate) fn all_stored(events: u64) -> Answer {
        Answer { stored: events, ..Answer::default() }
    }

    /// Reads an answer of Braid to a body of `events`; `None` where it does not say what became of them.
    pub(super) fn read(format: Format, status: StatusCode, body: &[u8], events: u64) -> Option<Answer> {
        match format {
            Format::Ndjson | Format::Json | Format::Rows => serde_json::from_slice(body).ok(),
            Format::Line | Format::LineFields if status.is_success() => Some(Answer::all_stored(events)),
            Format::Line | Format::LineFields => Answer::partial_write(body, events),
        }
    }

    /// InfluxDB says `partial write: … dropped=3` and no more.
    pub(crate) fn partial_write(body: &[u8], events: u64) -> Option<Answer> {
        let text = std::str::from_utf8(body).ok().filter(|text| text.contains("partial write"))?;
        let after = &text[text.rfind("dropped=")? + "dropped=".len()..];
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let rejected: u64 = after[..digits].parse().ok()?;
        Some(Answer { stored: events.checked_sub(rejected)?, rejected, errors: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_write_of_lines_is_counted() {
        let body = br#"{"error":"partial write: unable to parse 'x': missing fields dropped=3"}"#;
        let answer = Answer::read(Format::Line, StatusCode::BAD_REQUEST, body, 10).unwrap();
        assert_eq!((answer.stored, answer.rejected), (7, 3));
    }

    #[test]
    fn a_problem_is_no_answer() {
        let body = br#"{"code":"body_malformed","status":400,"title":"x","detail":"partial"}"#;
        assert_eq!(Answer::read(Format::Ndjson, StatusCode::BAD_REQUEST, body, 1), None);
        assert_eq!(Answer::read(Format::Line, StatusCode::BAD_REQUEST, body, 1), None);
    }

    #[test]
    fn refused_events_keep_their_place_and_code() {
        let body = br#"{"stored":1,"rejected":1,"errors":[{"index":0,"code":"key_missing","detail":"no key"}],"made":[]}"#;
        let answer = Answer::read(Format::Ndjson, StatusCode::UNPROCESSABLE_ENTITY, body, 2).unwrap();
        assert_eq!((answer.errors[0].index, &*answer.errors[0].code), (0, "key_missing"));
    }
}

//! Braid as a target: its paths, and what its answers say. Pure.

use braid_shared::model::Namespace;
use hyper::StatusCode;

use super::target::{Call, Target, Verdict, by_status};
use super::{Answer, Encoding, Format};
use crate::workload::Read;

/// A namespace of a Braid.
pub(crate) struct Braid {
    namespace: Namespace,
    format: Format,
    write: Call,
}

impl Braid {
    /// Writes into `namespace`; event times are milliseconds.
    pub(crate) fn new(namespace: Namespace, format: Format, encoding: Encoding) -> Result<Braid, String> {
        let path = match format {
            Format::Ndjson | Format::Json => format!("/v1/{namespace}/events"),
            Format::Line => format!("/write?db={namespace}&precision=ms&id_tag=id"),
            Format::LineFields | Format::Rows => return Err("a format of peers".to_owned()),
        };
        let write = Call::post(&path, format.content_type())?.encoded(encoding);
        Ok(Braid { namespace, format, write })
    }
}

impl Target for Braid {
    fn format(&self) -> Format {
        self.format
    }

    fn write(&self) -> &Call {
        &self.write
    }

    fn judge_write(&self, status: StatusCode, body: &[u8], events: u64) -> Verdict {
        let may_say = status.is_success() || matches!(status, StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST);
        let answer = may_say.then(|| Answer::read(self.format, status, body, events)).flatten();
        match answer {
            Some(answer) if answer.stored.checked_add(answer.rejected) == Some(events) => Verdict::Done(answer),
            Some(answer) => Verdict::Again(format!("{} stored and {} rejected of {events} events", answer.stored, answer.rejected)),
            None => by_status(status, body),
        }
    }

    fn read(&self, read: &Read) -> Result<Call, String> {
        Call::get(&match read {
            Read::Last { key, limit, .. } => format!("/v1/{}/events?key={}&limit={limit}&order=desc", self.namespace, encode(key)),
            Read::Range { key, back, step, field, group_by } => {
                let group = group_by.map(|tag| format!("&group_by={tag}")).unwrap_or_default();
                let key = encode(key);
                format!("/v1/{}/aggregate?key={key}&from=now-{back}&step={step}&field={field}&fn=count,sum,max{group}", self.namespace)
            }
            Read::Point { key, id, millis } => {
                let ts = millis.map(|millis| format!("&ts={millis}")).unwrap_or_default();
                format!("/v1/{}/events/{}?key={}{ts}", self.namespace, encode(id), encode(key))
            }
        })
    }

    fn judge_read(&self, _: &Read, status: StatusCode, body: &[u8]) -> Verdict {
        // An answer that is not whole must not look like a fast one.
        let whole = status == StatusCode::OK && has(body, b"\"complete\":true");
        if whole { Verdict::Done(Answer::default()) } else { by_status(status, body) }
    }
}

fn has(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).rev().any(|window| window == part)
}

/// A value of a query string: all but unreserved characters as `%XX`.
pub(crate) fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn braid(format: Format) -> Braid {
        Braid::new("bench".parse().unwrap(), format, Encoding::Gzip).unwrap()
    }

    #[test]
    fn rows_that_were_refused_are_an_answer_and_a_problem_is_none() {
        let partial = br#"{"stored":1,"rejected":1,"errors":[{"index":0,"code":"key_missing","detail":"no key"}],"made":[]}"#;
        let Verdict::Done(answer) = braid(Format::Ndjson).judge_write(StatusCode::UNPROCESSABLE_ENTITY, partial, 2) else {
            panic!("it says what became of both")
        };
        assert_eq!((answer.stored, answer.rejected), (1, 1));
        let problem = br#"{"code":"body_malformed","status":400,"title":"x","detail":"partial"}"#;
        for format in [Format::Ndjson, Format::Line] {
            assert!(matches!(braid(format).judge_write(StatusCode::BAD_REQUEST, problem, 1), Verdict::Refused(_)));
        }
    }

    #[test]
    fn an_answer_that_does_not_account_for_every_event_is_none() {
        let short = br#"{"stored":1,"rejected":0,"errors":[],"made":[]}"#;
        assert!(matches!(braid(Format::Json).judge_write(StatusCode::OK, short, 2), Verdict::Again(_)));
    }

    #[test]
    fn a_busy_server_is_asked_again_and_a_missing_one_is_not() {
        assert!(matches!(braid(Format::Line).judge_write(StatusCode::SERVICE_UNAVAILABLE, b"", 1), Verdict::Again(_)));
        assert!(matches!(braid(Format::Line).judge_write(StatusCode::NOT_FOUND, b"", 1), Verdict::Refused(_)));
    }

    #[test]
    fn reads_are_encoded_and_an_answer_that_is_not_whole_is_none() {
        let read = Read::Last { key: "a b+".into(), limit: 100, since: 0 };
        let call = braid(Format::Ndjson).read(&read).unwrap();
        assert_eq!(call.path, "/v1/bench/events?key=a%20b%2B&limit=100&order=desc");
        let judge = |body: &[u8]| braid(Format::Ndjson).judge_read(&read, StatusCode::OK, body);
        assert!(matches!(judge(br#"{"events":[],"complete":true}"#), Verdict::Done(_)));
        assert!(matches!(judge(br#"{"events":[],"complete":false}"#), Verdict::Refused(_)));
    }
}

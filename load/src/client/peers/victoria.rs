//! VictoriaMetrics: `/write` and its query and export API. It keeps numbers by series and millisecond
//! and no strings, so that an event's id is lost: there is no read of one event.

use hyper::StatusCode;

use super::super::target::{Call, Target, Verdict, by_status};
use super::super::{Answer, Encoding, Format};
use super::{all_or_nothing, with_query};
use crate::workload::Read;

/// A VictoriaMetrics; the database is a label.
pub(crate) struct Victoria {
    database: String,
    write: Call,
}

impl Victoria {
    pub(crate) fn new(database: &str, encoding: Encoding) -> Result<Victoria, String> {
        let path = with_query("/write", &[("db", database), ("precision", "ns")]);
        let write = Call::post(&path, Format::LineFields.content_type())?.encoded(encoding);
        Ok(Victoria { database: database.to_owned(), write })
    }

    /// The series of a field of a key, all its tags.
    fn series(&self, key: &str, field: &str) -> String {
        format!("{{__name__={},db={}}}", quoted(&format!("{key}_{field}")), quoted(&self.database))
    }
}

impl Target for Victoria {
    fn format(&self) -> Format {
        Format::LineFields
    }

    fn write(&self) -> &Call {
        &self.write
    }

    fn judge_write(&self, status: StatusCode, body: &[u8], events: u64) -> Verdict {
        all_or_nothing(status, body, events)
    }

    fn read(&self, read: &Read) -> Result<Call, String> {
        match read {
            // It has no last N. The samples since the time of the Nth come nearest.
            Read::Last { key, since, .. } => {
                let series = format!("{{__name__=~{},db={}}}", quoted(&format!("{key}_(amount|qty)")), quoted(&self.database));
                let since = format!("{}.{:03}", since.div_euclid(1_000), since.rem_euclid(1_000));
                Call::get(&with_query("/api/v1/export", &[("match[]", &series), ("start", &since)]))
            }
            Read::Range { key, back, step, field, group_by } => {
                let (series, by) = (self.series(key, field), group_by.map(|tag| format!(" by ({tag})")).unwrap_or_default());
                let parts = [("count", "sum", "count"), ("sum", "sum", "sum"), ("max", "max", "max")];
                let part = |(name, outer, inner)| format!("alias({outer}({inner}_over_time({series}[{step}])){by},\"{name}\")");
                let query = format!("union({})", parts.map(part).join(","));
                let start = format!("-{back}");
                // Without `nocache` the second query would be answered from the first one's answer.
                let pairs = [("query", query.as_str()), ("start", &start), ("step", step), ("nocache", "1")];
                Call::get(&with_query("/api/v1/query_range", &pairs))
            }
            Read::Point { .. } => Err("VictoriaMetrics keeps no ids".into()),
        }
    }

    fn judge_read(&self, read: &Read, status: StatusCode, body: &[u8]) -> Verdict {
        let whole = match read {
            Read::Range { .. } => {
                body.starts_with(b"{\"status\":\"success\"") && memchr::memmem::find(body, b"\"isPartial\":true").is_none()
            }
            _ => true,
        };
        if status == StatusCode::OK && whole { Verdict::Done(Answer::default()) } else { by_status(status, body) }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::super::encode;
    use super::*;

    fn victoria() -> Victoria {
        Victoria::new("bench", Encoding::None).unwrap()
    }

    #[test]
    fn a_range_asks_for_all_three_functions_at_once_and_never_the_cache() {
        let read = Read::Range { key: "hot".into(), back: "1h", step: "1m", field: "qty", group_by: None };
        let path = victoria().read(&read).unwrap().path.to_string();
        let sum = "alias(sum(sum_over_time({__name__=\"hot_qty\",db=\"bench\"}[1m])),\"sum\")";
        assert!(path.starts_with("/api/v1/query_range?query=union") && path.contains(&encode(sum)), "{path}");
        assert!(path.ends_with("&start=-1h&step=1m&nocache=1"), "{path}");
    }

    #[test]
    fn the_last_events_are_those_since_a_time_and_there_is_no_single_one() {
        let read = Read::Last { key: "hot".into(), limit: 100, since: 1_700_000_000_005 };
        let path = victoria().read(&read).unwrap().path.to_string();
        assert!(path.ends_with("&start=1700000000.005"), "{path}");
        assert!(victoria().read(&Read::Point { key: "hot".into(), id: "00".into(), millis: Some(1) }).is_err());
    }

    #[test]
    fn an_answer_that_is_no_success_is_none() {
        let read = Read::Range { key: "hot".into(), back: "1h", step: "1m", field: "qty", group_by: None };
        let judge = |body: &[u8]| victoria().judge_read(&read, StatusCode::OK, body);
        assert!(matches!(judge(br#"{"status":"success","data":{}}"#), Verdict::Done(_)));
        assert!(matches!(judge(br#"{"status":"error"}"#), Verdict::Refused(_)));
        assert!(matches!(judge(br#"{"status":"success","isPartial":true}"#), Verdict::Refused(_)));
    }
}

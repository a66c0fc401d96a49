//! InfluxDB 1.x: `/write` and InfluxQL. A point is a series and a time, so times are nanoseconds and
//! no two events of a run share one.

use hyper::{Method, StatusCode};

use super::super::target::{Call, Target, Verdict, by_status};
use super::super::{Answer, Encoding, Format};
use super::{all_or_nothing, with_query};
use crate::workload::Read;

/// A database of an InfluxDB.
pub(crate) struct Influx {
    database: String,
    write: Call,
}

impl Influx {
    pub(crate) fn new(database: &str, encoding: Encoding) -> Result<Influx, String> {
        let path = with_query("/write", &[("db", database), ("precision", "ns")]);
        let write = Call::post(&path, Format::LineFields.content_type())?.encoded(encoding);
        Ok(Influx { database: database.to_owned(), write })
    }

    fn query(&self, query: &str) -> Result<Call, String> {
        Call::get(&with_query("/query", &[("db", &self.database), ("epoch", "ms"), ("q", query)]))
    }
}

impl Target for Influx {
    fn format(&self) -> Format {
        Format::LineFields
    }

    fn prepare(&self) -> Result<Vec<Call>, String> {
        Ok(vec![Call { method: Method::POST, ..self.query(&format!("CREATE DATABASE {}", name(&self.database)))? }])
    }

    fn write(&self) -> &Call {
        &self.write
    }

    fn judge_write(&self, status: StatusCode, body: &[u8], events: u64) -> Verdict {
        // A partial write is one of lines that it can't read: there are none.
        all_or_nothing(status, body, events)
    }

    fn read(&self, read: &Read) -> Result<Call, String> {
        self.query(&match read {
            Read::Last { key, limit, .. } => format!("SELECT * FROM {} ORDER BY time DESC LIMIT {limit}", name(key)),
            Read::Range { key, back, step, field, group_by } => {
                let field = name(field);
                let group = group_by.map(|tag| format!(", {}", name(tag))).unwrap_or_default();
                let columns = format!("count({field}), sum({field}), max({field})");
                format!("SELECT {columns} FROM {} WHERE time >= now() - {back} GROUP BY time({step}){group}", name(key))
            }
            Read::Point { key, id, millis } => {
                let at = |millis: i64| format!(" AND time >= {millis}000000 AND time < {}000000", millis + 1);
                format!("SELECT * FROM {} WHERE \"id\" = '{id}'{}", name(key), millis.map(at).unwrap_or_default())
            }
        })
    }

    fn judge_read(&self, _: &Read, status: StatusCode, body: &[u8]) -> Verdict {
        // A query that fails is a 200 that says so.
        let failed = memchr::memmem::find(body, b"\"error\":").is_some();
        if status == StatusCode::OK && !failed { Verdict::Done(Answer::default()) } else { by_status(status, body) }
    }
}

/// A quoted identifier.
fn name(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn influx() -> Influx {
        Influx::new("bench", Encoding::None).unwrap()
    }

    fn path(read: &Read) -> String {
        influx().read(read).unwrap().path.to_string()
    }

    #[test]
    fn reads_are_influxql() {
        let range = Read::Range { key: "hot".into(), back: "1h", step: "1m", field: "qty", group_by: Some("region") };
        assert_eq!(
            path(&range),
            "/query?db=bench&epoch=ms&q=SELECT%20count%28%22qty%22%29%2C%20sum%28%22qty%22%29%2C%20max%28%22qty%22%29%20FROM%20%22hot%22\
             %20WHERE%20time%20%3E%3D%20now%28%29%20-%201h%20GROUP%20BY%20time%281m%29%2C%20%22region%22"
        );
        let point = Read::Point { key: "a\"b".into(), id: "00ff".into(), millis: Some(5) };
        let query = "SELECT * FROM \"a\\\"b\" WHERE \"id\" = '00ff' AND time >= 5000000 AND time < 6000000";
        assert_eq!(path(&point), format!("/query?db=bench&epoch=ms&q={}", super::super::encode(query)));
    }

    #[test]
    fn a_write_is_stored_whole_or_not_at_all_and_a_query_may_fail_with_200() {
        let stored = influx().judge_write(StatusCode::NO_CONTENT, b"", 7);
        assert_eq!(stored, Verdict::Done(Answer { stored: 7, ..Answer::default() }));
        assert!(matches!(influx().judge_write(StatusCode::SERVICE_UNAVAILABLE, b"", 7), Verdict::Again(_)));
        let read = Read::Last { key: "hot".into(), limit: 1, since: 0 };
        let judge = |body: &[u8]| influx().judge_read(&read, StatusCode::OK, body);
        assert!(matches!(judge(br#"{"results":[{"statement_id":0,"error":"database not found: x"}]}"#), Verdict::Refused(_)));
        assert!(matches!(judge(br#"{"results":[{"statement_id":0}]}"#), Verdict::Done(_)));
    }
}

//! ClickHouse over HTTP: one MergeTree table in the order of key and time, JSON rows in, SQL out. Only
//! what releases since 18.16 understand (no `DateTime64`: times are milliseconds in a `UInt64`).

use bytes::Bytes;
use hyper::{Method, StatusCode};

use braid_shared::model::Span;

use super::super::target::{Call, Target, Verdict, by_status};
use super::super::{Answer, Encoding, Format};
use super::{all_or_nothing, with_query};
use crate::workload::Read;

const COLUMNS: &str = "key String, id String, ts UInt64, amount Float64, qty Int64, note String, region String";

/// A database of a ClickHouse, and table `events` in it.
pub(crate) struct ClickHouse {
    database: String,
    table: String,
    write: Call,
}

impl ClickHouse {
    pub(crate) fn new(database: &str, encoding: Encoding) -> Result<ClickHouse, String> {
        let (database, table) = (name(database), format!("{}.events", name(database)));
        let path = with_query("/", &[("query", &format!("INSERT INTO {table} FORMAT JSONEachRow"))]);
        let write = Call::post(&path, Format::Rows.content_type())?.encoded(encoding);
        Ok(ClickHouse { database, table, write })
    }
}

impl Target for ClickHouse {
    fn format(&self) -> Format {
        Format::Rows
    }

    fn prepare(&self) -> Result<Vec<Call>, String> {
        let statements = [
            format!("CREATE DATABASE IF NOT EXISTS {}", self.database),
            format!("CREATE TABLE IF NOT EXISTS {} ({COLUMNS}) ENGINE = MergeTree() ORDER BY (key, ts)", self.table),
        ];
        let post = Call { method: Method::POST, ..Call::get("/")? };
        Ok(statements.map(|statement| post.carrying(Bytes::from(statement))).into())
    }

    fn write(&self) -> &Call {
        &self.write
    }

    fn judge_write(&self, status: StatusCode, body: &[u8], events: u64) -> Verdict {
        all_or_nothing(status, body, events)
    }

    fn read(&self, read: &Read) -> Result<Call, String> {
        let table = &self.table;
        let query = match read {
            Read::Last { key, limit, .. } => format!("SELECT * FROM {table} WHERE key = {} ORDER BY ts DESC LIMIT {limit}", text(key)),
            Read::Range { key, back, step, field, group_by } => {
                let (back, step) = (millis(back)?, millis(step)?);
                let field = name(field);
                let by = group_by.map(|tag| format!(", {}", name(tag))).unwrap_or_default();
                let since = format!("ts >= toUnixTimestamp(now()) * 1000 - {back}");
                let columns = format!("intDiv(ts, {step}) * {step} AS start{by}, count(), sum({field}), max({field})");
                format!("SELECT {columns} FROM {table} WHERE key = {} AND {since} GROUP BY start{by} ORDER BY start{by}", text(key))
            }
            Read::Point { key, id, millis } => {
                let at = millis.map(|millis| format!("ts = {millis} AND ")).unwrap_or_default();
                format!("SELECT * FROM {table} WHERE key = {} AND {at}id = {}", text(key), text(id))
            }
        };
        Call::get(&with_query("/", &[("query", &format!("{query} FORMAT JSONEachRow"))]))
    }

    fn judge_read(&self, _: &Read, status: StatusCode, body: &[u8]) -> Verdict {
        // An error after the head of an answer was sent stands in its body.
        let failed = memchr::memmem::find(body, b"DB::Exception").is_some();
        if status == StatusCode::OK && !failed { Verdict::Done(Answer::default()) } else { by_status(status, body) }
    }
}

fn name(text: &str) -> String {
    format!("`{}`", text.replace('\\', "\\\\").replace('`', "\\`"))
}

fn text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn millis(span: &str) -> Result<i64, String> {
    span.parse::<Span>().map(|span| span.nanos() / 1_000_000).map_err(|error| format!("{span}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::encode;
    use super::*;

    fn clickhouse() -> ClickHouse {
        ClickHouse::new("bench", Encoding::None).unwrap()
    }

    #[test]
    fn the_table_is_made_before_the_run_in_the_order_that_reads_want() {
        let calls = clickhouse().prepare().unwrap();
        let bodies: Vec<&[u8]> = calls.iter().map(|call| &call.body[..]).collect();
        assert_eq!(bodies[0], b"CREATE DATABASE IF NOT EXISTS `bench`");
        assert!(
            bodies[1].starts_with(b"CREATE TABLE IF NOT EXISTS `bench`.events (key String") && bodies[1].ends_with(b"ORDER BY (key, ts)")
        );
        assert!(calls.iter().all(|call| call.method == Method::POST));
        assert_eq!(clickhouse().write().path, "/?query=INSERT%20INTO%20%60bench%60.events%20FORMAT%20JSONEachRow");
    }

    #[test]
    fn reads_are_sql_and_no_key_escapes_its_quotes() {
        let of = |read: &Read| clickhouse().read(read).unwrap().path.to_string();
        let range = of(&Read::Range { key: "it's".into(), back: "1h", step: "1m", field: "qty", group_by: Some("region") });
        let query = "SELECT intDiv(ts, 60000) * 60000 AS start, `region`, count(), sum(`qty`), max(`qty`) FROM `bench`.events \
                     WHERE key = 'it\\'s' AND ts >= toUnixTimestamp(now()) * 1000 - 3600000 GROUP BY start, `region` ORDER BY start, `region` \
                     FORMAT JSONEachRow";
        assert_eq!(range, format!("/?query={}", encode(query)));
        let point = of(&Read::Point { key: "hot".into(), id: "00ff".into(), millis: Some(5) });
        assert!(point.contains(&encode("ts = 5 AND id = '00ff'")), "{point}");
    }

    #[test]
    fn an_exception_in_a_good_answer_is_no_answer() {
        let read = Read::Last { key: "hot".into(), limit: 1, since: 0 };
        let judge = |status, body: &[u8]| clickhouse().judge_read(&read, status, body);
        assert!(matches!(judge(StatusCode::OK, b"{\"key\":\"hot\"}\n"), Verdict::Done(_)));
        assert!(matches!(judge(StatusCode::OK, b"{}\nCode: 241, e.displayText() = DB::Exception: memory"), Verdict::Refused(_)));
        assert!(matches!(clickhouse().judge_write(StatusCode::INTERNAL_SERVER_ERROR, b"Code: 27", 5), Verdict::Refused(_)));
    }
}

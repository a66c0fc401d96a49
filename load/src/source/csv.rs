//! CSV records as events: a header names the columns; cells are typed by how they look.

use std::io::BufRead;

use csv::{Reader, ReaderBuilder, StringRecord};
use serde_json::{Map, Value};

use super::SourceError;

/// Which columns make up an event, as far as they were named; all others are fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    /// The key of all events where no column has it.
    pub(crate) constant_key: Option<String>,
    /// `key` unless named.
    pub(crate) key: Option<String>,
    /// `id` unless named; may then be missing.
    pub(crate) id: Option<String>,
    /// `ts` unless named; may then be missing.
    pub(crate) ts: Option<String>,
    pub(crate) tags: Vec<String>,
}

/// What a column is to an event.
enum Role {
    Key,
    Id,
    Ts,
    Tag(String),
    Field(String),
}

/// The records of a file.
pub(super) struct Records {
    reader: Reader<Box<dyn BufRead + Send>>,
    record: StringRecord,
    roles: Vec<Role>,
    constant_key: Option<String>,
}

impl Records {
    /// Reads the header. Every column that was named must be there, and a key.
    pub(super) fn open(text: Box<dyn BufRead + Send>, columns: Columns) -> Result<Records, SourceError> {
        let mut reader = ReaderBuilder::new().from_reader(text);
        let header = reader.headers().map_err(|error| SourceError::Csv(error.to_string()))?.clone();
        let of = |named: &Option<String>, default: &str| named.clone().unwrap_or_else(|| default.to_owned());
        let (key, id, ts) = (of(&columns.key, "key"), of(&columns.id, "id"), of(&columns.ts, "ts"));
        let has_key = columns.constant_key.is_some();
        let wanted = columns.tags.iter().chain(&columns.id).chain(&columns.ts).chain((!has_key).then_some(&key));
        if let Some(missing) = wanted.into_iter().find(|name| header.iter().all(|found| found != **name)) {
            let found = header.iter().collect::<Vec<_>>().join(", ");
            let hint = if *missing == key { "; --key-column names the key's, --key is the key of all" } else { "" };
            return Err(SourceError::Csv(format!("the header has no column `{missing}`, but {found}{hint}")));
        }
        let role = |name: &str| match name {
            _ if name == key && !has_key => Role::Key,
            _ if name == id => Role::Id,
            _ if name == ts => Role::Ts,
            _ if columns.tags.iter().any(|tag| tag == name) => Role::Tag(name.to_owned()),
            _ => Role::Field(name.to_owned()),
        };
        let roles = header.iter().map(role).collect();
        Ok(Records { reader, record: StringRecord::new(), roles, constant_key: columns.constant_key })
    }

    /// Appends the next record as a line of JSON; gives the number of its line in the file.
    pub(super) fn next_line(&mut self, out: &mut Vec<u8>) -> Result<Option<u64>, SourceError> {
        if !self.reader.read_record(&mut self.record).map_err(|error| SourceError::Csv(error.to_string()))? {
            return Ok(None);
        }
        let event = self.event();
        out.extend_from_slice(event.to_string().as_bytes());
        out.push(b'\n');
        Ok(Some(self.record.position().map_or(0, csv::Position::line)))
    }

    fn event(&self) -> Value {
        let (mut event, mut fields, mut tags) = (Map::new(), Map::new(), Map::new());
        if let Some(key) = &self.constant_key {
            event.insert("key".into(), key.as_str().into());
        }
        for (role, cell) in self.roles.iter().zip(&self.record).filter(|(_, cell)| !cell.is_empty()) {
            match role {
                Role::Key => drop(event.insert("key".into(), cell.into())),
                Role::Id => drop(event.insert("id".into(), cell.into())),
                Role::Ts => drop(event.insert("ts".into(), cell.parse::<i64>().map_or_else(|_| cell.into(), Value::from))),
                Role::Tag(name) => drop(tags.insert(name.clone(), cell.into())),
                Role::Field(name) => drop(fields.insert(name.clone(), typed(cell))),
            }
        }
        event.insert("fields".into(), fields.into());
        event.insert("tags".into(), tags.into());
        event.into()
    }
}

/// A number where the cell is written like one, so that it reads back the same; else text.
fn typed(cell: &str) -> Value {
    let digits = cell.trim_start_matches('-');
    // 007 is a name, +1 may be anything, and `inf` and `nan` are words.
    let padded = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    if padded || !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return match cell {
            "true" => true.into(),
            "false" => false.into(),
            _ => cell.into(),
        };
    }
    let integer = cell.parse::<i64>().map(Value::from).or_else(|_| cell.parse::<u64>().map(Value::from));
    // Beyond what a double holds it is text.
    let float = || cell.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from);
    integer.ok().or_else(float).unwrap_or_else(|| cell.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_are_typed_by_how_they_look() {
        for (cell, value) in [
            ("7", json!(7)),
            ("-7", json!(-7)),
            ("18446744073709551615", json!(u64::MAX)),
            ("1.50", json!(1.5)),
            ("1e3", json!(1000.0)),
            ("0", json!(0)),
            ("0.5", json!(0.5)),
            ("true", json!(true)),
            ("007", json!("007")),
            ("1e999", json!("1e999")),
            ("1.2.3", json!("1.2.3")),
            ("nan", json!("nan")),
            ("-", json!("-")),
            ("x", json!("x")),
        ] {
            assert_eq!(typed(cell), value, "{cell}");
        }
    }

    fn records(text: &'static str, columns: Columns) -> Result<Records, SourceError> {
        Records::open(Box::new(text.as_bytes()), columns)
    }

    #[test]
    fn a_column_that_is_missing_is_named() {
        let of = |columns| records("key,b\n1,2\n", columns).err().map(|error: SourceError| error.to_string());
        assert_eq!(of(Columns::default()), None, "id and ts may be missing");
        let named = |name: &str| Some(name.to_owned());
        for columns in [
            Columns { key: named("x"), ..Columns::default() },
            Columns { id: named("x"), ..Columns::default() },
            Columns { ts: named("x"), ..Columns::default() },
            Columns { tags: vec!["b".into(), "x".into()], ..Columns::default() },
        ] {
            let error = of(columns).unwrap();
            assert!(error.contains("no column `x`, but key, b"), "{error}");
        }
    }

    #[test]
    fn one_key_may_stand_for_all_and_empty_cells_are_nothing() {
        let columns = Columns { constant_key: Some("k".into()), ts: Some("at".into()), ..Columns::default() };
        let mut out = Vec::new();
        let mut records = records("at,n,s\n2023-11-14T22:13:20Z,,x\n", columns).unwrap();
        assert_eq!(records.next_line(&mut out).unwrap(), Some(2));
        let line: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(line, json!({"key": "k", "ts": "2023-11-14T22:13:20Z", "fields": {"s": "x"}, "tags": {}}));
        assert_eq!(records.next_line(&mut out).unwrap(), None);
    }

    #[test]
    fn a_record_with_too_few_cells_is_an_error() {
        let mut records = records("key,n\nk\n", Columns::default()).unwrap();
        assert!(matches!(records.next_line(&mut Vec::new()), Err(SourceError::Csv(_))));
    }
}

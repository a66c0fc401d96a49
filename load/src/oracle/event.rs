//! An event as a server wrote it, one JSON object; borrowed where it can be.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::time;

/// An event that was read back. A member it does not know makes it none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Found<'a> {
    #[serde(borrow)]
    pub(crate) key: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) ts: Cow<'a, str>,
    pub(crate) fields: Fields,
    #[serde(borrow)]
    pub(crate) tags: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
}

/// The fields of an event, by name.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Fields(BTreeMap<String, Value>);

impl Fields {
    /// By rising name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// A number that was written as one with a fraction.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name).filter(|value| value.is_f64())?.as_f64()
    }

    /// A number that was written as an integer.
    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        self.0.get(name)?.as_i64()
    }
}

impl<'a> Found<'a> {
    /// Reads a line of an answer.
    pub(crate) fn parse(line: &'a [u8]) -> Result<Found<'a>, serde_json::Error> {
        serde_json::from_slice(line)
    }

    /// Its time in nanoseconds since the Unix epoch.
    pub(crate) fn nanos(&self) -> Option<i64> {
        time::nanos(&self.ts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_with_the_types_it_has() {
        let line = br#"{"key":"a\"b","id":"x","ts":"1970-01-01T00:00:01Z","fields":{"f":1.0,"i":1,"s":"t"},"tags":{"k":"v"}}"#;
        let found = Found::parse(line).unwrap();
        assert_eq!((&*found.key, found.nanos()), ("a\"b", Some(1_000_000_000)));
        assert_eq!((found.fields.number("f"), found.fields.number("i")), (Some(1.0), None));
        assert_eq!((found.fields.integer("f"), found.fields.integer("i")), (None, Some(1)));
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        for line in [&b"{}"[..], b"", br#"{"key":"a","id":"x","ts":"t","fields":{},"tags":{},"more":1}"#] {
            assert!(Found::parse(line).is_err());
        }
    }
}

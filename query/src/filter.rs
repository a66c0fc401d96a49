//! `where=tag:value` conditions, all of which a merged event must meet.
//!
//! Pure. An empty value asks for events whose tag is empty or absent, as in InfluxDB and
//! Prometheus; placement treats the two alike.

use braid_shared::block::{Column, Presence, Table, Values};

/// Conditions on tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    conditions: Vec<(String, String)>,
}

impl Filter {
    /// Reads conditions: tag and value split at the first colon that no backslash escapes;
    /// `\:` and `\\` stand for `:` and `\`.
    pub fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Filter, String> {
        texts.map(condition).collect::<Result<_, _>>().map(|conditions| Filter { conditions })
    }

    /// Whether every event passes.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// The tags that are looked at.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.conditions.iter().map(|(tag, _)| tag.as_str())
    }

    /// The value that `tag` must have, where one is asked for.
    pub fn value_of(&self, tag: &str) -> Option<&str> {
        self.conditions.iter().find(|(name, _)| name == tag).map(|(_, value)| value.as_str())
    }

    /// Which rows of a table pass; `None`: all of them.
    pub fn passing(&self, table: &Table) -> Option<Vec<bool>> {
        (!self.is_empty()).then(|| {
            let mut passing = vec![true; table.ts.len()];
            self.conditions.iter().for_each(|(tag, value)| restrict(&mut passing, table, tag, value));
            passing
        })
    }
}

fn condition(text: &str) -> Result<(String, String), String> {
    let (mut tag, mut value) = (String::new(), None::<String>);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, &mut value) {
            (':', None) => value = Some(String::new()),
            (c, part) => {
                let escaped = (c == '\\').then(|| chars.next_if(|next| matches!(next, ':' | '\\'))).flatten();
                part.as_mut().unwrap_or(&mut tag).push(escaped.unwrap_or(c));
            }
        }
    }
    match value {
        Some(value) if !tag.is_empty() => Ok((tag, value)),
        _ => Err(format!("{text:?} is not tag:value")),
    }
}

/// Clears `passing` where `tag` is not `value`.
fn restrict(passing: &mut [bool], table: &Table, tag: &str, value: &str) {
    let mut equal = vec![value.is_empty(); passing.len()];
    for column in table.columns.iter().filter(|column| column.tag && column.name == tag) {
        for_each_text(column, |row, text| equal[row] = text == value);
    }
    passing.iter_mut().zip(equal).for_each(|(passing, equal)| *passing &= equal);
}

/// The string of the i-th value of a column; `None` for a column of another type.
pub fn text_of(column: &Column, i: usize) -> Option<&str> {
    match &column.values {
        Values::Str(strings) => Some(strings.get(i)),
        Values::Dict(strings, codes) => Some(strings.get(codes[i] as usize)),
        _ => None,
    }
}

/// A row's value of a tag.
pub fn tag_of<'a>(table: &'a Table, tag: &str, row: usize) -> Option<&'a str> {
    let mut columns = table.columns.iter().filter(|column| column.tag && column.name == tag);
    columns.find_map(|column| text_of(column, column.index_of(row as u32)?))
}

/// Every string of a column with its row, in order.
pub fn for_each_text<'a>(column: &'a Column, mut each: impl FnMut(usize, &'a str)) {
    for i in 0..column.values.len() {
        let row = match &column.presence {
            Presence::All => i,
            Presence::Rows(rows) => rows[i] as usize,
        };
        if let Some(text) = text_of(column, i) {
            each(row, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use braid_shared::block::Strings;

    use super::*;

    #[test]
    fn a_condition_splits_at_the_first_unescaped_colon() {
        let cases = [
            ("a:b", "a", "b"),
            (r"a\:b:c", "a:b", "c"),
            ("a:b:c", "a", "b:c"),
            (r"a\\:b", r"a\", "b"),
            ("a:", "a", ""),
            (r"p:C\d", "p", r"C\d"),
        ];
        for (text, tag, value) in cases {
            let filter = Filter::parse([text].into_iter()).unwrap();
            assert_eq!((filter.tags().next().unwrap(), filter.value_of(tag)), (tag, Some(value)), "{text}");
        }
    }

    #[test]
    fn a_condition_without_a_tag_or_a_colon_is_refused() {
        for text in ["", "a", ":b", r"a\:b"] {
            assert!(Filter::parse([text].into_iter()).is_err(), "{text}");
        }
    }

    #[test]
    fn an_empty_value_passes_events_without_the_tag() {
        let values = Values::Str(Strings { ends: vec![1, 1], bytes: b"x".to_vec() });
        let column = Column { name: "t".into(), tag: true, presence: Presence::Rows(vec![0, 2]), values };
        let table = Table { ts: vec![1, 2, 3], columns: vec![column], ..Table::default() };
        let passing = |text| Filter::parse([text].into_iter()).unwrap().passing(&table).unwrap();
        assert_eq!(passing("t:"), [false, true, true]);
        assert_eq!(passing("t:x"), [true, false, false]);
        assert_eq!(passing("other:"), [true, true, true]);
        assert_eq!(passing("other:x"), [false, false, false]);
    }
}

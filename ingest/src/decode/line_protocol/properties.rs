//! What must hold of any line and of any bytes.

use std::collections::{BTreeMap, BTreeSet};

use braid_shared::model::{Event, FieldValue, Timestamp};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::tests::{NANOS, events};
use super::*;

/// A name that the syntax can express: no newline, no backslash at its end; and none of what means
/// something else in front of a line.
fn name() -> impl Strategy<Value = String> {
    let wild = r##"[a-c ,=\\"#'\t\réß🍭]{1,6}"##;
    prop_oneof![wild, "[a-z]{1,8}", "[^\n]{1,12}"]
        .prop_filter("not expressible", |name| !name.ends_with('\\') && !name.starts_with(['#', '\t', '\r', '\u{feff}']))
}

fn value() -> impl Strategy<Value = FieldValue> {
    prop_oneof![
        proptest::num::f64::NORMAL.prop_map(FieldValue::F64),
        any::<i64>().prop_map(FieldValue::I64),
        any::<u64>().prop_map(FieldValue::U64),
        any::<bool>().prop_map(FieldValue::Bool),
        prop_oneof![r#"[a ,=\\"\n\r]{0,8}"#, "(?s).{0,12}"].prop_map(FieldValue::Str),
    ]
}

/// An event without an id: the decoder is to name it.
fn event() -> impl Strategy<Value = Event> {
    let parts = (name(), btree_map(name(), name(), 0..4), btree_map(name(), value(), 1..4), any::<i64>());
    parts.prop_map(|(key, tags, fields, ts)| Event { key, ts: Timestamp::from_nanos(ts), id: String::new(), fields, tags })
}

fn escape(text: &str, specials: &str) -> String {
    let each = |c: char| if specials.contains(c) { format!("\\{c}") } else { c.to_string() };
    text.chars().map(each).collect()
}

fn write_value(value: &FieldValue) -> String {
    match value {
        FieldValue::F64(v) => format!("{v:e}"),
        FieldValue::I64(v) => format!("{v}i"),
        FieldValue::U64(v) => format!("{v}u"),
        FieldValue::Bool(v) => v.to_string(),
        FieldValue::Str(v) => format!("\"{}\"", escape(v, "\"\\")),
    }
}

fn write(event: &Event) -> String {
    let tag = |(name, value): (&String, &String)| format!(",{}={}", escape(name, ", ="), escape(value, ", ="));
    let field = |(name, value): (&String, &FieldValue)| format!("{}={}", escape(name, ", ="), write_value(value));
    let tags: String = event.tags.iter().map(tag).collect();
    let fields: Vec<_> = event.fields.iter().map(field).collect();
    format!("{}{tags} {} {}", escape(&event.key, ", "), fields.join(","), event.ts.nanos())
}

/// The tag set that an id stands for.
fn read_id(id: &str) -> BTreeMap<String, String> {
    let (mut names, mut current, mut pairs) = (Vec::new(), String::new(), BTreeMap::new());
    let mut chars = id.chars().peekable();
    while let Some(c) = chars.next() {
        let mut run = usize::from(c == '\\');
        while run > 0 && chars.next_if_eq(&'\\').is_some() {
            run += 1;
        }
        let special = chars.peek().is_none_or(|next| ",= ".contains(*next));
        match c {
            '\\' if special && run % 2 == 1 => {
                current.push_str(&"\\".repeat(run / 2));
                current.extend(chars.next());
            }
            '\\' => current.push_str(&"\\".repeat(if special { run / 2 } else { run })),
            '=' => names.push(std::mem::take(&mut current)),
            ',' => pairs.extend(names.pop().map(|name| (name, std::mem::take(&mut current)))),
            other => current.push(other),
        }
    }
    pairs.extend(names.pop().map(|name| (name, current)));
    pairs
}

/// Every row and fault has its index, each index once, and ranges that fit the batch.
fn assert_whole(body: &[u8]) {
    let batch = decode(body, &NANOS).unwrap();
    let indexes: BTreeSet<u32> = batch.rows.iter().map(|row| row.index).chain(batch.faults.iter().map(|fault| fault.index)).collect();
    assert_eq!(indexes.len(), batch.rows.len() + batch.faults.len());
    assert_eq!(indexes.last().map_or(0, |last| *last as usize + 1), indexes.len());
    let lines = 1 + memchr_iter(b'\n', body).count() as u32;
    let numbers: Vec<_> = batch.rows.iter().map(|row| row.line).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next) && numbers.iter().all(|line| (1..=lines).contains(line)));
    assert_eq!(batch.rows.iter().map(|row| batch.fields_of(row).len()).sum::<usize>(), batch.fields.len());
    assert_eq!(batch.rows.iter().map(|row| batch.tags_of(row).len()).sum::<usize>(), batch.tags.len());
}

proptest! {
    #[test]
    fn what_is_written_by_the_syntax_is_read_back(written in vec(event(), 1..5), end in prop_oneof![Just("\n"), Just("\r\n"), Just("  \n\n# \"\n")]) {
        let body: String = written.iter().map(|event| write(event) + end).collect();
        let batch = decode(body.as_bytes(), &NANOS).unwrap();
        prop_assert_eq!(&batch.faults, &[]);
        for (mut read, wanted) in events(&batch).into_iter().zip(&written) {
            prop_assert_eq!(read_id(&read.id), wanted.tags.clone());
            read.id.clear();
            prop_assert_eq!(&read, wanted);
        }
        prop_assert_eq!(batch.rows.len(), written.len());
    }

    #[test]
    fn an_id_tells_its_tag_set_also_where_names_end_in_backslashes(tags in btree_map(r"[a,= \\]{1,5}", r"[a,= \\]{1,5}", 0..4)) {
        let pairs: Vec<_> = tags.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let id = series::series_id("\\", true, &pairs);
        prop_assert_eq!(read_id(&id), tags);
    }

    #[test]
    fn any_bytes_give_rows_and_faults_and_never_a_panic(body in vec(any::<u8>(), 0..200)) {
        assert_whole(&body);
    }

    #[test]
    fn any_text_of_the_syntax_gives_rows_and_faults(body in r#"[a1it ,=\\"\n\r#.-]{0,60}"#) {
        assert_whole(body.as_bytes());
    }

    #[test]
    fn a_line_altered_anywhere_costs_no_line_before_it(
        written in vec(event(), 1..4),
        at in any::<prop::sample::Index>(),
        byte in prop_oneof![any::<u8>(), prop::sample::select(br#" ,="\#"#.to_vec())],
    ) {
        let mut body: Vec<u8> = written.iter().flat_map(|event| (write(event) + "\n").into_bytes()).collect();
        let at = at.index(body.len());
        body[at] = byte;
        assert_whole(&body);
        let mut end = 0;
        let intact = written.iter().take_while(|event| { end += write(event).len() + 1; end <= at }).count();
        let batch = decode(&body, &NANOS).unwrap();
        prop_assert!(batch.faults.iter().all(|fault| fault.index as usize >= intact));
        prop_assert!(batch.rows.len() >= intact);
    }
}

//! The published syntax, case by case.

use std::collections::BTreeMap;

use braid_shared::codes;
use braid_shared::limits::{EVENT_BYTES_MAX, FIELDS_MAX, ID_BYTES_MAX, KEY_BYTES_MAX, STRING_BYTES_MAX, TAGS_MAX};
use braid_shared::model::{Event, FieldValue, Timestamp};

use super::*;

pub(super) const NANOS: LineOptions<'static> = LineOptions { precision: Precision::Nanos, id_tag: None };

pub(super) fn batch(body: &[u8]) -> Batch<'_> {
    decode(body, &NANOS).unwrap()
}

/// The rows of a batch as events; a row without a time has the earliest.
pub(super) fn events(batch: &Batch<'_>) -> Vec<Event> {
    let event = |row| {
        let fields = batch.fields_of(row).iter().map(|(name, value)| (name.to_string(), value.as_ref().to_owned()));
        let tags = batch.tags_of(row).iter().map(|(name, value)| (name.to_string(), value.to_string()));
        Event {
            key: row.key.to_string(),
            ts: row.ts.unwrap_or(Timestamp::MIN),
            id: row.id.as_deref().unwrap().to_owned(),
            fields: fields.collect(),
            tags: tags.collect(),
        }
    };
    batch.rows.iter().map(event).collect()
}

/// The only row of a body in which all is sound.
fn event(body: &str) -> Event {
    let batch = batch(body.as_bytes());
    assert_eq!(batch.faults, [], "{body}");
    let mut events = events(&batch);
    assert_eq!(events.len(), 1, "{body}");
    events.remove(0)
}

/// The code of a line that is refused, and that its neighbours do not suffer from.
pub(super) fn code(line: &str) -> &'static str {
    let body = format!("before f=1\n{line}\nafter f=2\n");
    let batch = batch(body.as_bytes());
    assert_eq!(batch.faults.len(), 1, "{line}: {batch:?}");
    assert_eq!(batch.rows.iter().map(|row| &*row.key).collect::<Vec<_>>(), ["before", "after"], "{line}");
    assert_eq!((batch.faults[0].index, batch.faults[0].line), (1, 2), "{line}");
    assert_eq!((batch.fields.len(), batch.tags.len()), (2, 0), "{line}");
    batch.faults[0].code
}

fn field(value: &str) -> FieldValue {
    event(&format!("m f={value}")).fields.remove("f").unwrap()
}

fn tags<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

#[test]
fn a_line_is_key_tags_fields_and_time() {
    let row = event("cpu,region=eu,host=a load=0.5,n=3i,u=7u,up=t,note=\"x y\" 1556813561098000000");
    assert_eq!((row.key.as_str(), row.ts.nanos()), ("cpu", 1_556_813_561_098_000_000));
    assert_eq!(row.id, "host=a,region=eu");
    assert_eq!(row.tags, tags([("host", "a"), ("region", "eu")]));
    let fields: Vec<_> = row.fields.into_iter().collect();
    let want = [
        ("load", FieldValue::F64(0.5)),
        ("n", FieldValue::I64(3)),
        ("note", FieldValue::Str("x y".into())),
        ("u", FieldValue::U64(7)),
        ("up", FieldValue::Bool(true)),
    ];
    assert_eq!(fields, want.map(|(name, value)| (name.to_owned(), value)));
}

#[test]
fn a_measurement_escapes_comma_and_space_and_nothing_else() {
    for (text, key) in [
        (r"a\,b", "a,b"),
        (r"a\ b", "a b"),
        (r"a\=b", r"a\=b"),
        ("a=b", "a=b"),
        (r"a\\,b", r"a\,b"),
        (r"a\\\,b", r"a\\,b"),
        (r"a\\b", r"a\\b"),
        (r"\a", r"\a"),
        (r"\,", ","),
        (r"\é", r"\é"),
        ("\"cpu\"", "\"cpu\""),
        ("'c'", "'c'"),
        ("a#b", "a#b"),
        ("a\tb", "a\tb"),
        ("a\rb", "a\rb"),
        ("\0", "\0"),
        ("温度🍭", "温度🍭"),
    ] {
        assert_eq!(event(&format!("{text} f=1")).key, key, "{text}");
        assert_eq!(event(&format!("{text},t=v f=1")).key, key, "{text}");
    }
}

#[test]
fn tags_and_field_keys_escape_comma_space_and_equals() {
    for (text, name) in [
        (r"a\,b", "a,b"),
        (r"a\ b", "a b"),
        (r"a\=b", "a=b"),
        (r"\ ", " "),
        (r"\=", "="),
        (r"a\\=b", r"a\=b"),
        (r"a\\ ", r"a\ "),
        (r"a\\b", r"a\\b"),
        (r"a\b", r"a\b"),
        (r"\\,\,\=c", r"\,,=c"),
        ("\"a\"", "\"a\""),
        ("a\tb", "a\tb"),
        ("#a", "#a"),
        ("é\\é", "é\\é"),
    ] {
        let row = event(&format!("m,{text}={text} {text}=1i 5"));
        assert_eq!(row.tags, tags([(name, name)]), "{text}");
        assert_eq!(row.fields, BTreeMap::from([(name.to_owned(), FieldValue::I64(1))]), "{text}");
        assert_eq!(row.ts.nanos(), 5);
    }
}

#[test]
fn a_string_escapes_quote_and_backslash_and_nothing_else() {
    for (text, value) in [
        ("", ""),
        (r#"a\"b"#, "a\"b"),
        (r"a\\", r"a\"),
        (r#"a\\\"b"#, r#"a\"b"#),
        (r"a\nb", r"a\nb"),
        (r"a\,b\ c\=d", r"a\,b\ c\=d"),
        (r"\\\\", r"\\"),
        ("a,b=c d", "a,b=c d"),
        ("a\nb\r\nc", "a\nb\r\nc"),
        ("#", "#"),
        ("é\\é\u{feff}\0", "é\\é\u{feff}\0"),
        ("\\\n", "\\\n"),
    ] {
        assert_eq!(field(&format!("\"{text}\"")), FieldValue::Str(value.into()), "{text}");
        let row = event(&format!("m a=\"{text}\",b=2i 3"));
        assert_eq!((row.fields.len(), row.ts.nanos()), (2, 3), "{text}");
    }
}

#[test]
fn floats_are_read_as_influxdb_reads_them() {
    for (text, value) in [
        ("1", 1.0),
        ("1.0", 1.0),
        ("-1.5", -1.5),
        ("1.", 1.0),
        (".5", 0.5),
        ("-.5", -0.5),
        ("1e3", 1e3),
        ("1E3", 1e3),
        ("-1.5E+2", -150.0),
        ("1.e2", 100.0),
        ("-1.234456e+78", -1.234456e78),
        ("1e-4", 1e-4),
        ("007", 7.0),
        ("1.7976931348623157e308", f64::MAX),
        ("5e-324", 5e-324),
        ("1e-400", 0.0),
        ("18446744073709551616", 18446744073709551616.0),
    ] {
        assert_eq!(field(text), FieldValue::F64(value), "{text}");
    }
    assert!(matches!(field("-0"), FieldValue::F64(zero) if zero.is_sign_negative()));
}

#[test]
fn integers_reach_to_the_ends_of_their_types() {
    for (text, value) in [("0i", 0), ("-7i", -7), ("9223372036854775807i", i64::MAX), ("-0009223372036854775808i", i64::MIN)] {
        assert_eq!(field(text), FieldValue::I64(value), "{text}");
    }
    for (text, value) in [("0u", 0), ("0000u", 0), ("00018446744073709551615u", u64::MAX)] {
        assert_eq!(field(text), FieldValue::U64(value), "{text}");
    }
}

#[test]
fn every_spelling_of_a_boolean_is_read_and_no_other() {
    for text in ["t", "T", "true", "True", "TRUE"] {
        assert_eq!(field(text), FieldValue::Bool(true), "{text}");
    }
    for text in ["f", "F", "false", "False", "FALSE"] {
        assert_eq!(field(text), FieldValue::Bool(false), "{text}");
    }
    for text in ["tRUE", "tru", "truee", "fAlse", "yes", "1b", "on", "TRue"] {
        assert_eq!(code(&format!("m f={text}")), codes::EVENT_MALFORMED, "{text}");
    }
}

#[test]
fn what_is_no_value_is_malformed() {
    for text in [
        "",
        "-",
        "-i",
        "i",
        "u",
        ".",
        "-.",
        "1.0i",
        "1.0u",
        "1ii",
        "1iu",
        "1i5",
        "1a",
        ".1a",
        "-e-e-e",
        "42+3",
        "0.-1",
        "1.1.1",
        "9ie10",
        "9e10i",
        "1e",
        "1e+",
        "e1",
        ".e1",
        "--1",
        "-+1",
        "+1",
        "+1i",
        "--1u",
        "-u",
        "0x10",
        "0x1p3",
        "1_000",
        "1,",
        "abc",
        "\\\"a\\\"",
        "'a'",
        "\"a\"b",
        "\"a\"\"",
        "\"a\"=1",
        "1\t",
        "1\t5",
        "\u{661}",
        "1\r2",
        "é",
    ] {
        assert_eq!(code(&format!("m f={text}")), codes::EVENT_MALFORMED, "{text}");
    }
}

#[test]
fn numbers_without_room_in_their_type_are_out_of_range() {
    for text in [
        "9223372036854775808i",
        "-9223372036854775809i",
        "18446744073709551616u",
        "-1u",
        "1e309",
        "-1e309",
        "1e99999999999",
        "nan",
        "NaN",
        "-NaN",
        "inf",
        "Inf",
        "-inf",
        "+Inf",
        "Infinity",
        "-infinity",
    ] {
        assert_eq!(code(&format!("m f={text}")), codes::NUMBER_OUT_OF_RANGE, "{text}");
    }
    assert_eq!(code(&format!("m f=1{}", "0".repeat(400))), codes::NUMBER_OUT_OF_RANGE);
}

#[test]
fn lines_that_lack_a_part_are_malformed() {
    for line in [
        "m",
        "m ",
        "=",
        ",t=v f=1",
        ", f=1",
        "m,",
        "m,,",
        "m, f=1",
        "m,t",
        "m,t f=1",
        "m,t= f=1",
        "m,t=,u=v f=1",
        "m,=v f=1",
        "m,t=v,=w f=1",
        "m,t=v, f=1",
        "m,t=v",
        "m,t=v,",
        "m,t=v ",
        "m,t=a=b f=1",
        "m,t==a f=1",
        "m,t=a\\==b f=1",
        "m,t=a\\ f=1",
        "m,t=a\\",
        "m =1",
        "m f",
        "m f ",
        "m f=",
        "m f= 1",
        "m f=,g=1",
        "m f=1,",
        "m f=1, g=2",
        "m f=1,g",
        "m f=1,=2",
        "m f=1,,g=2",
        "m ,f=1",
        "m f g=1",
        "m f\\=1",
        "m f\\",
        "m 123",
        "m f=\"blah\"=123,r 5",
        "m,t=a\tf=1",
        "m\tf=1",
        "\\",
        "m\\ f=1",
    ] {
        assert_eq!(code(line), codes::EVENT_MALFORMED, "{line}");
    }
}

#[test]
fn a_timestamp_is_an_integer_and_the_last_thing_in_its_line() {
    for (text, nanos) in [("0", 0), ("-1", -1), ("0007", 7), ("9223372036854775807", i64::MAX), ("-9223372036854775808", i64::MIN)] {
        assert_eq!(event(&format!("m f=1 {text}")).ts.nanos(), nanos, "{text}");
    }
    for text in ["x", "-", "1.5", "1i", "1e9", "+1", "--1", "1-", "2026-01-01T00:00:00Z", "0\\", "1,", "1\"", "g=2"] {
        assert_eq!(code(&format!("m f=1 {text}")), codes::TIMESTAMP_INVALID, "{text}");
    }
    for text in ["1 2", "1 x", "1  ,", "1\r2"] {
        assert_eq!(code(&format!("m f=1 {text}")), codes::EVENT_MALFORMED, "{text}");
    }
    for text in ["9223372036854775808", "-9223372036854775809", "99999999999999999999999"] {
        assert_eq!(code(&format!("m f=1 {text}")), codes::TIMESTAMP_OUT_OF_RANGE, "{text}");
    }
}

#[test]
fn a_timestamp_is_in_the_precision_asked_for() {
    for (precision, least) in [
        (Precision::Nanos, 1),
        (Precision::Micros, 1_000),
        (Precision::Millis, 1_000_000),
        (Precision::Seconds, 1_000_000_000),
        (Precision::Minutes, 60_000_000_000),
        (Precision::Hours, 3_600_000_000_000),
    ] {
        let options = LineOptions { precision, id_tag: None };
        let most = i64::MAX / least;
        let body = format!("m f=1 -2\nm f=1 {most}\nm f=1 {}\nm f=1", i128::from(most) + 1);
        let batch = decode(body.as_bytes(), &options).unwrap();
        let times: Vec<_> = batch.rows.iter().map(|row| row.ts.map(Timestamp::nanos)).collect();
        assert_eq!(times, [Some(-2 * least), Some(most * least), None]);
        assert_eq!((batch.faults[0].index, batch.faults[0].code), (2, codes::TIMESTAMP_OUT_OF_RANGE));
    }
}

#[test]
fn spaces_may_repeat_between_the_parts_and_stand_around_them() {
    for line in ["m f=1 5", "m   f=1    5", "  m f=1 5", "m f=1 5   ", " \t m \t f=1 \t 5 \t", "m f=1 5 \r", "m f=1 5\r"] {
        let row = event(line);
        assert_eq!((row.key.as_str(), row.ts.nanos(), row.fields.len()), ("m", 5, 1), "{line:?}");
        assert!(row.fields.contains_key("f"), "{line:?}");
    }
    assert_eq!(batch(b"m f=1   ").rows[0].ts, None);
}

#[test]
fn the_id_is_the_tag_set_in_canonical_form_whatever_its_order() {
    for (line, id) in [
        ("m f=1", ""),
        ("m,b=2,a=1 f=1", "a=1,b=2"),
        (r"m,a=x\ y f=1", r"a=x\ y"),
        (r"m,a\=b=c\,d f=1", r"a\=b=c\,d"),
        (r"m,a=b\c f=1", r"a=b\c"),
        (r"m,a=b\\c f=1", r"a=b\\c"),
        (r"m,a=b\\,c f=1", r"a=b\\\,c"),
        (r"m,b=x\,,a=\\\  f=1", r"a=\\\\\ ,b=x\,"),
        ("m,Z=1,a=1,é=1,\"=1 f=1", "\"=1,Z=1,a=1,é=1"),
    ] {
        assert_eq!(event(line).id, id, "{line}");
    }
}

#[test]
fn a_tag_may_be_named_as_the_id_and_stays_a_tag() {
    let options = LineOptions { precision: Precision::Nanos, id_tag: Some("o id") };
    let body = b"m,z=1,o\\ id=7\\,8 f=1\nm,b=2,a=1 f=1\nm f=1";
    let rows = events(&decode(body, &options).unwrap());
    assert_eq!(rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["7,8", "a=1,b=2", ""]);
    assert_eq!(rows[0].tags, tags([("o id", "7,8"), ("z", "1")]));
}

#[test]
fn a_tag_given_twice_is_refused_and_a_field_given_twice_keeps_its_order() {
    for line in ["m,a=1,a=1 f=1", "m,b=2,a=1,b=3 f=1", r"m,a\,=1,a\,=2 f=1"] {
        assert_eq!(code(line), codes::DUPLICATE_NAME, "{line}");
    }
    let batch = batch(b"m f=1,g=2,f=3i");
    let names: Vec<_> = batch.fields_of(&batch.rows[0]).iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["f", "g", "f"]);
}

#[test]
fn each_limit_has_its_code_and_its_last_legal_value() {
    type Line = fn(usize) -> String;
    fn list(n: usize, value: &str) -> String {
        (0..n).map(|i| format!("n{i}={value}")).collect::<Vec<_>>().join(",")
    }
    let cases: [(usize, &str, Line); 9] = [
        (KEY_BYTES_MAX, codes::KEY_TOO_LONG, |n| format!("{} f=1", "k".repeat(n))),
        (KEY_BYTES_MAX, codes::KEY_TOO_LONG, |n| format!("{} f=1", "\\ ".repeat(n))),
        (ID_BYTES_MAX - 2, codes::ID_TOO_LONG, |n| format!("m,t={} f=1", "v".repeat(n))),
        (STRING_BYTES_MAX, codes::STRING_TOO_LONG, |n| format!("m f=\"{}\"", "v".repeat(n))),
        (STRING_BYTES_MAX, codes::STRING_TOO_LONG, |n| format!("m f=\"{}\"", "\\\"".repeat(n))),
        (STRING_BYTES_MAX, codes::STRING_TOO_LONG, |n| format!("m {}=1", "n".repeat(n))),
        (FIELDS_MAX, codes::TOO_MANY_FIELDS, |n| format!("m {}", list(n, "1"))),
        (TAGS_MAX, codes::TOO_MANY_TAGS, |n| format!("m,{} f=1", list(n, "v"))),
        // Four strings and the names besides.
        (STRING_BYTES_MAX - 5, codes::EVENT_TOO_LARGE, |n| {
            let full = "v".repeat(STRING_BYTES_MAX);
            format!("m a=\"{full}\",b=\"{full}\",c=\"{full}\",d=\"{}\"", "v".repeat(n))
        }),
    ];
    assert_eq!(EVENT_BYTES_MAX, 4 * STRING_BYTES_MAX);
    for (most, want, line) in cases {
        event(&line(most));
        assert_eq!(code(&line(most + 1)), want);
    }
    let long = LineOptions { precision: Precision::Nanos, id_tag: Some("t") };
    let body = format!("m,t={} f=1", "v".repeat(STRING_BYTES_MAX + 1));
    assert_eq!(decode(body.as_bytes(), &long).unwrap().faults[0].code, codes::STRING_TOO_LONG);
}

#[test]
fn the_plain_path_borrows_from_the_body() {
    let batch = batch(b"m,a=1,b=2 f=1.5,s=\"text\" 5");
    let row = &batch.rows[0];
    assert!(matches!((&row.key, &row.id), (std::borrow::Cow::Borrowed(_), Some(std::borrow::Cow::Borrowed("a=1,b=2")))));
}

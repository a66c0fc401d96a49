//! What an event may hold, each way it may be wrong, and the code it then gets.

use braid_shared::limits::{EVENT_BYTES_MAX, FIELDS_MAX, ID_BYTES_MAX, KEY_BYTES_MAX, STRING_BYTES_MAX, TAGS_MAX};
use braid_shared::model::{FieldValue, Timestamp};

use super::*;

fn field(json: &str) -> FieldValue {
    let body = format!(r#"{{"key":"k","fields":{{"x":{json}}}}}"#);
    let batch = sniff(&body);
    assert_eq!(batch.faults, []);
    batch.fields[0].1.as_ref().to_owned()
}

fn members(count: usize, value: &str) -> String {
    (0..count).map(|i| format!(r#""m{i}":{value}"#)).collect::<Vec<_>>().join(",")
}

#[test]
fn an_event_is_read_with_all_its_members() {
    let body = r#" {"key":"orders","id":"o-17","ts":"2026-11-29T12:00:00.123456789Z",
        "fields":{"amount":12.5,"qty":3,"paid":true,"note":"x"},"tags":{"region":"eu","none":""},"value":-1} "#;
    let batch = sniff(body);
    let row = &batch.rows[0];
    assert_eq!((row.index, row.line, &*row.key, row.id.as_deref()), (0, 1, "orders", Some("o-17")));
    assert_eq!(row.ts.unwrap().to_string(), "2026-11-29T12:00:00.123456789Z");
    let fields: Vec<_> = batch.fields_of(row).iter().map(|(name, value)| (&**name, value.as_ref().to_owned())).collect();
    let expected = [
        ("amount", FieldValue::F64(12.5)),
        ("qty", FieldValue::I64(3)),
        ("paid", FieldValue::Bool(true)),
        ("note", FieldValue::Str("x".into())),
        ("value", FieldValue::I64(-1)),
    ];
    assert_eq!(fields, expected);
    assert_eq!(batch.tags_of(row), [("region".into(), "eu".into()), ("none".into(), "".into())]);
}

#[test]
fn a_key_alone_is_an_event_and_an_id_may_be_empty() {
    let batch = sniff(r#"{"key":"k"} {"id":"","key":"k","fields":{},"tags":{}}"#);
    assert_eq!(batch.rows.len(), 2);
    assert_eq!((batch.rows[0].id.as_deref(), batch.rows[0].ts), (None, None));
    assert_eq!(batch.rows[1].id.as_deref(), Some(""));
}

#[test]
fn numbers_keep_the_type_they_are_written_in_and_every_bit() {
    for (json, value) in [
        ("3", FieldValue::I64(3)),
        ("0", FieldValue::I64(0)),
        ("-0", FieldValue::I64(0)),
        ("-9223372036854775808", FieldValue::I64(i64::MIN)),
        ("9223372036854775807", FieldValue::I64(i64::MAX)),
        ("9223372036854775808", FieldValue::U64(1 << 63)),
        ("18446744073709551615", FieldValue::U64(u64::MAX)),
        ("3.0", FieldValue::F64(3.0)),
        ("3e2", FieldValue::F64(300.0)),
        ("1E+2", FieldValue::F64(100.0)),
        ("9007199254740993.0", FieldValue::F64(9_007_199_254_740_992.0)),
        ("1.7976931348623157e308", FieldValue::F64(f64::MAX)),
        ("5e-324", FieldValue::F64(5e-324)),
        ("122.416294033786585", FieldValue::F64(122.416_294_033_786_59)),
        ("1e-999", FieldValue::F64(0.0)),
    ] {
        assert_eq!(field(json), value, "{json}");
    }
    let FieldValue::F64(zero) = field("-0.0") else { panic!("a float") };
    assert!(zero == 0.0 && zero.is_sign_negative());
}

#[test]
fn numbers_that_fit_no_type_are_refused() {
    for json in ["18446744073709551616", "-9223372036854775809", "1e309", "-1e999", "1e99999999999999999999", &"9".repeat(400)] {
        let fault = fault_of(format!(r#"{{"key":"k","fields":{{"a":1,"x":{json}}}}}"#));
        assert_eq!(fault.code, codes::NUMBER_OUT_OF_RANGE, "{json}");
        assert!(fault.detail.contains(r#""x""#), "{}", fault.detail);
    }
}

#[test]
fn nan_infinities_and_other_numbers_json_does_not_know_are_malformed() {
    for json in ["NaN", "Infinity", "-Infinity", "01", "+1", "1.", ".5", "0x10", "-", "1e", "1_000"] {
        let event = format!(r#"{{"key":"k","fields":{{"x":{json}}}}}"#);
        assert_eq!(faults(&sniff(&format!("{GOOD}\n{event}\n{GOOD}"))), [(1, 2, codes::EVENT_MALFORMED)], "{json}");
        assert_eq!(body_code(format!("[{GOOD},{event}]")), codes::BODY_MALFORMED, "{json}");
    }
}

#[test]
fn strings_are_kept_byte_for_byte() {
    assert_eq!(field(r#""é\u00e9\u0065\u0301\ud83d\ude00""#), FieldValue::Str("éée\u{301}😀".into()));
    assert_eq!(field(r#""\u0000\n\"\\\/""#), FieldValue::Str("\0\n\"\\/".into()));
    assert_eq!(field("\"\u{7f}\u{feff}\""), FieldValue::Str("\u{7f}\u{feff}".into()));
    let batch = sniff(r#"{"\u006bey":"\u0061","tags":{"\u0062":"\u0063"}}"#);
    assert_eq!((&*batch.rows[0].key, &batch.tags[0]), ("a", &("b".into(), "c".into())));
}

#[test]
fn times_are_rfc_3339_or_integers_in_the_precision() {
    let ts = |json: &str, precision| {
        let body = format!(r#"{{"key":"k","ts":{json}}}"#);
        let batch = decode_json(body.as_bytes(), JsonFormat::Lines, precision).unwrap();
        batch.rows.first().map(|row| row.ts.unwrap()).ok_or_else(|| batch.faults[0].code)
    };
    assert_eq!(ts("1500", Precision::Millis), Ok(Timestamp::from_nanos(1_500_000_000)));
    assert_eq!(ts("-7", Precision::Nanos), Ok(Timestamp::from_nanos(-7)));
    assert_eq!(ts("-0", Precision::Seconds), Ok(Timestamp::from_nanos(0)));
    assert_eq!(ts(r#""1970-01-01t01:00:00.5+01:00""#, Precision::Seconds), Ok(Timestamp::from_nanos(500_000_000)));
    assert_eq!(ts(r#""\u0031970-01-01T00:00:00Z""#, Precision::Seconds), Ok(Timestamp::from_nanos(0)));
    for beyond in ["9223372036854775807", "-9223372036854775808", "9223372036854775808", "99999999999999999999", "-99999999999999999999"] {
        assert_eq!(ts(beyond, Precision::Millis), Err(codes::TIMESTAMP_OUT_OF_RANGE), "{beyond}");
    }
    assert_eq!(ts(r#""2300-01-01T00:00:00Z""#, Precision::Millis), Err(codes::TIMESTAMP_OUT_OF_RANGE));
    for wrong in ["1.5", "1e3", "1e999", "null", "true", "[1]", "{}"] {
        assert_eq!(ts(wrong, Precision::Millis), Err(codes::TYPE_INVALID), "{wrong}");
    }
    for wrong in [r#""""#, r#""1500""#, r#""2026-11-29""#, r#""2026-11-29T12:00:00""#, r#""2026-11-29T12:00:00+0530""#] {
        assert_eq!(ts(wrong, Precision::Millis), Err(codes::TIMESTAMP_INVALID), "{wrong}");
    }
}

#[test]
fn a_wrong_type_is_refused_and_its_member_named() {
    for (event, named) in [
        (r#"{"key":7}"#, "key"),
        (r#"{"key":null}"#, "key"),
        (r#"{"key":"k","id":7}"#, "id"),
        (r#"{"key":"k","id":null}"#, "id"),
        (r#"{"key":"k","ts":1.5}"#, "ts"),
        (r#"{"key":"k","fields":null}"#, "fields"),
        (r#"{"key":"k","fields":[1]}"#, "fields"),
        (r#"{"key":"k","fields":"x"}"#, "fields"),
        (r#"{"key":"k","fields":{"a":null}}"#, r#""a""#),
        (r#"{"key":"k","fields":{"a":[1]}}"#, r#""a""#),
        (r#"{"key":"k","fields":{"a":{}}}"#, r#""a""#),
        (r#"{"key":"k","value":{}}"#, r#""value""#),
        (r#"{"key":"k","tags":3}"#, "tags"),
        (r#"{"key":"k","tags":{"a":1}}"#, r#""a""#),
        (r#"{"key":"k","tags":{"a":null}}"#, r#""a""#),
        ("7", "event"),
        ("null", "event"),
        (r#""text""#, "event"),
    ] {
        let fault = fault_of(event);
        assert_eq!(fault.code, codes::TYPE_INVALID, "{event}");
        assert!(fault.detail.contains(named), "{event}: {}", fault.detail);
    }
    assert_eq!(code_of("[[]]"), codes::TYPE_INVALID);
}

#[test]
fn an_unknown_member_is_named_in_a_bounded_way() {
    let fault = fault_of(r#"{"key":"k","vlaue":1}"#);
    assert_eq!(fault.code, codes::UNKNOWN_MEMBER);
    assert!(fault.detail.contains("vlaue"));
    assert_eq!(code_of(r#"{"key":"k","Key":"k"}"#), codes::UNKNOWN_MEMBER);
    let long = fault_of(format!(r#"{{"key":"k","{}":1}}"#, "é".repeat(10_000)));
    assert!(long.detail.len() < 400, "{}", long.detail.len());
}

#[test]
fn a_name_given_twice_is_refused_wherever_it_stands() {
    let many = members(40, "1");
    for event in [
        r#"{"key":"a","key":"a"}"#,
        r#"{"key":"a","\u006bey":"b"}"#,
        r#"{"key":"a","id":"1","id":"1"}"#,
        r#"{"key":"a","ts":1,"ts":2}"#,
        r#"{"key":"a","fields":{},"fields":{}}"#,
        r#"{"key":"a","tags":{},"tags":{}}"#,
        r#"{"key":"a","fields":{"x":1,"y":2,"x":3}}"#,
        r#"{"key":"a","fields":{"x":1,"\u0078":2}}"#,
        r#"{"key":"a","tags":{"x":"1","x":"1"}}"#,
        r#"{"key":"a","value":1,"value":2}"#,
        r#"{"key":"a","value":1,"fields":{"value":2}}"#,
        r#"{"key":"a","fields":{"value":2},"value":1}"#,
        &format!(r#"{{"key":"a","fields":{{{many},"m7":1}}}}"#),
    ] {
        assert_eq!(code_of(event), codes::DUPLICATE_NAME, "{event}");
    }
    assert_eq!(sniff(r#"{"key":"a","fields":{"x":1},"tags":{"x":"1"}}"#).rows.len(), 1, "a field and a tag may share a name");
}

#[test]
fn an_event_needs_a_key_and_names() {
    assert_eq!(code_of(r#"{"id":"1","value":2}"#), codes::KEY_MISSING);
    assert_eq!(code_of("{}"), codes::KEY_MISSING);
    assert_eq!(code_of(r#"{"key":"","value":2}"#), codes::KEY_EMPTY);
    assert_eq!(code_of(r#"{"key":"k","fields":{"":2}}"#), codes::EVENT_MALFORMED);
    assert_eq!(code_of(r#"{"key":"k","tags":{"":"2"}}"#), codes::EVENT_MALFORMED);
}

#[test]
fn each_limit_has_its_code_and_its_last_legal_value() {
    type EventOfSize = fn(usize) -> String;
    let cases: [(usize, &str, EventOfSize); 7] = [
        (KEY_BYTES_MAX, codes::KEY_TOO_LONG, |n| format!(r#"{{"key":"{}"}}"#, "k".repeat(n))),
        (ID_BYTES_MAX, codes::ID_TOO_LONG, |n| format!(r#"{{"key":"k","id":"{}"}}"#, "i".repeat(n))),
        (STRING_BYTES_MAX, codes::STRING_TOO_LONG, |n| format!(r#"{{"key":"k","value":"{}"}}"#, "v".repeat(n))),
        (STRING_BYTES_MAX, codes::STRING_TOO_LONG, |n| format!(r#"{{"key":"k","tags":{{"t":"{}"}}}}"#, "v".repeat(n))),
        (STRING_BYTES_MAX, codes::STRING_TOO_LONG, |n| format!(r#"{{"key":"k","fields":{{"{}":1}}}}"#, "n".repeat(n))),
        (FIELDS_MAX, codes::TOO_MANY_FIELDS, |n| format!(r#"{{"key":"k","fields":{{{}}}}}"#, members(n, "1"))),
        (TAGS_MAX, codes::TOO_MANY_TAGS, |n| format!(r#"{{"key":"k","tags":{{{}}}}}"#, members(n, r#""v""#))),
    ];
    for (most, code, event) in cases {
        assert_eq!(sniff(&event(most)).rows.len(), 1, "{code}");
        assert_eq!(code_of(event(most + 1)), code);
    }
    assert_eq!(code_of(format!(r#"{{"key":"k","value":1,"fields":{{{}}}}}"#, members(FIELDS_MAX, "1"))), codes::TOO_MANY_FIELDS);
}

#[test]
fn an_event_is_bounded_as_a_whole() {
    let part = format!(r#""{}""#, "v".repeat(EVENT_BYTES_MAX / 8));
    // Eight values fill the limit; their names and the key are what passes it.
    assert_eq!(sniff(&format!(r#"{{"key":"k","fields":{{{}}}}}"#, members(7, &part))).rows.len(), 1);
    assert_eq!(code_of(format!(r#"{{"key":"k","fields":{{{}}}}}"#, members(8, &part))), codes::EVENT_TOO_LARGE);
}

#[test]
fn bytes_that_are_not_utf8_cost_their_event_only() {
    for bad in
        [&b"{\"key\":\"\xff\"}"[..], b"{\"key\":\"k\",\"fields\":{\"\xc3\":1}}", b"{\"key\":\"k\",\"tags\":{\"t\":\"\xed\xa0\x80\"}}"]
    {
        assert_eq!(code_of(bad), codes::INVALID_UTF8);
    }
    assert_eq!(code_of(b"{\"key\":\"k\",\"unknown\":\"\xc0\x80\"}"), codes::INVALID_UTF8);
    assert_eq!(faults(&decode(b"\xff\xfe\n{\"key\":\"k\"}", JsonFormat::Sniff)), [(0, 1, codes::INVALID_UTF8)]);
}

#[test]
fn half_surrogates_cost_their_event_only() {
    for escape in [r"\ud83d", r"\ude00", r"\ud83d\ud83d", r"\ud83dx"] {
        assert_eq!(code_of(format!(r#"{{"key":"{escape}"}}"#)), codes::EVENT_MALFORMED, "{escape}");
        assert_eq!(code_of(format!(r#"{{"key":"k","fields":{{"{escape}":1}}}}"#)), codes::EVENT_MALFORMED, "{escape}");
    }
}

#[test]
fn control_characters_and_unknown_escapes_are_not_json() {
    for string in ["a\u{1}b", "a\tb", r"\x41", r"\u12", r"\"] {
        let event = format!(r#"{{"key":"k","value":"{string}"}}"#);
        assert_eq!(faults(&sniff(&format!("{event}\n{GOOD}"))), [(0, 1, codes::EVENT_MALFORMED)], "{string:?}");
        assert_eq!(faults(&decode(format!("{event}\n{GOOD}").as_bytes(), JsonFormat::Lines)), [(0, 1, codes::EVENT_MALFORMED)]);
        assert_eq!(body_code(format!("[{event}]")), codes::BODY_MALFORMED, "{string:?}");
    }
}

#[test]
fn nesting_is_bounded_and_never_overflows_the_stack() {
    let nested = |depth: usize| format!(r#"{{"key":"k","value":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    assert_eq!(code_of(nested(JSON_DEPTH_MAX - 1)), codes::TYPE_INVALID);
    assert_eq!(code_of(nested(JSON_DEPTH_MAX)), codes::EVENT_MALFORMED);
    assert_eq!(code_of(nested(1_000_000)), codes::EVENT_MALFORMED);
    let open = "[".repeat(1_000_000);
    assert_eq!(body_code(&open), codes::BODY_MALFORMED);
    assert_eq!(faults(&sniff(&format!(r#"{{"key":{open}"#))), [(0, 1, codes::EVENT_MALFORMED)]);
    assert_eq!(sniff(&r#"{"key":"#.repeat(1_000_000)).rows.len(), 0);
}

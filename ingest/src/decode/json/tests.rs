//! What is kept, what is refused and with which code, and what a broken event costs its neighbours.

use braid_shared::limits::{EVENT_BYTES_MAX, FIELDS_MAX, ID_BYTES_MAX, KEY_BYTES_MAX, STRING_BYTES_MAX, TAGS_MAX};
use braid_shared::model::{FieldValue, Timestamp};
use proptest::prelude::*;

use super::*;

const GOOD: &str = r#"{"key":"good","value":1}"#;

fn decode(body: &[u8], format: JsonFormat) -> Batch<'_> {
    decode_json(body, format, Precision::Millis).expect("body taken")
}

fn sniff(body: &str) -> Batch<'_> {
    decode(body.as_bytes(), JsonFormat::Sniff)
}

fn body_code(body: impl AsRef<[u8]>) -> &'static str {
    decode_json(body.as_ref(), JsonFormat::Sniff, Precision::Millis).expect_err("refused").code
}

/// (index, line, code) of every fault.
fn faults(batch: &Batch<'_>) -> Vec<(u32, u32, &'static str)> {
    batch.faults.iter().map(|fault| (fault.index, fault.line, fault.code)).collect()
}

/// (index, line) of every row.
fn places(batch: &Batch<'_>) -> Vec<(u32, u32)> {
    batch.rows.iter().map(|row| (row.index, row.line)).collect()
}

/// The fault of an event between two good ones, the same as a line, a sniffed line and an element.
/// Its neighbours are kept and nothing of it is.
fn fault_of(event: impl AsRef<[u8]>) -> RowFault {
    let lines = [GOOD.as_bytes(), event.as_ref(), GOOD.as_bytes()].join(&b'\n');
    let array = [b"[", &*[GOOD.as_bytes(), event.as_ref(), GOOD.as_bytes()].join(&b','), b"]"].concat();
    let batches = [decode(&lines, JsonFormat::Lines), decode(&lines, JsonFormat::Sniff), decode(&array, JsonFormat::Sniff)];
    for batch in &batches {
        assert_eq!(batch.rows.iter().map(|row| row.index).collect::<Vec<_>>(), [0, 2], "{:?}", batch.faults);
        assert_eq!((batch.fields.len(), batch.tags.len()), (2, 0), "nothing left of the refused event");
        assert_eq!(batch.faults.len(), 1);
        assert_eq!((batch.faults[0].index, batch.faults[0].code), (1, batches[0].faults[0].code));
    }
    assert_eq!((batches[0].faults[0].line, batches[1].faults[0].line, batches[2].faults[0].line), (2, 2, 0));
    batches[0].faults[0].clone()
}

fn code_of(event: impl AsRef<[u8]>) -> &'static str {
    fault_of(event).code
}

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
    let cases: [(usize, &str, fn(usize) -> String); 7] = [
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

#[test]
fn lines_count_events_from_0_and_physical_lines_from_1() {
    let body = format!("\u{feff}\n{GOOD}\r\n\n  \t\r\nbroken\n{GOOD}  \n{GOOD} x\n[{GOOD}]\n{GOOD}{GOOD}\n{GOOD}");
    let batch = decode(body.as_bytes(), JsonFormat::Lines);
    assert_eq!(places(&batch), [(0, 2), (2, 6), (6, 10)]);
    let malformed = codes::EVENT_MALFORMED;
    assert_eq!(faults(&batch), [(1, 5, malformed), (3, 7, malformed), (4, 8, codes::TYPE_INVALID), (5, 9, malformed)]);
    assert_eq!(batch.fields.len(), 3);
}

#[test]
fn no_lines_are_no_events_but_an_empty_document_is_malformed() {
    for empty in ["", "\n", "\u{feff}", " \r\n\t"] {
        let batch = decode(empty.as_bytes(), JsonFormat::Lines);
        assert!(batch.rows.is_empty() && batch.faults.is_empty());
        assert_eq!(body_code(empty), codes::BODY_MALFORMED);
    }
    assert!(sniff(" [ ] ").rows.is_empty());
}

#[test]
fn lines_sent_as_plain_json_are_stored_whole() {
    let body = format!("\u{feff}{GOOD}\n\n{GOOD}\r\n{GOOD}{GOOD} {GOOD}\n");
    let batch = sniff(&body);
    assert_eq!(places(&batch), [(0, 1), (1, 3), (2, 4), (3, 4), (4, 4)]);
    assert!(batch.faults.is_empty());
}

#[test]
fn an_object_may_take_several_lines() {
    let pretty = "{\n  \"key\": \"good\",\n  \"fields\":\n  {\n    \"x\": 1\n  }\n}";
    let body = format!("{pretty}\n{GOOD}\n{pretty}{pretty}\n{GOOD}");
    let batch = sniff(&body);
    assert_eq!(places(&batch), [(0, 1), (1, 8), (2, 9), (3, 15), (4, 22)]);
    assert!(batch.faults.is_empty());
}

#[test]
fn an_object_over_several_lines_fails_as_one() {
    let no_key = "{\n  \"fields\": {\n    \"x\": 1\n  }\n}";
    let broken = "{\n  \"key\": \"a\"\n  \"value\": 1\n}";
    let body = format!("{GOOD}\n{no_key}\n{GOOD}\n{broken}\n{GOOD}\n{no_key} x\n{GOOD}");
    let batch = sniff(&body);
    assert_eq!(places(&batch), [(0, 1), (2, 7), (4, 12), (6, 18)]);
    assert_eq!(faults(&batch), [(1, 2, codes::KEY_MISSING), (3, 8, codes::EVENT_MALFORMED), (5, 13, codes::KEY_MISSING)]);
}

#[test]
fn a_line_cut_anywhere_costs_itself_only() {
    let line = r#"{"key":"a\u0062","ts":1,"fields":{"x":1.5,"s":"t"},"tags":{"t":"v"}}"#;
    for cut in 1..line.len() {
        let body = format!("{GOOD}\n{}\n{GOOD}\n{GOOD}\n{}", &line[..cut], &line[..cut]);
        for format in [JsonFormat::Lines, JsonFormat::Sniff] {
            let batch = decode(body.as_bytes(), format);
            assert_eq!(places(&batch), [(0, 1), (2, 3), (3, 4)], "{format:?} cut at {cut}: {:?}", batch.faults);
            assert_eq!(faults(&batch).iter().map(|(index, line, _)| (*index, *line)).collect::<Vec<_>>(), [(1, 2), (4, 5)]);
        }
    }
}

#[test]
fn what_follows_an_object_on_its_line_is_part_of_the_mistake() {
    let body = format!("{GOOD},\n{GOOD}\n{GOOD}{GOOD}]\n7 {GOOD}\n7 x {GOOD}\n{GOOD}");
    let batch = sniff(&body);
    assert_eq!(places(&batch), [(1, 2), (2, 3), (5, 4), (7, 6)]);
    assert_eq!(batch.faults.iter().map(|fault| fault.index).collect::<Vec<_>>(), [0, 3, 4, 6]);
    assert_eq!(batch.fields.len(), 4);
}

#[test]
fn a_broken_array_is_refused_whole_and_says_where() {
    for broken in [
        "[",
        "[{}",
        "[{},",
        "[{},]",
        "[,]",
        "[{} {}]",
        "[{}]]",
        "[{}] {}",
        "[{]}",
        "[tru]",
        "[\"a]",
        "[1.]",
        "[{\"key\":\"k\"}x]",
        "[\n\x01]",
    ] {
        assert_eq!(body_code(broken), codes::BODY_MALFORMED, "{broken}");
    }
    let fault = decode_json(format!("[{GOOD},\n {{\"key\" 1}}]").as_bytes(), JsonFormat::Sniff, Precision::Millis).unwrap_err();
    assert!(fault.detail.contains("line 2, column 9"), "{}", fault.detail);
}

#[test]
fn bad_elements_of_a_sound_array_cost_themselves_only() {
    let body = format!(" [ {GOOD} , 1e999 , {{\"key\":\"\"}},\n{GOOD},null,{GOOD} ] \n");
    let batch = sniff(&body);
    assert_eq!(places(&batch), [(0, 0), (3, 0), (5, 0)]);
    assert_eq!(faults(&batch).iter().map(|fault| fault.0).collect::<Vec<_>>(), [1, 2, 4]);
}

#[test]
fn too_many_events_refuse_the_request() {
    for (event, format) in [
        ("{\"key\":\"k\"}\n", JsonFormat::Lines),
        ("x\n", JsonFormat::Lines),
        ("{\"key\":\"k\"}", JsonFormat::Sniff),
        ("x\n", JsonFormat::Sniff),
    ] {
        let most = event.repeat(REQUEST_EVENTS_MAX);
        let batch = decode(most.as_bytes(), format);
        assert_eq!(batch.rows.len() + batch.faults.len(), REQUEST_EVENTS_MAX);
        let over = event.repeat(REQUEST_EVENTS_MAX + 1);
        assert_eq!(decode_json(over.as_bytes(), format, Precision::Millis).unwrap_err().code, codes::TOO_MANY_EVENTS);
    }
    let array = |events: usize| format!("[{}]", vec![GOOD; events].join(","));
    assert_eq!(sniff(&array(REQUEST_EVENTS_MAX)).rows.len(), REQUEST_EVENTS_MAX);
    assert_eq!(body_code(array(REQUEST_EVENTS_MAX + 1)), codes::TOO_MANY_EVENTS);
}

#[test]
fn lines_that_each_open_an_object_cost_no_more_than_the_body_twice() {
    // Without a bound on looking ahead this walks 9,000 × 6 MB.
    let line = format!("{{\"fields\":{{\"{}\":\n", "x".repeat(650));
    assert_eq!(sniff(&line.repeat(9_000)).faults.len(), 9_000);
}

fn any_json_string() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<char>(), 1..12).prop_map(String::from_iter)
}

fn any_value() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_filter("finite", |float| float.is_finite()).prop_map(Into::into),
        any::<bool>().prop_map(Into::into),
        any_json_string().prop_map(Into::into),
    ]
}

fn any_event() -> impl Strategy<Value = serde_json::Value> {
    let fields = proptest::collection::hash_map(any_json_string(), any_value(), 0..24);
    let tags = proptest::collection::hash_map(any_json_string(), any_json_string(), 0..24);
    let event = (any_json_string(), any_json_string(), -9_000_000_000_000_i64..9_000_000_000_000, fields, tags);
    event.prop_map(|(key, id, ts, fields, tags)| serde_json::json!({"key": key, "id": id, "ts": ts, "fields": fields, "tags": tags}))
}

/// The row as the JSON it was made from.
fn to_json(batch: &Batch<'_>, row: &braid_shared::model::Row<'_>) -> serde_json::Value {
    let fields: serde_json::Map<_, _> =
        batch.fields_of(row).iter().map(|(name, value)| (name.to_string(), field_json(value.as_ref()))).collect();
    let tags: serde_json::Map<_, _> = batch.tags_of(row).iter().map(|(name, value)| (name.to_string(), (&**value).into())).collect();
    let ts = row.ts.map(|ts| ts.nanos() / 1_000_000);
    serde_json::json!({"key": row.key, "id": row.id, "ts": ts, "fields": fields, "tags": tags})
}

fn field_json(value: braid_shared::model::ValueRef<'_>) -> serde_json::Value {
    use braid_shared::model::ValueRef;
    match value {
        ValueRef::F64(v) => v.into(),
        ValueRef::I64(v) => v.into(),
        ValueRef::U64(v) => v.into(),
        ValueRef::Bool(v) => v.into(),
        ValueRef::Str(v) => v.into(),
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
        for format in [JsonFormat::Lines, JsonFormat::Sniff] {
            let _ = decode_json(&bytes, format, Precision::Seconds);
        }
    }

    #[test]
    fn anything_that_looks_like_json_is_decoded_or_refused(text in r#"([\[\]{},:"0-9e.\\ \n-]|"(key|id|ts|value|fields|tags)":|\\u[0-9d][0-9a-f]{3}|true|null){0,40}"#) {
        for format in [JsonFormat::Lines, JsonFormat::Sniff] {
            if let Ok(batch) = decode_json(text.as_bytes(), format, Precision::Nanos) {
                let indices: std::collections::BTreeSet<u32> = batch.rows.iter().map(|row| row.index).chain(batch.faults.iter().map(|fault| fault.index)).collect();
                prop_assert_eq!(indices.len(), batch.rows.len() + batch.faults.len());
                prop_assert!(indices.iter().copied().eq(0..indices.len() as u32), "every event counted once");
            }
        }
    }

    #[test]
    fn events_come_back_as_they_were_made(events in proptest::collection::vec(any_event(), 1..5)) {
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        let pretty: String = events.iter().map(|event| format!("{event:#}\n")).collect();
        let array = serde_json::Value::from(events.clone()).to_string();
        for (body, format) in [(&lines, JsonFormat::Lines), (&lines, JsonFormat::Sniff), (&pretty, JsonFormat::Sniff), (&array, JsonFormat::Sniff)] {
            let batch = decode(body.as_bytes(), format);
            prop_assert_eq!(&batch.faults, &[]);
            let back: Vec<_> = batch.rows.iter().map(|row| to_json(&batch, row)).collect();
            prop_assert_eq!(&back, &events);
        }
    }

    #[test]
    fn a_broken_line_never_costs_its_neighbours(event in any_event(), cut: proptest::sample::Index, flip: proptest::sample::Index, to in any::<u8>()) {
        let mut line = event.to_string().into_bytes();
        let at = flip.index(line.len());
        line[at] = if to == b'\n' { 0 } else { to };
        line.truncate(cut.index(line.len()) + 1);
        let body = [GOOD.as_bytes(), b"\n", &line, b"\n", GOOD.as_bytes(), b"\n", GOOD.as_bytes()].concat();
        for format in [JsonFormat::Lines, JsonFormat::Sniff] {
            let batch = decode(&body, format);
            let good: Vec<u32> = batch.rows.iter().filter(|row| row.key == "good").map(|row| row.line).collect();
            prop_assert_eq!(good, [1, 3, 4]);
        }
    }
}

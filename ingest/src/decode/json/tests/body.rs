//! How bodies are cut into events, and what a broken one costs its neighbours.

use super::*;

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
fn too_many_values_refuse_the_request_before_the_rest_is_read() {
    let values: Vec<String> = (0..FIELDS_MAX).map(|i| format!("\"{i}\":1")).collect();
    let event = format!("{{\"key\":\"k\",\"fields\":{{{}}}}}", values.join(","));
    let most = REQUEST_VALUES_MAX / FIELDS_MAX;
    let lines = vec![&*event; most].join("\n");
    assert_eq!(sniff(&lines).values(), most * FIELDS_MAX);
    let over = format!("{lines}\n{event}");
    for format in [JsonFormat::Lines, JsonFormat::Sniff] {
        assert_eq!(decode_json(over.as_bytes(), format, Precision::Millis).unwrap_err().code, codes::TOO_MANY_VALUES);
    }
    let array = format!("[{}, not read", vec![&*event; most + 1].join(","));
    assert_eq!(body_code(array), codes::TOO_MANY_VALUES);
}

#[test]
fn lines_that_each_open_an_object_cost_no_more_than_the_body_twice() {
    // Without a bound on looking ahead this walks 9,000 × 6 MB.
    let line = format!("{{\"fields\":{{\"{}\":\n", "x".repeat(650));
    assert_eq!(sniff(&line.repeat(9_000)).faults.len(), 9_000);
}

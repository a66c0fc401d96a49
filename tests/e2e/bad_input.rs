//! Bad input, case by case: each has its status, stable code and place, and never takes the good rows of its request with it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::Method;
use serde_json::{Value, json};

use crate::clock::now_ms;
use crate::http::{Answer, Client, JSON, NDJSON, query};
use crate::server::{PATIENCE, Server};

const PATH: &str = "/v1/bad/events";

/// A row that is refused, and with which code.
fn bad_rows() -> Vec<(Vec<u8>, &'static str)> {
    let numbered = |n: usize, value: Value| (0..n).map(|i| (format!("f{i}"), value.clone())).collect::<serde_json::Map<_, _>>();
    let of = |more: Value| {
        let mut event = json!({"key": "k", "id": "bad", "ts": 0, "fields": {"a": 1}});
        event.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        event.to_string().into_bytes()
    };
    let raw = |text: &str| text.as_bytes().to_vec();
    vec![
        (raw(r#"{"key":"k","id":"#), "event_malformed"),
        (raw(r#"{"key":"k","id":"bad","fields":{"a":01}}"#), "event_malformed"),
        (raw("7"), "type_invalid"),
        (raw(r#"{"key":"k","fields":{"a":1e999}}"#), "number_out_of_range"),
        (raw(r#"{"key":"k","fields":{"a":18446744073709551616}}"#), "number_out_of_range"),
        (raw(r#"{"key":"k","fields":{"a":-9223372036854775809}}"#), "number_out_of_range"),
        (raw(r#"{"key":"k","key":"l","fields":{"a":1}}"#), "duplicate_name"),
        (raw(r#"{"key":"k","fields":{"a":1,"a":1}}"#), "duplicate_name"),
        (raw(r#"{"key":"k","tags":{"a":"1","\u0061":"1"},"fields":{"a":1}}"#), "duplicate_name"),
        (b"{\"key\":\"k\",\"fields\":{\"a\":\"\xff\"}}".to_vec(), "invalid_utf8"),
        (raw(r#"{"key":"k","fields":{"a":"\ud800"}}"#), "event_malformed"),
        (of(json!({"key": 5})), "type_invalid"),
        (of(json!({"fields": [1]})), "type_invalid"),
        (of(json!({"fields": {"a": null}})), "type_invalid"),
        (of(json!({"fields": {"a": {"b": 1}}})), "type_invalid"),
        (of(json!({"tags": {"a": 1}})), "type_invalid"),
        (of(json!({"filds": {}})), "unknown_member"),
        (raw(r#"{"id":"bad","fields":{"a":1}}"#), "key_missing"),
        (of(json!({"key": ""})), "key_empty"),
        (of(json!({"key": "k".repeat(513)})), "key_too_long"),
        (of(json!({"id": "i".repeat(4_097)})), "id_too_long"),
        (of(json!({"fields": {"a": "s".repeat(16_385)}})), "string_too_long"),
        (of(json!({"tags": {"a": "s".repeat(16_385)}})), "string_too_long"),
        (of(json!({"fields": numbered(1_025, json!(1))})), "too_many_fields"),
        (of(json!({"tags": numbered(257, json!("t"))})), "too_many_tags"),
        (of(json!({"fields": numbered(5, json!("s".repeat(16_000)))})), "event_too_large"),
        (of(json!({"ts": "yesterday"})), "timestamp_invalid"),
        (of(json!({"ts": "2026-11-29T12:00:00"})), "timestamp_invalid"),
        (of(json!({"ts": "2026-11-29T12:00:00+0530"})), "timestamp_invalid"),
        (of(json!({"ts": i64::MAX})), "timestamp_out_of_range"),
        (of(json!({"ts": "9999-01-01T00:00:00Z"})), "timestamp_out_of_range"),
        (of(json!({"ts": now_ms() + 3_600_000})), "timestamp_too_far_ahead"),
    ]
}

fn good(id: &str) -> Vec<u8> {
    json!({"key": "k", "id": id, "ts": 1_000, "fields": {"a": 1}}).to_string().into_bytes()
}

fn ids(client: &Client, ns: &str) -> Vec<Value> {
    let events = client.read(&query(&format!("/v1/{ns}/events"), &[("key", "k"), ("limit", "10000")]));
    events["events"].as_array().expect("events").iter().map(|event| event["id"].clone()).collect()
}

#[test]
fn a_bad_row_is_named_by_place_and_code_and_the_good_rows_beside_it_are_stored() {
    let server = Server::start();
    let client = server.client();
    let mut expected = Vec::new();
    for (case, (row, code)) in bad_rows().into_iter().enumerate() {
        let (before, after) = (format!("{case:03}a"), format!("{case:03}b"));
        let body = [good(&before), row.clone(), good(&after)].join(&b'\n');
        let answer = client.deliver(PATH, NDJSON, &body).expect(422);
        assert_eq!(answer.header("content-type"), Some(JSON), "{answer}");
        let said = answer.json();
        let shown = String::from_utf8_lossy(&row[..row.len().min(100)]).into_owned();
        assert_eq!((&said["stored"], &said["rejected"]), (&json!(2), &json!(1)), "{shown}: {answer}");
        assert_eq!((&said["errors"][0]["index"], &said["errors"][0]["code"]), (&json!(1), &json!(code)), "{shown}: {answer}");
        assert!(said["errors"][0]["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{answer}");
        expected.extend([json!(before), json!(after)]);
    }
    assert_eq!(ids(client, "bad"), expected);
}

#[test]
fn not_a_number_and_the_infinities_are_refused_in_every_spelling() {
    let server = Server::start();
    for word in ["NaN", "Infinity", "-Infinity", "nan", "inf", "-inf", "1e400", "-1e400"] {
        let row = format!(r#"{{"key":"k","ts":0,"fields":{{"a":{word}}}}}"#).into_bytes();
        let said = server.client().deliver(PATH, NDJSON, &[good("a"), row].join(&b'\n')).expect(422).json();
        assert_eq!((&said["stored"], &said["errors"][0]["index"]), (&json!(1), &json!(1)), "{word}: {said}");
        let code = said["errors"][0]["code"].as_str().unwrap_or_default();
        assert!(["event_malformed", "number_out_of_range"].contains(&code), "{word}: {said}");
        let lines = format!("k a=1 1\nk a={word} 2\n");
        let answer = server.client().deliver("/write?db=lines", "text/plain", lines.as_bytes()).expect(400);
        assert!(
            answer.json()["error"].as_str().is_some_and(|error| error.contains("partial write") && error.contains("dropped=1")),
            "{word}: {answer}"
        );
    }
    assert_eq!(ids(server.client(), "bad"), [json!("a")]);
}

#[test]
fn in_an_array_a_bad_element_is_refused_alone_and_a_broken_array_whole() {
    let server = Server::start();
    let client = server.client();
    let array = |parts: &[&[u8]]| [b"[".as_slice(), &parts.join(&b','), b"]"].concat();
    let said = client.deliver(PATH, JSON, &array(&[&good("a"), br#"{"key":""}"#, &good("b")])).expect(422).json();
    assert_eq!((&said["stored"], &said["errors"][0]["index"], &said["errors"][0]["code"]), (&json!(2), &json!(1), &json!("key_empty")));
    let cut = array(&[&good("c"), &good("d")]);
    client.deliver(PATH, JSON, &cut[..cut.len() - 1]).expect_problem(400, "body_malformed");
    let alone = client.deliver(PATH, JSON, br#"{"key":"","fields":{"a":1}}"#).expect(422).json();
    assert_eq!((&alone["stored"], &alone["errors"][0]["index"]), (&json!(0), &json!(0)));
    assert_eq!(ids(client, "bad"), [json!("a"), json!("b")]);
}

#[test]
fn bad_lines_are_dropped_and_counted_and_the_errors_are_influxdbs_own() {
    let server = Server::start();
    let client = server.client();
    let lines = b"k,id=a a=1 1\nk,id=b\nk,id=c a=1 1\nk,id=d a=9223372036854775808i 1\n";
    let v1 = client.deliver("/write?db=v1&id_tag=id", "text/plain", lines).expect(400).json();
    assert!(v1["error"].as_str().is_some_and(|error| error.starts_with("partial write: ") && error.ends_with("dropped=2")), "{v1}");
    let v2 = client.deliver("/api/v2/write?bucket=v2&id_tag=id", "text/plain", lines).expect(400).json();
    assert!(v2["code"].is_string() && v2["message"].as_str().is_some_and(|message| message.contains("partial write")), "{v2}");
    for ns in ["v1", "v2"] {
        assert_eq!(ids(client, ns), [json!("a"), json!("c")], "{ns}");
    }
    assert!(
        client.deliver("/write?db=v1&presicion=s", "text/plain", b"k a=1 1").expect(400).json()["error"]
            .as_str()
            .is_some_and(|error| error.contains("presicion"))
    );
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(bytes).and_then(|()| gzip.finish()).expect("memory takes it")
}

fn post_encoded(client: &Client, encoding: &str, body: Vec<u8>) -> Answer {
    let headers = [("content-type", NDJSON), ("content-encoding", encoding)];
    client.send(Method::POST, PATH, &headers, body).expect("the client can read the answer")
}

#[test]
fn a_compressed_body_is_taken_whole_or_refused_whole() {
    let server = Server::start();
    let client = server.client();
    let rows: Vec<u8> = (0..2_000).flat_map(|i| [good(&format!("r{i}")), b"\n".to_vec()].concat()).collect();
    let whole = packed(&rows);
    post_encoded(client, "gzip", whole[..whole.len() - 4].to_vec()).expect_problem(400, "body_malformed");
    post_encoded(client, "gzip", whole[..whole.len() / 2].to_vec()).expect_problem(400, "body_malformed");
    post_encoded(client, "gzip", [&whole[..], b"trailing"].concat()).expect_problem(400, "body_malformed");
    post_encoded(client, "gzip", rows.clone()).expect_problem(400, "body_malformed");
    post_encoded(client, "zstd", rows.clone()).expect_problem(400, "body_malformed");
    post_encoded(client, "gzip", packed(&vec![b' '; 80 * 1024 * 1024])).expect_problem(413, "body_too_large");
    post_encoded(client, "br", rows).expect_problem(415, "unsupported_encoding");
    client.get(&query(PATH, &[("key", "k")])).expect_problem(404, "namespace_not_found");
    post_encoded(client, "gzip", [packed(&good("a")), packed(b"\n"), packed(&good("b"))].concat()).expect(200);
    assert_eq!(ids(client, "bad"), [json!("a"), json!("b")], "all members are read");
}

#[test]
fn a_body_over_the_limit_is_refused_at_once_and_writes_nothing() {
    let server = Server::start();
    let client = server.client();
    let mut stream = TcpStream::connect(server.url().trim_start_matches("http://")).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes it");
    write!(stream, "POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: {NDJSON}\r\ncontent-length: 999999999999\r\n\r\n").expect("it reads");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("it answers before the body is sent");
    assert_eq!(&answer, b"HTTP/1.1 413");

    let row = [good("a"), b"\n".to_vec()].concat();
    let large: Vec<u8> = row.iter().copied().cycle().take(17 * 1024 * 1024).collect();
    client.post(PATH, NDJSON, large).expect_problem(413, "body_too_large");
    let many = row.repeat(10_001);
    client.post(PATH, NDJSON, many).expect_problem(413, "too_many_events");
    client.get(&query(PATH, &[("key", "k")])).expect_problem(404, "namespace_not_found");
}

#[test]
fn a_request_that_is_wrong_as_a_whole_is_a_problem_that_names_what_is_wrong() {
    let server = Server::start();
    let client = server.client();
    client.deliver(PATH, JSON, &good("a")).expect(200);
    client.deliver(PATH, "image/png", &good("b")).expect_problem(415, "unsupported_media_type");
    client.deliver("/v1/bad/events?precison=s", JSON, &good("b")).expect_problem(400, "invalid_parameter");
    client.deliver("/v1/bad/events?precision=parsec", JSON, &good("b")).expect_problem(400, "invalid_parameter");
    client.deliver("/v1/-bad/events", JSON, &good("b")).expect_problem(400, "namespace_invalid");
    client.delete("/livez").expect_problem(405, "method_not_allowed");
    client.get("/v2/bad").expect_problem(404, "not_found");
    let put = |body: Value| client.put("/v1/namespaces/fresh", &body);
    put(json!({"shard": 4})).expect_problem(400, "invalid_parameter");
    put(json!({"shards": 0})).expect_problem(400, "invalid_parameter");
    put(json!({"shards": 4_097})).expect_problem(400, "invalid_parameter");
    put(json!({"bucket": "1mo"})).expect_problem(400, "invalid_parameter");
    client.get("/v1/fresh/keys").expect_problem(404, "namespace_not_found");
    assert_eq!(ids(client, "bad"), [json!("a")]);
}

#[test]
fn a_read_with_a_parameter_that_is_wrong_says_which() {
    let server = Server::start();
    let client = server.client();
    client.deliver(PATH, JSON, &good("a")).expect(200);
    let wrong = [
        ("events", "key=k&limt=3", "limt"),
        ("events", "key=k&limit=0", "limit"),
        ("events", "key=k&limit=10001", "limit"),
        ("events", "key=k&order=up", "order"),
        ("events", "key=k&where=nocolon", "where"),
        ("events", "key=k&from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("events", "key=k&from=soon", "from"),
        ("events", "key=k&from=2026-01-01T00:00:00+01:00", "%2B"),
        ("events", "key=k&key=l", "key"),
        ("aggregate", "key=k&from=now-1h&fn=median", "median"),
        ("aggregate", "key=k&fn=count", "from"),
        ("aggregate", "key=k&from=now-1h&fn=count&step=1mo", "step"),
        ("aggregate", "key=k&from=now-1h&fn=count&groupby=a", "groupby"),
        ("keys", "prefx=a", "prefx"),
        ("layout", "kee=a", "kee"),
        ("explain", "key=k&form=0", "form"),
    ];
    for (call, parameters, named) in wrong {
        let problem = client.get(&format!("/v1/bad/{call}?{parameters}")).expect_problem(400, "invalid_parameter");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(named)), "{parameters}: {problem}");
    }
    for call in ["events?key=k", "events/a?key=k", "aggregate?key=k&from=0&fn=count", "keys", "layout", "explain?key=k&from=0"] {
        client.get(&format!("/v1/nobody/{call}")).expect_problem(404, "namespace_not_found");
    }
    client.get("/v1/bad/events/none?key=k").expect_problem(404, "event_not_found");
    client.get("/v1/bad/aggregate?key=k&from=0&fn=count&step=1ms").expect_problem(422, "result_too_large");
}

#[test]
fn a_cursor_that_was_altered_or_is_of_another_query_is_refused() {
    let server = Server::start();
    let client = server.client();
    let rows = [good("a"), good("b"), good("c")].join(&b'\n');
    client.deliver(PATH, NDJSON, &rows).expect(200);
    let page = |more: &[(&str, &str)]| client.get(&query(PATH, &[&[("limit", "1")], more].concat()));
    let cursor = page(&[("key", "k")]).expect(200).json()["next"].as_str().expect("there is more").to_owned();
    page(&[("key", "k"), ("cursor", &cursor)]).expect(200);
    page(&[("key", "l"), ("cursor", &cursor)]).expect_problem(400, "cursor_invalid");
    page(&[("key", "k"), ("order", "desc"), ("cursor", &cursor)]).expect_problem(400, "cursor_invalid");
    page(&[("key", "k"), ("cursor", "")]).expect_problem(400, "cursor_invalid");
    for at in 0..cursor.len() {
        let other = if cursor.as_bytes()[at] == b'A' { "B" } else { "A" };
        let altered = format!("{}{other}{}", &cursor[..at], &cursor[at + 1..]);
        page(&[("key", "k"), ("cursor", &altered)]).expect_problem(400, "cursor_invalid");
    }
}

#[test]
fn a_client_that_breaks_off_leaves_nothing_and_the_server_goes_on() {
    let server = Server::start();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(server.url().trim_start_matches("http://")).expect("it listens");
        stream.set_write_timeout(Some(Duration::from_secs(10))).expect("a socket takes it");
        write!(stream, "POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: {NDJSON}\r\ncontent-length: 5000\r\n\r\n").expect("it reads");
        stream.write_all(&good("cut")).expect("it reads");
    }
    server.client().deliver(PATH, JSON, &good("a")).expect(200);
    assert_eq!(ids(server.client(), "bad"), [json!("a")]);
}

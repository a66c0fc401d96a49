//! `braid-load run --target dynamodb-items`, the real program, against a DynamoDB-compatible server and
//! a proxy before it that has bad days.

// The server and the proxy that the store's own tests use; what only those need stays unused here.
#[allow(dead_code)]
#[path = "../../shared/src/store/dynamodb/tests/engine.rs"]
mod engine;

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use engine::{Call, Fault, TestEngine};
use serde_json::Value;

const SUFFIXES: usize = 4;
const EVENTS: [&str; 6] = ["--seed", "7", "--start", "1700000000000", "--spacing", "10ms"];

fn run(engine: &TestEngine, more: &[&str]) -> (i32, Value, Output) {
    let url = engine.url();
    let words = ["run", "--target", "dynamodb-items", "--dynamodb-endpoint", &url, "--suffixes", "4", "--json", "--connections", "2"];
    let output = Command::new(env!("CARGO_BIN_EXE_braid-load")).args(words).args(EVENTS).args(more).output().unwrap();
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code().unwrap(), json, output)
}

/// The sort keys of the table by partition key.
async fn kept(engine: &TestEngine) -> BTreeMap<String, BTreeSet<String>> {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(engine.url())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"));
    let mut pages = Client::from_conf(config.build()).scan().table_name("bench").consistent_read(true).into_paginator().send();
    let mut kept: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    while let Some(page) = pages.next().await {
        for item in page.unwrap().items() {
            let text = |name: &str| item[name].as_s().unwrap().clone();
            assert!(item["amount"].is_n() && item["qty"].is_n() && item["region"].is_s(), "{item:?}");
            kept.entry(text("pk")).or_default().insert(text("sk"));
        }
    }
    kept
}

fn items(kept: &BTreeMap<String, BTreeSet<String>>) -> usize {
    kept.values().map(BTreeSet::len).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_an_item_of_one_suffix_and_its_units_are_counted() {
    let engine = TestEngine::start().await;
    let (code, json, output) = run(&engine, &["--rate", "max", "--events", "2010", "--keys", "2", "--duplicates", "5%", "--batch", "100"]);
    assert_eq!((code, &json["stored"]), (0, &2_010.into()), "{output:?}");
    let kept = kept(&engine).await;
    assert_eq!(kept.len(), 2 * SUFFIXES, "{:?}", kept.keys());
    assert!(kept.contains_key("hot-1#3"), "{:?}", kept.keys());
    let ids: BTreeSet<&str> = kept.values().flatten().map(|sort| sort.split_once('#').unwrap().1).collect();
    assert_eq!(ids.len(), items(&kept), "an event that is sent twice is one item");
    assert!((1_850..1_950).contains(&ids.len()), "{}", ids.len());
    // An item below a kilobyte is a unit; of an event and its duplicate in one batch one is sent.
    let units = json["units"].as_f64().unwrap();
    assert!((ids.len() as f64..=2_010.0).contains(&units), "{units}");
    let batches = engine.calls().into_iter().filter(|call| call.operation == "BatchWriteItem");
    assert!(batches.map(|call| call.body["RequestItems"]["bench"].as_array().unwrap().len()).all(|items| items <= 25));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_undone_refused_for_its_rate_or_not_answered_is_sent_again_and_none_is_lost() {
    let engine = TestEngine::start().await;
    engine.faults(|call: &Call| match (call.operation.as_str(), rand::random_range(0..100)) {
        ("BatchWriteItem", 0..20) => Fault::Undone(0.5),
        ("BatchWriteItem", 20..25) => Fault::Throttle("TableWriteKeyRangeThroughputExceeded"),
        ("BatchWriteItem", 25..30) => Fault::FailAfter,
        ("BatchWriteItem", 30..33) => Fault::ResetAfter,
        _ => Fault::None,
    });
    let (code, json, output) = run(&engine, &["--rate", "max", "--events", "3000", "--event-bytes", "300"]);
    assert_eq!((code, &json["stored"]), (0, &3_000.into()), "{output:?}");
    assert!(json["retries"].as_u64() > Some(0), "{json}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("trying again"), "{output:?}");
    assert_eq!(items(&kept(&engine).await), 3_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_sent_twice_under_random_suffixes_stands_twice() {
    let engine = TestEngine::start().await;
    let (code, _, output) = run(&engine, &["--rate", "max", "--events", "2000", "--duplicates", "20%", "--suffix", "random"]);
    assert_eq!(code, 0, "{output:?}");
    let kept = kept(&engine).await;
    let distinct: BTreeSet<&String> = kept.values().flatten().collect();
    assert!(items(&kept) > distinct.len() + 100, "{} items of {} events", items(&kept), distinct.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_answered_as_one_writes_them_by_hand() {
    let engine = TestEngine::start().await;
    assert_eq!(run(&engine, &["--rate", "max", "--events", "1000"]).0, 0);
    for (suffix, kind, name, operation, calls) in [
        ("computed", "last:10", "read:last", "Query", SUFFIXES),
        ("computed", "range", "read:range", "Query", SUFFIXES),
        ("computed", "point", "read:point", "GetItem", 1),
        ("random", "point", "read:point", "GetItem", SUFFIXES),
    ] {
        engine.calls();
        let reads = ["--rate", "0", "--reads", "20/1s", "--known", "1000", "--read", kind, "--suffix", suffix];
        let (code, json, output) = run(&engine, &reads);
        let read = &json["reads"][name];
        assert_eq!((code, &read["requests"], &read["failed"]), (0, &20.into(), &0.into()), "{kind}: {output:?}");
        assert!(read["units"].as_f64() > Some(0.0), "{kind}: {json}");
        assert_eq!(engine.calls().iter().filter(|call| call.operation == operation).count(), 20 * calls, "{suffix} {kind}");
    }
    let (code, json, _) = run(&engine, &["--rate", "0", "--reads", "5/1s", "--known", "1000", "--read", "id"]);
    assert_eq!((code, &json["refused_samples"][0]["code"]), (1, &"read:point".into()));
    assert!(json["refused_samples"][0]["detail"].as_str().unwrap().contains("index"), "{json}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_answers_is_given_up_and_a_server_that_is_not_there_is_said() {
    let engine = TestEngine::start().await;
    engine.faults(|call| if call.operation == "BatchWriteItem" { Fault::Reset } else { Fault::None });
    let (code, json, output) = run(&engine, &["--rate", "max", "--events", "10", "--retry-for", "200ms"]);
    assert_eq!((code, &json["unknown"]), (69, &10.into()), "{output:?}");
    engine.stop().await;
    let url = engine.url();
    let words = ["run", "--target", "dynamodb-items", "--dynamodb-endpoint", &url];
    let output = Command::new(env!("CARGO_BIN_EXE_braid-load")).args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("table bench"), "{output:?}");
}

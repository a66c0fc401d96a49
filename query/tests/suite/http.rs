//! The query tier's calls over HTTP, against a memory store.

use crate::world::{HOUR, NOW, SECOND, World, event, ids};
use braid_shared::catalog::NewNamespace;
use braid_shared::layout::ShardBy;
use braid_shared::model::FieldValue::{Bool, F64, I64, Str, U64};
use serde_json::json;

const T0: i64 = NOW - 10 * HOUR;

/// Ten events of key `k`, one every half hour from T0, with ids e0 to e9.
async fn ten(shards: u32) -> World {
    let world = World::new().await;
    world.with(shards, 1).await;
    let events: Vec<_> = (0..10)
        .map(|i| {
            let carrier = if i % 3 == 0 { "UA" } else { "B:6" };
            event(&format!("e{i}"), T0 + i * HOUR / 2, &[("x", I64(i)), ("y", F64(i as f64))], &[("carrier", carrier)])
        })
        .collect();
    world.write(&events).await;
    world
}

#[tokio::test]
async fn a_page_is_in_order_and_says_what_it_stands_on() {
    let world = ten(4).await;
    let page = world.get("/v1/n/events?key=k").await.ok();
    assert_eq!(ids(&page), (0..10).map(|i| format!("e{i}")).collect::<Vec<_>>());
    assert_eq!(
        page["events"][1],
        json!({"key": "k", "id": "e1", "ts": "2026-11-29T02:30:00Z", "fields": {"x": 1, "y": 1.0}, "tags": {"carrier": "B:6"}})
    );
    assert_eq!((&page["complete"], &page["from"], &page["next"]), (&json!(true), &json!(null), &json!(null)));
    assert_eq!(page["shards"], json!({"planned": 4, "answered": 4}));
    assert_eq!(page["layouts"], json!([{"version": 0, "shards": 4, "bucket": "1h", "shard_by": "id", "from": null, "state": "active"}]));
    assert!(page["revision"].is_u64());
}

#[tokio::test]
async fn pages_join_to_the_whole_in_both_orders_and_for_every_size() {
    let world = ten(4).await;
    let all = world.get("/v1/n/events?key=k&from=now-1d&to=now").await.ok();
    let mut reversed = all["events"].as_array().unwrap().clone();
    reversed.reverse();
    for (order, expected) in [("asc", all["events"].as_array().unwrap().clone()), ("desc", reversed)] {
        for limit in 1..12 {
            let (mut seen, mut cursor) = (Vec::new(), String::new());
            loop {
                let page = world.get(&format!("/v1/n/events?key=k&from=now-1d&to=now&order={order}&limit={limit}{cursor}")).await.ok();
                let events = page["events"].as_array().unwrap();
                assert!(events.len() <= limit);
                seen.extend(events.clone());
                let Some(next) = page["next"].as_str() else { break };
                cursor = format!("&cursor={next}");
                world.clock.advance(std::time::Duration::from_secs(1));
            }
            assert_eq!(seen, expected, "{order} {limit}");
        }
    }
}

#[tokio::test]
async fn a_cursor_that_was_altered_or_is_anothers_is_refused() {
    let world = ten(4).await;
    let page = world.get("/v1/n/events?key=k&limit=3").await.ok();
    let next = page["next"].as_str().unwrap();
    assert_eq!(ids(&world.get(&format!("/v1/n/events?key=k&limit=2&cursor={next}")).await.ok()), ["e3", "e4"]);
    for other in ["key=other", "key=k&order=desc", "key=k&where=carrier:UA", "key=k&from=0"] {
        world.get(&format!("/v1/n/events?{other}&cursor={next}")).await.problem(400, "cursor_invalid");
    }
    let altered = format!("{}A{}", &next[..10], &next[11..]);
    for cursor in [altered.as_str(), "", "x", "%00"] {
        world.get(&format!("/v1/n/events?key=k&cursor={cursor}")).await.problem(400, "cursor_invalid");
    }
}

#[tokio::test]
async fn conditions_hold_for_merged_events_before_the_limit() {
    let world = ten(4).await;
    let page = world.get("/v1/n/events?key=k&where=carrier:UA&limit=3").await.ok();
    assert_eq!(ids(&page), ["e0", "e3", "e6"]);
    assert_eq!(ids(&world.get("/v1/n/events?key=k&where=carrier:B%3A6&limit=2").await.ok()), ["e1", "e2"]);
    assert_eq!(ids(&world.get("/v1/n/events?key=k&where=carrier:UA&where=other:").await.ok()).len(), 4);
    assert_eq!(ids(&world.get("/v1/n/events?key=k&where=carrier:UA&where=other:x").await.ok()).len(), 0);
}

#[tokio::test]
async fn a_stream_ends_with_its_account() {
    let world = ten(4).await;
    let answer = world.lines("/v1/n/events?key=k&order=desc").await;
    assert_eq!(answer.content_type, "application/x-ndjson");
    let lines: Vec<serde_json::Value> = answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 11);
    assert_eq!((&lines[0]["id"], &lines[9]["id"]), (&json!("e9"), &json!("e0")));
    let end = &lines[10]["end"];
    assert_eq!((&end["complete"], &end["events"], &end["shards"]["answered"]), (&json!(true), &json!(10), &json!(4)));
    let short = world.lines("/v1/n/events?key=k&limit=2").await;
    assert_eq!(short.text.lines().count(), 3);
}

#[tokio::test]
async fn one_event_is_found_with_and_without_its_time_from_one_suffix() {
    let world = ten(16).await;
    for path in ["events/e4?key=k", "events?key=k&id=e4", "events/e4?key=k&ts=2026-11-29T04:00:00Z", "events/e4?key=k&where=carrier:B%3A6"]
    {
        let found = world.get(&format!("/v1/n/{path}")).await.ok();
        assert_eq!(found["event"]["fields"]["x"], 4, "{path}");
    }
    let with_ts = world.get("/v1/n/events/e4?key=k&ts=2026-11-29T04:00:00Z").await.ok();
    assert_eq!(with_ts["shards"], json!({"planned": 1, "answered": 1}));
    for path in ["events/e4?key=k&ts=2026-11-29T04:00:01Z", "events/nope?key=k", "events/e4?key=other", "events/e4?key=k&where=carrier:UA"]
    {
        world.get(&format!("/v1/n/{path}")).await.problem(404, "event_not_found");
    }
    world.get("/v1/n/events/e4").await.problem(400, "invalid_parameter");
}

#[tokio::test]
async fn ids_with_slashes_empty_ids_and_ids_that_carry_a_time_are_found() {
    let world = World::new().await;
    world.with(4, 1).await;
    let uuid = "01890a5d-ac96-774b-bcce-b302099a8057";
    let at = 0x0189_0a5d_ac96_i64 * 1_000_000;
    let one = [("x", I64(1))];
    world.write(&[event("a/b c", T0, &one, &[]), event("", T0 + 1, &one, &[]), event(uuid, at + 5, &one, &[])]).await;
    assert_eq!(world.get("/v1/n/events/a%2Fb%20c?key=k").await.ok()["event"]["id"], "a/b c");
    assert_eq!(world.get("/v1/n/events?key=k&id=").await.ok()["event"]["ts"], "2026-11-29T02:00:00.000000001Z");
    assert_eq!(world.get(&format!("/v1/n/events/{uuid}?key=k")).await.ok()["event"]["id"], uuid);
    world.get("/v1/n/events/%ff?key=k").await.problem(400, "invalid_parameter");
}

#[tokio::test]
async fn of_several_events_with_an_id_the_newest_is_given() {
    let world = World::new().await;
    world.with(4, 1).await;
    world.write(&[event("a", T0, &[("x", I64(1))], &[]), event("a", T0 + 5 * HOUR, &[("x", I64(2))], &[])]).await;
    assert_eq!(world.get("/v1/n/events/a?key=k").await.ok()["event"]["fields"]["x"], 2);
}

#[tokio::test]
async fn a_layout_that_shards_by_a_tag_wants_that_tag_for_one_event_and_reads_one_suffix_for_its_value() {
    let world = World::new().await;
    world.create(NewNamespace { shards: 16, shard_by: ShardBy::Tag("region".into()), ..NewNamespace::default() }).await;
    world
        .write(&[
            event("a", T0, &[("x", I64(1))], &[("region", "eu")]),
            event("a", T0, &[("x", I64(2))], &[("region", "us")]),
            event("a", T0, &[("x", I64(3))], &[]),
        ])
        .await;
    let problem = world.get("/v1/n/events/a?key=k").await.problem(400, "invalid_parameter");
    assert!(problem["detail"].as_str().unwrap().contains("where=region:"), "{problem}");
    assert_eq!(world.get("/v1/n/events/a?key=k&where=region:us").await.ok()["event"]["fields"]["x"], 2);
    assert_eq!(world.get("/v1/n/events/a?key=k&where=region:").await.ok()["event"]["fields"]["x"], 3);
    let page = world.get("/v1/n/events?key=k&where=region:eu").await.ok();
    assert_eq!((page["events"].as_array().unwrap().len(), &page["shards"]["planned"]), (1, &json!(1)));
    assert_eq!(world.get("/v1/n/events?key=k").await.ok()["events"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn steps_are_all_there_and_functions_are_exact() {
    let world = ten(4).await;
    let path =
        "/v1/n/aggregate?key=k&from=2026-11-29T01:15:00Z&to=2026-11-29T04:15:00Z&step=1h&field=x&fn=count,sum,avg,min,max,p50,p99.9,rate";
    let answer = world.get(path).await.ok();
    let rows = answer["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert_eq!(
        rows[0],
        json!({"start": "2026-11-29T01:15:00Z", "end": "2026-11-29T02:00:00Z", "group": {}, "count": 0, "sum": 0, "avg": null,
               "min": null, "max": null, "p50": null, "p99.9": null, "rate": 0.0})
    );
    assert_eq!((&rows[1]["count"], &rows[1]["sum"], &rows[1]["avg"], &rows[1]["p50"]), (&json!(2), &json!(1), &json!(0.5), &json!(0)));
    assert_eq!(
        (&rows[3]["start"], &rows[3]["end"], &rows[3]["count"]),
        (&json!("2026-11-29T04:00:00Z"), &json!("2026-11-29T04:15:00Z"), &json!(1))
    );
    let whole = world.get("/v1/n/aggregate?key=k&from=0&field=y&fn=sum,max,count").await;
    assert!(whole.text.contains(r#""sum":45.0,"max":9.0,"count":10"#), "{}", whole.text);
    let events = world.get("/v1/n/aggregate?key=k&from=0").await.ok();
    assert_eq!(events["rows"][0]["count"], 10);
}

#[tokio::test]
async fn groups_have_all_their_steps_and_an_absent_tag_is_null() {
    let world = ten(4).await;
    world.write(&[event("none", T0, &[("x", I64(100))], &[])]).await;
    let answer = world.get("/v1/n/aggregate?key=k&from=0&field=x&fn=count,sum&group_by=carrier").await.ok();
    let rows: Vec<_> = answer["rows"].as_array().unwrap().iter().map(|row| (row["group"].clone(), row["sum"].clone())).collect();
    let group = |carrier: serde_json::Value| json!({ "carrier": carrier });
    assert_eq!(rows, [(group(json!(null)), json!(100)), (group(json!("B:6")), json!(27)), (group(json!("UA")), json!(18))]);
    let stepped = world
        .get("/v1/n/aggregate?key=k&from=2026-11-29T02:00:00Z&to=2026-11-29T07:00:00Z&step=1h&group_by=carrier&group_by=zone")
        .await
        .ok();
    assert_eq!(stepped["rows"].as_array().unwrap().len(), 15);
    assert_eq!(stepped["rows"][0]["group"], json!({"carrier": null, "zone": null}));
    let only = world.get("/v1/n/aggregate?key=k&from=0&field=x&fn=sum,p50&where=carrier:UA").await.ok();
    assert_eq!((&only["rows"][0]["sum"], &only["rows"][0]["p50"]), (&json!(18), &json!(3)));
}

#[tokio::test]
async fn values_of_all_types_aggregate_exactly_and_values_that_are_no_numbers_only_count() {
    let world = World::new().await;
    world.with(7, 1).await;
    let values = [I64(1), F64(0.5), U64(u64::MAX), Bool(true), Str("7".into()), I64(i64::MIN)];
    let events: Vec<_> =
        values.into_iter().enumerate().map(|(i, value)| event(&i.to_string(), T0 + i as i64, &[("x", value)], &[])).collect();
    world.write(&events).await;
    let answer = world.get("/v1/n/aggregate?key=k&from=0&field=x&fn=count,min,max,p75").await;
    assert!(answer.text.contains(r#""count":6,"min":-9223372036854775808,"max":18446744073709551615,"p75":1"#), "{}", answer.text);
    world.write(&[event("big", T0, &[("z", U64(u64::MAX))], &[]), event("big2", T0, &[("z", U64(u64::MAX))], &[])]).await;
    let sum = world.get("/v1/n/aggregate?key=k&from=0&field=z&fn=sum").await;
    assert!(sum.text.contains(r#""sum":36893488147419103230"#), "{}", sum.text);
    let none = world.get("/v1/n/aggregate?key=k&from=0&field=absent&fn=count,sum,avg,p1").await.ok();
    let row = &none["rows"][0];
    assert_eq!((&row["count"], &row["sum"], &row["avg"], &row["p1"]), (&json!(0), &json!(0), &json!(null), &json!(null)));
}

#[tokio::test]
async fn answers_do_not_show_the_layout() {
    let mut seen = Vec::new();
    for shards in [1, 4, 64] {
        let world = ten(shards).await;
        let events = world.get("/v1/n/events?key=k&from=0&to=now").await.ok()["events"].clone();
        let rows = world.get("/v1/n/aggregate?key=k&from=0&to=now&step=40000w&field=y&fn=sum,p50,min&group_by=carrier").await;
        seen.push((events, rows.status));
        let rows = world.get("/v1/n/aggregate?key=k&from=0&to=now&field=y&fn=sum,p50,min&group_by=carrier").await.ok()["rows"].clone();
        seen.push((rows, axum::http::StatusCode::OK));
    }
    assert!(seen.chunks(2).all(|pair| pair[0] == seen[0] && pair[1] == seen[1]));
}

#[tokio::test]
async fn a_range_across_epochs_is_read_under_each_ones_own_n() {
    let world = ten(4).await;
    world.catalog.cover(braid_shared::model::Timestamp::from_nanos(NOW)).await.unwrap();
    let start = NOW + 20 * SECOND;
    world.publish(Some("k"), 10, start).await.unwrap();
    let before = world.get("/v1/n/layout?key=k").await.ok();
    assert_eq!((&before["layouts"][0]["state"], &before["layouts"][1]["state"]), (&json!("active"), &json!("scheduled")));
    world.clock.advance(std::time::Duration::from_secs(30));
    world.write(&[event("old", start - 1, &[("x", I64(1))], &[]), event("new", start, &[("x", I64(2))], &[])]).await;
    let page = world.get("/v1/n/events?key=k&order=desc&limit=2").await.ok();
    assert_eq!(ids(&page), ["new", "old"]);
    let rows = world.get("/v1/n/aggregate?key=k&from=0&fn=count").await.ok();
    assert_eq!((&rows["rows"][0]["count"], &rows["shards"]["planned"]), (&json!(12), &json!(14)));
    assert_eq!(rows["layouts"].as_array().unwrap().len(), 2);
    assert_eq!(world.get("/v1/n/events/new?key=k").await.ok()["event"]["fields"]["x"], 2);
}

#[tokio::test]
async fn a_prefix_reads_many_keys_and_is_marked() {
    let world = World::new().await;
    world.with(4, 1).await;
    let mut events = Vec::new();
    for (i, key) in ["d/a", "d/b", "e"].into_iter().enumerate() {
        let mut event = event(&format!("e{i}"), T0 + i as i64, &[("x", I64(1))], &[]);
        event.key = key.into();
        events.push(event);
    }
    world.write(&events).await;
    let page = world.get("/v1/n/events?prefix=d/").await.ok();
    assert_eq!((ids(&page), &page["broadcast"]), (vec!["e0".to_owned(), "e1".to_owned()], &json!(true)));
    let first = world.get("/v1/n/events?prefix=&limit=1").await.ok();
    let next = first["next"].as_str().unwrap();
    assert_eq!(ids(&world.get(&format!("/v1/n/events?prefix=&cursor={next}")).await.ok()), ["e1", "e2"]);
    assert_eq!(world.get("/v1/n/aggregate?prefix=&from=0").await.ok()["rows"][0]["count"], 3);
    assert_eq!(world.get("/v1/n/keys").await.ok()["keys"], json!(["d/a", "d/b", "e"]));
    let keys = world.get("/v1/n/keys?prefix=d/&limit=1").await.ok();
    assert_eq!(keys["keys"], json!(["d/a"]));
    let next = keys["next"].as_str().unwrap();
    let rest = world.get(&format!("/v1/n/keys?prefix=d/&cursor={next}")).await.ok();
    assert_eq!((&rest["keys"], &rest["next"]), (&json!(["d/b"]), &json!(null)));
    world.get("/v1/n/events").await.problem(400, "invalid_parameter");
    world.get("/v1/n/events?key=k&prefix=k").await.problem(400, "invalid_parameter");
}

#[tokio::test]
async fn explain_names_the_partitions_without_reading_them() {
    let world = ten(4).await;
    let plan = world.get("/v1/n/explain?key=k&from=2026-11-29T02:00:00Z&to=2026-11-29T04:00:00Z&step=1h&fn=count").await.ok();
    assert_eq!(plan["partitions"].as_array().unwrap().len(), 8);
    assert_eq!(plan["partitions"][5], json!({"bucket": "2026-11-29T03:00:00Z", "version": 0, "shards": 4, "suffix": 1}));
    assert_eq!((&plan["tables"], &plan["shards"]["planned"]), (&json!([]), &json!(4)));
    let one = world.get("/v1/n/explain?key=k&id=e4&ts=2026-11-29T04:00:00Z").await.ok();
    assert_eq!(one["partitions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_a_call_does_not_take_is_named() {
    let world = ten(4).await;
    let cases = [
        ("events?key=k&limt=3", "limt"),
        ("events?key=k&key=k", "key"),
        ("events?key=", "key"),
        ("events?key=k&limit=0", "limit"),
        ("events?key=k&limit=10001", "limit"),
        ("events?key=k&limit=+5", "limit"),
        ("events?key=k&order=up", "order"),
        ("events?key=k&from=yesterday", "from"),
        ("events?key=k&from=now&to=now-1h", "from"),
        ("events?key=k&from=2026-11-29T12:00:00+01:00", "%2B"),
        ("events?key=k&where=carrier", "where"),
        ("events?key=k&partial=yes", "partial"),
        ("events?key=k&id=a&from=0", "from"),
        ("events?key=k&ts=0", "ts"),
        ("events/e1?key=k&from=0", "from"),
        ("aggregate?key=k", "from"),
        ("aggregate?key=k&from=0&fn=mean&field=x", "mean"),
        ("aggregate?key=k&from=0&fn=p0&field=x", "p0"),
        ("aggregate?key=k&from=0&fn=sum", "field"),
        ("aggregate?key=k&from=0&fn=count,count", "count"),
        ("aggregate?key=k&from=0&step=1mo", "step"),
        ("aggregate?key=k&from=0&step=0s", "step"),
        ("aggregate?key=k&from=0&limit=3", "limit"),
        ("keys?key=k", "key"),
        ("explain?key=k&limt=3", "limt"),
        ("layout?version=3", "version"),
    ];
    for (path, named) in cases {
        let problem = world.get(&format!("/v1/n/{path}")).await.problem(400, "invalid_parameter");
        assert!(problem["detail"].as_str().unwrap().contains(named), "{path}: {problem}");
    }
    world.get("/v1/.n/events?key=k").await.problem(400, "namespace_invalid");
    for path in ["events?key=k", "events/e?key=k", "aggregate?key=k&from=0", "keys", "explain?key=k", "layout"] {
        world.get(&format!("/v1/nobody/{path}")).await.problem(404, "namespace_not_found");
    }
    world.get("/v1/namespaces/nobody").await.problem(404, "namespace_not_found");
}

#[tokio::test]
async fn answers_over_their_bounds_are_refused_before_they_are_made() {
    let world = ten(4).await;
    world.get("/v1/n/aggregate?key=k&from=0&step=1ns").await.problem(422, "result_too_large");
    world.get("/v1/n/aggregate?key=k&from=now-7h&step=1s&group_by=carrier").await.ok();
    world.get("/v1/n/aggregate?key=k&from=now-1d&step=1s&group_by=carrier").await.problem(422, "result_too_large");
}

#[tokio::test]
async fn an_open_end_is_cut_at_a_horizon_and_said() {
    let world = ten(4).await;
    let horizon = world.catalog.refresh().await.unwrap().horizon.to_string();
    assert_eq!(world.get("/v1/n/events?key=k").await.ok()["to"], horizon.as_str());
    let far = world.get("/v1/n/aggregate?key=k&from=2026-11-29T00:00:00Z&to=2040-01-01T00:00:00Z").await.ok();
    assert_eq!((&far["to"], &far["from"]), (&json!(horizon), &json!("2026-11-29T00:00:00Z")));
    let ahead = world.get("/v1/n/events?key=k&from=2040-01-01T00:00:00Z").await.ok();
    assert_eq!((ids(&ahead).len(), &ahead["to"], &ahead["complete"]), (0, &json!("2040-01-01T00:00:00Z"), &json!(true)));
}

#[tokio::test]
async fn layouts_are_published_listed_and_withdrawn() {
    let world = ten(4).await;
    let start = "2026-11-29T13:00:00Z";
    let body = format!(r#"{{"key":"k","shards":10,"effective_from":"{start}"}}"#);
    let made = world.call("POST", "/v1/n/layout", &[], &body).await;
    assert_eq!(made.status.as_u16(), 201, "{}", made.text);
    let made = made.json();
    assert_eq!(
        (&made["shards"], &made["bucket"], &made["from"], &made["state"]),
        (&json!(10), &json!("1h"), &json!(start), &json!("scheduled"))
    );
    world.call("POST", "/v1/n/layout", &[], &body).await.problem(409, "layout_conflict");
    let version = made["version"].as_u64().unwrap();
    assert_eq!(world.get("/v1/n/layout").await.ok()["layouts"].as_array().unwrap().len(), 1);
    let gone = world.call("DELETE", &format!("/v1/n/layout?key=k&version={version}"), &[], "").await.ok();
    assert_eq!(gone["state"], "withdrawn");
    assert_eq!(world.get("/v1/n/layout?key=k").await.ok()["layouts"][1]["state"], "withdrawn");
    world.call("DELETE", "/v1/n/layout?key=k&version=999", &[], "").await.problem(404, "layout_not_found");
    world.call("DELETE", "/v1/n/layout?version=0", &[], "").await.problem(409, "layout_immutable");
    world.call("DELETE", "/v1/n/layout?key=k", &[], "").await.problem(400, "invalid_parameter");
    for bad in [
        r#"{"shards":0}"#,
        r#"{"shards":4097}"#,
        r#"{"shards":"4"}"#,
        r#"{"shards":4,"extra":1}"#,
        r#"{"shards":4,"bucket":"1mo"}"#,
        r#"{"shards":4,"bucket":"366d"}"#,
        r#"{"shards":4,"shard_by":""}"#,
        r#"{"shards":4,"effective_from":1.5}"#,
        r#"{"shards":4,"effective_from":true}"#,
        r#"{"shards":4,"key":""}"#,
        r#"{"shards":4,"shards":5}"#,
        "{",
        "",
    ] {
        world.call("POST", "/v1/n/layout", &[], bad).await.problem(400, "invalid_parameter");
    }
    world.call("POST", "/v1/nobody/layout", &[], r#"{"shards":4}"#).await.problem(404, "namespace_not_found");
    world.call("POST", "/v1/n/layout", &[], &"x".repeat(70_000)).await.problem(413, "body_too_large");
}

#[tokio::test]
async fn a_namespace_is_made_once_and_its_policy_changed() {
    let world = World::new().await;
    let put = async |body: &str| world.call("PUT", "/v1/namespaces/n", &[], body).await;
    let made = put(r#"{"shards":7,"bucket":"1d","retention":"90d"}"#).await;
    assert_eq!(made.status.as_u16(), 201, "{}", made.text);
    assert_eq!((&made.json()["shards"], &made.json()["bucket"], &made.json()["shard_by"]), (&json!(7), &json!("1d"), &json!("id")));
    let changed = put(r#"{"shards":7,"max_age":"1d","max_shards":64}"#).await.ok();
    assert_eq!((&changed["max_age"], &changed["retention"], &changed["shards"]), (&json!("1d"), &json!(null), &json!(7)));
    assert_eq!(world.get("/v1/namespaces/n").await.ok(), changed);
    put(r#"{"shards":8}"#).await.problem(409, "layout_immutable");
    put(r#"{"bucket":"1h"}"#).await.problem(409, "layout_immutable");
    put(r#"{"shard_by":"region"}"#).await.problem(409, "layout_immutable");
    for bad in [r#"{"shrds":8}"#, r#"{"max_age":"x"}"#, r#"{"min_shards":9,"max_shards":3}"#, "[]"] {
        put(bad).await.problem(400, "invalid_parameter");
    }
    world.call("PUT", "/v1/namespaces/other", &[], "{\"shards\":0}").await.problem(400, "invalid_parameter");
    world.get("/v1/namespaces/other").await.problem(404, "namespace_not_found");
}

#[tokio::test]
async fn events_before_1970_and_at_the_edges_of_time_are_read() {
    let world = World::new().await;
    world.with(3, 24).await;
    world
        .write(&[
            event("min", i64::MIN, &[("x", I64(1))], &[]),
            event("neg", -1, &[("x", I64(2))], &[]),
            event("zero", 0, &[("x", I64(3))], &[]),
        ])
        .await;
    assert_eq!(ids(&world.get("/v1/n/events?key=k").await.ok()), ["min", "neg", "zero"]);
    let desc = world.get("/v1/n/events?key=k&order=desc&limit=1").await.ok();
    assert_eq!(ids(&desc), ["zero"]);
    let next = desc["next"].as_str().unwrap();
    assert_eq!(ids(&world.get(&format!("/v1/n/events?key=k&order=desc&cursor={next}")).await.ok()), ["neg", "min"]);
    let rows = world.get("/v1/n/aggregate?key=k&from=1969-12-31T23:00:00Z&to=1970-01-01T01:00:00Z&step=1h&field=x&fn=sum").await.ok();
    assert_eq!((&rows["rows"][0]["sum"], &rows["rows"][1]["sum"]), (&json!(2), &json!(3)));
    assert_eq!(world.get("/v1/n/events/min?key=k").await.ok()["event"]["ts"], "1677-09-21T00:12:43.145224192Z");
}

#[tokio::test]
async fn more_reads_than_the_bound_are_refused_at_once() {
    let settings = braid_query::QuerySettings { in_flight_max: 0, ..Default::default() };
    let world = World::over(braid_shared::store::memory::MemoryStore::new(), settings).await;
    world.get("/v1/n/keys").await.problem(503, "overloaded");
}

#[tokio::test]
async fn reads_are_counted() {
    let world = ten(4).await;
    world.get("/v1/n/aggregate?key=k&from=0&to=now-30m&field=x&fn=sum").await.ok();
    world.get("/v1/n/events?prefix=").await.ok();
    let text = prometheus::TextEncoder::new().encode_to_string(&world.registry.gather()).unwrap();
    for line in [r#"braid_queries_total{kind="aggregate",status="200"} 1"#, "braid_broadcasts_total 1", "braid_queries_in_flight 0"] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

//! Reads across hot and cold: the same answers before, while and after buckets leave the store.

use braid_shared::catalog::{NewNamespace, Policy};
use braid_shared::cold::{ArchiveOptions, Archiver, Database, Databases, Group, Manifest, PageId, Tables};
use braid_shared::model::{Event, FieldValue, Span, Timestamp};
use prometheus::Registry;
use tempfile::TempDir;

use crate::world::{HOUR, NOW, SECOND, World, event};

struct Cold {
    world: World,
    archiver: Archiver,
    dir: TempDir,
}

impl Cold {
    async fn new() -> Cold {
        let (world, dir) = (World::new().await, tempfile::tempdir().unwrap());
        let policy = Policy { archive_after: Some(Span::HOUR), ..Policy::default() };
        world.create(NewNamespace { shards: 3, policy, ..NewNamespace::default() }).await;
        let database = |name: &str, tables| Database { name: name.into(), url: format!("file://{}/{name}", dir.path().display()), tables };
        let group = Group { tables: 5, databases: vec![database("a", 3), database("b", 2)] };
        world.catalog.add_group(&world.ns, None, group).await.unwrap();
        let registry = Registry::new();
        let tables = Tables::new(Databases::new(), &registry).unwrap();
        let (store, catalog, clock) = (world.store.clone(), world.catalog.clone(), world.clock.clone());
        let archiver = Archiver::new(store, catalog, tables, clock, ArchiveOptions::default(), &registry).unwrap();
        Cold { world, archiver, dir }
    }

    fn pass(&self) {
        self.world.clock.advance(std::time::Duration::from_secs(61));
    }

    async fn round(&mut self) {
        let round = self.archiver.round().await.unwrap();
        assert_eq!(round.failed, 0);
        self.pass();
    }

    /// What every kind of read answers, apart from what the answers say of themselves.
    async fn answers(&self) -> Vec<String> {
        let from = Timestamp::from_nanos(NOW - 12 * HOUR);
        let to = Timestamp::from_nanos(NOW);
        let range = format!("key=k&from={from}&to={to}");
        let mut answers = Vec::new();
        for path in [
            format!("/v1/n/events?{range}&limit=1000"),
            format!("/v1/n/events?{range}&limit=7&order=desc"),
            format!("/v1/n/events?{range}&where=region:eu"),
        ] {
            answers.push(self.world.get(&path).await.ok()["events"].to_string());
        }
        for path in [
            format!("/v1/n/aggregate?{range}&field=x&fn=count,sum,min,max,p50&step=1h"),
            format!("/v1/n/aggregate?{range}&field=x&fn=count,avg&group_by=region"),
        ] {
            answers.push(self.world.get(&path).await.ok()["rows"].to_string());
        }
        answers.push(self.world.get("/v1/n/events/e5-2?key=k").await.ok()["event"].to_string());
        answers
    }

    async fn explain(&self) -> serde_json::Value {
        let (from, to) = (Timestamp::from_nanos(NOW - 12 * HOUR), Timestamp::from_nanos(NOW));
        self.world.get(&format!("/v1/n/explain?key=k&from={from}&to={to}")).await.ok()
    }
}

fn history() -> Vec<Event> {
    let of_hour = |hour: i64| (0..6).map(move |n| one(hour, n, "x", hour * n));
    (2..10).flat_map(of_hour).collect()
}

fn one(hour: i64, n: i64, field: &str, value: i64) -> Event {
    let region = if n % 2 == 0 { "eu" } else { "us" };
    event(&format!("e{hour}-{n}"), NOW - hour * HOUR + n * SECOND, &[(field, FieldValue::I64(value))], &[("region", region)])
}

#[tokio::test]
async fn every_answer_stays_the_same_while_buckets_leave_the_store() {
    let mut cold = Cold::new().await;
    cold.world.write(&history()).await;
    let before = cold.answers().await;
    assert_eq!(cold.explain().await["tables"].as_array().unwrap().len(), 0);
    for _ in 0..4 {
        cold.round().await;
        assert_eq!(cold.answers().await, before);
    }
    let explained = cold.explain().await;
    assert_eq!(explained["tables"].as_array().unwrap().len(), 8, "{explained}");
    let named = explained["tables"].as_array().unwrap().iter().all(|table| {
        let place = table["files"][0].as_str().unwrap();
        table["database"].is_string() && place.starts_with(&format!("n/cold/g1/t{:04}/", table["table"].as_u64().unwrap()))
    });
    assert!(named, "{explained}");
    // Hours without events have partitions and no table.
    assert_eq!(explained["partitions"].as_array().unwrap().len(), 4 * 3, "{explained}");
    let (from, to) = (Timestamp::from_nanos(NOW - 12 * HOUR), Timestamp::from_nanos(NOW));
    let answer = cold.world.get(&format!("/v1/n/aggregate?key=k&from={from}&to={to}&fn=count")).await.ok();
    assert_eq!(answer["rows"][0]["count"], 48);
    assert_eq!(answer["table_reads"], serde_json::json!({"planned": 8, "answered": 8}));
    assert_eq!(answer["shards"], serde_json::json!({"planned": 3, "answered": 3}));
}

#[tokio::test]
async fn a_late_write_is_merged_field_by_field_with_what_is_archived() {
    let mut cold = Cold::new().await;
    cold.world.write(&history()).await;
    for _ in 0..3 {
        cold.round().await;
    }
    cold.world.write(&[one(5, 2, "y", 7)]).await;
    let page = |world: &World| {
        let view = world.catalog.view();
        let bucket = Timestamp::from_nanos(NOW - 5 * HOUR);
        let layout = view.namespace(&world.ns).unwrap().layout_at("k", bucket).clone();
        (PageId::of(&world.ns, &"k".into(), &layout, bucket), bucket)
    };
    let (id, bucket) = page(&cold.world);
    Manifest::new(cold.world.store.clone()).mark(&id, &[bucket]).await.unwrap();
    for _ in 0..4 {
        let event = cold.world.get("/v1/n/events/e5-2?key=k").await.ok()["event"]["fields"].clone();
        assert_eq!(event, serde_json::json!({"x": 10, "y": 7}));
        cold.round().await;
    }
}

#[tokio::test]
async fn a_table_that_is_gone_is_named_and_a_partial_answer_has_the_rest() {
    let mut cold = Cold::new().await;
    cold.world.write(&history()).await;
    for _ in 0..3 {
        cold.round().await;
    }
    let explained = cold.explain().await;
    let table = &explained["tables"][0];
    let path = cold.dir.path().join(table["database"].as_str().unwrap()).join(table["files"][0].as_str().unwrap());
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (from, to) = (Timestamp::from_nanos(NOW - 12 * HOUR), Timestamp::from_nanos(NOW));
    let read = format!("/v1/n/aggregate?key=k&from={from}&to={to}&fn=count");
    let problem = cold.world.get(&read).await.problem(503, "table_damaged");
    assert_eq!((&problem["file"], &problem["database"]), (&table["files"][0], &table["database"]));
    let partial = cold.world.get(&format!("{read}&partial=allow")).await.ok();
    assert_eq!((&partial["complete"], &partial["rows"][0]["count"]), (&false.into(), &42.into()), "{partial}");
    assert_eq!(partial["table_reads"], serde_json::json!({"planned": 8, "answered": 7}));
    let mut altered = bytes.clone();
    altered[64] ^= 1;
    std::fs::write(&path, altered).unwrap();
    cold.world.get(&read).await.problem(503, "table_damaged");
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(cold.world.get(&read).await.ok()["rows"][0]["count"], 48);
}

#[tokio::test]
async fn what_is_dropped_is_cut_from_answers_which_say_so() {
    let mut cold = Cold::new().await;
    cold.world.write(&history()).await;
    cold.round().await;
    let dropped = Timestamp::from_nanos(NOW - 5 * HOUR);
    cold.world.catalog.raise_dropped(&cold.world.ns, dropped).await.unwrap();
    for _ in 0..3 {
        let answer = cold.world.get("/v1/n/events?key=k").await.ok();
        assert_eq!((answer["events"].as_array().unwrap().len(), &answer["from"]), (24, &dropped.to_string().into()));
        cold.round().await;
    }
}

#[tokio::test]
async fn groups_are_listed_checked_and_added_over_http() {
    let cold = Cold::new().await;
    let listed = cold.world.get("/v1/n/groups?check=true").await.ok();
    assert_eq!((&listed["groups"][0]["group"], &listed["groups"][0]["from"]), (&1.into(), &serde_json::Value::Null), "{listed}");
    assert_eq!(listed["groups"][0]["databases"][1]["reachable"], true);
    let url = format!("file://{}/c", cold.dir.path().display());
    let body = |tables: u32| {
        format!(r#"{{"from":"2027-01-01T00:00:00Z","tables":{tables},"databases":[{{"name":"c","url":"{url}","tables":2}}]}}"#)
    };
    cold.world.call("POST", "/v1/n/groups", &[], &body(3)).await.problem(400, "invalid_parameter");
    let added = cold.world.call("POST", "/v1/n/groups", &[], &body(2)).await;
    assert_eq!((added.status.as_u16(), &added.json()["groups"][1]["from"]), (201, &"2027-01-01T00:00:00Z".into()));
    let early = body(2).replace("2027", "2026");
    cold.world.call("POST", "/v1/n/groups", &[], &early).await.problem(409, "group_conflict");
    let file = tempfile::NamedTempFile::new().unwrap();
    let unreachable = body(2).replace("2027", "2028").replace(&url, &format!("file://{}/x", file.path().display()));
    let problem = cold.world.call("POST", "/v1/n/groups", &[], &unreachable).await.problem(503, "table_unavailable");
    assert_eq!(problem["database"], "c");
}

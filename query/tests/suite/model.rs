//! Random events, layouts and calls against a few lines of reference model: every read agrees.

use std::collections::BTreeMap;

use braid_shared::catalog::NewNamespace;
use braid_shared::layout::ShardBy;
use braid_shared::model::{Event, FieldValue, Span, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{HOUR, NOW, SECOND, World, event};

const T0: i64 = NOW - 6 * HOUR;

/// A write: event time (in minutes from T0), id, and what it carries.
#[derive(Clone, Debug)]
struct Write {
    minute: i64,
    id: u8,
    x: Option<i64>,
    y: Option<f64>,
    region: Option<&'static str>,
}

#[derive(Clone, Debug)]
struct Case {
    shards: u32,
    bucket_minutes: i64,
    by_region: bool,
    /// Requests of events; each is stored at once.
    requests: Vec<Vec<Write>>,
    /// After how many requests the key gets this many shards.
    change: Option<(usize, u32)>,
    from: i64,
    to: i64,
    limit: usize,
    step_minutes: i64,
}

fn write() -> impl Strategy<Value = Write> {
    let region = prop_oneof![Just(None), Just(Some("eu")), Just(Some("us")), Just(Some(""))];
    (-200i64..360, 0u8..12, proptest::option::of(-50i64..50), proptest::option::of(-8_000i32..8_000), region)
        // Eighths, since serde_json, which reads the answers here, is not exact to the last bit.
        .prop_map(|(minute, id, x, y, region)| Write { minute, id, x, y: y.map(|y| f64::from(y) / 8.0), region })
}

fn case() -> impl Strategy<Value = Case> {
    let layout = (1u32..9, prop_oneof![Just(1i64), Just(7), Just(60), Just(1_440), Just(5_000)], any::<bool>());
    let requests = proptest::collection::vec(proptest::collection::vec(write(), 1..12), 1..8);
    let asked = (-220i64..420, 0i64..500, 1usize..9, prop_oneof![Just(7i64), Just(60), Just(1_440)]);
    (layout, requests, proptest::option::of((0usize..8, 1u32..12)), asked).prop_map(
        |((shards, bucket_minutes, by_region), requests, change, (from, length, limit, step_minutes))| Case {
            shards,
            bucket_minutes,
            by_region,
            requests,
            change,
            from,
            to: from + length,
            limit,
            step_minutes,
        },
    )
}

fn at(minute: i64) -> i64 {
    T0 + minute * 60 * SECOND
}

/// Where an event stands, and what it has: identity → fields and tags, later writes winning.
type Model = BTreeMap<(i64, String, Option<String>), (BTreeMap<String, FieldValue>, BTreeMap<String, String>)>;

struct Run {
    world: World,
    model: Model,
    case: Case,
}

impl Run {
    async fn new(case: Case) -> Run {
        let world = World::new().await;
        let bucket = Span::from_nanos(case.bucket_minutes * 60 * SECOND).unwrap();
        let shard_by = if case.by_region { ShardBy::Tag("region".into()) } else { ShardBy::Id };
        world.create(NewNamespace { shards: case.shards, bucket, shard_by, ..NewNamespace::default() }).await;
        let mut run = Run { world, model: Model::new(), case };
        let requests = run.case.requests.clone();
        for (i, request) in requests.iter().enumerate() {
            if let Some((when, shards)) = run.case.change.filter(|(when, _)| *when == i) {
                // An epoch can begin no earlier than the promise; what is written later lies on both sides of it.
                let start = run.world.catalog.refresh().await.unwrap().horizon;
                run.world.publish(Some("k"), shards, start.nanos() + when as i64).await.unwrap();
            }
            run.store(request).await;
        }
        run
    }

    async fn store(&mut self, request: &[Write]) {
        let moved = self.case.change.is_some();
        let mut events = Vec::new();
        for write in request {
            // Some events are current, so that they fall behind a change of the layout.
            let ts = if moved && write.minute > 300 { NOW + write.minute * SECOND / 50 } else { at(write.minute) };
            let x = write.x.map(|x| ("x".to_owned(), FieldValue::I64(x)));
            let y = write.y.map(|y| ("y".to_owned(), FieldValue::F64(y)));
            let mut event = event(&format!("e{}", write.id), ts, &[], &[]);
            event.fields = x.into_iter().chain(y).collect();
            event.tags = write.region.map(|region| ("region".to_owned(), region.to_owned())).into_iter().collect();
            self.remember(&event);
            events.push(event);
        }
        self.world.write(&events).await;
    }

    fn remember(&mut self, event: &Event) {
        let tag = event.tags.get("region").cloned().filter(|_| self.case.by_region);
        let (fields, tags) = self.model.entry((event.ts.nanos(), event.id.clone(), tag)).or_default();
        fields.extend(event.fields.clone());
        tags.extend(event.tags.clone());
    }

    /// The model's events of a range, as the API writes them.
    fn expected(&self, range: std::ops::Range<i64>, passes: impl Fn(Option<&str>) -> bool) -> Vec<Value> {
        let value = |value: &FieldValue| match value {
            FieldValue::I64(v) => json!(v),
            FieldValue::F64(v) => json!(v),
            other => panic!("{other:?} is not written here"),
        };
        self.model
            .iter()
            .filter(|((ts, _, _), (_, tags))| range.contains(ts) && passes(tags.get("region").map(String::as_str)))
            .map(|((ts, id, _), (fields, tags))| {
                let fields: BTreeMap<_, _> = fields.iter().map(|(name, v)| (name, value(v))).collect();
                json!({"key": "k", "id": id, "ts": Timestamp::from_nanos(*ts).to_string(), "fields": fields, "tags": tags})
            })
            .collect()
    }

    async fn paged(&self, query: &str) -> Vec<Value> {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.world.get(&format!("/v1/n/events?{query}&limit={}{cursor}", self.case.limit)).await.ok();
            assert_eq!(page["complete"], true);
            seen.extend(page["events"].as_array().unwrap().clone());
            let Some(next) = page["next"].as_str() else { return seen };
            cursor = format!("&cursor={next}");
        }
    }

    async fn events_agree(&self) {
        let (from, to) = (at(self.case.from), at(self.case.to));
        let range = format!("from={}&to={}", Timestamp::from_nanos(from), Timestamp::from_nanos(to));
        let asc = self.expected(from..to, |_| true);
        assert_eq!(self.paged(&format!("key=k&{range}")).await, asc);
        let mut desc = self.paged(&format!("key=k&{range}&order=desc")).await;
        desc.reverse();
        assert_eq!(desc, asc);
        let all = self.expected(i64::MIN..i64::MAX, |_| true);
        assert_eq!(self.paged("key=k").await, all);
        let eu = self.expected(i64::MIN..i64::MAX, |region| region == Some("eu"));
        assert_eq!(self.paged("key=k&where=region:eu").await, eu);
        let none = self.expected(i64::MIN..i64::MAX, |region| region.unwrap_or_default().is_empty());
        assert_eq!(self.paged("prefix=&where=region:").await, none);
        let lines = self.world.lines("/v1/n/events?key=k").await;
        let lines: Vec<Value> = lines.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[..lines.len() - 1], all);
        assert_eq!(lines[lines.len() - 1]["end"]["events"], all.len());
    }

    async fn points_agree(&self) {
        let all = self.expected(i64::MIN..i64::MAX, |_| true);
        for one in &all {
            let id = one["id"].as_str().unwrap();
            let region = one["tags"].get("region").and_then(Value::as_str).unwrap_or_default();
            let same = |other: &&Value| {
                let of = other["tags"].get("region").and_then(Value::as_str).unwrap_or_default();
                other["id"] == one["id"] && of == region
            };
            let newest = all.iter().rfind(same).unwrap();
            let found = self.world.get(&format!("/v1/n/events/{id}?key=k&where=region:{region}")).await.ok();
            assert_eq!(found["event"], *newest);
            let at_ts = all.iter().filter(same).rfind(|other| other["ts"] == one["ts"]).unwrap();
            let found =
                self.world.get(&format!("/v1/n/events/{id}?key=k&where=region:{region}&ts={}", one["ts"].as_str().unwrap())).await.ok();
            assert_eq!(found["event"], *at_ts);
            assert_eq!(found["shards"], json!({"planned": 1, "answered": 1}));
        }
    }

    async fn aggregates_agree(&self) {
        let (from, to) = (at(self.case.from), at(self.case.to));
        let step = self.case.step_minutes * 60 * SECOND;
        let path = format!(
            "/v1/n/aggregate?key=k&from={}&to={}&step={}m&field=x&fn=count,sum,min,max,p50",
            Timestamp::from_nanos(from),
            Timestamp::from_nanos(to),
            self.case.step_minutes
        );
        let rows = self.world.get(&path).await.ok()["rows"].clone();
        // An end beyond the horizon is cut to it.
        let horizon = self.world.catalog.view().horizon.nanos();
        let expected = self.steps(from, to.min(horizon).max(from), step);
        assert_eq!(rows, json!(expected));
        let groups = self.world.get("/v1/n/aggregate?key=k&from=0&group_by=region").await.ok()["rows"].clone();
        let mut counts: BTreeMap<Option<String>, u64> = BTreeMap::new();
        self.model.values().for_each(|(_, tags)| *counts.entry(tags.get("region").cloned()).or_default() += 1);
        let seen: Vec<_> = groups.as_array().unwrap().iter().map(|row| (row["group"]["region"].clone(), row["count"].clone())).collect();
        assert_eq!(seen, counts.into_iter().map(|(region, count)| (json!(region), json!(count))).collect::<Vec<_>>());
    }

    fn steps(&self, from: i64, to: i64, step: i64) -> Vec<Value> {
        let mut rows = Vec::new();
        let mut start = from.div_euclid(step) * step;
        while from < to && start < to {
            let span = start.max(from)..(start + step).min(to);
            let inside = self.model.iter().filter(|((ts, _, _), _)| span.contains(ts));
            let mut values: Vec<i64> = inside
                .filter_map(|(_, (fields, _))| match fields.get("x") {
                    Some(FieldValue::I64(x)) => Some(*x),
                    _ => None,
                })
                .collect();
            values.sort_unstable();
            let middle = values.len().div_ceil(2).checked_sub(1).map(|at| values[at]);
            rows.push(json!({
                "start": Timestamp::from_nanos(span.start).to_string(), "end": Timestamp::from_nanos(span.end).to_string(), "group": {},
                "count": values.len(), "sum": values.iter().sum::<i64>(), "min": values.first(), "max": values.last(), "p50": middle,
            }));
            start += step;
        }
        rows
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_read_agrees_with_the_model(case in case()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let run = Run::new(case).await;
            run.events_agree().await;
            run.points_agree().await;
            run.aggregates_agree().await;
        });
    }
}

//! Blocks that were written once are read for ever: `testdata/blocks/format1/*.bin` against what
//! stands beside them, which was made from the events that went in, not from decoding.
//!
//! A new case is added to [`cases`] and written by `BRAID_BLESS=1 cargo test -p braid-shared
//! --test golden`; a file that exists is never written again.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Once};

use braid_shared::block::{Block, Header, Projection, RowBuffer, compact, encode, merge};
use braid_shared::layout::{Layout, LayoutVersion, ShardBy};
use braid_shared::limits::BLOCK_BYTES_MAX;
use braid_shared::model::{Event, FieldValue, Span, TimeRange, Timestamp};
use braid_shared::partition::Partition;
use braid_shared::stamp::Stamp;
use serde_json::{Value, json};

/// A golden file's events: writes in the order of their stamps.
struct Case {
    name: &'static str,
    shard_by: &'static str,
    /// One block each; more than one are compacted.
    writes: Vec<Vec<Event>>,
}

fn event(ts: i64, id: &str, fields: &[(&str, FieldValue)], tags: &[(&str, &str)]) -> Event {
    Event {
        key: "orders".into(),
        ts: Timestamp::from_nanos(ts),
        id: id.into(),
        fields: fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        tags: tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    }
}

/// Start of the bucket, 2026-11-29T12:00:00Z.
const START: i64 = 1_795_953_600_000_000_000;

fn cases() -> Vec<Case> {
    use FieldValue::{Bool, F64, I64, Str, U64};
    let every_type =
        [("amount", F64(12.5)), ("note", Str("π ≈ 3.14\0".into())), ("paid", Bool(true)), ("qty", I64(-3)), ("total", U64(u64::MAX))];
    let one = vec![event(START + 123_456_789, "o-17", &every_type, &[("region", "eu")])];
    let typical = (0..500).map(|i: i64| {
        let id = format!("{:014x}", (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8);
        let fields = [("price", F64((i * 7_919 % 50_000) as f64 / 100.0)), ("qty", I64(i * i % 10))];
        event(START + i * 7_000_000, &id, &fields, &[("region", ["eu", "us", "asia"][i as usize % 3])])
    });
    let sparse = (0..200).map(|i: i64| {
        let mut fields = vec![("ratio", F64(1.0 / (i + 1) as f64))];
        match i % 5 {
            0 => fields.push(("x", I64(i64::MIN + i))),
            1 => fields.push(("x", Str(format!("text {i}")))),
            2 => fields.push(("x", F64(-0.0))),
            _ => fields.push(("odd", Bool(i % 2 == 1))),
        }
        if i == 77 {
            fields.push(("only one", U64(7)));
        }
        let id = if i == 0 { String::new() } else { format!("e-{i:06}") };
        event(START + i * i * 1_001, &id, &fields, &[])
    });
    let lines = (0..60).map(|i: i64| {
        let host = format!("host{:02}", i * 31 % 60);
        event(START + i * 1_000_000_000, &host, &[("load", F64(i as f64 / 4.0))], &[("host", &host), ("zone", "a")])
    });
    let ties = (0..30).map(|i| event(START + 1_000, &format!("é{i}"), &[("v", I64(i))], &[("t", if i < 15 { "a" } else { "b" })]));
    let rewrites = vec![
        vec![event(START + 5, "a", &[("x", I64(1))], &[("t", "eu")]), event(START + 5, "a", &[("x", I64(9))], &[])],
        vec![event(START + 5, "a", &[("x", I64(2)), ("z", Bool(false))], &[("t", "eu")])],
        vec![event(START + 5, "a", &[("y", F64(0.5))], &[("t", "eu"), ("u", "v")]), event(START + 6, "b", &[], &[])],
    ];
    let case = |name, shard_by, writes| Case { name, shard_by, writes };
    vec![
        case("one-event-of-every-type", "id", vec![one]),
        case("typical", "id", vec![typical.collect()]),
        case("sparse-and-mixed", "id", vec![sparse.collect()]),
        case("line-protocol", "host", vec![lines.collect()]),
        case("one-time", "t", vec![ties.collect()]),
        case("compacted", "t", rewrites),
    ]
}

fn layout(shard_by: &str) -> Layout {
    let version = LayoutVersion { revision: 41, nonce: 0x1234_5678 };
    Layout { version, shards: 16, bucket: Span::HOUR, shard_by: ShardBy::from(shard_by.to_owned()) }
}

impl Case {
    /// The one block that the writes make.
    fn block(&self) -> Block {
        let layout = layout(self.shard_by);
        let (ns, bucket) = ("shop".parse().unwrap(), Timestamp::from_nanos(START));
        let partition = Arc::new(Partition { ns, key: "orders".into(), bucket, version: layout.version, suffix: 5 });
        let mut blocks = Vec::new();
        for (write, time) in self.writes.iter().zip(1u64..) {
            let mut rows = RowBuffer::default();
            for event in write {
                let fields = event.fields.iter().map(|(name, value)| (name.as_str(), value.as_ref()));
                rows.push(event.ts, &event.id, fields, event.tags.iter().map(|(name, value)| (name.as_str(), value.as_str())));
            }
            let stamp = Stamp { time: START as u64 + time, node: 77 };
            let Ok(encoded) = encode::<Infallible>(&partition, &layout, rows, BLOCK_BYTES_MAX, || Ok(stamp));
            blocks.extend(encoded.into_iter().map(|block| Block::open(block.bytes).unwrap()));
        }
        if self.writes.len() > 1 {
            let encoded = compact(&partition, &layout, &blocks, BLOCK_BYTES_MAX, || 99).unwrap();
            blocks = encoded.into_iter().map(|block| Block::open(block.bytes).unwrap()).collect();
        }
        let [block] = blocks.try_into().unwrap();
        block
    }

    /// What stands beside the block: made from the writes alone.
    fn expected(&self) -> Value {
        let mut events: BTreeMap<(Timestamp, String, Option<String>), Event> = BTreeMap::new();
        for write in self.writes.iter().flatten() {
            let identity = (write.ts, write.id.clone(), write.tags.get(self.shard_by).cloned());
            let event = events.entry(identity).or_insert_with(|| write.clone());
            event.fields.extend(write.fields.clone());
            event.tags.extend(write.tags.clone());
        }
        json!({ "shard_by": self.shard_by, "events": events.values().map(event_json).collect::<Vec<_>>() })
    }
}

/// An event with its types, and doubles as text so that every bit counts.
fn event_json(event: &Event) -> Value {
    let field = |value: &FieldValue| match value {
        FieldValue::F64(v) => json!({ "f64": format!("{v:?}") }),
        FieldValue::I64(v) => json!({ "i64": v }),
        FieldValue::U64(v) => json!({ "u64": v }),
        FieldValue::Bool(v) => json!({ "bool": v }),
        FieldValue::Str(v) => json!({ "str": v }),
    };
    let fields: BTreeMap<&String, Value> = event.fields.iter().map(|(name, value)| (name, field(value))).collect();
    json!({ "ts": event.ts.nanos(), "id": event.id, "fields": fields, "tags": event.tags })
}

fn events_of(block: &Block, shard_by: &str) -> Vec<Value> {
    let table = merge(&layout(shard_by), std::slice::from_ref(block), TimeRange::ALL, &Projection::All).unwrap();
    table.events("orders").iter().map(event_json).collect()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/blocks/format1")
}

fn file(name: &str, ext: &str) -> PathBuf {
    folder().join(format!("{name}.{ext}"))
}

/// All cases, their files written if that was asked for and they are not there.
fn blessed_cases() -> Vec<Case> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let missing = |case: &Case| std::env::var_os("BRAID_BLESS").is_some() && !file(case.name, "bin").exists();
        for case in cases().into_iter().filter(missing) {
            fs::write(file(case.name, "bin"), case.block().bytes()).unwrap();
            fs::write(file(case.name, "json"), case.expected().to_string().replace("},{\"fields\"", "},\n{\"fields\"") + "\n").unwrap();
        }
    });
    cases()
}

#[test]
fn every_golden_block_reads_as_it_was_written() {
    let cases = blessed_cases();
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".bin")?.to_owned()))
        .collect();
    names.sort();
    let mut known: Vec<&str> = cases.iter().map(|case| case.name).collect();
    known.sort_unstable();
    assert_eq!(names, known);
    for name in names {
        let expected: Value = serde_json::from_str(&fs::read_to_string(file(&name, "json")).unwrap()).unwrap();
        let block = Block::open(fs::read(file(&name, "bin")).unwrap().into()).unwrap();
        let events = events_of(&block, expected["shard_by"].as_str().unwrap());
        assert_eq!(Value::Array(events), expected["events"], "{name}");
    }
}

#[test]
fn what_is_written_today_reads_as_the_golden_blocks_do() {
    for case in blessed_cases() {
        let expected = case.expected();
        assert_eq!(Value::Array(events_of(&case.block(), case.shard_by)), expected["events"], "{}", case.name);
        let golden: Value = serde_json::from_str(&fs::read_to_string(file(case.name, "json")).unwrap()).unwrap();
        assert_eq!(golden, expected, "{}", case.name);
    }
}

#[test]
fn golden_headers_say_what_was_written() {
    blessed_cases();
    let block = |name: &str| Block::open(fs::read(file(name, "bin")).unwrap().into()).unwrap();
    let Header { version, shards, suffix, count, bucket, distinct, .. } = block("typical").header().clone();
    assert_eq!((version.revision, version.nonce, shards, suffix, count), (41, 0x1234_5678, 16, 5, 500));
    assert_eq!((bucket.nanos(), distinct), (START, true));
    let address = block("typical").header().address;
    assert_eq!((address.min_ts.nanos(), address.max_ts.nanos()), (START, START + 499 * 7_000_000));
    assert_eq!(address.id, Stamp { time: START as u64 + 1, node: 77 });
    // x=1 is covered by x=2; the others stay as they are: the untagged one, two tagged ones, "b".
    let compacted = block("compacted").header().clone();
    assert_eq!((compacted.count, compacted.distinct), (4, false));
    assert_eq!(compacted.address.id, Stamp { time: START as u64 + 3, node: 99 });
}

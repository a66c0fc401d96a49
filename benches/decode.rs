//! How fast a request's body becomes rows: NDJSON, a JSON array, line protocol.
//! `cargo bench --bench decode`.

use std::fmt::Write;
use std::hint::black_box;

use braid_ingest::decode::json::{JsonFormat, decode_json};
use braid_ingest::decode::line_protocol::{self, LineOptions};
use braid_shared::model::Precision;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const EVENTS: usize = 1_000;
const REGIONS: [&str; 4] = ["eu-1", "us-1", "us-2", "ap-1"];

/// An id, a time in ms, a price in cents, a count, a region.
fn event(i: usize) -> (u64, usize, usize, usize, &'static str) {
    let id = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (id, 1_700_000_000_000 + i, id as usize % 65_536, i % 100, REGIONS[i % 4])
}

/// Objects with two fields and a tag, about 130 bytes each, `separator` between them.
fn objects(separator: &str) -> String {
    let object = |i| {
        let (id, ts, cents, qty, region) = event(i);
        let fields = format!("{{\"amount\":{}.{:02},\"qty\":{qty}}}", cents / 100, cents % 100);
        format!("{{\"key\":\"hot\",\"id\":\"{id:016x}\",\"ts\":{ts},\"fields\":{fields},\"tags\":{{\"region\":\"{region}\"}}}}")
    };
    (0..EVENTS).map(object).collect::<Vec<_>>().join(separator)
}

/// The same events with an escaped and a non-ASCII string more.
fn objects_with_text() -> String {
    objects("\n").replace("\"qty\"", "\"note\":\"a \\\"quoted\\\" na\u{ef}ve note\\n\",\"qty\"")
}

fn lines() -> String {
    let mut text = String::new();
    for i in 0..EVENTS {
        let (id, ts, cents, qty, region) = event(i);
        writeln!(text, "hot,id={id:016x},region={region} amount={}.{:02},qty={qty}i {ts}", cents / 100, cents % 100).unwrap();
    }
    text
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    group.throughput(Throughput::Elements(EVENTS as u64));
    let json = [
        ("ndjson", objects("\n"), JsonFormat::Lines),
        ("json array", format!("[{}]", objects(",")), JsonFormat::Sniff),
        ("ndjson with an escaped string", objects_with_text(), JsonFormat::Lines),
    ];
    for (name, body, format) in &json {
        assert_eq!(decode_json(body.as_bytes(), *format, Precision::Millis).unwrap().rows.len(), EVENTS);
        group.bench_function(*name, |b| b.iter(|| decode_json(black_box(body.as_bytes()), *format, Precision::Millis).unwrap().rows.len()));
    }
    let (body, options) = (lines(), LineOptions { precision: Precision::Millis, id_tag: Some("id") });
    assert_eq!(line_protocol::decode(body.as_bytes(), &options).unwrap().rows.len(), EVENTS);
    group.bench_function("line protocol", |b| {
        b.iter(|| line_protocol::decode(black_box(body.as_bytes()), &options).unwrap().rows.len());
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);

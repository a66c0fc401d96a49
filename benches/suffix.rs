//! How fast an event finds its place: the suffix function alone, and the routing of a whole request.
//! `cargo bench --bench suffix`.

use std::hint::black_box;
use std::sync::Arc;

use braid_ingest::decode::json::{JsonFormat, decode_json};
use braid_ingest::route::route;
use braid_shared::catalog::{Catalog, NamespaceView, NewNamespace, Shared};
use braid_shared::clock::ManualClock;
use braid_shared::layout::suffix;
use braid_shared::model::{Namespace, Precision, Timestamp};
use braid_shared::store::memory::MemoryStore;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// 2023-11-14T22:13:20Z.
const NOW_MILLIS: i64 = 1_700_000_000_000;
const EVENTS: usize = 1_000;

/// A namespace of `shards` suffixes, as a writer sees it.
fn timelines(ns: &Namespace, shards: u32) -> Arc<NamespaceView> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let clock = Arc::new(ManualClock::at(Timestamp::from_nanos(NOW_MILLIS * 1_000_000)));
        let catalog = Catalog::open(MemoryStore::new(), clock, Shared::default()).await.unwrap();
        catalog.create_namespace(ns, NewNamespace { shards, ..NewNamespace::default() }).await.unwrap();
        catalog.view().namespace(ns).unwrap().clone()
    })
}

/// A request's body: events in turn of `keys` keys, a millisecond apart.
fn body(keys: usize) -> String {
    let event = |i: usize| {
        let (key, id, ts) = (i % keys, (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15), NOW_MILLIS - i as i64);
        format!("{{\"key\":\"hot-{key}\",\"id\":\"{id:016x}\",\"ts\":{ts},\"value\":{i}}}\n")
    };
    (0..EVENTS).map(event).collect()
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("suffix");
    for id_bytes in [16, 36, 256] {
        let id = "7".repeat(id_bytes);
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("id of bytes", id_bytes), |b| b.iter(|| suffix(black_box(id.as_bytes()), black_box(16))));
    }
    group.finish();

    let ns: Namespace = "bench".parse().unwrap();
    let mut group = c.benchmark_group("route a request of 1,000");
    group.throughput(Throughput::Elements(EVENTS as u64));
    for (keys, shards) in [(1, 1), (1, 16), (1, 200), (100, 16), (EVENTS, 16)] {
        let (timelines, body) = (timelines(&ns, shards), body(keys));
        let batch = decode_json(body.as_bytes(), JsonFormat::Lines, Precision::Millis).unwrap();
        assert_eq!(batch.rows.len(), EVENTS);
        let name = format!("{keys} keys, {shards} suffixes");
        group.bench_function(name, |b| b.iter(|| route(&ns, black_box(&batch), &timelines)));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);

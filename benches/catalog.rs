//! The catalog with 100,000 keys that have layouts of their own: placing one event, routing a request, refreshing, and
//! what they weigh. `cargo bench --bench catalog`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use braid_ingest::decode::json::{JsonFormat, decode_json};
use braid_ingest::route::route;
use braid_shared::catalog::{Catalog, NewLayout, NewNamespace, Shared};
use braid_shared::clock::{Clock, SystemClock};
use braid_shared::model::{Namespace, Precision, Timestamp};
use braid_shared::store::{MemoryStore, Store};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const KEYS: u64 = 100_000;
/// Events of a request.
const EVENTS: u64 = 1_000;

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4_096
}

fn key(n: u64) -> String {
    format!("departures/terminal-{n:06}")
}

/// A store whose catalog has the layouts and a snapshot of them, and the catalog that published them.
async fn filled(ns: &Namespace) -> (Arc<dyn Store>, Arc<Catalog>) {
    let store: Arc<dyn Store> = MemoryStore::new();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let catalog = Catalog::open(store.clone(), clock, Shared::default()).await.expect("it opens");
    catalog.create_namespace(ns, NewNamespace::default()).await.expect("it is made");
    for n in 0..KEYS {
        catalog.publish_layout(ns, Some(&key(n)), NewLayout::of(1 + (n % 64) as u32)).await.expect("it is published");
    }
    let fresh = tokio::spawn(catalog.clone().keep_fresh(Duration::from_millis(1)));
    tokio::time::sleep(Duration::from_secs(5)).await;
    fresh.abort();
    (store, catalog)
}

fn place(c: &mut Criterion) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let ns: Namespace = "bench".parse().expect("a name");
    // Kept until the other one is weighed, which must not take the memory that this one leaves.
    let (store, publisher) = runtime.block_on(filled(&ns));
    let (before, began) = (resident(), Instant::now());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let catalog = runtime.block_on(Catalog::open(store, clock, Shared::default())).expect("it opens");
    println!("opened in {:.0} ms", began.elapsed().as_secs_f64() * 1e3);
    println!("memory: {} B a key with a layout of its own", resident().saturating_sub(before) / KEYS);
    drop(publisher);
    let view = catalog.view();
    let now = Timestamp::from_nanos(catalog.view().horizon.nanos() + 1);
    let keys: Vec<String> = (0..4_096).map(|n| key(n * 7_919 % KEYS)).collect();
    let ids: Vec<String> = (0..4_096).map(|n| format!("0192f5e0-{n:04x}-7abc-8def-{:012x}", n * 104_729)).collect();
    let mut at = 0;
    let mut next = || {
        at = (at + 1) % keys.len();
        (&keys[at], &ids[at])
    };
    c.bench_function("place one event, 100,000 keys with layouts", |b| {
        b.iter(|| {
            let (key, id) = next();
            let layout = view.namespace(&ns).expect("it is known").layout_at(key, black_box(now));
            black_box((layout.version, layout.bucket(now), layout.suffix(id, None)))
        })
    });
    c.bench_function("place one event of the same key", |b| {
        b.iter(|| {
            let (_, id) = next();
            let layout = view.namespace(&ns).expect("it is known").layout_at(&keys[0], black_box(now));
            black_box((layout.version, layout.bucket(now), layout.suffix(id, None)))
        })
    });
    c.bench_function("refresh with nothing new", |b| b.iter(|| runtime.block_on(catalog.refresh()).expect("it is read").revision));
    let mut group = c.benchmark_group("route a request of 1,000 events");
    group.throughput(Throughput::Elements(EVENTS));
    let timelines = view.namespace(&ns).expect("it is known");
    for keys in [1, EVENTS] {
        let body = body(keys, now);
        let batch = decode_json(body.as_bytes(), JsonFormat::Lines, Precision::Nanos).expect("it is sound");
        assert_eq!(batch.rows.len() as u64, EVENTS);
        group.bench_function(format!("{keys} keys"), |b| b.iter(|| route(&ns, black_box(&batch), timelines)));
    }
}

/// A request's body: events in turn of so many keys that have layouts.
fn body(keys: u64, now: Timestamp) -> String {
    let event = |n: u64| {
        format!("{{\"key\":\"{}\",\"id\":\"{:016x}\",\"ts\":{},\"value\":{n}}}\n", key(n % keys * 97), (n + 1) * 0x9e37_79b9, now.nanos())
    };
    (0..EVENTS).map(event).collect()
}

criterion_group!(benches, place);
criterion_main!(benches);

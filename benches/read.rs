//! Reads of one hot key over a memory store: 2 M events in one hour, two numeric fields and a tag.
//! What docs/PERFORMANCE.md calls the aggregate, last-100 and point-read figures, less HTTP's
//! connection and the disk. `cargo bench --bench read`.

use std::hint::black_box;
use std::time::Duration;

use braid_shared::model::Event;
use braid_shared::model::FieldValue::{F64, I64};
use criterion::{Criterion, criterion_group, criterion_main};
use tokio::runtime::Runtime;
use world::{HOUR, NOW, World, event};

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../query/tests/suite/world.rs"]
mod world;

const EVENTS: i64 = 2_000_000;
/// Events of one commit of the ingest tier under load.
const COMMIT: i64 = 50_000;
const START: i64 = NOW - HOUR;

fn hot_key(i: i64) -> Event {
    let id = format!("{:016x}", (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let host = ["a", "b", "c", "d"][i as usize % 4];
    event(&id, START + i * (HOUR / EVENTS), &[("value", F64(i as f64 * 0.37)), ("count", I64(i % 1_000))], &[("host", host)])
}

fn filled(runtime: &Runtime, shards: u32) -> World {
    runtime.block_on(async {
        let world = World::new().await;
        world.with(shards, 1).await;
        for commit in 0..EVENTS / COMMIT {
            let events: Vec<Event> = (commit * COMMIT..(commit + 1) * COMMIT).map(hot_key).collect();
            world.write(&events).await;
        }
        world
    })
}

/// Every kind of read, by name; the first two are also measured with other numbers of shards.
fn calls() -> [(&'static str, String); 9] {
    let Event { id, ts, .. } = hot_key(1_234_567);
    let range = "from=2026-11-29T11:00:00Z&to=2026-11-29T12:00:00Z";
    let aggregate = |rest: &str| format!("/v1/n/aggregate?key=k&{range}&{rest}");
    [
        ("aggregate integers, 60 steps", aggregate("step=1m&field=count&fn=count,sum,max")),
        ("last 100", "/v1/n/events?key=k&order=desc&limit=100".to_owned()),
        ("aggregate doubles, 60 steps", aggregate("step=1m&field=value&fn=count,sum,max")),
        ("aggregate the hour", aggregate("field=value&fn=count,sum,max")),
        ("aggregate by a tag", aggregate("step=1m&field=value&fn=sum&group_by=host")),
        ("p99 of the hour", aggregate("field=value&fn=p99")),
        ("first 1,000", format!("/v1/n/events?key=k&{range}")),
        ("one event by id and time", format!("/v1/n/events/{id}?key=k&ts={ts}")),
        ("one event by id", format!("/v1/n/events/{id}?key=k")),
    ]
}

fn reads(c: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    for (shards, kinds) in [(16, 9), (1, 2), (200, 2)] {
        let world = filled(&runtime, shards);
        let mut group = c.benchmark_group(format!("read, N = {shards}"));
        group.sample_size(20).warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
        for (name, path) in &calls()[..kinds] {
            runtime.block_on(world.get(path)).ok();
            group.bench_function(*name, |b| b.iter(|| black_box(runtime.block_on(world.get(path)).text.len())));
        }
        group.finish();
    }
}

criterion_group!(benches, reads);
criterion_main!(benches);

//! How fast the partitions of a key join again: verified blocks of N suffixes → events in order, as
//! JSON. The same 10,000 events whatever N is. `cargo bench --bench merge`.

use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;

use braid_query::filter::Filter;
use braid_query::merge::{Portion, Rows};
use braid_query::plan::{Epoch, Order};
use braid_query::verify::Verified;
use braid_query::walk::Planned;
use braid_shared::block::{Block, RowBuffer, encode};
use braid_shared::layout::{Layout, LayoutVersion, ShardBy};
use braid_shared::limits::BLOCK_BYTES_MAX;
use braid_shared::model::{Span, TimeRange, Timestamp, ValueRef};
use braid_shared::partition::Partition;
use braid_shared::stamp::Stamp;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const EVENTS: u64 = 10_000;

/// One bucket of a key, all its suffixes, each in one block or a few.
fn verified(shards: u32) -> Vec<Verified> {
    let version = LayoutVersion { revision: 1, nonce: 2 };
    let layout = Layout { version, shards, bucket: Span::HOUR, shard_by: ShardBy::Id };
    let epoch = Arc::new(Epoch { range: TimeRange::ALL, layout: Arc::new(layout) });
    let mut buffers: Vec<RowBuffer> = (0..shards).map(|_| RowBuffer::default()).collect();
    for i in 0..EVENTS {
        let id = format!("{:016x}", (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let suffix = epoch.layout.suffix(&id, None);
        let fields = [("amount", ValueRef::F64(i as f64 / 100.0)), ("qty", ValueRef::I64(i as i64 % 100))];
        let ts = Timestamp::from_nanos(i as i64 * 1_000_000);
        buffers[suffix as usize].push(ts, &id, fields.into_iter(), [("region", "eu-1")].into_iter());
    }
    let read = |(suffix, rows): (usize, RowBuffer)| {
        let (ns, bucket) = ("bench".parse().unwrap(), Timestamp::from_nanos(0));
        let partition = Partition { ns, key: "hot".into(), bucket, version, suffix: suffix as u32 };
        let stamp = || Ok(Stamp { time: 1, node: 1 });
        let Ok(blocks) = encode::<Infallible>(&Arc::new(partition.clone()), &epoch.layout, rows, BLOCK_BYTES_MAX, stamp);
        let blocks = blocks.into_iter().map(|block| Block::open(block.bytes).unwrap()).collect();
        Verified { planned: Planned { partition, epoch: epoch.clone() }, blocks, runs: Vec::new() }
    };
    buffers.into_iter().enumerate().map(read).collect()
}

/// Merges, and renders the first `rows`; gives how many there were.
fn page(verified: &[Verified], order: Order, rows: usize) -> usize {
    let mut merged = Rows::new(verified, TimeRange::ALL, order, &Filter::default(), None).unwrap();
    merged.render(Portion { rows, bytes: usize::MAX, separator: b'\n' }, &mut Vec::new()).0
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("merge 10,000 events");
    group.throughput(Throughput::Elements(EVENTS));
    for shards in [1, 16, 200] {
        let verified = verified(shards);
        assert_eq!(page(&verified, Order::Asc, usize::MAX), EVENTS as usize);
        group.bench_function(format!("N = {shards}, all rendered"), |b| b.iter(|| page(black_box(&verified), Order::Asc, usize::MAX)));
        group.bench_function(format!("N = {shards}, last 100 rendered"), |b| b.iter(|| page(black_box(&verified), Order::Desc, 100)));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);

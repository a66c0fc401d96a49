//! How fast blocks are written, read and merged: `cargo bench --bench block`.

use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;

use braid_shared::block::{Block, Projection, RowBuffer, encode, merge};
use braid_shared::layout::{Layout, LayoutVersion, ShardBy};
use braid_shared::limits::BLOCK_BYTES_MAX;
use braid_shared::model::{Span, TimeRange, Timestamp, ValueRef};
use braid_shared::partition::Partition;
use braid_shared::stamp::Stamp;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

struct Row {
    ts: i64,
    id: String,
    price: f64,
    qty: i64,
    region: &'static str,
}

/// `n` events of one hour, every `step`th from `first`: random ids, a price, a count, a region.
fn rows(n: usize, first: usize, step: usize) -> Vec<Row> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64 ^ first as u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    let row = |i: usize| Row {
        ts: (first + i * step) as i64 * 3_000_000 + (random() % 3) as i64 * 1_000_000,
        id: format!("{:014x}", random() >> 8),
        price: (random() % 50_000) as f64 / 100.0,
        qty: (random() % 10) as i64,
        region: ["eu", "us", "asia", "africa"][(random() % 4) as usize],
    };
    (0..n).map(row).collect()
}

fn layout() -> Layout {
    Layout { version: LayoutVersion { revision: 1, nonce: 2 }, shards: 16, bucket: Span::HOUR, shard_by: ShardBy::Id }
}

fn blocks(rows: &[Row], time: u64) -> Vec<bytes::Bytes> {
    let ns = "bench".parse().expect("a namespace's name");
    let version = layout().version;
    let partition = Arc::new(Partition { ns, key: "hot".into(), bucket: Timestamp::from_nanos(0), version, suffix: 3 });
    let mut buffer = RowBuffer::default();
    for row in rows {
        let fields = [("price", ValueRef::F64(row.price)), ("qty", ValueRef::I64(row.qty))];
        buffer.push(Timestamp::from_nanos(row.ts), &row.id, fields.into_iter(), [("region", row.region)].into_iter());
    }
    let Ok(blocks) = encode::<Infallible>(&partition, &layout(), buffer, BLOCK_BYTES_MAX, || Ok(Stamp { time, node: 1 }));
    blocks.into_iter().map(|block| block.bytes).collect()
}

fn read(blocks: &[bytes::Bytes], projection: &Projection) -> usize {
    let blocks: Vec<Block> = blocks.iter().map(|bytes| Block::open(bytes.clone()).expect("a sound block")).collect();
    merge(&layout(), &blocks, TimeRange::ALL, projection).expect("a sound block").ts.len()
}

fn bench(c: &mut Criterion) {
    let qty = Projection::Only { fields: vec!["qty".into()], tags: vec![] };
    let mut group = c.benchmark_group("block");
    for n in [1, 16, 256, 4_096] {
        let rows = rows(n, 0, 1);
        let encoded = blocks(&rows, 1);
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new("encode", n), |b| b.iter(|| blocks(black_box(&rows), 1)));
        group.bench_function(BenchmarkId::new("decode ts and one field", n), |b| b.iter(|| read(black_box(&encoded), &qty)));
        group.bench_function(BenchmarkId::new("decode all", n), |b| b.iter(|| read(black_box(&encoded), &Projection::All)));
    }
    let interleaved: Vec<bytes::Bytes> = (0..16).flat_map(|i| blocks(&rows(1_000, i, 16), i as u64 + 1)).collect();
    group.throughput(Throughput::Elements(16_000));
    group.bench_function("merge 16 interleaved blocks of a partition, one field", |b| b.iter(|| read(black_box(&interleaved), &qty)));
    group.bench_function("merge 16 interleaved blocks of a partition, all", |b| b.iter(|| read(black_box(&interleaved), &Projection::All)));
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);

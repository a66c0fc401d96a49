//! Any bytes, behind a checksum that is right: opening, merging and compacting must give a sound
//! answer or an error. The checksum is made to fit, or nothing behind it would ever be reached.

#![no_main]

use std::sync::Arc;

use braid_shared::block::{Block, Projection, compact, merge};
use braid_shared::layout::{Layout, LayoutVersion, ShardBy};
use braid_shared::limits::BLOCK_BYTES_MAX;
use braid_shared::model::{Span, TimeRange, Timestamp};
use braid_shared::partition::Partition;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::xxh3_64;

fuzz_target!(|data: &[u8]| {
    let mut bytes = data.to_vec();
    if let Some((content, checksum)) = bytes.split_last_chunk_mut::<8>() {
        *checksum = xxh3_64(content).to_le_bytes();
    }
    let Ok(block) = Block::open(Bytes::from(bytes)) else { return };
    let version = LayoutVersion { revision: 1, nonce: 2 };
    let layout = Layout { version, shards: 4, bucket: Span::HOUR, shard_by: ShardBy::Tag("t".into()) };
    let Ok(ns) = "fuzz".parse() else { return };
    let partition = Arc::new(Partition { ns, key: "k".into(), bucket: Timestamp::from_nanos(0), version, suffix: 0 });
    block.field_stats("x");
    let blocks = [block.clone(), block];
    if let Ok(table) = merge(&layout, &blocks, TimeRange::ALL, &Projection::All) {
        table.events("k");
    }
    // Whatever could be compacted is a sound block.
    if let Ok(compacted) = compact(&partition, &layout, &blocks, BLOCK_BYTES_MAX, || 1) {
        for block in compacted {
            Block::open(block.bytes).expect("what was just written");
        }
    }
});

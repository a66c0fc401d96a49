//! Tests of blocks as a whole: what goes in comes out, merges agree, hostile bytes are errors.

mod associativity;
mod hostile;
mod limits;
mod model;
mod round_trip;
mod settling;

use std::convert::Infallible;
use std::sync::Arc;

use super::{Block, Projection, RowBuffer, Table, encode, merge};
use crate::layout::{Layout, LayoutVersion, ShardBy};
use crate::limits::BLOCK_BYTES_MAX;
use crate::model::{Event, Span, TimeRange, Timestamp};
use crate::partition::Partition;
use crate::stamp::Stamp;
use crate::store::EncodedBlock;

pub(super) const KEY: &str = "orders";

pub(super) fn layout(shard_by: &str) -> Layout {
    let version = LayoutVersion { revision: 7, nonce: 0xdead_beef };
    Layout { version, shards: 4, bucket: Span::HOUR, shard_by: ShardBy::from(shard_by.to_owned()) }
}

pub(super) fn partition() -> Arc<Partition> {
    let version = layout("id").version;
    Arc::new(Partition { ns: "shop".parse().unwrap(), key: KEY.into(), bucket: Timestamp::from_nanos(0), version, suffix: 2 })
}

pub(super) fn buffer<'a>(events: impl IntoIterator<Item = &'a Event>) -> RowBuffer {
    let mut rows = RowBuffer::default();
    for event in events {
        let fields = event.fields.iter().map(|(name, value)| (name.as_str(), value.as_ref()));
        let tags = event.tags.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        rows.push(event.ts, &event.id, fields, tags);
    }
    rows
}

/// Encodes events as one write of time `time`.
pub(super) fn write(layout: &Layout, events: &[Event], time: u64, bytes_max: usize) -> Vec<EncodedBlock> {
    let mut next = time * 1_000;
    let Ok(blocks) = encode::<Infallible>(&partition(), layout, buffer(events), bytes_max, || {
        next += 1;
        Ok(Stamp { time: next, node: 9 })
    });
    blocks
}

pub(super) fn open(blocks: Vec<EncodedBlock>) -> Vec<Block> {
    blocks.into_iter().map(|block| Block::open(block.bytes).unwrap()).collect()
}

pub(super) fn blocks_of(layout: &Layout, events: &[Event], time: u64) -> Vec<Block> {
    open(write(layout, events, time, BLOCK_BYTES_MAX))
}

pub(super) fn merged(layout: &Layout, blocks: &[Block]) -> Table {
    merge(layout, blocks, TimeRange::ALL, &Projection::All).unwrap()
}

pub(super) fn event(ts: i64, id: &str) -> Event {
    Event { key: KEY.into(), ts: Timestamp::from_nanos(ts), id: id.into(), fields: Default::default(), tags: Default::default() }
}

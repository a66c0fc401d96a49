//! Blocks in and out: an insert a block, side by side; deletes of one partition together.

use std::collections::BTreeMap;

use futures::future::join_all;
use scylla::statement::batch::{Batch, BatchType};

use super::errors::{Request, store_error, worse};
use super::{CqlStore, place};
use crate::partition::Partition;
use crate::stamp::Stamp;
use crate::store::{BlockAddress, EncodedBlock, StoreError};

/// Deletes of one request.
const DELETES_AT_ONCE: usize = 100;

/// A block's id as the bytes that sort as it does.
pub(super) fn id_bytes(id: Stamp) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&id.time.to_be_bytes());
    bytes[8..].copy_from_slice(&id.node.to_be_bytes());
    bytes
}

/// Reads [`id_bytes`] back.
pub(super) fn id_from_bytes(bytes: &[u8]) -> Option<Stamp> {
    let (time, rest) = bytes.split_first_chunk::<8>()?;
    let node = rest.try_into().ok()?;
    Some(Stamp { time: u64::from_be_bytes(*time), node: u64::from_be_bytes(node) })
}

/// The timestamp of a block's cells and of its delete, microseconds.
fn written_at(id: Stamp) -> i64 {
    (id.time / 1_000).cast_signed()
}

/// Every outcome together: success, or the error that leaves most open.
fn all_of(outcomes: Vec<Result<(), StoreError>>) -> Result<(), StoreError> {
    outcomes.into_iter().filter_map(Result::err).reduce(worse).map_or(Ok(()), Err)
}

impl CqlStore {
    /// Inserts blocks, each by itself: the partitions are on different nodes, and a batch over them would only wait
    /// for the slowest. Every outcome is awaited, so that none is forgotten behind another's failure.
    pub(super) async fn insert(&self, blocks: Vec<EncodedBlock>) -> Result<(), StoreError> {
        let distinct: BTreeMap<_, _> = blocks.iter().map(|block| ((&block.partition, block.address), block)).collect();
        all_of(join_all(distinct.into_values().map(|block| self.insert_one(block))).await)
    }

    async fn insert_one(&self, block: &EncodedBlock) -> Result<(), StoreError> {
        let (ns, key, bucket, revision, nonce, suffix) = place(&block.partition);
        let BlockAddress { min_ts, max_ts, id } = block.address;
        let (id, at) = (id_bytes(id), written_at(id));
        let (events, size) = (block.events.cast_signed(), i32::try_from(block.bytes.len()).unwrap_or(i32::MAX));
        let span = (min_ts.nanos(), max_ts.nanos());
        let values = (ns, key, bucket, revision, nonce, suffix, span.0, span.1, &id[..], events, size, &block.bytes, at);
        let _turn = self.write_turn().await;
        let outcome = self.session.execute_unpaged(&self.statements.insert_block, values).await;
        outcome.map(drop).map_err(|error| store_error(Request::Write, &error))
    }

    /// Deletes exactly these blocks.
    pub(super) async fn remove(&self, partition: &Partition, blocks: &[BlockAddress]) -> Result<(), StoreError> {
        all_of(join_all(blocks.chunks(DELETES_AT_ONCE).map(|some| self.remove_some(partition, some))).await)
    }

    /// One mutation of one partition, however many rows it deletes.
    async fn remove_some(&self, partition: &Partition, blocks: &[BlockAddress]) -> Result<(), StoreError> {
        let (ns, key, bucket, revision, nonce, suffix) = place(partition);
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_is_idempotent(true);
        let ids: Vec<_> = blocks.iter().map(|block| id_bytes(block.id)).collect();
        let mut values = Vec::with_capacity(blocks.len());
        for (BlockAddress { min_ts, max_ts, id }, bytes) in blocks.iter().zip(&ids) {
            batch.append_statement(self.statements.delete_block.clone());
            values.push((written_at(*id), ns, key, bucket, revision, nonce, suffix, min_ts.nanos(), max_ts.nanos(), &bytes[..]));
        }
        let _turn = self.write_turn().await;
        let outcome = self.session.batch(&batch, values).await;
        outcome.map(drop).map_err(|error| store_error(Request::Write, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_as_bytes_and_come_back() {
        let stamps = [(0, 0), (0, u64::MAX), (1, 0), (1 << 63, 5), (u64::MAX, u64::MAX)].map(|(time, node)| Stamp { time, node });
        let bytes = stamps.map(id_bytes);
        assert!(bytes.is_sorted());
        assert_eq!(bytes.map(|bytes| id_from_bytes(&bytes)), stamps.map(Some));
        assert_eq!(id_from_bytes(&[0; 15]).or(id_from_bytes(&[0; 17])), None);
    }

    #[test]
    fn no_stamp_is_written_at_a_time_before_1970() {
        assert_eq!(written_at(Stamp { time: u64::MAX, node: 0 }), 18_446_744_073_709_551);
    }
}

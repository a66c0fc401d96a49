//! Keys of the embedded store: one keyspace, a letter for each kind of record.
//!
//! One keyspace, because a journal is deleted once every keyspace with data in it was flushed: an
//! idle keyspace beside a busy one would hold journals back. Pure.

use std::sync::Arc;

use crate::model::Namespace;
use crate::partition::{Partition, ordered_time, time_from_ordered};
use crate::stamp::Stamp;
use crate::store::{BlockAddress, Day, EncodedBlock};

const BLOCK: u8 = b'b';
const DAY: u8 = b'd';
const DOCUMENT: u8 = b'f';
const NAME: u8 = b'n';
const REACH: u8 = b'r';

/// The record that every commit writes first: its number and the directory's nonce.
pub(super) const COMMIT_MARK: &[u8] = b"c";

/// Bytes of an address in a block's key.
pub(super) const ADDRESS_BYTES: usize = 32;
/// Bytes behind the address: events and length, so that a walk over keys alone knows how full blocks are.
const SIZE_BYTES: usize = 8;
/// Bytes behind the partition in a block's key.
pub(super) const BLOCK_TAIL_BYTES: usize = ADDRESS_BYTES + SIZE_BYTES;

/// What the end of a block's key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockTail {
    pub(super) address: BlockAddress,
    pub(super) events: u32,
    pub(super) bytes: u32,
}

/// What begins the keys of all blocks of a partition.
pub(super) fn partition_prefix(partition: &Partition) -> Vec<u8> {
    let mut key = vec![BLOCK];
    key.extend_from_slice(&partition.encode());
    key
}

/// The record of how long the blocks of a partition last at most, by the prefix of their keys.
pub(super) fn reach_key(prefix: &[u8]) -> Vec<u8> {
    [&[REACH], prefix].concat()
}

/// The range that holds every block.
pub(super) fn all_blocks() -> std::ops::Range<Vec<u8>> {
    vec![BLOCK]..vec![BLOCK + 1]
}

/// The partition whose prefix this is.
pub(super) fn partition_of(prefix: &[u8]) -> Option<Partition> {
    let (partition, rest) = Partition::decode(prefix.strip_prefix(&[BLOCK])?)?;
    rest.is_empty().then_some(partition)
}

/// What begins the key of the block at `address`: all of it but its size.
pub(super) fn address_prefix(partition: &[u8], address: &BlockAddress) -> Vec<u8> {
    let mut key = Vec::with_capacity(partition.len() + BLOCK_TAIL_BYTES);
    key.extend_from_slice(partition);
    key.extend_from_slice(&ordered_time(address.min_ts));
    key.extend_from_slice(&ordered_time(address.max_ts));
    key.extend_from_slice(&address.id.time.to_be_bytes());
    key.extend_from_slice(&address.id.node.to_be_bytes());
    key
}

/// The key of a block.
pub(super) fn block_key(block: &EncodedBlock) -> Vec<u8> {
    let mut key = address_prefix(&partition_prefix(&block.partition), &block.address);
    key.extend_from_slice(&block.events.to_be_bytes());
    key.extend_from_slice(&(block.bytes.len() as u32).to_be_bytes());
    key
}

/// Splits a block's key into its partition's prefix and what follows; `None` where it is too short.
pub(super) fn split_block_key(key: &[u8]) -> Option<(&[u8], BlockTail)> {
    let (prefix, tail) = key.split_at_checked(key.len().checked_sub(BLOCK_TAIL_BYTES)?)?;
    let (min, tail) = tail.split_first_chunk::<8>()?;
    let (max, tail) = tail.split_first_chunk::<8>()?;
    let (time, tail) = tail.split_first_chunk::<8>()?;
    let (node, tail) = tail.split_first_chunk::<8>()?;
    let (events, bytes) = tail.split_first_chunk::<4>()?;
    let id = Stamp { time: u64::from_be_bytes(*time), node: u64::from_be_bytes(*node) };
    let address = BlockAddress { min_ts: time_from_ordered(*min), max_ts: time_from_ordered(*max), id };
    let bytes = u32::from_be_bytes(bytes.try_into().ok()?);
    Some((prefix, BlockTail { address, events: u32::from_be_bytes(*events), bytes }))
}

/// The key of a document.
pub(super) fn document_key(name: &str) -> Vec<u8> {
    [&[DOCUMENT], name.as_bytes()].concat()
}

fn in_namespace(kind: u8, ns: &Namespace) -> Vec<u8> {
    let name = ns.as_str().as_bytes();
    [&[kind, name.len() as u8], name].concat()
}

/// What begins the records of a namespace's logical keys. The key's own bytes end the record, so
/// that records stand in the order of the keys.
pub(super) fn names_prefix(ns: &Namespace) -> Vec<u8> {
    in_namespace(NAME, ns)
}

/// The record that says that a namespace has this logical key.
pub(super) fn name_key(ns: &Namespace, key: &str) -> Vec<u8> {
    [&names_prefix(ns), key.as_bytes()].concat()
}

/// The record that says that a logical key holds data on a day.
pub(super) fn day_key(ns: &Namespace, key: &str, day: Day) -> Vec<u8> {
    let mut out = in_namespace(DAY, ns);
    out.extend_from_slice(&(key.len() as u16).to_be_bytes());
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(&((day as u32) ^ (1 << 31)).to_be_bytes());
    out
}

/// The day that ends a record made by [`day_key`].
pub(super) fn day_of(record: &[u8]) -> Option<Day> {
    let (_, day) = record.split_last_chunk::<4>()?;
    Some((u32::from_be_bytes(*day) ^ (1 << 31)) as Day)
}

/// Both records of each (key, day).
pub(super) fn day_records(ns: &Namespace, days: &[(Arc<str>, Day)]) -> Vec<Vec<u8>> {
    days.iter().flat_map(|(key, day)| [name_key(ns, key), day_key(ns, key, *day)]).collect()
}

/// The least key behind every key that begins with `prefix`; keys here never begin with 0xFF.
pub(super) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::LayoutVersion;
    use crate::model::Timestamp;
    use bytes::Bytes;

    #[test]
    fn a_block_key_gives_back_partition_address_and_size() {
        let partition = Partition {
            ns: "n".parse().unwrap(),
            key: "k".into(),
            bucket: Timestamp::from_nanos(-5),
            version: LayoutVersion { revision: 3, nonce: 9 },
            suffix: 2,
        };
        let address =
            BlockAddress { min_ts: Timestamp::from_nanos(-5), max_ts: Timestamp::from_nanos(7), id: Stamp { time: 1, node: u64::MAX } };
        let block = EncodedBlock { partition: Arc::new(partition.clone()), address, events: 12, bytes: Bytes::from_static(b"abc") };
        let key = block_key(&block);
        let (prefix, tail) = split_block_key(&key).unwrap();
        assert_eq!(partition_of(prefix), Some(partition));
        assert_eq!(tail, BlockTail { address, events: 12, bytes: 3 });
    }

    #[test]
    fn behind_a_prefix_stands_nothing_that_begins_with_it() {
        assert_eq!(behind(b"ab"), b"ac");
        assert_eq!(behind(b"a\xff\xff"), b"b");
    }

    #[test]
    fn days_before_1970_sort_before_those_after() {
        let ns = "n".parse().unwrap();
        let keys: Vec<_> = [-2, -1, 0, 1].map(|day| day_key(&ns, "k", day)).to_vec();
        assert!(keys.is_sorted());
        assert_eq!(day_of(&keys[0]), Some(-2));
    }
}

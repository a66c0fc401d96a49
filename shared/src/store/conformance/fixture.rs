//! What the properties are made of: blocks of any bytes, partitions, whole scans.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::layout::LayoutVersion;
use crate::model::{Namespace, TimeRange, Timestamp};
use crate::partition::Partition;
use crate::stamp::Stamp;
use crate::store::{BlockAddress, Consistency, EncodedBlock, Scan, Store, StoreError, StoredBlock};

/// A store and a namespace that nobody else uses.
pub struct Fixture {
    /// The store under test.
    pub store: Arc<dyn Store>,
    /// The property's own namespace.
    pub ns: Namespace,
}

impl Fixture {
    /// A fixture in the namespace `ns`.
    pub fn new(store: Arc<dyn Store>, ns: &str) -> Fixture {
        Fixture { store, ns: ns.parse().expect("a property's name is a namespace") }
    }

    /// A partition of this fixture's namespace.
    pub fn partition(&self, key: &str, bucket: i64, suffix: u32) -> Partition {
        partition(&self.ns, key, bucket, suffix)
    }

    /// Appends blocks, which must succeed.
    pub async fn append(&self, blocks: Vec<EncodedBlock>) {
        self.store.append(blocks).await.expect("the append succeeds");
    }

    /// The blocks of one partition, over all time.
    pub async fn blocks(&self, partition: &Partition) -> Vec<StoredBlock> {
        blocks_of(&*self.store, partition).await
    }

    /// The addresses of one partition's blocks, over all time.
    pub async fn addresses(&self, partition: &Partition) -> Vec<BlockAddress> {
        self.blocks(partition).await.iter().map(|block| block.address).collect()
    }
}

/// A partition of a first layout.
pub fn partition(ns: &Namespace, key: &str, bucket: i64, suffix: u32) -> Partition {
    let version = LayoutVersion { revision: 0, nonce: 0 };
    Partition { ns: ns.clone(), key: key.into(), bucket: Timestamp::from_nanos(bucket), version, suffix }
}

/// A block from `min` to `max` with the id `id` and these bytes. Stores don't look inside.
pub fn block(partition: &Partition, min: i64, max: i64, id: u64, bytes: impl Into<Bytes>) -> EncodedBlock {
    let address = BlockAddress { min_ts: Timestamp::from_nanos(min), max_ts: Timestamp::from_nanos(max), id: Stamp { time: id, node: 7 } };
    EncodedBlock { partition: Arc::new(partition.clone()), address, events: 1, bytes: bytes.into() }
}

/// A scan of these partitions, sorted first.
pub fn scan_of(mut partitions: Vec<Partition>, range: TimeRange) -> Scan {
    partitions.sort();
    Scan { partitions: partitions.into(), range, consistency: Consistency::Strong }
}

/// Every page of a scan: its blocks by partition, in order. Checks that every partition was
/// answered exactly once, and that no block came after its partition's end.
pub async fn read_all(store: &dyn Store, scan: &Scan) -> Result<Vec<Vec<StoredBlock>>, StoreError> {
    let mut found = vec![Vec::new(); scan.partitions.len()];
    let mut answered = BTreeSet::new();
    let mut token = None;
    loop {
        let page = store.scan(scan, token).await?;
        for (index, block) in page.blocks {
            assert!(!answered.contains(&index), "a block of partition {index} came after its end");
            found[index as usize].push(block);
        }
        for index in page.answered {
            assert!(answered.insert(index), "partition {index} was answered twice");
        }
        token = page.next;
        if token.is_none() {
            assert_eq!(answered.len(), scan.partitions.len(), "partitions went unanswered");
            return Ok(found);
        }
    }
}

/// The blocks of one partition, over all time.
pub async fn blocks_of(store: &dyn Store, partition: &Partition) -> Vec<StoredBlock> {
    let scan = scan_of(vec![partition.clone()], TimeRange::ALL);
    read_all(store, &scan).await.expect("the scan succeeds").remove(0)
}

//! Reading the hot side of a bucket, verified: every partition answered once and to its end, every
//! block is what its place says. First which blocks there are, then, slice by slice, exactly those.

use std::collections::HashSet;
use std::sync::Arc;

use super::ArchiveError;
use super::walk::Slot;
use crate::background;
use crate::block::{Block, BlockError};
use crate::model::TimeRange;
use crate::partition::Partition;
use crate::store::{BlockAddress, Consistency, Scan, Store, StoredBlock, overlaps};

/// The blocks of a bucket at one time.
pub(super) struct Hot {
    /// Suffix, address and length of each.
    pub(super) blocks: Vec<(u32, BlockAddress, usize)>,
    /// The blocks themselves, unless they were too many bytes.
    kept: Option<Vec<(u32, Block)>>,
}

/// Every partition of a bucket.
fn partitions(slot: &Slot) -> Arc<[Partition]> {
    (0..slot.bucket.layout.shards).map(|suffix| slot.bucket.partition(suffix)).collect()
}

/// Reads a scan to its end; gives each page's blocks to `take`.
async fn scan(
    store: &dyn Store,
    slot: &Slot,
    range: TimeRange,
    mut take: impl FnMut(Vec<(u32, Block)>) + Send,
) -> Result<(), ArchiveError> {
    let scan = Scan { partitions: partitions(slot), range, consistency: Consistency::Strong };
    let mut answered = vec![0_u32; scan.partitions.len()];
    let mut token = None;
    loop {
        let page = store.scan(&scan, token).await?;
        for index in page.answered {
            let times = answered.get_mut(index as usize).ok_or_else(|| not_whole(slot, "a partition answered that was not asked"))?;
            *times += 1;
        }
        let (of, partitions) = (slot.clone(), scan.partitions.clone());
        let opened = background::spawn(move || open(&of, &partitions, page.blocks)).await?;
        take(opened.map_err(|error| ArchiveError::Block(name(slot), error))?);
        token = page.next;
        if token.is_none() {
            break;
        }
    }
    if answered.iter().any(|times| *times != 1) {
        return Err(not_whole(slot, "not every partition answered once"));
    }
    Ok(())
}

fn open(slot: &Slot, partitions: &[Partition], blocks: Vec<(u32, StoredBlock)>) -> Result<Vec<(u32, Block)>, BlockError> {
    let open = |(index, stored): (u32, StoredBlock)| {
        let partition = partitions.get(index as usize).ok_or(BlockError::Misplaced("a partition that was not asked for"))?;
        let block = Block::open(stored.bytes)?;
        block.verify(partition, &slot.bucket.layout, slot.epoch, &stored.address)?;
        Ok((partition.suffix, block))
    };
    blocks.into_iter().map(open).collect()
}

/// Which blocks a bucket has; keeps them where they are no more than `keep` bytes.
pub(super) async fn inventory(store: &dyn Store, slot: &Slot, keep: usize) -> Result<Hot, ArchiveError> {
    let (mut listed, mut kept, mut bytes) = (Vec::new(), Some(Vec::new()), 0);
    scan(store, slot, TimeRange::ALL, |blocks| {
        for (suffix, block) in blocks {
            listed.push((suffix, block.header().address, block.bytes().len()));
            bytes += block.bytes().len();
            if let Some(kept) = &mut kept {
                kept.push((suffix, block));
            }
        }
        if bytes > keep {
            kept = None;
        }
    })
    .await?;
    Ok(Hot { blocks: listed, kept })
}

/// Whether a bucket has any block.
pub(super) async fn has_blocks(store: &dyn Store, slot: &Slot) -> Result<bool, ArchiveError> {
    let scan = Scan { partitions: partitions(slot), range: TimeRange::ALL, consistency: Consistency::Strong };
    let mut token = None;
    loop {
        let page = store.scan(&scan, token).await?;
        if !page.blocks.is_empty() {
            return Ok(true);
        }
        token = page.next;
        if token.is_none() {
            return Ok(false);
        }
    }
}

/// The addresses of all blocks that a bucket has, unread.
pub(super) async fn addresses(store: &dyn Store, slot: &Slot) -> Result<Vec<(u32, BlockAddress)>, ArchiveError> {
    let scan = Scan { partitions: partitions(slot), range: TimeRange::ALL, consistency: Consistency::Strong };
    let (mut found, mut token) = (Vec::new(), None);
    loop {
        let page = store.scan(&scan, token).await?;
        let suffix = |index: u32| scan.partitions.get(index as usize).map(|partition| partition.suffix);
        found.extend(page.blocks.iter().filter_map(|(index, block)| Some((suffix(*index)?, block.address))));
        token = page.next;
        if token.is_none() {
            return Ok(found);
        }
    }
}

impl Hot {
    /// The listed blocks that touch `range`: no others, and all of them.
    pub(super) async fn read(&self, store: &dyn Store, slot: &Slot, range: TimeRange) -> Result<Vec<(u32, Block)>, ArchiveError> {
        let touches = |address: &BlockAddress| overlaps(address, range);
        if let Some(kept) = &self.kept {
            return Ok(kept.iter().filter(|(_, block)| touches(&block.header().address)).cloned().collect());
        }
        let mut wanted: HashSet<(u32, BlockAddress)> =
            self.blocks.iter().filter(|(_, address, _)| touches(address)).map(|(suffix, address, _)| (*suffix, *address)).collect();
        let mut found = Vec::with_capacity(wanted.len());
        scan(store, slot, range, |blocks| {
            found.extend(blocks.into_iter().filter(|(suffix, block)| wanted.remove(&(*suffix, block.header().address))));
        })
        .await?;
        if wanted.is_empty() { Ok(found) } else { Err(not_whole(slot, "blocks went away while the bucket was read")) }
    }
}

fn not_whole(slot: &Slot, why: &str) -> ArchiveError {
    ArchiveError::NotWhole(format!("{}: {why}", name(slot)))
}

/// A bucket in words.
pub(super) fn name(slot: &Slot) -> String {
    let bucket = &slot.bucket;
    format!("namespace {}, key {:?}, bucket {}, layout {}", bucket.ns, bucket.key, bucket.start, bucket.layout.version.revision)
}

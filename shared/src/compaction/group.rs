//! Which blocks of a partition are rewritten together. Pure.
//!
//! Blocks come in the order of their least event time. A group is a run of them that are small, or
//! overlap one that is; a full block that overlaps nothing ends a group and is left alone, so that
//! a partition of full, disjoint blocks gives no group at all. Any subset of a partition's blocks
//! may be rewritten, since every row keeps its write stamp: so where a group grows over its
//! bounds, its full blocks are left out rather than the group given up.

use crate::block::Block;
use crate::model::Timestamp;
use crate::store::is_small_of;

/// Bounds of one group.
#[derive(Clone, Copy, Debug)]
pub struct GroupLimits {
    /// Encoded bytes; decoded they may take ten times that.
    pub bytes_max: usize,
    /// Events.
    pub events_max: usize,
    /// Blocks.
    pub blocks_max: usize,
    /// Fewest small blocks that are worth it.
    pub small_least: usize,
}

/// Gathers blocks into groups.
pub(super) struct Grouper {
    limits: GroupLimits,
    block_bytes_max: usize,
    group: Vec<Block>,
    bytes: usize,
    events: usize,
    /// Greatest event time of the group's blocks, those left out included.
    end: Timestamp,
}

/// Whether a block is less than half full, where the store takes blocks of so many bytes.
pub(super) fn small(block: &Block, bytes_max: usize) -> bool {
    is_small_of(block.header().count, block.bytes().len(), bytes_max)
}

impl Grouper {
    pub(super) fn new(limits: GroupLimits, block_bytes_max: usize) -> Grouper {
        Grouper { limits, block_bytes_max, group: Vec::new(), bytes: 0, events: 0, end: Timestamp::MIN }
    }

    /// Takes the next block; gives the group that it ended, if that is worth rewriting.
    pub(super) fn push(&mut self, block: Block) -> Option<Vec<Block>> {
        let address = block.header().address;
        let apart = self.group.is_empty() || address.min_ts > self.end;
        let bytes_max = self.block_bytes_max;
        let small = |block: &Block| small(block, bytes_max);
        let joins = !apart || (small(&block) && self.group.iter().any(small));
        let mut ended = if joins { None } else { self.finish() };
        self.end = self.end.max(address.max_ts);
        self.add(block);
        if self.over() {
            let held = std::mem::take(&mut self.group);
            (self.bytes, self.events) = (0, 0);
            held.into_iter().filter(small).for_each(|block| self.add(block));
        }
        if self.over() {
            let last = self.group.pop();
            // Two groups can't end at once: one that was just begun holds one block.
            ended = ended.or(self.take());
            last.into_iter().for_each(|block| self.add(block));
        }
        ended
    }

    fn add(&mut self, block: Block) {
        self.bytes += block.bytes().len();
        self.events += block.header().count as usize;
        self.group.push(block);
    }

    /// Ends the last group.
    pub(super) fn finish(&mut self) -> Option<Vec<Block>> {
        self.end = Timestamp::MIN;
        self.take()
    }

    fn take(&mut self) -> Option<Vec<Block>> {
        let group = std::mem::take(&mut self.group);
        (self.bytes, self.events) = (0, 0);
        (group.iter().filter(|block| small(block, self.block_bytes_max)).count() >= self.limits.small_least).then_some(group)
    }

    fn over(&self) -> bool {
        let GroupLimits { bytes_max, events_max, blocks_max, .. } = self.limits;
        self.group.len() > 1 && (self.bytes > bytes_max || self.events > events_max || self.group.len() > blocks_max)
    }
}

//! Verify: what the store answered is exactly what was planned, or the read says what is not.
//!
//! Pure. Nothing is merged before this has passed.

use std::collections::HashSet;

use braid_shared::block::{Block, BlockError};
use braid_shared::layout::LayoutVersion;
use braid_shared::store::StoredBlock;

use crate::error::{Missing, QueryError};
use crate::fan_out::Answered;
use crate::walk::Planned;

/// Most partitions that an error or an answer names.
pub const MISSING_NAMED_MAX: usize = 100;

/// A partition's blocks, each checked against the plan.
#[derive(Debug)]
pub struct Verified {
    /// What was planned.
    pub planned: Planned,
    /// Its sound blocks.
    pub blocks: Vec<Block>,
}

/// What verification found.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Partitions that answered, whole and sound.
    pub sound: Vec<Verified>,
    /// Partitions that did not answer exactly once to their end.
    pub absent: Vec<(Planned, &'static str)>,
    /// Partitions with a block that is not sound.
    pub damaged: Vec<(Planned, BlockError)>,
    /// A layout version that a block speaks of, other than the one planned.
    pub other_version: Option<LayoutVersion>,
    /// Blocks or ends of partitions that nobody asked for.
    pub strangers: usize,
}

/// Checks a scan's answer, partition by partition and block by block.
pub fn verify(planned: Vec<Planned>, answered: Answered) -> Verdict {
    let mut verdict = Verdict { strangers: answered.strangers, ..Verdict::default() };
    for ((planned, times), stored) in planned.into_iter().zip(answered.times).zip(answered.blocks) {
        if times != 1 {
            let reason = if times == 0 { "not answered" } else { "answered more than once" };
            verdict.absent.push((planned, reason));
            continue;
        }
        let mut blocks = Vec::with_capacity(stored.len());
        let mut fault = None;
        for stored in stored {
            match open(&planned, stored, &mut verdict.other_version) {
                Ok(block) => blocks.push(block),
                Err(error) => fault = Some(error),
            }
        }
        match fault {
            None => verdict.sound.push(Verified { planned, blocks }),
            Some(error) => verdict.damaged.push((planned, error)),
        }
    }
    verdict
}

fn open(planned: &Planned, stored: StoredBlock, other: &mut Option<LayoutVersion>) -> Result<Block, BlockError> {
    let block = Block::open(stored.bytes)?;
    let version = block.header().version;
    if version != planned.partition.version {
        *other = Some(version);
    }
    block.verify(&planned.partition, &planned.epoch.layout, planned.epoch.range, &stored.address)?;
    Ok(block)
}

impl Verdict {
    /// Shards, i.e. distinct (layout version, suffix), that answered whole, and those with a partition that did not.
    fn shards(&self) -> (usize, usize) {
        let absent: HashSet<_> = self.absent.iter().map(|(planned, _)| planned.shard()).collect();
        let sound: HashSet<_> = self.sound.iter().map(|sound| sound.planned.shard()).collect();
        (sound.difference(&absent).count(), absent.len())
    }

    /// Every partition that was planned.
    pub fn planned(&self) -> impl Iterator<Item = &Planned> {
        let sound = self.sound.iter().map(|sound| &sound.planned);
        sound.chain(self.absent.iter().map(|(planned, _)| planned)).chain(self.damaged.iter().map(|(planned, _)| planned))
    }

    /// The error of an answer that is not whole.
    pub fn error(&self) -> Option<QueryError> {
        if let Some((planned, why)) = self.damaged.first() {
            return Some(QueryError::BlockDamaged { partition: Box::new(planned.partition.clone()), why: why.to_string() });
        }
        let whole = self.absent.is_empty() && self.strangers == 0;
        (!whole).then(|| {
            let (answered, absent) = self.shards();
            let missing = self.absent().take(MISSING_NAMED_MAX).collect();
            QueryError::ShardCountMismatch { expected: answered + absent, answered, missing }
        })
    }

    fn absent(&self) -> impl Iterator<Item = Missing> + '_ {
        self.absent.iter().map(|(planned, why)| Missing::of(&planned.partition, *why))
    }

    /// What an answer that may be partial must name.
    pub fn missing(&self) -> impl Iterator<Item = Missing> + '_ {
        let damaged = self.damaged.iter().map(|(planned, why)| Missing::of(&planned.partition, why.to_string()));
        self.absent().chain(damaged)
    }
}

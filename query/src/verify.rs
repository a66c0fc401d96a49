//! Verify: what the store answered is exactly what was planned, or the read says what is not.
//!
//! Pure. WHOLE-OR-ERROR: nothing is merged before this has passed.

use std::collections::HashSet;
use std::fmt;

use braid_shared::block::{Block, BlockError};
use braid_shared::cold::{DatabaseError, Run};
use braid_shared::layout::LayoutVersion;
use braid_shared::partition::Partition;
use braid_shared::store::StoredBlock;

use crate::cold::{TableAnswer, TableRows};
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
    /// Rows of its bucket's table, of this partition or another: events that merge with nothing.
    pub runs: Vec<Run>,
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
    /// Tables that were to be read, and those that answered.
    pub tables: (usize, usize),
    /// Why the first of the others did not.
    pub table_fault: Option<DatabaseError>,
}

impl Verified {
    /// Whether it has nothing.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.runs.is_empty()
    }

    /// The error of a block or run that can't be decoded.
    pub fn damaged(&self, why: &dyn fmt::Display) -> QueryError {
        QueryError::BlockDamaged { partition: Box::new(self.planned.partition.clone()), why: why.to_string() }
    }
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
            None => verdict.sound.push(Verified { planned, blocks, runs: Vec::new() }),
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
    /// Takes in what a table answered: blocks go to their partitions, runs are dealt out among all; without it they are missing.
    pub fn take_table(&mut self, answer: TableAnswer) {
        self.tables.0 += 1;
        self.tables.1 += usize::from(answer.rows.is_ok());
        let place = |sound: &[Verified], partition: &Partition| sound.binary_search_by(|sound| sound.planned.partition.cmp(partition));
        match answer.rows {
            Ok(TableRows::Blocks(blocks)) => {
                for (suffix, block) in blocks {
                    if let Ok(at) = place(&self.sound, &answer.table.bucket.partition(suffix)) {
                        self.sound[at].blocks.push(block);
                    }
                }
            }
            Ok(TableRows::Runs(runs)) => {
                let partitions = answer.table.partitions().filter_map(|partition| place(&self.sound, &partition).ok()).collect::<Vec<_>>();
                partitions.iter().cycle().zip(runs).for_each(|(at, run)| self.sound[*at].runs.push(run));
            }
            Err(fault) => {
                for partition in answer.table.partitions() {
                    if let Ok(at) = place(&self.sound, &partition) {
                        self.absent.push((self.sound.remove(at).planned, "its table can't be read"));
                    }
                }
                self.table_fault.get_or_insert(fault);
            }
        }
    }

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
        if let Some(fault) = &self.table_fault {
            return Some(QueryError::Table(fault.clone()));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use braid_shared::block::{RowBuffer, encode};
    use braid_shared::layout::{Layout, ShardBy};
    use braid_shared::model::{Span, TimeRange, Timestamp};
    use braid_shared::partition::Partition;
    use braid_shared::stamp::Stamp;

    use super::*;
    use crate::plan::Epoch;

    fn planned(suffix: u32) -> Planned {
        let version = LayoutVersion { revision: 3, nonce: 5 };
        let layout = Layout { version, shards: 4, bucket: Span::HOUR, shard_by: ShardBy::Id };
        let partition = Partition { ns: "n".parse().unwrap(), key: "k".into(), bucket: Timestamp::from_nanos(0), version, suffix };
        Planned { partition, epoch: Arc::new(Epoch { range: TimeRange::ALL, layout: Arc::new(layout) }) }
    }

    fn stored(planned: &Planned) -> StoredBlock {
        let mut rows = RowBuffer::default();
        rows.push(Timestamp::from_nanos(7), "a", std::iter::empty(), std::iter::empty());
        let stamp = || Ok::<_, ()>(Stamp { time: 1, node: 2 });
        let block = encode(&Arc::new(planned.partition.clone()), &planned.epoch.layout, rows, 1 << 16, stamp).unwrap().remove(0);
        StoredBlock { address: block.address, bytes: block.bytes }
    }

    fn whole() -> (Vec<Planned>, Answered) {
        let planned: Vec<Planned> = (0..4).map(planned).collect();
        let blocks = planned.iter().map(|planned| vec![stored(planned)]).collect();
        (planned, Answered { blocks, times: vec![1; 4], ..Answered::default() })
    }

    #[test]
    fn an_answer_as_planned_passes() {
        let (planned, answered) = whole();
        let verdict = verify(planned, answered);
        assert!(verdict.error().is_none());
        assert_eq!(verdict.sound.iter().map(|sound| sound.blocks.len()).sum::<usize>(), 4);
    }

    #[test]
    fn a_partition_that_answered_never_or_twice_or_unasked_is_a_mismatch() {
        for times in [0, 2] {
            let (planned, mut answered) = whole();
            answered.times[2] = times;
            match verify(planned, answered).error() {
                Some(QueryError::ShardCountMismatch { expected: 4, answered: 3, missing }) => assert_eq!(missing[0].suffix, 2),
                other => panic!("{other:?}"),
            }
        }
        let (planned, mut answered) = whole();
        answered.strangers = 1;
        assert!(matches!(verify(planned, answered).error(), Some(QueryError::ShardCountMismatch { .. })));
    }

    #[test]
    fn a_sound_block_of_another_partition_version_or_address_is_damage() {
        let (planned_all, mut answered) = whole();
        answered.blocks[1] = answered.blocks[0].clone();
        assert!(matches!(verify(planned_all, answered).error(), Some(QueryError::BlockDamaged { .. })));

        let (planned_all, mut answered) = whole();
        answered.blocks[1][0].address.max_ts = Timestamp::from_nanos(8);
        assert!(matches!(verify(planned_all, answered).error(), Some(QueryError::BlockDamaged { .. })));

        let (mut planned_all, answered) = whole();
        let other = LayoutVersion { revision: 9, nonce: 5 };
        planned_all.iter_mut().for_each(|planned| planned.partition.version = other);
        let verdict = verify(planned_all, answered);
        assert_eq!(verdict.other_version, Some(LayoutVersion { revision: 3, nonce: 5 }));
        assert!(matches!(verdict.error(), Some(QueryError::BlockDamaged { .. })));
    }
}

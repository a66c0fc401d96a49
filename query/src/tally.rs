//! What an answer says of itself: its range, its shards, the layouts consulted, what is missing.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use braid_shared::layout::LayoutVersion;
use braid_shared::model::{TimeRange, Timestamp};

use crate::error::Missing;
use crate::plan::Epoch;
use crate::read::{Asked, Settled, Target};
use crate::verify::{MISSING_NAMED_MAX, Verdict};
use crate::walk::Planned;

/// The account of one read.
#[derive(Clone, Debug)]
pub struct Tally {
    /// The range answered.
    pub range: TimeRange,
    /// Whether a start was given.
    pub bounded: bool,
    /// The catalog's revision.
    pub revision: u64,
    /// Whether every key with a prefix was read.
    pub broadcast: bool,
    /// Layouts consulted, by version.
    pub layouts: BTreeMap<LayoutVersion, Arc<Epoch>>,
    /// The first of the partitions that are missing.
    pub missing: Vec<Missing>,
    planned: HashSet<(LayoutVersion, u32)>,
    absent: HashSet<(LayoutVersion, u32)>,
}

impl Tally {
    /// Nothing read yet.
    pub fn new(asked: &Asked, settled: &Settled) -> Tally {
        Tally {
            range: settled.range,
            bounded: asked.from.is_some_and(|from| from != Timestamp::MIN),
            revision: settled.view.revision,
            broadcast: matches!(asked.target, Target::Prefix(_)),
            layouts: BTreeMap::new(),
            missing: Vec::new(),
            planned: HashSet::new(),
            absent: HashSet::new(),
        }
    }

    /// Notes a partition that is read.
    pub fn plan(&mut self, planned: &Planned) {
        if self.planned.insert(planned.shard()) {
            self.layouts.entry(planned.partition.version).or_insert_with(|| planned.epoch.clone());
        }
    }

    /// Notes what verification found.
    pub fn judge(&mut self, verdict: &Verdict) {
        verdict.planned().for_each(|planned| self.plan(planned));
        for missing in verdict.missing() {
            self.absent.insert((missing.version, missing.suffix));
            if self.missing.len() < MISSING_NAMED_MAX {
                self.missing.push(missing);
            }
        }
    }

    /// Whether nothing is missing.
    pub fn complete(&self) -> bool {
        self.absent.is_empty()
    }

    /// Distinct (layout version, suffix) that were planned.
    pub fn shards_planned(&self) -> usize {
        self.planned.len()
    }

    /// Those of them of which every partition answered.
    pub fn shards_answered(&self) -> usize {
        self.planned.difference(&self.absent).count()
    }
}

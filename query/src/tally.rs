//! What an answer says of itself: its range, its shards, the layouts consulted, what is missing.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use braid_shared::layout::LayoutVersion;
use braid_shared::model::{TimeRange, Timestamp};
use braid_shared::store::Consistency;

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
    /// What its scans had to show.
    pub consistency: Consistency,
    /// Layouts consulted, by version.
    pub layouts: BTreeMap<LayoutVersion, Arc<Epoch>>,
    /// The first of the partitions that are missing.
    pub missing: Vec<Missing>,
    planned: HashSet<(LayoutVersion, u32)>,
    absent: HashSet<(LayoutVersion, u32)>,
    /// Tables that were to be read, and those that answered.
    pub tables: (usize, usize),
}

impl Tally {
    /// Nothing read yet.
    pub fn new(asked: &Asked, settled: &Settled, consistency: Consistency) -> Tally {
        Tally {
            range: settled.range,
            // A range that was cut to what is not dropped says so.
            bounded: settled.range.from != Timestamp::MIN,
            revision: settled.view.revision,
            consistency,
            broadcast: matches!(asked.target, Target::Prefix(_)),
            layouts: BTreeMap::new(),
            missing: Vec::new(),
            planned: HashSet::new(),
            absent: HashSet::new(),
            tables: (0, 0),
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
        self.tables.0 += verdict.tables.0;
        self.tables.1 += verdict.tables.1;
        for missing in verdict.missing() {
            self.absent.insert((missing.version, missing.suffix));
            if self.missing.len() < MISSING_NAMED_MAX {
                self.missing.push(missing);
            }
        }
    }

    /// Notes that what lies before `ts` was dropped while the read ran.
    pub fn cut(&mut self, ts: Timestamp) {
        self.range.from = self.range.from.max(ts).min(self.range.to);
        self.bounded = true;
    }

    /// Whether nothing is missing, nor may be.
    pub fn complete(&self) -> bool {
        self.absent.is_empty() && self.consistency == Consistency::Strong
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

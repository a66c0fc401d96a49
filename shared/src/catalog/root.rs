//! The root: the one document that is swapped; what it names is real.

use serde::{Deserialize, Serialize};

use super::Shared;
use crate::model::Timestamp;
use crate::promise::{Facts, must_follow};

/// The root's name in the store.
pub(super) const ROOT: &str = "root";

/// Snapshots that a root names: the newest, and the one before it for nodes that read an older root.
const SNAPSHOTS_KEPT: usize = 2;

/// The catalog's root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Root {
    /// Random id of the catalog.
    pub(super) catalog: u64,
    /// Swaps since it was made: orders all roots there ever were.
    pub(super) swap: u64,
    /// Changes since it was made.
    pub(super) revision: u64,
    /// The promise H, nanoseconds of event time.
    pub(super) promise: i64,
    /// Stamps below it may be issued.
    pub(super) ceiling: u64,
    /// Settings that nodes share.
    pub(super) shared: Shared,
    /// Name of the last change; none at revision 0.
    pub(super) head: Option<String>,
    /// Newest first.
    pub(super) snapshots: Vec<SnapshotRef>,
}

/// Where a snapshot stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotRef {
    /// Its parts are `{name}/{part}`.
    pub(super) name: String,
    /// How many parts.
    pub(super) parts: u32,
    /// The revision it shows.
    pub(super) revision: u64,
    /// Name of that revision's change.
    pub(super) head: String,
}

impl Root {
    /// The root of a new catalog.
    pub(super) fn new(catalog: u64, now: Timestamp, shared: Shared) -> Root {
        Root { catalog, swap: 0, revision: 0, promise: now.nanos(), ceiling: 0, shared, head: None, snapshots: Vec::new() }
    }

    /// The promise.
    pub(super) fn promise(&self) -> Timestamp {
        Timestamp::from_nanos(self.promise)
    }

    /// This root with a higher promise and ceiling; no new revision.
    pub(super) fn raised(&self, promise: Timestamp, ceiling: u64) -> Root {
        Root { swap: self.swap + 1, promise: promise.nanos(), ceiling, ..self.clone() }
    }

    /// This root with one change more.
    pub(super) fn changed(&self, head: String) -> Root {
        Root { swap: self.swap + 1, revision: self.revision + 1, head: Some(head), ..self.clone() }
    }

    /// This root with a newer snapshot, and the snapshot that it thereby no longer names.
    pub(super) fn snapshotted(&self, snapshot: SnapshotRef) -> (Root, Option<SnapshotRef>) {
        let mut root = Root { swap: self.swap + 1, ..self.clone() };
        root.snapshots.insert(0, snapshot);
        let dropped = if root.snapshots.len() > SNAPSHOTS_KEPT { root.snapshots.pop() } else { None };
        (root, dropped)
    }

    /// PROMISE-7: why this root can't be a later state of `seen`, if it can't.
    pub(super) fn must_follow(&self, seen: &Root) -> Result<(), &'static str> {
        must_follow(seen.facts(), self.facts())?;
        if self.revision == seen.revision && self.head != seen.head {
            return Err("its last change is another one at the revision this node knows");
        }
        Ok(())
    }

    /// What of it only grows.
    pub(super) fn facts(&self) -> Facts {
        Facts { catalog: self.catalog, swap: self.swap, revision: self.revision, promise: self.promise(), ceiling: self.ceiling }
    }
}

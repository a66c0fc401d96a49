//! What there is in the model: the root in its store, nodes that know old ones, requests on their
//! way, blocks, and what was said to clients. Plain data; `steps.rs` moves it.

use std::collections::BTreeSet;
use std::sync::Arc;

use braid_shared::model::Timestamp;
use braid_shared::promise::Facts;
use braid_shared::timeline::Timeline;

/// An epoch's version: the change that published it; 0 is layout 0.
pub(crate) type Version = u8;

/// A change, as the chain holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Change {
    /// Unique for ever, as the name of a change's document is.
    pub(crate) id: Version,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    Published(Timestamp),
    Withdrawn(Version),
}

/// A root with all that it names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Root {
    /// Its swaps stand for the etag, which is as unique.
    pub(crate) facts: Facts,
    pub(crate) changes: Vec<Change>,
}

impl Root {
    pub(crate) fn new(promise: Timestamp) -> Root {
        Root { facts: Facts { catalog: 1, swap: 0, revision: 0, promise, ceiling: 0 }, changes: Vec::new() }
    }

    pub(crate) fn raised(&self, promise: Timestamp) -> Root {
        let facts = Facts { swap: self.facts.swap + 1, promise, ..self.facts };
        Root { facts, changes: self.changes.clone() }
    }

    pub(crate) fn changed(&self, change: Change) -> Root {
        let facts = Facts { swap: self.facts.swap + 1, revision: self.facts.revision + 1, ..self.facts };
        Root { facts, changes: self.changes.iter().copied().chain([change]).collect() }
    }

    /// The timeline that the changes give.
    pub(crate) fn timeline(&self) -> Timeline<Version> {
        let mut timeline = Timeline::from_start(0);
        for change in &self.changes {
            match change.what {
                What::Published(from) => timeline.append(from, change.id).expect("a change was checked before it was made"),
                What::Withdrawn(version) => timeline.remove(|group| *group == version),
            }
        }
        timeline
    }

    pub(crate) fn holds(&self, change: Version) -> bool {
        self.changes.iter().any(|held| held.id == change)
    }

    /// The version that an event at `ts` is placed by.
    pub(crate) fn places(&self, ts: Timestamp) -> Version {
        *self.timeline().at(ts).expect("layout 0 covers all time")
    }
}

/// A request to swap the root.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    /// The root it expects to find.
    pub(crate) seen: Arc<Root>,
    pub(crate) next: Arc<Root>,
    /// The change it makes; none where it raises the promise.
    pub(crate) change: Option<Version>,
}

/// How far a node's swap has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It is on its way to the store.
    Sent,
    /// Its answer is on its way: done, or a conflict.
    Answered(bool),
    /// No answer that says enough came: the root must be read.
    Doubtful,
}

/// A read that a client waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Query {
    /// End of the range asked for; open where absent.
    pub(crate) to: Option<Timestamp>,
    /// Events acknowledged before it was asked.
    pub(crate) owed: BTreeSet<Timestamp>,
    /// A root read after it was asked.
    pub(crate) read: Option<Arc<Root>>,
}

/// A process. What it does between two steps takes as long as it takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) known: Arc<Root>,
    pub(crate) swap: Option<(Arc<Request>, Stage)>,
    /// The answer to a read of the root, on its way.
    pub(crate) read: Option<Arc<Root>>,
    /// An event that was placed and is not stored yet.
    pub(crate) placed: Option<(Timestamp, Version)>,
    pub(crate) query: Option<Query>,
}

impl Node {
    pub(crate) fn started(root: &Arc<Root>) -> Node {
        Node { known: root.clone(), swap: None, read: None, placed: None, query: None }
    }
}

/// How often what adds to the state may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Left {
    pub(crate) writes: u8,
    pub(crate) raises: u8,
    pub(crate) changes: u8,
    pub(crate) queries: u8,
    pub(crate) restarts: u8,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) root: Arc<Root>,
    pub(crate) nodes: Vec<Node>,
    /// Requests that nobody waits for any more and that may yet arrive.
    pub(crate) late: Vec<Arc<Request>>,
    /// What stands in the store: of each event time one event, and the versions it was placed by.
    pub(crate) blocks: BTreeSet<(Timestamp, Version)>,
    pub(crate) acknowledged: BTreeSet<Timestamp>,
    /// Changes that clients were told to stand, and such that they were told never will.
    pub(crate) granted: BTreeSet<Version>,
    pub(crate) denied: BTreeSet<Version>,
    pub(crate) changes_made: Version,
    /// The highest promise there was.
    pub(crate) highest: Timestamp,
    /// An answer lacked an acknowledged event of its range.
    pub(crate) lost: bool,
    /// An answer ended before an acknowledged event that was asked for.
    pub(crate) shortened: bool,
    /// An answer held an event of a published epoch, so that a run proves something.
    pub(crate) answered: bool,
    pub(crate) left: Left,
}

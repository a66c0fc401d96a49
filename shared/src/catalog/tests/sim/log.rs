//! What happened in a run, and what must be true of it.

use std::sync::Arc;

use super::super::super::root::Root;
use super::super::super::view::View;
use super::super::super::{CatalogError, ListedLayout};
use super::{KEYS, namespace};
use crate::layout::LayoutVersion;
use crate::model::{TimeRange, Timestamp};
use crate::promise::{PROMISE_1, PROMISE_4, PROMISE_6, PROMISE_7, accepts};

/// An event that was acknowledged, and where it was placed.
#[derive(Clone, Debug)]
pub(super) struct Accepted {
    pub(super) key: &'static str,
    pub(super) ts: Timestamp,
    pub(super) version: LayoutVersion,
}

/// How much happened in a run, so that a test can tell that it tests anything.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Happened {
    pub(in super::super) accepted: usize,
    pub(in super::super) published: usize,
    pub(in super::super) withdrawn: usize,
    pub(in super::super) unknown: usize,
    pub(in super::super) views: usize,
    pub(in super::super) swaps: usize,
}

/// What happened in a run.
#[derive(Default)]
pub(super) struct Log {
    pub(super) accepted: Vec<Accepted>,
    /// Every view that an operation got.
    pub(super) views: Vec<Arc<View>>,
    /// Acknowledged changes: the timeline and the layout as answered.
    pub(super) changed: Vec<(Option<&'static str>, ListedLayout)>,
    /// Publications whose outcome was not known.
    pub(super) unknown: usize,
    pub(super) faults: Vec<String>,
}

impl Log {
    /// Notes an error; in a sound world a node never finds that the catalog stepped back.
    pub(super) fn failed(&mut self, error: &CatalogError) {
        let why = error.to_string();
        if ["this node knows", "damaged", "broken", "not there"].iter().any(|sign| why.contains(sign)) {
            self.faults.push(format!("{PROMISE_7}: {why}"));
        }
    }

    /// Checks that a reader's fresh view covers events that were acknowledged before, and places
    /// each where it is.
    pub(super) fn reads(&mut self, view: &View, acknowledged: usize) {
        for event in &self.accepted[..acknowledged] {
            if !accepts(view.horizon, event.ts) {
                self.faults.push(format!("{PROMISE_6}: {event:?} lies beyond a fresh horizon {}", view.horizon));
            } else if placed(view, event) != Some(event.version) {
                self.faults.push(format!("{PROMISE_1}: {event:?} is read as placed by {:?}", placed(view, event)));
            }
        }
    }

    /// Checks a whole run against the catalog as it stands in the end.
    pub(super) fn verdict(mut self, last: &View, roots: &[Root]) -> Result<Happened, String> {
        let happened = Happened {
            accepted: self.accepted.len(),
            published: self.changed.iter().filter(|(_, l)| !l.is_withdrawn()).count(),
            withdrawn: self.changed.iter().filter(|(_, l)| l.is_withdrawn()).count(),
            unknown: self.unknown,
            views: self.views.len(),
            swaps: roots.len(),
        };
        for pair in roots.windows(2) {
            if pair[1].promise < pair[0].promise || pair[1].ceiling < pair[0].ceiling {
                self.faults.push(format!("{PROMISE_4}: the promise shrank from {} to {}", pair[0].promise(), pair[1].promise()));
            }
        }
        self.reads(last, self.accepted.len());
        for view in std::mem::take(&mut self.views) {
            self.agrees(&view, last);
        }
        self.changes_stand(last);
        if self.faults.is_empty() { Ok(happened) } else { Err(self.faults.join("; ")) }
    }

    /// No two views place anything differently below both their horizons.
    fn agrees(&mut self, view: &View, last: &View) {
        let range = TimeRange { from: Timestamp::MIN, to: view.horizon.min(last.horizon) };
        for key in KEYS {
            if epochs(view, key, range) != epochs(last, key, range) {
                self.faults.push(format!("{PROMISE_1}: revision {} shows {key} differently below {}", view.revision, range.to));
            }
        }
    }

    fn changes_stand(&mut self, last: &View) {
        let Some(ns) = last.namespace(&namespace()) else {
            return self.faults.push("the namespace is gone".into());
        };
        for (timeline, listed) in &self.changed {
            let found = ns.listed(*timeline).into_iter().find(|l| l.layout == listed.layout && l.from == listed.from);
            if !found.as_ref().is_some_and(|found| found.is_withdrawn() || !listed.is_withdrawn()) {
                self.faults.push(format!("an acknowledged change does not stand: {listed:?}, found {found:?}"));
            }
        }
        let published = self.changed.iter().filter(|(_, l)| !l.is_withdrawn()).count();
        let timelines = [None, Some(KEYS[0]), Some(KEYS[1])];
        let standing: usize = timelines.iter().map(|t| ns.listed(*t).iter().filter(|l| l.layout.version.revision > 0).count()).sum();
        if !(published..=published + self.unknown).contains(&standing) {
            self.faults.push(format!("{standing} layouts stand, {published} were acknowledged and {} unknown", self.unknown));
        }
    }
}

fn placed(view: &View, event: &Accepted) -> Option<LayoutVersion> {
    Some(view.namespace(&namespace())?.layout_at(event.key, event.ts).version)
}

fn epochs(view: &View, key: &str, range: TimeRange) -> Option<Vec<(TimeRange, LayoutVersion)>> {
    let all = view.namespace(&namespace())?.epochs(key, range);
    Some(all.into_iter().map(|(part, layout)| (part, layout.version)).collect())
}

//! What a node knows of the catalog: immutable views that share what did not change.
//!
//! Pure: a view changes only by applying a change to a copy, which copies one path of the maps.

use std::sync::Arc;

use imbl::HashMap;

use super::change::{Change, ChangeDocument};
use super::{Policy, Shared};
use crate::clock::Mark;
use crate::layout::{Layout, LayoutVersion};
use crate::model::{Namespace, TimeRange, Timestamp};
use crate::partition::Partition;
use crate::timeline::Timeline;

/// What a node knows of the catalog; immutable.
#[derive(Clone, Debug)]
pub struct View {
    /// The catalog's version.
    pub revision: u64,
    /// The promise as read: below it this view can no longer change.
    pub horizon: Timestamp,
    /// Stamps below it may be issued.
    pub stamp_ceiling: u64,
    /// When the read that gave this view began.
    pub began: Mark,
    /// Settings that nodes share.
    pub shared: Shared,
    pub(super) namespaces: Namespaces,
}

impl View {
    /// A namespace, if this view knows it.
    pub fn namespace(&self, ns: &Namespace) -> Option<&Arc<NamespaceView>> {
        self.namespaces.0.get(ns)
    }

    /// Every namespace, in no order.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.0.keys()
    }

    /// The layout that placed a partition, if this view knows it.
    pub fn layout_of(&self, partition: &Partition) -> Option<&Arc<Layout>> {
        let namespace = self.namespace(&partition.ns)?;
        let own = namespace.history(Some(&partition.key)).and_then(|own| own.published(partition.version));
        own.or_else(|| namespace.default.published(partition.version))
    }
}

/// One layout of a timeline as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedLayout {
    /// The layout.
    pub layout: Layout,
    /// Event time from which it holds; [`Timestamp::MIN`] for layout 0.
    pub from: Timestamp,
    /// Whether it was withdrawn.
    pub withdrawn: bool,
}

/// One timeline as published: what holds, and what was withdrawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct History {
    timeline: Timeline<Arc<Layout>>,
    withdrawn: Vec<(Timestamp, Arc<Layout>)>,
}

impl History {
    /// Start of the last epoch that was not withdrawn.
    pub(super) fn last_start(&self) -> Option<Timestamp> {
        self.timeline.last_start()
    }

    /// How many layouts were ever published.
    pub(super) fn len(&self) -> usize {
        self.timeline.groups().len() + self.withdrawn.len()
    }

    /// The layout of a version, if it holds somewhere.
    fn published(&self, version: LayoutVersion) -> Option<&Arc<Layout>> {
        self.timeline.groups().map(|(_, layout)| layout).find(|layout| layout.version == version)
    }

    /// Every layout in the order of publication.
    pub(super) fn listed(&self) -> Vec<ListedLayout> {
        let list =
            |withdrawn| move |(from, layout): (Timestamp, &Arc<Layout>)| ListedLayout { layout: (**layout).clone(), from, withdrawn };
        let gone = self.withdrawn.iter().map(|(from, layout)| (*from, layout));
        let mut all: Vec<_> = self.timeline.groups().map(list(false)).chain(gone.map(list(true))).collect();
        all.sort_by_key(|l| l.layout.version);
        all
    }

    fn publish(&mut self, from: Timestamp, layout: Layout) -> Result<(), &'static str> {
        self.timeline.append(from, Arc::new(layout)).map_err(|_| "a layout does not begin after the one before it")
    }

    fn withdraw(&mut self, version: LayoutVersion) -> Result<(), &'static str> {
        let found = self.timeline.groups().find(|(_, layout)| layout.version == version);
        let (from, layout) = found.map(|(from, layout)| (from, layout.clone())).ok_or("a layout that was withdrawn is not there")?;
        self.timeline.remove(|layout| layout.version == version);
        self.withdrawn.push((from, layout));
        Ok(())
    }

    /// Whether every layout of `before` is here, where it was; withdrawing may have gone on.
    fn continues(&self, before: &History) -> bool {
        let here = self.listed();
        before.listed().iter().all(|old| {
            let found = here.binary_search_by_key(&old.layout.version, |new| new.layout.version).map(|at| &here[at]);
            found.is_ok_and(|new| new.layout == old.layout && new.from == old.from && (new.withdrawn || !old.withdrawn))
        })
    }
}

/// Timelines and policy of one namespace.
#[derive(Clone, Debug)]
pub struct NamespaceView {
    /// Policy.
    pub policy: Arc<Policy>,
    default: Arc<History>,
    keys: HashMap<Arc<str>, Arc<History>>,
}

impl NamespaceView {
    /// The layout that places an event of `key` at `ts`: the latest epoch of the key's own that
    /// began by then, else the namespace's default.
    pub fn layout_at(&self, key: &str, ts: Timestamp) -> &Arc<Layout> {
        let own = self.keys.get(key).and_then(|own| own.timeline.at(ts));
        own.unwrap_or_else(|| self.default_at(ts))
    }

    /// The epochs of `key` that hold somewhere in `range`, each with the part it holds, in order.
    pub fn epochs(&self, key: &str, range: TimeRange) -> Vec<(TimeRange, Arc<Layout>)> {
        let own = self.keys.get(key).map(|own| &own.timeline);
        let own_from = own.and_then(Timeline::first_start).unwrap_or(Timestamp::MAX);
        let before = TimeRange { from: range.from, to: range.to.min(own_from) };
        let default = self.default.timeline.within(before);
        default.chain(own.into_iter().flat_map(|own| own.within(range))).map(|(part, layout)| (part, layout.clone())).collect()
    }

    /// The timeline as published, withdrawn ones included: of a key, or the default (`None`).
    pub fn listed(&self, key: Option<&str>) -> Vec<ListedLayout> {
        self.history(key).map(History::listed).unwrap_or_default()
    }

    /// The layout that the default timeline has at `ts`.
    pub(super) fn default_at(&self, ts: Timestamp) -> &Arc<Layout> {
        self.default.timeline.at(ts).expect("layout 0 covers all time")
    }

    /// How many keys have layouts of their own.
    pub(super) fn own_keys(&self) -> usize {
        self.keys.len()
    }

    /// A timeline, if it was ever begun.
    pub(super) fn history(&self, key: Option<&str>) -> Option<&History> {
        key.map_or(Some(&*self.default), |key| self.keys.get(key).map(|own| &**own))
    }

    /// Every timeline, the default first.
    pub(super) fn histories(&self) -> impl Iterator<Item = (Option<&str>, &History)> {
        std::iter::once((None, &*self.default)).chain(self.keys.iter().map(|(key, own)| (Some(&**key), &**own)))
    }

    fn history_mut(&mut self, key: Option<&str>) -> &mut History {
        Arc::make_mut(match key {
            None => &mut self.default,
            Some(key) => self.keys.entry(key.into()).or_default(),
        })
    }
}

/// All namespaces; a copy shares everything until one of the two changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Namespaces(HashMap<Namespace, Arc<NamespaceView>>);

impl Namespaces {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Every namespace.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Namespace, &NamespaceView)> {
        self.0.iter().map(|(ns, view)| (ns, &**view))
    }

    /// Applies a change; it was checked before it was made, so a fault means damage.
    pub(super) fn apply(&mut self, document: &ChangeDocument) -> Result<(), &'static str> {
        match &document.change {
            Change::NamespaceMade { namespace, layout, policy } => {
                self.insert(namespace, policy.clone())?;
                self.list(namespace, None, ListedLayout { layout: layout.clone(), from: Timestamp::MIN, withdrawn: false })
            }
            Change::PolicySet { namespace, policy } => {
                self.get_mut(namespace)?.policy = Arc::new(policy.clone());
                Ok(())
            }
            Change::LayoutPublished { namespace, key, from, layout } => {
                let listed = ListedLayout { layout: layout.clone(), from: Timestamp::from_nanos(*from), withdrawn: false };
                self.list(namespace, key.as_deref(), listed)
            }
            Change::LayoutWithdrawn { namespace, key, version } => self.get_mut(namespace)?.history_mut(key.as_deref()).withdraw(*version),
        }
    }

    /// Adds a namespace that has no layout yet.
    pub(super) fn insert(&mut self, ns: &Namespace, policy: Policy) -> Result<(), &'static str> {
        let view = NamespaceView { policy: Arc::new(policy), default: Arc::default(), keys: HashMap::new() };
        self.0.insert(ns.clone(), Arc::new(view)).map_or(Ok(()), |_| Err("a namespace was made twice"))
    }

    /// Adds a layout to a timeline, or to what was withdrawn from it.
    pub(super) fn list(&mut self, ns: &Namespace, key: Option<&str>, listed: ListedLayout) -> Result<(), &'static str> {
        let history = self.get_mut(ns)?.history_mut(key);
        if listed.withdrawn {
            history.withdrawn.push((listed.from, Arc::new(listed.layout)));
            return Ok(());
        }
        history.publish(listed.from, listed.layout)
    }

    /// Whether every namespace has a layout 0 that covers all time; false means damage.
    pub(super) fn are_whole(&self) -> bool {
        self.0.values().all(|view| view.default.timeline.first_start() == Some(Timestamp::MIN))
    }

    /// Whether everything that `before` lists is here too: false means that this is a fork.
    pub(super) fn continue_from(&self, before: &Namespaces) -> bool {
        before.iter().all(|(ns, old)| {
            self.0.get(ns).is_some_and(|new| old.histories().all(|(key, old)| new.history(key).is_some_and(|new| new.continues(old))))
        })
    }

    fn get_mut(&mut self, ns: &Namespace) -> Result<&mut NamespaceView, &'static str> {
        self.0.get_mut(ns).map(Arc::make_mut).ok_or("a namespace that was changed is not there")
    }
}

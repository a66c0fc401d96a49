//! What a node knows of the catalog: immutable views that share what did not change.
//!
//! Pure: a view changes only by applying a change to a copy, which copies one path of the maps.

use std::sync::Arc;

use foldhash::fast::RandomState;
use imbl::GenericHashMap;
use imbl::shared_ptr::DefaultSharedPtr;

use super::change::{Change, ChangeDocument};
use super::{Audit, Policy, Shared};
use crate::clock::Mark;
use crate::cold::rules::raised;
use crate::cold::{Facts, Group, Groups};
use crate::layout::{Layout, LayoutVersion};
use crate::model::{Namespace, TimeRange, Timestamp};
use crate::partition::Partition;
use crate::timeline::Timeline;

/// Its keys are names that operators chose, so a fast hash does: every event looks up two.
type HashMap<K, V> = GenericHashMap<K, V, RandomState, DefaultSharedPtr>;

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
    /// Who published it, when and why, where that was kept.
    pub published: Option<Arc<Audit>>,
    /// The change that withdrew it, if one did.
    pub withdrawn: Option<Set>,
}

/// The change that set something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// The revision it made; 0 where that was not kept.
    pub revision: u64,
    /// Who made it, when and why, where that was kept.
    pub audit: Option<Arc<Audit>>,
}

impl ListedLayout {
    /// Whether it was withdrawn.
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn.is_some()
    }
}

/// An epoch as it was published.
#[derive(Clone, Debug, PartialEq)]
struct Published {
    layout: Arc<Layout>,
    audit: Option<Arc<Audit>>,
}

/// One timeline as published: what holds, and what was withdrawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct History {
    timeline: Timeline<Published>,
    withdrawn: Vec<(Timestamp, Published, Set)>,
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
        self.timeline.groups().map(|(_, epoch)| &epoch.layout).find(|layout| layout.version == version)
    }

    /// The revision at which it last changed.
    fn changed(&self) -> u64 {
        let published = self.timeline.groups().map(|(_, epoch)| epoch.layout.version.revision).max();
        let withdrawn = self.withdrawn.iter().map(|(_, _, set)| set.revision).max();
        published.max(withdrawn).unwrap_or(0)
    }

    /// Every layout in the order of publication.
    pub(super) fn listed(&self) -> Vec<ListedLayout> {
        let list = |from, epoch: &Published, withdrawn| ListedLayout {
            layout: (*epoch.layout).clone(),
            from,
            published: epoch.audit.clone(),
            withdrawn,
        };
        let gone = self.withdrawn.iter().map(|(from, epoch, set)| list(*from, epoch, Some(set.clone())));
        let mut all: Vec<_> = self.timeline.groups().map(|(from, epoch)| list(from, epoch, None)).chain(gone).collect();
        all.sort_by_key(|l| l.layout.version);
        all
    }

    fn publish(&mut self, from: Timestamp, epoch: Published) -> Result<(), &'static str> {
        self.timeline.append(from, epoch).map_err(|_| "a layout does not begin after the one before it")
    }

    fn withdraw(&mut self, version: LayoutVersion, set: Set) -> Result<(), &'static str> {
        let found = self.timeline.groups().find(|(_, epoch)| epoch.layout.version == version);
        let (from, epoch) = found.map(|(from, epoch)| (from, epoch.clone())).ok_or("a layout that was withdrawn is not there")?;
        self.timeline.remove(|epoch| epoch.layout.version == version);
        self.withdrawn.push((from, epoch, set));
        Ok(())
    }

    /// Whether every layout of `before` is here, where it was; withdrawing may have gone on.
    fn continues(&self, before: &History) -> bool {
        let here = self.listed();
        before.listed().iter().all(|old| {
            let found = here.binary_search_by_key(&old.layout.version, |new| new.layout.version).map(|at| &here[at]);
            found.is_ok_and(|new| new.layout == old.layout && new.from == old.from && (new.is_withdrawn() || !old.is_withdrawn()))
        })
    }
}

/// Timelines and policy of one namespace.
#[derive(Clone, Debug)]
pub struct NamespaceView {
    /// Policy.
    pub policy: Arc<Policy>,
    /// The change that set it.
    pub policy_set: Set,
    /// What is due to be archived, and what is gone.
    pub cold: Facts,
    /// Where tables lie.
    pub groups: Arc<Groups>,
    default: Arc<History>,
    keys: HashMap<Arc<str>, Arc<History>>,
}

impl NamespaceView {
    /// The layout that places an event of `key` at `ts`: the latest epoch of the key's own that
    /// began by then, else the namespace's default.
    pub fn layout_at(&self, key: &str, ts: Timestamp) -> &Arc<Layout> {
        let own = self.keys.get(key).and_then(|own| own.timeline.at(ts)).map(|epoch| &epoch.layout);
        own.unwrap_or_else(|| self.default_at(ts))
    }

    /// The epochs of `key` that hold somewhere in `range`, each with the part it holds, in order.
    pub fn epochs(&self, key: &str, range: TimeRange) -> Vec<(TimeRange, Arc<Layout>)> {
        let own = self.keys.get(key).map(|own| &own.timeline);
        let own_from = own.and_then(Timeline::first_start).unwrap_or(Timestamp::MAX);
        let before = TimeRange { from: range.from, to: range.to.min(own_from) };
        let default = self.default.timeline.within(before);
        default.chain(own.into_iter().flat_map(|own| own.within(range))).map(|(part, epoch)| (part, epoch.layout.clone())).collect()
    }

    /// The timeline as published, withdrawn ones included: of a key, or the default (`None`).
    pub fn listed(&self, key: Option<&str>) -> Vec<ListedLayout> {
        self.history(key).map(History::listed).unwrap_or_default()
    }

    /// The epochs of a key's own that were not withdrawn, in order: start, layout, and who published it.
    pub fn epochs_published(&self, key: &str) -> impl Iterator<Item = (Timestamp, &Arc<Layout>, Option<&Audit>)> {
        let own = self.keys.get(key).map(|own| own.timeline.groups());
        own.into_iter().flatten().map(|(from, epoch)| (from, &epoch.layout, epoch.audit.as_deref()))
    }

    /// How many layouts were ever published for a key.
    pub fn layouts_published(&self, key: &str) -> usize {
        self.history(Some(key)).map_or(0, History::len)
    }

    /// The keys that have layouts of their own, in no order.
    pub fn keys_with_layouts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.keys.keys()
    }

    /// Start of the epoch that the default timeline has at `ts`.
    pub fn default_start(&self, ts: Timestamp) -> Timestamp {
        let until = TimeRange { from: Timestamp::MIN, to: Timestamp::from_nanos(ts.nanos().saturating_add(1)) };
        self.default.timeline.within(until).last().map_or(Timestamp::MIN, |(part, _)| part.from)
    }

    /// The layout that the default timeline has at `ts`.
    pub fn default_at(&self, ts: Timestamp) -> &Arc<Layout> {
        &self.default.timeline.at(ts).expect("layout 0 covers all time").layout
    }

    /// The revision at which the timeline that a key follows, or the default one, last changed.
    pub(super) fn timeline_changed(&self, key: Option<&str>) -> u64 {
        self.history(key).unwrap_or(&self.default).changed()
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
        let set = Set { revision: document.revision, audit: document.audit.clone().map(Into::into) };
        match &document.change {
            Change::NamespaceMade { namespace, layout, policy } => {
                let published = set.audit.clone();
                self.insert(namespace, policy.clone(), set, Facts::default())?;
                self.list(namespace, None, ListedLayout { layout: layout.clone(), from: Timestamp::MIN, published, withdrawn: None })
            }
            Change::PolicySet { namespace, policy } => {
                let view = self.get_mut(namespace)?;
                (view.policy, view.policy_set) = (Arc::new(policy.clone()), set);
                Ok(())
            }
            Change::LayoutPublished { namespace, key, from, layout } => {
                let (layout, from) = (layout.clone(), Timestamp::from_nanos(*from));
                self.list(namespace, key.as_deref(), ListedLayout { layout, from, published: set.audit, withdrawn: None })
            }
            Change::LayoutWithdrawn { namespace, key, version } => {
                self.get_mut(namespace)?.history_mut(key.as_deref()).withdraw(*version, set)
            }
            Change::ClosingRaised { namespace, to } => {
                let cold = &mut self.get_mut(namespace)?.cold;
                cold.closing = raised(cold.closing, Timestamp::from_nanos(*to)).ok_or("closing does not grow")?;
                Ok(())
            }
            Change::DroppedRaised { namespace, to } => {
                let cold = &mut self.get_mut(namespace)?.cold;
                cold.dropped = raised(cold.dropped, Timestamp::from_nanos(*to)).ok_or("dropped does not grow")?;
                Ok(())
            }
            Change::GroupAdded { namespace, from, group } => self.add_group(namespace, Timestamp::from_nanos(*from), group.clone()),
        }
    }

    /// Adds a group behind those there are.
    pub(super) fn add_group(&mut self, ns: &Namespace, from: Timestamp, group: Group) -> Result<(), &'static str> {
        Arc::make_mut(&mut self.get_mut(ns)?.groups).restore(from, group)
    }

    /// Adds a namespace that has no layout yet.
    pub(super) fn insert(&mut self, ns: &Namespace, policy: Policy, policy_set: Set, cold: Facts) -> Result<(), &'static str> {
        let (policy, groups) = (Arc::new(policy), Arc::default());
        let view = NamespaceView { policy, policy_set, cold, groups, default: Arc::default(), keys: HashMap::default() };
        self.0.insert(ns.clone(), Arc::new(view)).map_or(Ok(()), |_| Err("a namespace was made twice"))
    }

    /// Adds a layout to a timeline, or to what was withdrawn from it.
    pub(super) fn list(&mut self, ns: &Namespace, key: Option<&str>, listed: ListedLayout) -> Result<(), &'static str> {
        let history = self.get_mut(ns)?.history_mut(key);
        let ListedLayout { layout, from, published, withdrawn } = listed;
        let epoch = Published { layout: Arc::new(layout), audit: published };
        match withdrawn {
            None => history.publish(from, epoch),
            Some(set) => {
                history.withdrawn.push((from, epoch, set));
                Ok(())
            }
        }
    }

    /// Whether every namespace has a layout 0 that covers all time; false means damage.
    pub(super) fn are_whole(&self) -> bool {
        self.0.values().all(|view| view.default.timeline.first_start() == Some(Timestamp::MIN))
    }

    /// Whether everything that `before` lists is here too: false means that this is a fork.
    pub(super) fn continue_from(&self, before: &Namespaces) -> bool {
        before.iter().all(|(ns, old)| {
            self.0.get(ns).is_some_and(|new| {
                let cold =
                    new.cold.closing >= old.cold.closing && new.cold.dropped >= old.cold.dropped && new.groups.continues(&old.groups);
                cold && old.histories().all(|(key, old)| new.history(key).is_some_and(|new| new.continues(old)))
            })
        })
    }

    fn get_mut(&mut self, ns: &Namespace) -> Result<&mut NamespaceView, &'static str> {
        self.0.get_mut(ns).map(Arc::make_mut).ok_or("a namespace that was changed is not there")
    }
}

//! Snapshots: the whole content at a revision, in parts, so that start-up reads few changes.
//!
//! What may be deleted, and why that is safe: the root names two snapshots. When a third drops the
//! older one, that one's parts and the changes up to it go. Whoever read the root at most one
//! snapshot ago still finds all it names; whoever read it earlier finds a document missing and
//! reads the root again (ADR 0012).

use serde::{Deserialize, Serialize};

use super::change::ChangeDocument;
use super::documents::{Documents, encode};
use super::refresh::stale;
use super::root::SnapshotRef;
use super::swap::Attempt;
use super::view::{ListedLayout, Namespaces, Set};
use super::{Audit, Catalog, CatalogError, Known, Policy, TRIES};
use crate::cold::{Facts, Group};
use crate::layout::Layout;
use crate::model::{Namespace, Timestamp};

/// Changes after which a snapshot is due.
const SNAPSHOT_EVERY: u64 = 256;

/// Nodes wait for up to so many changes more, each its own number, so that mostly one takes it.
const SNAPSHOT_SPREAD: u64 = 32;

/// Changes after which the node with these random bits takes a snapshot.
pub(super) fn snapshot_every(random: u64) -> u64 {
    SNAPSHOT_EVERY + random % SNAPSHOT_SPREAD
}

/// Largest part, bytes of entries.
const PART_BYTES: usize = 200 * 1024;

/// What a snapshot is made of; a namespace stands before its groups and layouts.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Entry {
    Namespace {
        namespace: Namespace,
        policy: Policy,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<SetEntry>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        closing: Option<i64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dropped: Option<i64>,
    },
    Group {
        namespace: Namespace,
        from: i64,
        group: Group,
    },
    Layout {
        namespace: Namespace,
        key: Option<String>,
        from: i64,
        withdrawn: bool,
        layout: Layout,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        published: Option<Audit>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        withdrawal: Option<SetEntry>,
    },
}

/// The change that set something; older programs did not keep it.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetEntry {
    revision: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    audit: Option<Audit>,
}

impl Documents {
    /// Reads a snapshot; `None` where a part is gone.
    pub(super) async fn read_snapshot(&self, snapshot: &SnapshotRef) -> Result<Option<Namespaces>, CatalogError> {
        let mut namespaces = Namespaces::default();
        for part in part_names(snapshot) {
            let Some((entries, _)) = self.read::<Vec<Entry>>(&part).await? else {
                return Ok(None);
            };
            for entry in entries {
                restore(&mut namespaces, entry).map_err(|fault| stale(format!("document {part} is damaged: {fault}")))?;
            }
        }
        if !namespaces.are_whole() {
            return Err(stale(format!("snapshot {} is damaged: a namespace has no layout 0", snapshot.name)));
        }
        Ok(Some(namespaces))
    }
}

impl Catalog {
    /// Takes a snapshot where one is due; a failure is told, and the next call tries again.
    pub(super) async fn snapshot_if_due(&self) {
        let known = self.known();
        let last = known.root.snapshots.first().map_or(0, |s| s.revision);
        if known.root.revision - last < self.snapshot_every {
            return;
        }
        if let Err(error) = self.take_snapshot(&known).await {
            tracing::warn!(%error, revision = known.root.revision, "no snapshot of the catalog was taken");
        }
    }

    pub(super) async fn take_snapshot(&self, known: &Known) -> Result<(), CatalogError> {
        let Some(head) = known.root.head.clone() else { return Ok(()) };
        let (revision, parts) = (known.root.revision, parts(&known.view.namespaces));
        let name = format!("snapshot/{revision:020}-{:016x}", self.dice.bits());
        let snapshot = SnapshotRef { name, parts: parts.len() as u32, revision, head };
        for (part, entries) in part_names(&snapshot).zip(&parts) {
            self.documents.create(&part, encode(entries)).await?;
        }
        let _turn = self.writing.lock().await;
        self.name_snapshot(snapshot).await
    }

    /// Has the root name a snapshot, then deletes what thereby nobody needs any more.
    async fn name_snapshot(&self, snapshot: SnapshotRef) -> Result<(), CatalogError> {
        let mut dropped = None;
        for tried in 0..TRIES {
            let known = self.refreshed().await?;
            if known.root.snapshots.contains(&snapshot) {
                self.tidy(dropped).await;
                return Ok(());
            }
            if known.root.snapshots.first().is_some_and(|s| s.revision >= snapshot.revision) {
                // Another node's stands. Every root that an attempt of ours named is gone by now.
                self.documents.discard(part_names(&snapshot)).await;
                return Ok(());
            }
            let (next, drops) = known.root.snapshotted(snapshot.clone());
            dropped = drops;
            if self.attempt(&known, next, known.view.namespaces.clone()).await? != Attempt::Done {
                self.dice.back_off(tried).await;
            }
        }
        Err(stale(format!("the root could not be swapped in {TRIES} tries")))
    }

    /// Deletes a snapshot that the root no longer names and the changes up to it, the oldest first,
    /// so that what a crash leaves is still a chain for the next time.
    async fn tidy(&self, dropped: Option<SnapshotRef>) {
        let Some(dropped) = dropped else { return };
        let mut names = Vec::new();
        let mut at = Some(dropped.head.clone());
        while let Some(name) = at {
            let Ok(Some((document, _))) = self.documents.read::<ChangeDocument>(&name).await else { break };
            at = document.before;
            names.push(name);
        }
        names.reverse();
        self.documents.discard(names.into_iter().chain(part_names(&dropped))).await;
    }
}

fn part_names(snapshot: &SnapshotRef) -> impl Iterator<Item = String> {
    (0..snapshot.parts).map(|part| format!("{}/{part:05}", snapshot.name))
}

/// The content as entries, parted by size.
fn parts(namespaces: &Namespaces) -> Vec<Vec<Entry>> {
    let mut parts = vec![Vec::new()];
    let mut bytes = 0;
    for entry in entries(namespaces) {
        let size = serde_json::to_vec(&entry).map_or(0, |json| json.len());
        if bytes + size > PART_BYTES && bytes > 0 {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        if let Some(part) = parts.last_mut() {
            part.push(entry);
        }
    }
    parts
}

fn entries(namespaces: &Namespaces) -> impl Iterator<Item = Entry> {
    namespaces.iter().flat_map(|(ns, view)| {
        let raised = |fact: Timestamp| (fact > Timestamp::MIN).then_some(fact.nanos());
        let (closing, dropped) = (raised(view.cold.closing), raised(view.cold.dropped));
        let set = Some(SetEntry::from(&view.policy_set));
        let namespace = Entry::Namespace { namespace: ns.clone(), policy: (*view.policy).clone(), set, closing, dropped };
        let groups = view.groups.listed().map(|(from, group)| {
            let (namespace, group) = (ns.clone(), group.clone());
            Entry::Group { namespace, from: from.nanos(), group }
        });
        let layouts = view.histories().flat_map(move |(key, history)| {
            let key = key.map(str::to_owned);
            history.listed().into_iter().map(move |l| entry(ns, key.clone(), l))
        });
        std::iter::once(namespace).chain(groups).chain(layouts)
    })
}

fn entry(ns: &Namespace, key: Option<String>, listed: ListedLayout) -> Entry {
    let ListedLayout { layout, from, published, withdrawn } = listed;
    Entry::Layout {
        namespace: ns.clone(),
        key,
        from: from.nanos(),
        withdrawn: withdrawn.is_some(),
        layout,
        published: published.map(|audit| (*audit).clone()),
        withdrawal: withdrawn.as_ref().map(SetEntry::from),
    }
}

impl From<&Set> for SetEntry {
    fn from(set: &Set) -> SetEntry {
        SetEntry { revision: set.revision, audit: set.audit.as_deref().cloned() }
    }
}

impl From<SetEntry> for Set {
    fn from(entry: SetEntry) -> Set {
        Set { revision: entry.revision, audit: entry.audit.map(Into::into) }
    }
}

fn restore(namespaces: &mut Namespaces, entry: Entry) -> Result<(), &'static str> {
    match entry {
        Entry::Namespace { namespace, policy, set, closing, dropped } => {
            let fact = |fact: Option<i64>| fact.map_or(Timestamp::MIN, Timestamp::from_nanos);
            let cold = Facts { closing: fact(closing), dropped: fact(dropped) };
            namespaces.insert(&namespace, policy, set.unwrap_or_default().into(), cold)
        }
        Entry::Group { namespace, from, group } => namespaces.add_group(&namespace, Timestamp::from_nanos(from), group),
        Entry::Layout { namespace, key, from, withdrawn, layout, published, withdrawal } => {
            let withdrawn = withdrawn.then(|| withdrawal.unwrap_or_default().into());
            let listed = ListedLayout { layout, from: Timestamp::from_nanos(from), published: published.map(Into::into), withdrawn };
            namespaces.list(&namespace, key.as_deref(), listed)
        }
    }
}

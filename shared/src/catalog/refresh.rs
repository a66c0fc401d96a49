//! Reading the catalog: one small read when nothing is new, one more for each change.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::change::ChangeDocument;
use super::documents::{Documents, encode};
use super::root::{ROOT, Root};
use super::view::{Namespaces, View};
use super::{Catalog, CatalogError, Known};
use crate::clock::Clock;
use crate::store::StoreErrorKind;

/// Most changes that are walked one by one by a node that knows an older root; beyond, a snapshot
/// is read. Fewer than the changes that are kept for walkers.
const WALK_MAX: u64 = 256;

/// Reads of a root whose documents another node has tidied away meanwhile, before giving up.
const READS_MAX: u32 = 4;

/// The last read of the root that ended.
#[derive(Default)]
pub(super) struct LastRead {
    ordinal: u64,
    result: Option<Result<Arc<Known>, CatalogError>>,
}

/// A place in the chain of changes, and what held there.
struct Base {
    revision: u64,
    head: Option<String>,
    namespaces: Namespaces,
}

impl Catalog {
    /// A view read linearizably by a read that begins after this call. Concurrent calls share reads.
    pub async fn refresh(&self) -> Result<Arc<View>, CatalogError> {
        self.refreshed().await.map(|known| known.view.clone())
    }

    /// As [`Catalog::refresh`]. Callers that waited for the same running read share the next one;
    /// a caller that goes away in the middle of a read takes only that read with it.
    pub(super) async fn refreshed(&self) -> Result<Arc<Known>, CatalogError> {
        let begun = self.reads_begun.load(Ordering::SeqCst);
        let mut last = self.last_read.lock().await;
        if let Some(result) = last.result.as_ref().filter(|_| last.ordinal > begun) {
            return result.clone();
        }
        let ordinal = self.reads_begun.fetch_add(1, Ordering::SeqCst) + 1;
        let result = self.read().await;
        match &result {
            Ok(known) => self.metrics.observe(known),
            Err(_) => self.metrics.refresh_failures.inc(),
        }
        *last = LastRead { ordinal, result: Some(result.clone()) };
        result
    }

    /// Refreshes for ever, every `every`, until dropped; failures are logged once per outage and
    /// counted. Takes a snapshot when one is due.
    pub async fn keep_fresh(self: Arc<Self>, every: Duration) {
        let mut failing = false;
        loop {
            tokio::time::sleep(every).await;
            let result = self.refreshed().await;
            match &result {
                Ok(known) if failing => tracing::info!(revision = known.root.revision, "the catalog can be read again"),
                Err(error) if !failing => tracing::warn!(%error, revision = self.view().revision, "the catalog can't be refreshed"),
                _ => {}
            }
            failing = result.is_err();
            if !failing {
                self.snapshot_if_due().await;
            }
        }
    }

    async fn read(&self) -> Result<Arc<Known>, CatalogError> {
        for _ in 0..READS_MAX {
            // Loaded before the read begins: only such a root is one that the read must follow.
            let known = self.known();
            let began = self.clock.mark();
            let (root, etag) = self.documents.read::<Root>(ROOT).await?.ok_or_else(|| stale("its root is gone"))?;
            root.must_follow(&known.root).map_err(stale)?;
            if let Some(namespaces) = advance(&self.documents, &known, &root).await? {
                return Ok(self.install(Known::new(root, etag, began, namespaces)));
            }
        }
        Err(stale("documents that its root names are not there"))
    }
}

/// The first read of a process; makes the root, as `new`, where there is none.
pub(super) async fn first_read(documents: &Documents, clock: &dyn Clock, new: &Root) -> Result<Known, CatalogError> {
    for _ in 0..READS_MAX {
        let began = clock.mark();
        match documents.read::<Root>(ROOT).await? {
            Some((root, etag)) => {
                if let Some(namespaces) = load(documents, &root).await? {
                    return Ok(Known::new(root, etag, began, namespaces));
                }
            }
            // Whoever makes it, and whether the answer comes or not: what counts is read next.
            None => match documents.swap(ROOT, None, encode(new)).await {
                Err(e) if e.kind != StoreErrorKind::Unknown => return Err(e.into()),
                _ => {}
            },
        }
    }
    Err(stale("its root, or documents that it names, are not there"))
}

/// What `root` says, from what is known of an older one. `None`: a document is gone, as happens
/// when the root read is outdated by now.
async fn advance(documents: &Documents, known: &Known, root: &Root) -> Result<Option<Namespaces>, CatalogError> {
    let namespaces = &known.view.namespaces;
    if root.revision - known.root.revision <= WALK_MAX {
        let base = Base { revision: known.root.revision, head: known.root.head.clone(), namespaces: namespaces.clone() };
        if let Some(walked) = walk(documents, root, base).await? {
            return Ok(Some(walked));
        }
    }
    match load(documents, root).await? {
        // PROMISE-7 where the chain is not walked: what this node knows must all be there.
        Some(loaded) if !loaded.continue_from(namespaces) => Err(stale("it does not hold what this node knows of it")),
        loaded => Ok(loaded),
    }
}

/// What `root` says, from its newest snapshot.
async fn load(documents: &Documents, root: &Root) -> Result<Option<Namespaces>, CatalogError> {
    let base = match root.snapshots.first() {
        None => Base { revision: 0, head: None, namespaces: Namespaces::default() },
        Some(snapshot) => match documents.read_snapshot(snapshot).await? {
            None => return Ok(None),
            Some(namespaces) => Base { revision: snapshot.revision, head: Some(snapshot.head.clone()), namespaces },
        },
    };
    walk(documents, root, base).await
}

/// Applies to `base` the changes from there to the root's head, which are read from the head back.
async fn walk(documents: &Documents, root: &Root, base: Base) -> Result<Option<Namespaces>, CatalogError> {
    let mut changes = Vec::new();
    let mut at = root.head.clone();
    for revision in (base.revision + 1..=root.revision).rev() {
        let name = at.ok_or_else(|| stale("its chain of changes is broken"))?;
        let Some((document, _)) = documents.read::<ChangeDocument>(&name).await? else {
            return Ok(None);
        };
        if document.revision != revision {
            return Err(stale(format!("change {name} is not of revision {revision}")));
        }
        at = document.before.clone();
        changes.push(document);
    }
    if at != base.head {
        return Err(stale("its changes do not descend from the one this node knows"));
    }
    let mut namespaces = base.namespaces;
    for change in changes.iter().rev() {
        namespaces.apply(change).map_err(|fault| stale(format!("change {} is damaged: {fault}", change.revision)))?;
    }
    Ok(Some(namespaces))
}

/// Name of the change that made `revision`, in the chain of `root`; `None` where that can't be read any more.
pub(super) async fn change_at(documents: &Documents, root: &Root, revision: u64) -> Result<Option<String>, CatalogError> {
    let mut at = root.head.clone();
    for _ in revision..root.revision {
        let Some(name) = at else { return Ok(None) };
        let Some((document, _)) = documents.read::<ChangeDocument>(&name).await? else {
            return Ok(None);
        };
        at = document.before;
    }
    Ok(at)
}

/// The error of a catalog that can't be read, or must not be believed.
pub(super) fn stale(why: impl Into<String>) -> CatalogError {
    CatalogError::Stale(why.into())
}

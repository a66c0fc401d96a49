//! The audit of a namespace: every bucket whole, every file what its entry says, nothing orphaned.
//!
//! Reads everything; changes nothing unless told to mend. What it may mend without a wait: a file
//! that no entry names and whose generation is not open can never be published (COLD-4), and a mark
//! may always be set.

use std::collections::HashSet;
use std::sync::Arc;

use super::hot;
use super::walk::{Slot, slots};
use super::{ArchiveError, Archiver};
use crate::catalog::{CatalogError, NamespaceView};
use crate::cold::database::DatabaseError;
use crate::cold::group::Database;
use crate::cold::manifest::PageId;
use crate::cold::path::{namespace_dir, nonce_of};
use crate::cold::rules::{Entry, Nonce, TableFile, is_dropped};
use crate::cold::tables::database_of;
use crate::model::{Namespace, TimeRange, Timestamp};
use crate::store::{Day, day_of};

/// Keys asked for at once.
const KEYS_AT_ONCE: usize = 256;
/// Most faults that are told one by one.
const FAULTS_MAX: usize = 1_000;

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Buckets looked at.
    pub buckets: u64,
    /// Blocks in the store.
    pub blocks: u64,
    /// Published files.
    pub files: u64,
    /// Events in them.
    pub archived: u64,
    /// What is wrong, a line each; the first of them.
    pub faults: Vec<String>,
    /// Files that no entry names.
    pub orphans: Vec<String>,
    /// Buckets that are whole in files, with blocks in the store that nobody reads.
    pub unread: Vec<String>,
    /// Whether orphans were deleted and buckets with unread blocks marked.
    pub mended: bool,
}

/// A walk under way.
#[derive(Default)]
struct Found {
    audit: Audit,
    named: HashSet<String>,
    open: HashSet<Nonce>,
    marks: Vec<(PageId, Timestamp)>,
}

impl Audit {
    /// Whether everything is as it should be, or was mended.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty() && (self.mended || self.orphans.is_empty() && self.unread.is_empty())
    }

    fn fault(&mut self, why: impl ToString) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(why.to_string());
        }
    }
}

impl Archiver {
    /// Audits a namespace; `mend` deletes orphaned files and marks buckets with unread blocks, so that
    /// the next generation takes them in.
    pub async fn audit(&self, ns: &Namespace, mend: bool) -> Result<Audit, ArchiveError> {
        let view = self.catalog.refresh().await?;
        let namespace = view.namespace(ns).cloned().ok_or_else(|| CatalogError::NamespaceNotFound(ns.clone()))?;
        // Files first: whatever of them is published meanwhile is named by the entries that are read after.
        let mut found = Found::default();
        let listed = self.files(ns, &namespace, &mut found.audit).await;
        let mut after: Option<String> = None;
        loop {
            let keys = self.store.keys(ns, "", after.as_deref(), KEYS_AT_ONCE).await?;
            let Some(last) = keys.last() else { break };
            after = Some(last.clone());
            for key in keys {
                self.audit_key(ns, &namespace, &key.into(), &mut found).await?;
            }
        }
        let orphaned = |path: &str| !found.named.contains(path) && nonce_of(path).is_none_or(|nonce| !found.open.contains(&Nonce(nonce)));
        let orphans: Vec<_> = listed.into_iter().filter(|(_, path)| orphaned(path)).collect();
        if mend {
            for (database, path) in &orphans {
                self.databases().delete(database, path).await?;
            }
            for (page, bucket) in &found.marks {
                self.manifest.mark(page, &[*bucket]).await?;
            }
        }
        let orphans = orphans.into_iter().map(|(database, path)| format!("database {}, {path}", database.name)).collect();
        Ok(Audit { orphans, mended: mend, ..found.audit })
    }

    /// Every file that the namespace has in its databases.
    async fn files(&self, ns: &Namespace, namespace: &NamespaceView, audit: &mut Audit) -> Vec<(Database, String)> {
        let mut urls = HashSet::new();
        let mut files = Vec::new();
        for database in namespace.groups.listed().flat_map(|(_, group)| &group.databases) {
            if !urls.insert(database.url.clone()) {
                continue;
            }
            match self.databases().list(database, &namespace_dir(ns)).await {
                Ok(paths) => files.extend(paths.into_iter().map(|path| (database.clone(), path))),
                Err(error) => audit.fault(error),
            }
        }
        files
    }

    async fn audit_key(&self, ns: &Namespace, namespace: &NamespaceView, key: &Arc<str>, found: &mut Found) -> Result<(), ArchiveError> {
        let days: Vec<Day> = self.store.days(ns, key, day_of(Timestamp::MIN), day_of(Timestamp::MAX)).await?;
        let epochs = namespace.epochs(key, TimeRange::ALL);
        for (id, slots) in slots(ns, key, &epochs, &days, Timestamp::MAX) {
            let page = self.manifest.read(&id).await?;
            for slot in slots {
                self.audit_slot(namespace, &id, &slot, page.get(&slot.bucket.start), found).await?;
            }
        }
        Ok(())
    }

    async fn audit_slot(
        &self,
        namespace: &NamespaceView,
        id: &PageId,
        slot: &Slot,
        entry: Option<&Entry>,
        found: &mut Found,
    ) -> Result<(), ArchiveError> {
        found.audit.buckets += 1;
        let blocks = match hot::inventory(&*self.store, slot, 0).await {
            Ok(hot) => hot.blocks.len(),
            Err(error @ (ArchiveError::Block(..) | ArchiveError::NotWhole(_))) => {
                found.audit.fault(error);
                0
            }
            Err(error) => return Err(error),
        };
        found.audit.blocks += blocks as u64;
        let Some(entry) = entry else { return Ok(()) };
        found.open.extend(entry.open);
        let published = entry.replaced.iter().chain(&entry.published);
        found.named.extend(published.flat_map(|published| published.files.iter().map(|file| file.path.clone())));
        let gone = is_dropped(namespace.cold.dropped, slot.bucket.range());
        if entry.swept && !entry.late && entry.open.is_none() && blocks > 0 && !gone {
            found.audit.unread.push(hot::name(slot));
            found.marks.push((id.clone(), slot.bucket.start));
        }
        for file in entry.published.iter().flat_map(|published| &published.files).filter(|_| !gone) {
            found.audit.files += 1;
            found.audit.archived += file.rows;
            if let Err(error) = self.audit_file(namespace, slot, entry, file).await {
                found.audit.fault(error);
            }
        }
        Ok(())
    }

    async fn audit_file(&self, namespace: &NamespaceView, slot: &Slot, entry: &Entry, file: &TableFile) -> Result<(), DatabaseError> {
        let Some(published) = &entry.published else { return Ok(()) };
        self.tables.check(database_of(&namespace.groups, published)?, &slot.bucket, file, None).await
    }
}

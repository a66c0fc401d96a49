//! What an archiver would do now, without doing it.

use std::sync::Arc;

use super::closing::target;
use super::hot;
use super::walk::slots;
use super::{ArchiveError, Archiver};
use crate::catalog::{CatalogError, NamespaceView};
use crate::cold::rules::{Work, is_dropped, work};
use crate::model::{Namespace, Span, TimeRange, Timestamp};
use crate::store::{Day, day_of};

/// Keys asked for at once.
const KEYS_AT_ONCE: usize = 256;

/// What would be done for a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preview {
    /// Up to where buckets would be due.
    pub closing: Timestamp,
    /// Buckets that would be archived, or swept.
    pub archived: u64,
    /// Up to where history would be dropped.
    pub dropped: Timestamp,
    /// Buckets that would be dropped, of which there is anything.
    pub gone: u64,
}

impl Archiver {
    /// What would be archived and dropped if every grace had passed.
    pub async fn preview(&self, ns: &Namespace) -> Result<Preview, ArchiveError> {
        let view = self.catalog.refresh().await?;
        let namespace = view.namespace(ns).cloned().ok_or_else(|| CatalogError::NamespaceNotFound(ns.clone()))?;
        let (now, stands) = (self.clock.now(), namespace.cold);
        let raised = |delay: Option<Span>, stands: Timestamp| {
            delay.and_then(|delay| target(now, delay, stands)).map_or(stands, |to| to.min(view.horizon))
        };
        let mut preview = Preview {
            closing: raised(namespace.policy.archive_after.filter(|_| !namespace.groups.is_empty()), stands.closing),
            archived: 0,
            dropped: raised(namespace.policy.retention, stands.dropped),
            gone: 0,
        };
        let mut after: Option<String> = None;
        loop {
            let keys = self.store.keys(ns, "", after.as_deref(), KEYS_AT_ONCE).await?;
            let Some(last) = keys.last() else { return Ok(preview) };
            after = Some(last.clone());
            for key in keys {
                self.preview_key(ns, &namespace, &key.into(), &mut preview).await?;
            }
        }
    }

    async fn preview_key(
        &self,
        ns: &Namespace,
        namespace: &NamespaceView,
        key: &Arc<str>,
        preview: &mut Preview,
    ) -> Result<(), ArchiveError> {
        let to = preview.closing.max(preview.dropped);
        let days: Vec<Day> = self.store.days(ns, key, day_of(Timestamp::MIN), day_of(to)).await?;
        for (id, slots) in slots(ns, key, &namespace.epochs(key, TimeRange::ALL), &days, to) {
            let page = self.manifest.read(&id).await?;
            for slot in slots {
                let entry = page.get(&slot.bucket.start);
                let has_blocks = hot::has_blocks(&*self.store, &slot).await?;
                if is_dropped(preview.dropped, slot.bucket.range()) {
                    preview.gone += u64::from(has_blocks || entry.is_some());
                } else if work(entry, has_blocks) != Work::Nothing {
                    preview.archived += 1;
                }
            }
        }
        Ok(())
    }
}

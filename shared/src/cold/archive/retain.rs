//! Retention (COLD-9): dropped is recorded first, and a grace after it was seen to stand the buckets
//! that lie wholly below it are deleted, hot and cold.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::closing::target;
use super::hot;
use super::walk::{Slot, slots};
use super::{ArchiveError, Archiver, Round, Step};
use crate::catalog::NamespaceView;
use crate::cold::manifest::PageId;
use crate::model::{Namespace, TimeRange, Timestamp};
use crate::store::{BlockAddress, day_of};

/// Keys asked for at once.
const KEYS_AT_ONCE: usize = 256;

impl Archiver {
    /// Drops what is older than the namespace keeps, and deletes what has been dropped for a grace.
    pub(super) async fn retain(&mut self, ns: &Namespace, round: &mut Round) -> Result<(), ArchiveError> {
        let view = self.catalog.view();
        let Some(namespace) = view.namespace(ns).cloned() else { return Ok(()) };
        let mut dropped = namespace.cold.dropped;
        if let Some(keep) = namespace.policy.retention.filter(|_| self.raising)
            && let Some(to) = target(self.clock.now(), keep, dropped)
        {
            dropped = self.catalog.raise_dropped(ns, to).await?.dropped;
            self.step(Step::Dropped)?;
        }
        let ripening = self.drops.entry(ns.clone()).or_default();
        let ripe = ripening.see(dropped, self.clock.boot(), view.shared.grace.duration());
        round.waiting |= ripening.is_waiting();
        let done = self.deleted.get(ns).copied().unwrap_or(Timestamp::MIN);
        if ripe > done && self.delete_below(ns, &namespace, done, ripe, round).await? {
            self.deleted.insert(ns.clone(), ripe);
        }
        Ok(())
    }

    /// Deletes the buckets that end in `(done, to]`; whether all of them are gone.
    async fn delete_below(
        &mut self,
        ns: &Namespace,
        namespace: &NamespaceView,
        done: Timestamp,
        to: Timestamp,
        round: &mut Round,
    ) -> Result<bool, ArchiveError> {
        let failed_before = round.failed;
        let mut after: Option<String> = None;
        loop {
            let keys = self.store.keys(ns, "", after.as_deref(), KEYS_AT_ONCE).await?;
            let Some(last) = keys.last() else { return Ok(round.failed == failed_before) };
            after = Some(last.clone());
            for key in keys {
                let key: Arc<str> = key.into();
                let days = self.store.days(ns, &key, day_of(Timestamp::MIN), day_of(to)).await?;
                let epochs = namespace.epochs(&key, TimeRange::ALL);
                for (page, slots) in slots(ns, &key, &epochs, &days, to) {
                    let new = slots.into_iter().filter(|slot| slot.bucket.range().to > done).collect();
                    self.delete_page(namespace, &page, new, round).await?;
                }
            }
        }
    }

    async fn delete_page(
        &mut self,
        namespace: &NamespaceView,
        id: &PageId,
        slots: Vec<Slot>,
        round: &mut Round,
    ) -> Result<(), ArchiveError> {
        for slot in slots {
            match self.delete_bucket(namespace, id, &slot, round).await {
                Ok(true) => round.dropped += 1,
                Ok(false) => {}
                Err(error) => self.failed(error, &id.ns, &hot::name(&slot), round).await?,
            }
        }
        Ok(())
    }

    /// Deletes a dropped bucket; whether there was anything of it, and its database does not rest.
    async fn delete_bucket(
        &mut self,
        namespace: &NamespaceView,
        id: &PageId,
        slot: &Slot,
        round: &mut Round,
    ) -> Result<bool, ArchiveError> {
        let start = slot.bucket.start;
        let page = self.manifest.read(id).await?;
        let generations = page.get(&start).into_iter().flat_map(|entry| entry.replaced.iter().chain(&entry.published)).collect();
        if !self.are_usable(&id.ns, generations).await {
            round.failed += 1;
            return Ok(false);
        }
        let mut by_suffix: BTreeMap<u32, Vec<BlockAddress>> = BTreeMap::new();
        for (suffix, address) in hot::addresses(&*self.store, slot).await? {
            by_suffix.entry(suffix).or_default().push(address);
        }
        let any = !by_suffix.is_empty() || page.contains_key(&start);
        for (suffix, addresses) in by_suffix {
            self.store.delete(&slot.bucket.partition(suffix), &addresses).await?;
            self.metrics.blocks_deleted.inc_by(addresses.len() as u64);
        }
        self.step(Step::DroppedBlocks)?;
        if let Some(entry) = page.get(&start) {
            for published in entry.replaced.iter().chain(&entry.published) {
                self.delete_files(&namespace.groups, published).await?;
            }
            self.step(Step::DroppedFiles)?;
            self.manifest.forget(id, start, entry).await?;
            self.manifest.discard_lists(entry.replaced.iter().chain(&entry.published)).await;
        }
        if any {
            self.metrics.dropped.inc();
        }
        Ok(any)
    }
}

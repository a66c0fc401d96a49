//! Step 5 (COLD-7): a grace after a generation was seen published, exactly the blocks that it
//! archived are deleted, then the files that it replaced, and its entry says so.

use std::collections::BTreeMap;
use std::time::Duration;

use super::hot;
use super::walk::Slot;
use super::{ArchiveError, Archiver, Round, Step};
use crate::cold::group::Groups;
use crate::cold::manifest::PageId;
use crate::cold::rules::{Published, grace_passed};
use crate::cold::tables::database_of;
use crate::store::BlockAddress;

/// A published generation whose grace runs.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) page: PageId,
    pub(super) slot: Slot,
    pub(super) published: Published,
    pub(super) replaced: Vec<Published>,
    /// Boot time at which it was seen to stand.
    pub(super) since: Duration,
}

impl Archiver {
    /// Sweeps the generations whose grace has passed.
    pub(super) async fn sweep_ripe(&mut self, round: &mut Round) -> Result<(), ArchiveError> {
        let grace = self.catalog.view().shared.grace.duration();
        loop {
            // In the order in which they were seen, so the first is the first to be ripe.
            let now = self.clock.boot();
            let ripe = self.sweeps.front().is_some_and(|pending| grace_passed(now.saturating_sub(pending.since), grace));
            let Some(pending) = ripe.then(|| self.sweeps.pop_front()).flatten() else { return Ok(()) };
            self.sweeping.remove(&pending.published.nonce);
            let ns = &pending.slot.bucket.ns;
            // Its entry still says that it is to be swept: a later round finds it.
            if !self.are_usable(ns, pending.replaced.iter().chain([&pending.published]).collect()).await {
                round.failed += 1;
                continue;
            }
            match self.sweep(&pending).await {
                Ok(()) => round.swept += 1,
                Err(error) => self.failed(error, ns, &hot::name(&pending.slot), round).await?,
            }
        }
    }

    async fn sweep(&self, of: &Pending) -> Result<(), ArchiveError> {
        let bucket = &of.slot.bucket;
        self.delete_blocks(of, self.manifest.read_lists(&of.published).await?).await?;
        self.step(Step::BlocksDeleted)?;
        let view = self.catalog.view();
        for replaced in &of.replaced {
            if let Some(namespace) = view.namespace(&bucket.ns) {
                self.delete_files(&namespace.groups, replaced).await?;
            }
        }
        self.step(Step::FilesDeleted)?;
        self.manifest.record_swept(&of.page, bucket.start, of.published.nonce).await?;
        self.step(Step::Swept)?;
        self.manifest.discard_lists(of.replaced.iter().chain([&of.published])).await;
        self.metrics.swept.inc();
        // What is left came late, or merges what was archived: the next generation takes it in.
        if hot::has_blocks(&*self.store, &of.slot).await? {
            self.manifest.mark(&of.page, &[bucket.start]).await?;
        }
        Ok(())
    }

    async fn delete_blocks(&self, of: &Pending, blocks: Vec<(u32, BlockAddress)>) -> Result<(), ArchiveError> {
        let mut by_suffix: BTreeMap<u32, Vec<BlockAddress>> = BTreeMap::new();
        blocks.iter().for_each(|(suffix, address)| by_suffix.entry(*suffix).or_default().push(*address));
        for (suffix, addresses) in by_suffix {
            self.store.delete(&of.slot.bucket.partition(suffix), &addresses).await?;
        }
        self.metrics.blocks_deleted.inc_by(blocks.len() as u64);
        Ok(())
    }

    /// Deletes the files of a generation that nobody reads any more.
    pub(super) async fn delete_files(&self, groups: &Groups, of: &Published) -> Result<(), ArchiveError> {
        if of.files.is_empty() {
            return Ok(());
        }
        let database = database_of(groups, of)?;
        for file in &of.files {
            self.databases().delete(database, &file.path).await?;
        }
        self.metrics.files_deleted.inc_by(of.files.len() as u64);
        Ok(())
    }
}

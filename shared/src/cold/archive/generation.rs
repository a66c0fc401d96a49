//! One page of due buckets: which need a new generation, and steps 2 to 4 of it (COLD-2 to COLD-4):
//! open, read both sides verified, write files under new names, read them back, publish.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::build::build;
use super::closing::target;
use super::hot::{self, Hot};
use super::sweep::Pending;
use super::walk::{Slot, slots};
use super::{ArchiveError, Archiver, Round, Step};
use crate::background;
use crate::catalog::NamespaceView;
use crate::cold::group::{Groups, Place};
use crate::cold::manifest::{Page, PageId};
use crate::cold::path::{bucket_dir, file_path};
use crate::cold::rules::{Entry, Nonce, Published, TableFile, Work, sweepable, work};
use crate::cold::table::Written;
use crate::cold::tables::Wanted;
use crate::model::{Namespace, TimeRange, Timestamp};
use crate::store::{Day, day_of};

/// Keys asked for at once.
const KEYS_AT_ONCE: usize = 256;

/// A bucket whose next generation is open, and all that it takes to write it.
struct Generation<'a> {
    page: &'a PageId,
    slot: &'a Slot,
    groups: &'a Groups,
    place: Place,
    nonce: Nonce,
    entry: &'a Entry,
}

impl Archiver {
    /// Raises closing where that is due, and archives what has been due for a grace.
    pub(super) async fn archive_due(&mut self, ns: &Namespace, round: &mut Round) -> Result<(), ArchiveError> {
        let Some(ripe) = self.ripe_closing(ns, round).await? else { return Ok(()) };
        let view = self.catalog.view();
        let Some(namespace) = view.namespace(ns).cloned() else { return Ok(()) };
        if ripe == Timestamp::MIN || namespace.groups.is_empty() {
            return Ok(());
        }
        let mut after: Option<String> = None;
        loop {
            let keys = self.store.keys(ns, "", after.as_deref(), KEYS_AT_ONCE).await?;
            let Some(last) = keys.last() else { return Ok(()) };
            after = Some(last.clone());
            for key in keys {
                self.archive_key(ns, &namespace, &key.into(), ripe, round).await?;
                self.sweep_ripe(round).await?;
            }
        }
    }

    /// Up to where buckets have been due for a grace, as this archiver saw it.
    async fn ripe_closing(&mut self, ns: &Namespace, round: &mut Round) -> Result<Option<Timestamp>, ArchiveError> {
        let view = self.catalog.refresh().await?;
        let Some(namespace) = view.namespace(ns) else { return Ok(None) };
        let mut closing = namespace.cold.closing;
        if let Some(delay) = namespace.policy.archive_after.filter(|_| self.raising && !namespace.groups.is_empty())
            && let Some(to) = target(self.clock.now(), delay, closing)
        {
            closing = self.catalog.raise_closing(ns, to).await?.closing;
            self.step(Step::Closed)?;
        }
        let ripening = self.closings.entry(ns.clone()).or_default();
        let ripe = ripening.see(closing, self.clock.boot(), view.shared.grace.duration());
        round.waiting |= ripening.is_waiting() && !namespace.groups.is_empty();
        Ok(Some(ripe))
    }

    async fn archive_key(
        &mut self,
        ns: &Namespace,
        namespace: &NamespaceView,
        key: &Arc<str>,
        ripe: Timestamp,
        round: &mut Round,
    ) -> Result<(), ArchiveError> {
        let from = day_of(namespace.cold.dropped);
        let days: Vec<Day> = self.store.days(ns, key, from, day_of(ripe)).await?;
        let epochs = namespace.epochs(key, TimeRange { from: Timestamp::MIN, to: Timestamp::MAX });
        for (page, slots) in slots(ns, key, &epochs, &days, ripe) {
            if let Err(error) = self.archive_page(&page, &slots, &namespace.groups, round).await {
                self.failed(error, ns, &format!("namespace {ns}, key {key:?}"), round).await?;
            }
        }
        Ok(())
    }

    fn nonce(&self) -> Nonce {
        Nonce(u128::from(self.catalog.bits()) << 64 | u128::from(self.catalog.bits()))
    }

    async fn archive_page(&mut self, id: &PageId, slots: &[Slot], groups: &Groups, round: &mut Round) -> Result<(), ArchiveError> {
        let page = self.manifest.read(id).await?;
        let mut nonces = BTreeMap::new();
        for slot in slots {
            let start = slot.bucket.start;
            match self.work_on(id, &page, slot).await? {
                Work::Nothing => {}
                Work::Archive if self.can_archive(id, start, &page, groups).await => drop(nonces.insert(start, self.nonce())),
                Work::Archive => round.failed += 1,
                Work::Sweep => self.await_sweep(id, slot, page.get(&start)),
            }
        }
        if nonces.is_empty() {
            return Ok(());
        }
        let page = self.manifest.open(id, &nonces).await?;
        self.step(Step::Opened)?;
        for slot in slots {
            let start = slot.bucket.start;
            let (Some(nonce), Some(entry), Some(place)) = (nonces.get(&start), page.get(&start), groups.place(&id.key, start)) else {
                continue;
            };
            // It may have failed a moment ago, for another bucket of the page. This one stays open until the next round.
            if !self.is_usable(&id.ns, &place.database).await {
                round.failed += 1;
                continue;
            }
            let generation = Generation { page: id, slot, groups, place, nonce: *nonce, entry };
            match self.generation(&generation).await {
                Ok(Some(entry)) => {
                    round.published += 1;
                    self.await_sweep(id, slot, Some(&entry));
                }
                Ok(None) => {}
                Err(error) => self.failed(error, &id.ns, &hot::name(slot), round).await?,
            }
        }
        Ok(())
    }

    /// Whether the databases that a bucket's next generation is read from and written to may be used.
    async fn can_archive(&mut self, id: &PageId, bucket: Timestamp, page: &Page, groups: &Groups) -> bool {
        let before = page.get(&bucket).and_then(|entry| entry.published.as_ref()).into_iter().collect();
        let Some(place) = groups.place(&id.key, bucket) else { return false };
        self.is_usable(&id.ns, &place.database).await && self.are_usable(&id.ns, before).await
    }

    /// What is left to do for a bucket. One of which nothing was archived is looked into once.
    async fn work_on(&mut self, id: &PageId, page: &Page, slot: &Slot) -> Result<Work, ArchiveError> {
        let (start, entry) = (slot.bucket.start, page.get(&slot.bucket.start));
        if entry.is_some() {
            return Ok(work(entry, true));
        }
        if self.empty.contains(&(id.clone(), start)) {
            return Ok(Work::Nothing);
        }
        let has_blocks = hot::has_blocks(&*self.store, slot).await?;
        if !has_blocks {
            self.note_empty(id, start);
        }
        Ok(work(None, has_blocks))
    }

    fn await_sweep(&mut self, id: &PageId, slot: &Slot, entry: Option<&Entry>) {
        let Some((entry, published)) = entry.and_then(|entry| Some((entry, sweepable(entry)?))) else { return };
        if self.sweeping.insert(published.nonce) {
            let (published, replaced) = (published.clone(), entry.replaced.clone());
            self.sweeps.push_back(Pending { page: id.clone(), slot: slot.clone(), published, replaced, since: self.clock.boot() });
        }
    }

    /// Writes and publishes an open generation; gives the entry as it stands then, or nothing where
    /// another archiver took over.
    async fn generation(&self, of: &Generation<'_>) -> Result<Option<Entry>, ArchiveError> {
        let mut files = Vec::new();
        let listed = match self.write(of, &mut files).await {
            Ok(listed) => listed,
            Err(error) => {
                // Nothing of it is published, nor ever will be: whoever takes over opens its own.
                self.discard(of, &files, 0, &error).await;
                return Err(error);
            }
        };
        let Place { group, table, .. } = of.place;
        let published = Published { nonce: of.nonce, group, table, files, lists: listed };
        match self.manifest.publish(of.page, of.slot.bucket.start, &published).await? {
            Ok(entry) => {
                self.metrics.published(&published);
                self.step(Step::Published)?;
                Ok(Some(entry))
            }
            Err(overtaken) => {
                tracing::debug!(%overtaken, bucket = hot::name(of.slot), "a generation was given up");
                self.discard(of, &published.files, listed, &ArchiveError::NotWhole(overtaken.to_string())).await;
                Ok(None)
            }
        }
    }

    /// Reads both sides, writes every file and reads it back; gives the number of lists of blocks.
    async fn write(&self, of: &Generation<'_>, files: &mut Vec<TableFile>) -> Result<u32, ArchiveError> {
        let hot = hot::inventory(&*self.store, of.slot, self.options.slice_bytes).await?;
        self.step(Step::Read)?;
        for slice in self.slices(&hot, of.entry.published.as_ref()) {
            let mut blocks = hot.read(&*self.store, of.slot, slice).await?;
            if let Some(before) = &of.entry.published {
                let all = Wanted { range: slice, suffixes: 0..of.slot.bucket.layout.shards, id: None };
                blocks.extend(self.tables.blocks(of.groups, &of.slot.bucket, before, &all).await?);
            }
            let bytes: usize = blocks.iter().map(|(_, block)| block.bytes().len()).sum();
            let bucket = of.slot.bucket.clone();
            let written = background::spawn(move || build(&bucket, blocks, slice)).await??;
            if let Some(written) = written {
                self.put(of, written, files).await?;
            }
            self.pace(bytes).await;
        }
        let archived: Vec<_> = hot.blocks.iter().map(|(suffix, address, _)| (*suffix, *address)).collect();
        let lists = self.manifest.write_lists(of.nonce, &archived).await?;
        self.step(Step::Listed)?;
        Ok(lists)
    }

    /// Writes a file under a name never used before, and proves that it holds what went in.
    async fn put(&self, of: &Generation<'_>, written: Written, files: &mut Vec<TableFile>) -> Result<(), ArchiveError> {
        let Place { group, table, database } = &of.place;
        let bucket = &of.slot.bucket;
        let dir = bucket_dir(&bucket.ns, *group, *table, bucket.start, bucket.layout.bucket);
        let path = file_path(&dir, of.entry.generation, of.nonce.0, files.len());
        let Written { bytes, checksum, digest, min_ts, max_ts } = written;
        let file = TableFile { path, bytes: bytes.len() as u64, checksum, rows: digest.rows, min_ts, max_ts };
        files.push(file.clone());
        self.databases().put(database, &file.path, bytes).await?;
        self.step(Step::Written)?;
        self.tables.check(database, bucket, &file, Some(digest)).await?;
        self.step(Step::ReadBack)
    }

    /// Deletes files and lists that were never published; what can't be deleted is found by `verify`.
    async fn discard(&self, of: &Generation<'_>, files: &[TableFile], lists: u32, why: &ArchiveError) {
        // A test that kills the archiver here wants what a kill leaves.
        if matches!(why, ArchiveError::Stopped(_)) {
            return;
        }
        for file in files {
            if let Err(error) = self.databases().delete(&of.place.database, &file.path).await {
                tracing::debug!(%error, "a file that nothing names was left behind");
            }
        }
        let Place { group, table, .. } = of.place;
        self.manifest.discard_lists([&Published { nonce: of.nonce, group, table, files: Vec::new(), lists }]).await;
    }

    /// Cuts all of time so that what begins in each part is no more than a slice's bytes.
    fn slices(&self, hot: &Hot, before: Option<&Published>) -> Vec<TimeRange> {
        let blocks = hot.blocks.iter().map(|(_, address, bytes)| (address.min_ts, *bytes));
        let files = before.iter().flat_map(|before| &before.files);
        let files = files.map(|file| (Timestamp::from_nanos(file.min_ts), usize::try_from(file.bytes).unwrap_or(usize::MAX)));
        cut(blocks.chain(files).collect(), self.options.slice_bytes)
    }
}

/// Cuts all of time at the beginnings of things of some bytes.
fn cut(mut things: Vec<(Timestamp, usize)>, bytes_max: usize) -> Vec<TimeRange> {
    things.sort_unstable();
    let (mut slices, mut from, mut bytes, mut last) = (Vec::new(), Timestamp::MIN, 0_usize, Timestamp::MIN);
    for (begins, size) in things {
        if bytes > 0 && bytes.saturating_add(size) > bytes_max && begins > last {
            slices.push(TimeRange { from, to: begins });
            (from, bytes) = (begins, 0);
        }
        bytes = bytes.saturating_add(size);
        last = begins;
    }
    slices.push(TimeRange { from, to: Timestamp::MAX });
    slices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cover_all_of_time_once_and_hold_about_what_they_may() {
        let ts = Timestamp::from_nanos;
        let things = vec![(ts(30), 5), (ts(10), 6), (ts(10), 6), (ts(20), 4), (ts(40), 5)];
        let slices = cut(things, 10);
        let cuts: Vec<i64> = slices.iter().map(|slice| slice.from.nanos()).collect();
        assert_eq!(cuts, [i64::MIN, 20, 40]);
        assert!(slices.windows(2).all(|pair| pair[0].to == pair[1].from) && slices[2].to == Timestamp::MAX);
        assert_eq!(cut(Vec::new(), 10), [TimeRange::ALL]);
    }
}

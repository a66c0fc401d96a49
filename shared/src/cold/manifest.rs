//! The manifest: what is archived, bucket by bucket, in documents of its own beside the catalog.
//!
//! A page holds the entries of [`BUCKETS_A_PAGE`] neighbouring buckets of one key and layout, so that
//! neither the catalog nor any one document grows with history, and a reader needs one small
//! linearizable read for a stretch of buckets. Entries change by the rules of [`super::rules`] only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::rules::{Entry, Nonce, Overtaken, Published, marked, opened, published, swept};
use crate::catalog::documents::{Documents, encode};
use crate::catalog::{Catalog, CatalogError};
use crate::layout::{Layout, LayoutVersion};
use crate::model::{Namespace, Timestamp};
use crate::stamp::Stamp;
use crate::store::{BlockAddress, Store, StoreErrorKind, Swap};

/// Buckets whose entries share a document.
pub const BUCKETS_A_PAGE: i64 = 32;
/// Times that a lost race or an unanswered swap is tried again.
const TRIES: u32 = 32;
/// Longest first wait between two tries, milliseconds; doubles up to [`BACK_OFF_MAX`].
const BACK_OFF_FIRST: u64 = 2;
/// Longest wait between two tries, milliseconds.
const BACK_OFF_MAX: u64 = 200;
/// Blocks that one document lists.
const BLOCKS_A_LIST: usize = 1_500;

/// Which page.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId {
    /// Namespace.
    pub ns: Namespace,
    /// Logical key.
    pub key: Arc<str>,
    /// Version of the layout whose buckets it holds.
    pub version: LayoutVersion,
    /// Number of the page: that of its first bucket, divided by [`BUCKETS_A_PAGE`].
    pub number: i64,
}

/// The entries of a page, by the bucket's start.
pub type Page = BTreeMap<Timestamp, Entry>;

/// A page as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageDocument {
    entries: Vec<(i64, Entry)>,
}

/// A block that a generation archived: suffix, least and greatest time, id.
type ListedBlock = (u32, i64, i64, u64, u64);

/// The manifest of every namespace in a store.
#[derive(Clone)]
pub struct Manifest {
    documents: Documents,
    /// Gives the random bits of waits.
    bits: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl PageId {
    /// The page with a bucket's entry.
    pub fn of(ns: &Namespace, key: &Arc<str>, layout: &Layout, bucket: Timestamp) -> PageId {
        let number = bucket.nanos().div_euclid(layout.bucket.nanos()).div_euclid(BUCKETS_A_PAGE);
        PageId { ns: ns.clone(), key: key.clone(), version: layout.version, number }
    }

    /// The document's name. The key, which may hold anything, stands last.
    fn name(&self) -> String {
        let LayoutVersion { revision, nonce } = self.version;
        format!("cold/{}/{revision}-{nonce:08x}/{}/{}", self.ns, self.number, self.key)
    }
}

impl Manifest {
    /// The manifest in a store.
    pub fn new(store: Arc<dyn Store>) -> Manifest {
        Manifest { documents: Documents::new(store), bits: Arc::new(rand::random::<u64>) }
    }

    /// The manifest in a store, with the random bits of the store's catalog.
    pub fn beside(catalog: &Arc<Catalog>, store: Arc<dyn Store>) -> Manifest {
        let catalog = catalog.clone();
        Manifest { bits: Arc::new(move || catalog.bits()), ..Manifest::new(store) }
    }

    /// A page, read linearizably; empty where nothing of it was ever archived.
    pub async fn read(&self, id: &PageId) -> Result<Page, CatalogError> {
        Ok(self.read_with_etag(id).await?.0)
    }

    async fn read_with_etag(&self, id: &PageId) -> Result<(Page, Option<u64>), CatalogError> {
        let Some((page, etag)) = self.documents.read::<PageDocument>(&id.name()).await? else {
            return Ok((Page::new(), None));
        };
        Ok((page.entries.into_iter().map(|(bucket, entry)| (Timestamp::from_nanos(bucket), entry)).collect(), Some(etag)))
    }

    /// Swaps the page until `change` finds that nothing is left to change; gives it as it stands
    /// then. A swap that was not answered is read back, so `change` must know its own work.
    async fn settle(&self, id: &PageId, mut change: impl FnMut(&mut Page) -> bool) -> Result<Page, CatalogError> {
        for tried in 0..TRIES {
            let (mut page, etag) = self.read_with_etag(id).await?;
            if !change(&mut page) {
                return Ok(page);
            }
            let entries = page.iter().map(|(bucket, entry)| (bucket.nanos(), entry.clone())).collect();
            match self.documents.swap(&id.name(), etag, encode(&PageDocument { entries })).await {
                Ok(Swap::Done(_)) => return Ok(page),
                Ok(Swap::Conflict) => {}
                Err(error) if error.kind == StoreErrorKind::Unknown => {}
                Err(error) => return Err(error.into()),
            }
            self.back_off(tried).await;
        }
        Err(CatalogError::Stale(format!("page {} of the manifest could not be swapped in {TRIES} tries", id.name())))
    }

    /// Opens the next generation of buckets (COLD-3); gives the page with them open.
    pub async fn open(&self, id: &PageId, nonces: &BTreeMap<Timestamp, Nonce>) -> Result<Page, CatalogError> {
        self.settle(id, |page| {
            let mut changed = false;
            for (bucket, nonce) in nonces {
                if page.get(bucket).and_then(|entry| entry.open) != Some(*nonce) {
                    let entry = opened(page.get(bucket), *nonce);
                    page.insert(*bucket, entry);
                    changed = true;
                }
            }
            changed
        })
        .await
    }

    /// Publishes a generation (COLD-4); gives the entry as it stands then.
    pub async fn publish(&self, id: &PageId, bucket: Timestamp, new: &Published) -> Result<Result<Entry, Overtaken>, CatalogError> {
        let page = self
            .settle(id, |page| match published(page.get(&bucket), new.clone()) {
                Ok(entry) => {
                    page.insert(bucket, entry);
                    true
                }
                // Another's is open, or ours stands already.
                Err(Overtaken) => false,
            })
            .await?;
        let stands = |entry: &&Entry| entry.published.as_ref().is_some_and(|published| published.nonce == new.nonce);
        Ok(page.get(&bucket).filter(stands).cloned().ok_or(Overtaken))
    }

    /// Sees to it that buckets are marked (COLD-5).
    pub async fn mark(&self, id: &PageId, buckets: &[Timestamp]) -> Result<(), CatalogError> {
        let marking = |page: &mut Page| {
            let new: Vec<_> = buckets.iter().filter_map(|bucket| Some((*bucket, marked(page.get(bucket))?))).collect();
            let changed = !new.is_empty();
            page.extend(new);
            changed
        };
        self.settle(id, marking).await.map(|_| ())
    }

    /// Records that what generation `nonce` archived and replaced is deleted (COLD-7).
    pub async fn record_swept(&self, id: &PageId, bucket: Timestamp, nonce: Nonce) -> Result<(), CatalogError> {
        let sweeping = |page: &mut Page| match swept(page.get(&bucket), nonce) {
            Some(entry) => {
                page.insert(bucket, entry);
                true
            }
            None => false,
        };
        self.settle(id, sweeping).await.map(|_| ())
    }

    /// Forgets a dropped bucket whose files are deleted, unless its entry changed since it was read.
    pub async fn forget(&self, id: &PageId, bucket: Timestamp, entry: &Entry) -> Result<(), CatalogError> {
        let forgetting = |page: &mut Page| {
            let same = page.get(&bucket) == Some(entry);
            if same {
                page.remove(&bucket);
            }
            same
        };
        self.settle(id, forgetting).await.map(|_| ())
    }

    /// Writes down which blocks a generation archived, before it is published; gives the number of lists.
    pub async fn write_lists(&self, nonce: Nonce, blocks: &[(u32, BlockAddress)]) -> Result<u32, CatalogError> {
        let mut lists = 0;
        for part in blocks.chunks(BLOCKS_A_LIST) {
            let listed: Vec<ListedBlock> = part.iter().map(|(suffix, at)| list(*suffix, at)).collect();
            self.documents.create(&list_name(nonce, lists), encode(&listed)).await?;
            lists += 1;
        }
        Ok(lists)
    }

    /// The blocks that a generation archived. A list that is gone was worked off.
    pub async fn read_lists(&self, published: &Published) -> Result<Vec<(u32, BlockAddress)>, CatalogError> {
        let mut blocks = Vec::new();
        for number in 0..published.lists {
            let listed = self.documents.read::<Vec<ListedBlock>>(&list_name(published.nonce, number)).await?;
            blocks.extend(listed.into_iter().flat_map(|(listed, _)| listed).map(unlist));
        }
        Ok(blocks)
    }

    async fn back_off(&self, tried: u32) {
        let most = (BACK_OFF_FIRST << tried.min(10)).min(BACK_OFF_MAX);
        tokio::time::sleep(Duration::from_millis((self.bits)() % (most + 1))).await;
    }

    /// Deletes the lists of generations whose blocks are deleted.
    pub async fn discard_lists(&self, published: impl IntoIterator<Item = &Published>) {
        let names = published.into_iter().flat_map(|published| (0..published.lists).map(|number| list_name(published.nonce, number)));
        self.documents.discard(names.collect::<Vec<_>>()).await;
    }
}

fn list_name(nonce: Nonce, number: u32) -> String {
    format!("archived/{nonce}/{number}")
}

fn list(suffix: u32, at: &BlockAddress) -> ListedBlock {
    (suffix, at.min_ts.nanos(), at.max_ts.nanos(), at.id.time, at.id.node)
}

fn unlist((suffix, min, max, time, node): ListedBlock) -> (u32, BlockAddress) {
    let (min_ts, max_ts) = (Timestamp::from_nanos(min), Timestamp::from_nanos(max));
    (suffix, BlockAddress { min_ts, max_ts, id: Stamp { time, node } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::ShardBy;
    use crate::model::Span;
    use crate::store::fault::{Fault, Operation};
    use crate::store::{FaultStore, MemoryStore};

    const HOUR: i64 = 3_600_000_000_000;

    fn id() -> PageId {
        let layout = Layout { version: LayoutVersion { revision: 3, nonce: 9 }, shards: 4, bucket: Span::HOUR, shard_by: ShardBy::Id };
        PageId::of(&"n".parse().unwrap(), &"k/\0é".into(), &layout, Timestamp::from_nanos(0))
    }

    fn bucket(hour: i64) -> Timestamp {
        Timestamp::from_nanos(hour * HOUR)
    }

    fn generation(nonce: u128) -> Published {
        Published { nonce: Nonce(nonce), group: 1, table: 0, files: Vec::new(), lists: 0 }
    }

    #[test]
    fn neighbouring_buckets_share_a_page_and_no_two_pages_a_name() {
        let layout = Layout { version: LayoutVersion { revision: 3, nonce: 9 }, shards: 4, bucket: Span::HOUR, shard_by: ShardBy::Id };
        let page = |key: &str, hour| PageId::of(&"n".parse().unwrap(), &key.into(), &layout, bucket(hour));
        assert_eq!(page("k", 0), page("k", 31));
        assert_ne!(page("k", 0), page("k", 32));
        assert_ne!(page("k", -1), page("k", 0));
        assert_ne!(page("k", 0).name(), page("k/0", 0).name());
        let first = PageId::of(&"n".parse().unwrap(), &"k".into(), &layout, Timestamp::MIN);
        assert_eq!(first.number, i64::MIN.div_euclid(HOUR).div_euclid(BUCKETS_A_PAGE));
    }

    #[tokio::test]
    async fn every_change_survives_an_answer_that_is_lost() {
        let store = FaultStore::new(MemoryStore::new());
        let manifest = Manifest::new(store.clone());
        let lose = || store.once(Operation::SwapDocument, Fault::LoseAnswer);
        lose();
        manifest.mark(&id(), &[bucket(0), bucket(1)]).await.unwrap();
        lose();
        let open = manifest.open(&id(), &BTreeMap::from([(bucket(0), Nonce(1))])).await.unwrap();
        assert_eq!((open[&bucket(0)].generation, open[&bucket(0)].late, open[&bucket(1)].late), (1, false, true));
        lose();
        let entry = manifest.publish(&id(), bucket(0), &generation(1)).await.unwrap().unwrap();
        assert_eq!((entry.open, entry.published), (None, Some(generation(1))));
        lose();
        manifest.record_swept(&id(), bucket(0), Nonce(1)).await.unwrap();
        assert!(manifest.read(&id()).await.unwrap()[&bucket(0)].swept);
    }

    #[tokio::test]
    async fn an_archiver_that_was_overtaken_publishes_nothing() {
        let manifest = Manifest::new(MemoryStore::new());
        manifest.open(&id(), &BTreeMap::from([(bucket(0), Nonce(1))])).await.unwrap();
        manifest.open(&id(), &BTreeMap::from([(bucket(0), Nonce(2))])).await.unwrap();
        assert_eq!(manifest.publish(&id(), bucket(0), &generation(1)).await.unwrap(), Err(Overtaken));
        assert!(manifest.publish(&id(), bucket(0), &generation(2)).await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn racing_marks_all_stand() {
        let manifest = Manifest::new(MemoryStore::new());
        futures::future::join_all((0..20).map(|hour| {
            let manifest = manifest.clone();
            async move { manifest.mark(&id(), &[bucket(hour)]).await.unwrap() }
        }))
        .await;
        assert_eq!(manifest.read(&id()).await.unwrap().values().filter(|entry| entry.late).count(), 20);
    }

    #[tokio::test]
    async fn a_dropped_entry_that_changed_meanwhile_is_not_forgotten() {
        let manifest = Manifest::new(MemoryStore::new());
        manifest.mark(&id(), &[bucket(0)]).await.unwrap();
        let seen = manifest.read(&id()).await.unwrap()[&bucket(0)].clone();
        manifest.open(&id(), &BTreeMap::from([(bucket(0), Nonce(1))])).await.unwrap();
        manifest.forget(&id(), bucket(0), &seen).await.unwrap();
        let stands = manifest.read(&id()).await.unwrap()[&bucket(0)].clone();
        manifest.forget(&id(), bucket(0), &stands).await.unwrap();
        assert!(manifest.read(&id()).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn the_blocks_of_a_generation_are_listed_in_parts_until_they_are_deleted() {
        let manifest = Manifest::new(MemoryStore::new());
        let at = |n: i64| BlockAddress { min_ts: bucket(n), max_ts: bucket(n + 1), id: Stamp { time: u64::MAX, node: n as u64 } };
        let blocks: Vec<(u32, BlockAddress)> = (0..4_000).map(|n| (n % 7, at(n.into()))).collect();
        let lists = manifest.write_lists(Nonce(5), &blocks).await.unwrap();
        let published = Published { lists, ..generation(5) };
        assert_eq!((lists, manifest.read_lists(&published).await.unwrap()), (3, blocks));
        manifest.discard_lists([&published]).await;
        assert!(manifest.read_lists(&published).await.unwrap().is_empty());
    }
}

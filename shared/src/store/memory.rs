//! The reference model of a store: ordered maps under one mutex, for tests and simulation.
//!
//! Says in the fewest lines what every store must do. Durable as long as the process lives.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use super::narrow::Narrowing;
use super::{
    BlockAddress, Day, Document, EncodedBlock, End, Enough, PageToken, Scan, ScanPage, Store, StoreError, StoreErrorKind, StoredBlock,
    Swap, is_small, overlaps,
};
use crate::model::{Namespace, TimeRange, Timestamp};
use crate::partition::Partition;

/// Largest page of a scan unless told otherwise, bytes of blocks.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// A store in memory.
#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
    page_bytes: usize,
}

/// Partitions by their encoding, so that they stand in the order of the embedded store.
#[derive(Debug, Default)]
struct State {
    partitions: BTreeMap<Vec<u8>, BTreeMap<BlockAddress, Held>>,
    documents: BTreeMap<String, Document>,
    days: BTreeMap<(Namespace, Arc<str>), BTreeSet<Day>>,
    last_etag: u64,
}

#[derive(Clone, Debug)]
struct Held {
    events: u32,
    bytes: Bytes,
}

/// What a scan found when it began, and how much of it was paged out.
struct Snapshot {
    found: Arc<[Found]>,
    position: usize,
}

/// One step of a scan's answer: a block, or the end of a partition.
enum Found {
    Block(u32, StoredBlock),
    End(u32),
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::with_page_bytes(PAGE_BYTES)
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Arc<MemoryStore> {
        Arc::default()
    }

    /// An empty store whose pages hold at most `page_bytes` of blocks (and always one block).
    pub fn with_page_bytes(page_bytes: usize) -> MemoryStore {
        MemoryStore { state: Mutex::default(), page_bytes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

impl State {
    fn put(&mut self, blocks: Vec<EncodedBlock>) {
        for block in blocks {
            let held = Held { events: block.events, bytes: block.bytes };
            self.partitions.entry(block.partition.encode()).or_default().entry(block.address).or_insert(held);
        }
    }

    fn remove(&mut self, partition: &Partition, blocks: &[BlockAddress]) {
        let key = partition.encode();
        let Some(held) = self.partitions.get_mut(&key) else { return };
        blocks.iter().for_each(|address| {
            held.remove(address);
        });
        if held.is_empty() {
            self.partitions.remove(&key);
        }
    }

    fn find(&self, scan: &Scan) -> Arc<[Found]> {
        let mut found = Vec::new();
        for (index, partition) in (0u32..).zip(scan.partitions.iter()) {
            let blocks = self.partitions.get(&partition.encode()).into_iter().flatten();
            let inside = blocks.filter(|(address, _)| overlaps(address, scan.range));
            found.extend(inside.map(|(address, held)| Found::Block(index, StoredBlock { address: *address, bytes: held.bytes.clone() })));
            found.push(Found::End(index));
        }
        found.into()
    }

    fn narrow(&self, scan: &Scan, enough: Enough) -> TimeRange {
        let held = scan.partitions.iter().filter_map(|partition| self.partitions.get(&partition.encode())).flatten();
        let mut blocks: Vec<_> = held.filter(|(address, _)| overlaps(address, scan.range)).collect();
        match enough.end {
            End::First => blocks.sort_by_key(|(address, _)| address.min_ts),
            End::Last => blocks.sort_by_key(|(address, _)| Reverse(address.min_ts)),
        }
        let mut narrowing = Narrowing::new(scan.range, enough);
        let found = blocks.into_iter().find_map(|(address, held)| narrowing.take(address, held.events));
        found.unwrap_or_else(|| narrowing.finish())
    }

    fn swap(&mut self, name: &str, expected: Option<u64>, bytes: Bytes) -> Swap {
        if self.documents.get(name).map(|document| document.etag) != expected {
            return Swap::Conflict;
        }
        self.last_etag += 1;
        self.documents.insert(name.to_owned(), Document { bytes, etag: self.last_etag });
        Swap::Done(self.last_etag)
    }

    fn keys(&self, ns: &Namespace, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let first = (ns.clone(), Arc::from(after.map_or(prefix, |after| after.max(prefix))));
        self.days
            .range(first..)
            .map(|((of, key), _)| (of, key))
            .take_while(|(of, key)| *of == ns && key.starts_with(prefix))
            .filter(|(_, key)| after.is_none_or(|after| &***key > after))
            .take(limit)
            .map(|(_, key)| key.to_string())
            .collect()
    }

    fn fragmented(&self, least: usize, after: Option<&Partition>, most: usize) -> Vec<Partition> {
        let after = after.map(Partition::encode).unwrap_or_default();
        let small = |blocks: &BTreeMap<_, Held>| blocks.values().filter(|held| is_small(held.events, held.bytes.len())).count();
        self.partitions
            .range(after.clone()..)
            .filter(|(key, blocks)| **key != after && small(blocks) >= least)
            .filter_map(|(key, _)| Partition::decode(key).map(|(partition, _)| partition))
            .take(most)
            .collect()
    }
}

impl State {
    fn fragments(&self, partition: &Partition) -> TimeRange {
        let blocks = self.partitions.get(&partition.encode()).into_iter().flatten();
        let small = blocks.filter(|(_, held)| is_small(held.events, held.bytes.len())).map(|(address, _)| address);
        let from = small.clone().map(|address| address.min_ts).min().unwrap_or(Timestamp::MAX);
        let last = small.map(|address| address.max_ts.nanos()).max().unwrap_or(i64::MIN);
        TimeRange { from, to: Timestamp::from_nanos(last.saturating_add(1)) }
    }
}

impl Snapshot {
    /// The steps from here that fit a page; at least one block, where one is left.
    fn page(&self, page_bytes: usize) -> ScanPage {
        let mut page = ScanPage::default();
        let mut bytes = 0;
        for (position, found) in self.found.iter().enumerate().skip(self.position) {
            match found {
                Found::End(index) => page.answered.push(*index),
                Found::Block(index, block) => {
                    bytes += block.bytes.len();
                    if bytes > page_bytes && !page.blocks.is_empty() {
                        page.next = Some(Arc::new(Snapshot { found: self.found.clone(), position }));
                        return page;
                    }
                    page.blocks.push((*index, block.clone()));
                }
            }
        }
        page
    }
}

/// An answer that is there already.
fn now<'a, T: Send + 'a>(answer: Result<T, StoreError>) -> BoxFuture<'a, Result<T, StoreError>> {
    ready(answer).boxed()
}

impl Store for MemoryStore {
    fn append(&self, blocks: Vec<EncodedBlock>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            self.state().put(blocks);
            Ok(())
        }
        .boxed()
    }

    fn scan<'a>(&'a self, scan: &'a Scan, page: Option<PageToken>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        let Some(token) = page else {
            return async move { Ok(Snapshot { found: self.state().find(scan), position: 0 }.page(self.page_bytes)) }.boxed();
        };
        now(match token.downcast_ref::<Snapshot>() {
            Some(snapshot) => Ok(snapshot.page(self.page_bytes)),
            None => Err(StoreError::new(StoreErrorKind::Unavailable, "a page token of another store")),
        })
    }

    fn narrow<'a>(&'a self, scan: &'a Scan, enough: Enough) -> BoxFuture<'a, Result<Option<TimeRange>, StoreError>> {
        async move { Ok(Some(self.state().narrow(scan, enough))) }.boxed()
    }

    fn replace<'a>(
        &'a self,
        partition: &'a Partition,
        old: &'a [BlockAddress],
        new: Vec<EncodedBlock>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let mut state = self.state();
            state.remove(partition, old);
            state.put(new);
            Ok(())
        }
        .boxed()
    }

    fn replaces_atomically(&self) -> bool {
        true
    }

    fn delete<'a>(&'a self, partition: &'a Partition, blocks: &'a [BlockAddress]) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            self.state().remove(partition, blocks);
            Ok(())
        }
        .boxed()
    }

    fn fragmented<'a>(
        &'a self,
        least: usize,
        after: Option<&'a Partition>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Partition>, StoreError>> {
        async move { Ok(self.state().fragmented(least, after, most)) }.boxed()
    }

    fn fragments<'a>(&'a self, partition: &'a Partition) -> BoxFuture<'a, Result<TimeRange, StoreError>> {
        async move { Ok(self.state().fragments(partition)) }.boxed()
    }

    fn read_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        async move { Ok(self.state().documents.get(name).cloned()) }.boxed()
    }

    fn swap_document<'a>(&'a self, name: &'a str, expected: Option<u64>, bytes: Bytes) -> BoxFuture<'a, Result<Swap, StoreError>> {
        async move { Ok(self.state().swap(name, expected, bytes)) }.boxed()
    }

    fn delete_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            self.state().documents.remove(name);
            Ok(())
        }
        .boxed()
    }

    fn note_days<'a>(&'a self, ns: &'a Namespace, days: &'a [(Arc<str>, Day)]) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let mut state = self.state();
            for (key, day) in days {
                state.days.entry((ns.clone(), key.clone())).or_default().insert(*day);
            }
            Ok(())
        }
        .boxed()
    }

    fn keys<'a>(
        &'a self,
        ns: &'a Namespace,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        async move { Ok(self.state().keys(ns, prefix, after, limit)) }.boxed()
    }

    fn days<'a>(&'a self, ns: &'a Namespace, key: &'a str, from: Day, to: Day) -> BoxFuture<'a, Result<Vec<Day>, StoreError>> {
        async move {
            let state = self.state();
            let days = state.days.get(&(ns.clone(), Arc::from(key))).into_iter().flatten();
            Ok(days.copied().filter(|day| (from..=to).contains(day)).collect())
        }
        .boxed()
    }

    fn health(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

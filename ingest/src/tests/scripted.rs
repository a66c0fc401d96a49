//! A memory store whose appends can be held and made to fail, and that remembers them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use braid_shared::model::Namespace;
use braid_shared::partition::Partition;
use braid_shared::store::memory::MemoryStore;
use braid_shared::store::{BlockAddress, Day, Document, EncodedBlock, PageToken, Scan, ScanPage, Store, StoreError, StoreErrorKind, Swap};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;

/// What one append, or note of days, does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// Fails without doing anything.
    Fail(StoreErrorKind),
    /// Is done, and says that it does not know.
    DoneButUnknown,
    /// Panics.
    Panic,
}

pub(super) struct ScriptedStore {
    /// What other nodes see.
    pub(super) inner: Arc<MemoryStore>,
    gate: Semaphore,
    /// What the next appends do; once empty they succeed.
    pub(super) appends: Mutex<VecDeque<Act>>,
    /// What the next notes do; once empty they succeed.
    pub(super) notes: Mutex<VecDeque<Act>>,
    /// Every append that was tried.
    pub(super) tried: Mutex<Vec<Vec<EncodedBlock>>>,
    /// Every document swap fails while set.
    pub(super) catalog_down: std::sync::atomic::AtomicBool,
}

impl Default for ScriptedStore {
    fn default() -> Self {
        ScriptedStore {
            inner: MemoryStore::new(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS / 2),
            appends: Mutex::default(),
            notes: Mutex::default(),
            tried: Mutex::default(),
            catalog_down: false.into(),
        }
    }
}

impl ScriptedStore {
    /// Holds appends from now on.
    pub(super) fn hold(&self) {
        self.gate.forget_permits(self.gate.available_permits());
    }

    /// Lets `n` of the held appends go on.
    pub(super) fn let_go(&self, n: usize) {
        self.gate.add_permits(n);
    }

    /// Waits until `n` appends were begun.
    pub(super) async fn begun(&self, n: usize) {
        while self.tried.lock().unwrap().len() < n {
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn script(&self, acts: &[Act]) {
        self.appends.lock().unwrap().extend(acts);
    }

    /// Rows of every append tried, in order.
    pub(super) fn rows_tried(&self) -> Vec<u32> {
        self.tried.lock().unwrap().iter().map(|blocks| blocks.iter().map(|block| block.events).sum()).collect()
    }

    fn reachable(&self) -> Result<(), StoreError> {
        match self.catalog_down.load(std::sync::atomic::Ordering::SeqCst) {
            true => Err(StoreError::new(StoreErrorKind::Unavailable, "scripted outage")),
            false => Ok(()),
        }
    }
}

async fn act(act: Option<Act>, work: BoxFuture<'_, Result<(), StoreError>>) -> Result<(), StoreError> {
    match act {
        None => work.await,
        Some(Act::Fail(kind)) => Err(StoreError::new(kind, "scripted")),
        Some(Act::DoneButUnknown) => {
            work.await?;
            Err(StoreError::new(StoreErrorKind::Unknown, "scripted"))
        }
        Some(Act::Panic) => panic!("scripted"),
    }
}

impl Store for ScriptedStore {
    fn append(&self, blocks: Vec<EncodedBlock>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            self.tried.lock().unwrap().push(blocks.clone());
            self.gate.acquire().await.unwrap().forget();
            let next = self.appends.lock().unwrap().pop_front();
            act(next, self.inner.append(blocks)).await
        }
        .boxed()
    }

    fn note_days<'a>(&'a self, ns: &'a Namespace, days: &'a [(Arc<str>, Day)]) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let next = self.notes.lock().unwrap().pop_front();
            act(next, self.inner.note_days(ns, days)).await
        }
        .boxed()
    }

    fn read_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        async move {
            self.reachable()?;
            self.inner.read_document(name).await
        }
        .boxed()
    }

    fn swap_document<'a>(&'a self, name: &'a str, expected: Option<u64>, bytes: Bytes) -> BoxFuture<'a, Result<Swap, StoreError>> {
        async move {
            self.reachable()?;
            self.inner.swap_document(name, expected, bytes).await
        }
        .boxed()
    }

    fn scan<'a>(&'a self, scan: &'a Scan, page: Option<PageToken>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        self.inner.scan(scan, page)
    }

    fn replace<'a>(
        &'a self,
        partition: &'a Partition,
        old: &'a [BlockAddress],
        new: Vec<EncodedBlock>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.replace(partition, old, new)
    }

    fn replaces_atomically(&self) -> bool {
        self.inner.replaces_atomically()
    }

    fn delete<'a>(&'a self, partition: &'a Partition, blocks: &'a [BlockAddress]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.delete(partition, blocks)
    }

    fn fragmented<'a>(
        &'a self,
        least: usize,
        after: Option<&'a Partition>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Partition>, StoreError>> {
        self.inner.fragmented(least, after, most)
    }

    fn delete_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.delete_document(name)
    }

    fn keys<'a>(
        &'a self,
        ns: &'a Namespace,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.inner.keys(ns, prefix, after, limit)
    }

    fn days<'a>(&'a self, ns: &'a Namespace, key: &'a str, from: Day, to: Day) -> BoxFuture<'a, Result<Vec<Day>, StoreError>> {
        self.inner.days(ns, key, from, to)
    }

    fn health(&self) -> Result<(), StoreError> {
        self.inner.health()
    }
}

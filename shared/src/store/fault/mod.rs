//! A wrapper that fails as told: for tests of everything that stands on a store.
//!
//! Without faults planned it changes nothing.

mod plan;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

use self::plan::Plan;
pub use self::plan::{Fault, Gate, Operation};
use super::{BlockAddress, Day, Document, EncodedBlock, Enough, PageToken, Scan, ScanPage, Store, StoreError, StoreErrorKind, Swap};
use crate::model::{Namespace, TimeRange, Timestamp};
use crate::partition::Partition;

/// A store that fails as told.
pub struct FaultStore {
    inner: Arc<dyn Store>,
    plan: Mutex<Plan>,
    documents: Mutex<Documents>,
    clock: Mutex<Option<Timestamp>>,
}

/// Documents as this wrapper saw them last.
#[derive(Default)]
struct Documents {
    seen: HashMap<String, Option<Document>>,
    frozen: bool,
}

impl FaultStore {
    /// Wraps `inner`, no fault planned.
    pub fn new(inner: Arc<dyn Store>) -> Arc<FaultStore> {
        Arc::new(FaultStore { inner, plan: Mutex::default(), documents: Mutex::default(), clock: Mutex::default() })
    }

    /// From now on the store's clock stands at `now`.
    pub fn set_clock(&self, now: Timestamp) {
        *self.clock.lock().expect("no holder panics") = Some(now);
    }

    /// Plans a fault for the next such operation; several are taken in order.
    pub fn once(&self, operation: Operation, fault: Fault) {
        self.plan(|plan| plan.once(operation, fault));
    }

    /// Plans a fault for every such operation.
    pub fn always(&self, operation: Operation, fault: Fault) {
        self.plan(|plan| plan.always(operation, fault));
    }

    /// Plans random faults that a correct caller survives: errors, lost answers and requests, torn
    /// appends. The same seed and the same order of operations give the same faults.
    pub fn seeded(&self, seed: u64, probability: f64) {
        self.plan(|plan| plan.seeded(seed, probability));
    }

    /// Plans nothing more, and lets documents be read as they are.
    pub fn heal(&self) {
        self.plan(|plan| *plan = Plan::default());
        self.documents.lock().expect("no holder panics").frozen = false;
    }

    /// From now on documents are read as they last went through this wrapper: a catalog that is
    /// behind. Documents it has not seen are read as they are.
    pub fn freeze_documents(&self) {
        self.documents.lock().expect("no holder panics").frozen = true;
    }

    fn plan<T>(&self, change: impl FnOnce(&mut Plan) -> T) -> T {
        change(&mut self.plan.lock().expect("no holder panics"))
    }

    fn frozen(&self, name: &str) -> Option<Option<Document>> {
        let documents = self.documents.lock().expect("no holder panics");
        documents.frozen.then(|| documents.seen.get(name).cloned()).flatten()
    }

    fn saw(&self, name: &str, document: Option<Document>) {
        let mut documents = self.documents.lock().expect("no holder panics");
        if !documents.frozen {
            documents.seen.insert(name.to_owned(), document);
        }
    }

    /// Does an operation as planned.
    fn run<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        go: BoxFuture<'a, Result<T, StoreError>>,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        async move {
            let fault = self.plan(|plan| plan.take(operation));
            apply(fault.as_ref(), go).await
        }
        .boxed()
    }
}

/// Does what is under `fault` to any operation; faults of scans and appends do nothing here.
async fn apply<T>(fault: Option<&Fault>, go: BoxFuture<'_, Result<T, StoreError>>) -> Result<T, StoreError> {
    match fault {
        Some(Fault::Refuse(kind)) => Err(StoreError::new(*kind, "an injected fault; nothing was done")),
        Some(Fault::LoseRequest) => Err(unknown()),
        Some(Fault::LoseAnswer) => {
            go.await?;
            Err(unknown())
        }
        Some(Fault::Hold(gate)) => {
            gate.pass().await;
            go.await
        }
        _ => go.await,
    }
}

fn unknown() -> StoreError {
    StoreError::new(StoreErrorKind::Unknown, "an injected fault; it may have been done")
}

/// What is left of a page.
fn damage(fault: &Fault, scan: &Scan, page: &mut ScanPage) {
    match fault {
        Fault::DropSuffix(suffix) => {
            let stays = |index: u32| scan.partitions[index as usize].suffix != *suffix;
            page.blocks.retain(|(index, _)| stays(*index));
            page.answered.retain(|index| stays(*index));
        }
        Fault::DropPage => {
            page.blocks.clear();
            page.answered.clear();
        }
        Fault::FlipByte => {
            if let Some((_, block)) = page.blocks.iter_mut().find(|(_, block)| !block.bytes.is_empty()) {
                let mut bytes = block.bytes.to_vec();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0x10;
                block.bytes = bytes.into();
            }
        }
        _ => {}
    }
}

impl Store for FaultStore {
    fn append(&self, mut blocks: Vec<EncodedBlock>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let fault = self.plan(|plan| plan.take(Operation::Append));
            if matches!(fault, Some(Fault::Tear)) {
                blocks.truncate(blocks.len() / 2);
                self.inner.append(blocks).await?;
                return Err(unknown());
            }
            apply(fault.as_ref(), self.inner.append(blocks)).await
        }
        .boxed()
    }

    fn scan<'a>(&'a self, scan: &'a Scan, page: Option<PageToken>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        async move {
            let fault = self.plan(|plan| plan.take(Operation::Scan));
            let mut page = apply(fault.as_ref(), self.inner.scan(scan, page)).await?;
            if let Some(fault) = &fault {
                damage(fault, scan, &mut page);
            }
            Ok(page)
        }
        .boxed()
    }

    /// No faults of its own: what it says is only a hint.
    fn narrow<'a>(&'a self, scan: &'a Scan, enough: Enough) -> BoxFuture<'a, Result<Option<TimeRange>, StoreError>> {
        self.inner.narrow(scan, enough)
    }

    fn replace<'a>(
        &'a self,
        partition: &'a Partition,
        old: &'a [BlockAddress],
        new: Vec<EncodedBlock>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.run(Operation::Replace, self.inner.replace(partition, old, new))
    }

    fn block_bytes_max(&self) -> usize {
        self.inner.block_bytes_max()
    }

    fn reads_eventually(&self) -> bool {
        self.inner.reads_eventually()
    }

    fn replaces_atomically(&self) -> bool {
        self.inner.replaces_atomically()
    }

    fn delete<'a>(&'a self, partition: &'a Partition, blocks: &'a [BlockAddress]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.run(Operation::Delete, self.inner.delete(partition, blocks))
    }

    fn fragmented<'a>(
        &'a self,
        least: usize,
        after: Option<&'a Partition>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Partition>, StoreError>> {
        self.run(Operation::Fragmented, self.inner.fragmented(least, after, most))
    }

    fn fragments<'a>(&'a self, partition: &'a Partition) -> BoxFuture<'a, Result<TimeRange, StoreError>> {
        self.run(Operation::Fragmented, self.inner.fragments(partition))
    }

    fn read_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        let read = async move {
            if let Some(old) = self.frozen(name) {
                return Ok(old);
            }
            let document = self.inner.read_document(name).await?;
            self.saw(name, document.clone());
            Ok(document)
        };
        self.run(Operation::ReadDocument, read.boxed())
    }

    fn swap_document<'a>(&'a self, name: &'a str, expected: Option<u64>, bytes: Bytes) -> BoxFuture<'a, Result<Swap, StoreError>> {
        let swap = async move {
            let swap = self.inner.swap_document(name, expected, bytes.clone()).await?;
            if let Swap::Done(etag) = swap {
                self.saw(name, Some(Document { bytes, etag }));
            }
            Ok(swap)
        };
        self.run(Operation::SwapDocument, swap.boxed())
    }

    fn delete_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        let delete = async move {
            self.inner.delete_document(name).await?;
            self.saw(name, None);
            Ok(())
        };
        self.run(Operation::DeleteDocument, delete.boxed())
    }

    fn note_days<'a>(&'a self, ns: &'a Namespace, days: &'a [(Arc<str>, Day)]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.run(Operation::NoteDays, self.inner.note_days(ns, days))
    }

    fn keys<'a>(
        &'a self,
        ns: &'a Namespace,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.run(Operation::Keys, self.inner.keys(ns, prefix, after, limit))
    }

    fn days<'a>(&'a self, ns: &'a Namespace, key: &'a str, from: Day, to: Day) -> BoxFuture<'a, Result<Vec<Day>, StoreError>> {
        self.run(Operation::Days, self.inner.days(ns, key, from, to))
    }

    /// By the clock that a test set, else by the inner store's.
    fn read_clock(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        let set = *self.clock.lock().expect("no holder panics");
        match set {
            Some(now) => futures::future::ready(Ok(Some(now))).boxed(),
            None => self.inner.read_clock(),
        }
    }

    fn health(&self) -> Result<(), StoreError> {
        self.inner.health()
    }
}

//! The DynamoDB store: one table for blocks, the directory and the catalog's documents.
//!
//! Puts the parts together and answers the trait. Works on whatever speaks DynamoDB's protocol. `write` sends
//! what is put and deleted, `scan` and `query` what is read; `retry` decides alone who tries again;
//! `units` keeps account of what it costs.

mod client;
mod clock;
mod directory;
mod documents;
mod engine;
mod failure;
mod fragments;
mod items;
mod keys;
mod query;
mod retry;
mod scan;
mod table;
mod units;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use prometheus::Registry;

use self::directory::NotedNames;
use self::engine::Engine;
use self::fragments::Fragments;
use self::items::Write;
use self::scan::Cursor;
pub use self::table::{Billing, OpenError, TableOptions, init};
use self::units::{Purpose, Units};
use self::write::Account;
use super::usage::Usage;
use super::{BlockAddress, Day, Document, EncodedBlock, PageToken, Scan, ScanPage, Store, StoreError, StoreErrorKind, Swap};
use crate::model::{Namespace, Timestamp};
use crate::partition::Partition;

/// Largest block here: a reader of one event pays for all of its block.
pub const BLOCK_BYTES_MAX: usize = 64 * 1024;

/// Settings of a DynamoDB store.
#[derive(Clone)]
pub struct DynamoOptions {
    /// The table.
    pub table: String,
    /// Where the engine is, as a URL; by region where absent.
    pub endpoint: Option<String>,
    /// Longest that one attempt may take.
    pub attempt: Duration,
    /// Longest that a write may take, all attempts together.
    pub write_time: Duration,
    /// Longest that one page of a read may take, all attempts together.
    pub read_time: Duration,
    /// Longest that a call on a document may take, all attempts together.
    pub document_time: Duration,
    /// Most attempts in flight.
    pub in_flight: usize,
    /// How long after its last event, or its writing if that is later, a block may be deleted by
    /// the engine; never where absent. The table must have its time to live enabled.
    pub ttl: Option<Duration>,
    /// Who hears of units and throttling by partition.
    pub usage: Option<Arc<dyn Usage>>,
    /// Where metrics are registered.
    pub registry: Registry,
}

impl Default for DynamoOptions {
    fn default() -> Self {
        DynamoOptions {
            table: "braid".into(),
            endpoint: None,
            attempt: Duration::from_secs(3),
            // Each shorter than its caller's own deadline, so that the outcome is ours to tell.
            write_time: Duration::from_secs(20),
            read_time: Duration::from_secs(8),
            document_time: Duration::from_millis(4_500),
            in_flight: 128,
            ttl: None,
            usage: None,
            registry: Registry::new(),
        }
    }
}

/// A store in a DynamoDB table.
pub struct DynamoStore {
    engine: Engine,
    options: DynamoOptions,
    noted: NotedNames,
    fragments: Fragments,
}

impl DynamoStore {
    /// Opens the store on a table that [`init`] made; an error where it is missing or does not fit.
    pub async fn open(options: DynamoOptions) -> Result<Arc<DynamoStore>, OpenError> {
        let client = client::connect(&options).await;
        table::check(&client, &options.table, options.ttl.is_some()).await?;
        let units = Units::new(&options.registry, options.usage.clone())?;
        let engine = Engine::new(client, options.table.clone(), units, options.in_flight);
        Ok(Arc::new(DynamoStore { engine, options, noted: NotedNames::default(), fragments: Fragments::default() }))
    }

    /// Writes to the blocks of one namespace or several.
    async fn write_blocks(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        let mut by_namespace: Vec<Vec<Write>> = Vec::new();
        for write in writes {
            let same = |other: &Write| other.partition.as_ref().map(|p| &p.ns) == write.partition.as_ref().map(|p| &p.ns);
            match by_namespace.iter_mut().find(|writes| writes.first().is_some_and(same)) {
                Some(writes) => writes.push(write),
                None => by_namespace.push(vec![write]),
            }
        }
        let writing = by_namespace.into_iter().map(|writes| async {
            let Some(ns) = writes.first().and_then(|write| write.partition.as_ref()).map(|partition| partition.ns.clone()) else {
                return Ok(());
            };
            self.engine.write(Account { ns: &ns, purpose: Purpose::Blocks }, writes, self.options.write_time).await
        });
        write::worst(futures::future::join_all(writing).await)
    }
}

impl Store for DynamoStore {
    fn append(&self, blocks: Vec<EncodedBlock>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let small = Fragments::small(&blocks);
            let ttl = self.options.ttl.map(|ttl| ttl.as_secs());
            self.write_blocks(blocks.into_iter().map(|block| Write::block(block, ttl)).collect()).await?;
            self.fragments.written(small);
            Ok(())
        }
        .boxed()
    }

    fn block_bytes_max(&self) -> usize {
        BLOCK_BYTES_MAX
    }

    fn scan<'a>(&'a self, scan: &'a Scan, page: Option<PageToken>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        async move {
            let cursor = match page.map(|token| token.downcast_ref::<Cursor>().cloned()) {
                None => Cursor::default(),
                Some(Some(cursor)) => cursor,
                Some(None) => return Err(StoreError::new(StoreErrorKind::Unavailable, "a page token of another store")),
            };
            self.engine.scan_page(scan, cursor, self.options.read_time).await
        }
        .boxed()
    }

    fn reads_eventually(&self) -> bool {
        true
    }

    fn replaces_atomically(&self) -> bool {
        false
    }

    fn delete<'a>(&'a self, partition: &'a Partition, blocks: &'a [BlockAddress]) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let shared = Arc::new(partition.clone());
            self.write_blocks(blocks.iter().map(|address| Write::no_block(&shared, address)).collect()).await?;
            self.fragments.deleted(partition, blocks.len());
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
        ready(Ok(self.fragments.find(least, after, most))).boxed()
    }

    fn read_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        self.engine.document(name, self.options.document_time).boxed()
    }

    fn swap_document<'a>(&'a self, name: &'a str, expected: Option<u64>, bytes: Bytes) -> BoxFuture<'a, Result<Swap, StoreError>> {
        self.engine.swap(name, expected, bytes, self.options.document_time).boxed()
    }

    fn delete_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.engine.delete_document(name, self.options.document_time).boxed()
    }

    fn note_days<'a>(&'a self, ns: &'a Namespace, days: &'a [(Arc<str>, Day)]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.engine.note_days(&self.noted, ns, days, self.options.write_time).boxed()
    }

    fn keys<'a>(
        &'a self,
        ns: &'a Namespace,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.engine.keys(ns, prefix, after, limit, self.options.read_time).boxed()
    }

    fn days<'a>(&'a self, ns: &'a Namespace, key: &'a str, from: Day, to: Day) -> BoxFuture<'a, Result<Vec<Day>, StoreError>> {
        self.engine.days(ns, key, from, to, self.options.read_time).boxed()
    }

    fn read_clock(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        self.engine.clock(self.options.document_time).boxed()
    }

    fn health(&self) -> Result<(), StoreError> {
        self.engine.health()
    }
}

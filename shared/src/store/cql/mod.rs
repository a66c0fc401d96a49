//! The store on ScyllaDB or Apache Cassandra: a block is a row, an append an insert, a document a row
//! under compare-and-swap.
//!
//! - `options`, `connect`, `schema`, `statements`: how the cluster is reached and what stands in it.
//! - `blocks`, `scan`, `fragments`: data; `documents`: the catalog's; `directory`: keys and days.
//! - `retry`, `errors`: what is tried again, and what a failure means. An outcome that is not known
//!   is never reported as another.
//!
//! Never writes a block row in any way but whole, under the timestamp that its id gives; never reads
//! at less than a quorum; never mixes conditional and plain writes in one table.

mod blocks;
mod connect;
mod directory;
mod documents;
mod errors;
mod fragments;
mod options;
mod retry;
mod scan;
mod schema;
mod statements;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use scylla::client::session::Session;
use scylla::value::CqlTimestamp;
use tokio::sync::{Semaphore, SemaphorePermit};

use self::errors::{Request, corrupt, store_error};
pub use self::options::{CqlOptions, CqlTables, CqlTls, Replication, Scope, TableCompaction};
use self::statements::Statements;
use super::{BlockAddress, Day, Document, EncodedBlock, PageToken, Scan, ScanPage, Store, StoreError, StoreErrorKind, Swap};
use crate::model::{Namespace, Timestamp};
use crate::partition::Partition;

/// Makes the keyspace and the tables, where they are missing, and checks those that are there.
pub async fn init(options: &CqlOptions, tables: &CqlTables) -> Result<(), StoreError> {
    let session = connect::connect(options).await?;
    schema::create(&session, options, tables).await?;
    schema::check(&session, &options.keyspace).await
}

/// A store on a cluster that speaks CQL.
pub struct CqlStore {
    session: Session,
    statements: Statements,
    /// Reads and writes of data each have their own bound, and the catalog's requests none: neither
    /// kind of load may keep the others out.
    reads: Semaphore,
    writes: Semaphore,
}

impl CqlStore {
    /// Connects, checks that the tables are there and fit, and prepares every statement.
    pub async fn open(options: &CqlOptions) -> Result<Arc<CqlStore>, StoreError> {
        let session = connect::connect(options).await?;
        schema::check(&session, &options.keyspace).await?;
        let statements = Statements::prepare(&session, options).await?;
        let nodes = session.get_cluster_state().get_nodes_info().len().max(1);
        let bound = || Semaphore::new((options.in_flight_per_node * nodes).min(Semaphore::MAX_PERMITS));
        Ok(Arc::new(CqlStore { session, statements, reads: bound(), writes: bound() }))
    }

    /// The clock of whichever node answers; it counts milliseconds.
    async fn coordinators_clock(&self) -> Result<Option<Timestamp>, StoreError> {
        let answer = self.session.execute_unpaged(&self.statements.clock, ()).await;
        let answer = answer.map_err(|error| store_error(Request::Read, &error))?.into_rows_result().map_err(corrupt)?;
        let (CqlTimestamp(millis),) = answer.first_row().map_err(corrupt)?;
        Ok(millis.checked_mul(1_000_000).map(Timestamp::from_nanos))
    }

    async fn read_turn(&self) -> SemaphorePermit<'_> {
        self.reads.acquire().await.expect("never closed")
    }

    async fn write_turn(&self) -> SemaphorePermit<'_> {
        self.writes.acquire().await.expect("never closed")
    }
}

/// The columns of a partition's key, in order.
type Place<'a> = (&'a str, &'a str, i64, i64, i32, i32);

fn place(partition: &Partition) -> Place<'_> {
    let Partition { ns, key, bucket, version, suffix } = partition;
    (ns.as_str(), key, bucket.nanos(), version.revision.cast_signed(), version.nonce.cast_signed(), suffix.cast_signed())
}

impl Store for CqlStore {
    fn append(&self, blocks: Vec<EncodedBlock>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.insert(blocks).boxed()
    }

    fn scan<'a>(&'a self, scan: &'a Scan, page: Option<PageToken>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        self.page(scan, page).boxed()
    }

    fn replaces_atomically(&self) -> bool {
        false
    }

    fn delete<'a>(&'a self, partition: &'a Partition, blocks: &'a [BlockAddress]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.remove(partition, blocks).boxed()
    }

    fn fragmented<'a>(
        &'a self,
        least: usize,
        after: Option<&'a Partition>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Partition>, StoreError>> {
        self.find_fragmented(least, after, most).boxed()
    }

    fn read_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        self.document(name).boxed()
    }

    fn swap_document<'a>(&'a self, name: &'a str, expected: Option<u64>, bytes: Bytes) -> BoxFuture<'a, Result<Swap, StoreError>> {
        self.compare_and_swap(name, expected, bytes).boxed()
    }

    fn delete_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.discard(name).boxed()
    }

    fn note_days<'a>(&'a self, ns: &'a Namespace, days: &'a [(Arc<str>, Day)]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.note(ns, days).boxed()
    }

    fn keys<'a>(
        &'a self,
        ns: &'a Namespace,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.list_keys(ns, prefix, after, limit).boxed()
    }

    fn days<'a>(&'a self, ns: &'a Namespace, key: &'a str, from: Day, to: Day) -> BoxFuture<'a, Result<Vec<Day>, StoreError>> {
        self.list_days(ns, key, from, to).boxed()
    }

    fn read_clock(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        self.coordinators_clock().boxed()
    }

    fn health(&self) -> Result<(), StoreError> {
        let cluster = self.session.get_cluster_state();
        let nodes = cluster.get_nodes_info();
        if nodes.iter().any(|node| node.is_connected()) {
            return Ok(());
        }
        Err(StoreError::new(StoreErrorKind::Unavailable, format!("none of the cluster's {} nodes can be reached", nodes.len())))
    }
}

//! Stores: one trait, one conformance suite.

pub mod conformance;
pub mod cql;
pub mod dynamodb;
pub mod embedded;
pub mod fault;
pub mod memory;
pub mod metered;
mod narrow;
pub mod usage;

pub use dynamodb::{DynamoOptions, DynamoStore};
pub use embedded::{EmbeddedOptions, EmbeddedStore};
pub use fault::FaultStore;
pub use memory::MemoryStore;
pub use metered::MeteredStore;
pub use narrow::{End, Enough};

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use crate::limits::{BLOCK_BYTES_MAX, BLOCK_EVENTS_MAX};
use crate::model::{Namespace, Span, TimeRange, Timestamp};
use crate::partition::Partition;
use crate::stamp::Stamp;

/// Where a block stands in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockAddress {
    /// Least event time inside.
    pub min_ts: Timestamp,
    /// Greatest event time inside.
    pub max_ts: Timestamp,
    /// The block's id: time-ordered, unique.
    pub id: Stamp,
}

/// Whether a block at `address` may hold events of `range`.
pub fn overlaps(address: &BlockAddress, range: TimeRange) -> bool {
    !range.is_empty() && address.min_ts < range.to && address.max_ts >= range.from
}

/// Fewest small blocks side by side that compaction rewrites: fewer may not become fewer.
pub const SMALL_RUN_LEAST: usize = 4;

/// Whether a block of so many events and bytes is less than half full, by either of its limits:
/// what compaction looks for.
pub fn is_small(events: u32, bytes: usize) -> bool {
    is_small_of(events, bytes, BLOCK_BYTES_MAX)
}

/// As [`is_small`], in a store whose blocks have another most of bytes.
pub fn is_small_of(events: u32, bytes: usize, bytes_max: usize) -> bool {
    (events as usize) < BLOCK_EVENTS_MAX / 2 && bytes < bytes_max / 2
}

/// A block as it is handed to a store.
#[derive(Clone, Debug)]
pub struct EncodedBlock {
    /// The partition it belongs to.
    pub partition: Arc<Partition>,
    /// Where it stands in it.
    pub address: BlockAddress,
    /// Events inside.
    pub events: u32,
    /// The encoding (see [`crate::block`]).
    pub bytes: Bytes,
}

/// A block as a store gives it back.
#[derive(Clone, Debug)]
pub struct StoredBlock {
    /// Where it stood.
    pub address: BlockAddress,
    /// The encoding, unchecked.
    pub bytes: Bytes,
}

/// What to scan: partitions in ascending order, all for the same range of event time.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The partitions; sorted, distinct.
    pub partitions: Arc<[Partition]>,
    /// Blocks that overlap this range are given, others need not be.
    pub range: TimeRange,
    /// What the scan must show.
    pub consistency: Consistency,
}

/// What a read must show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Every write that was answered before the read began.
    #[default]
    Strong,
    /// Some state of not long ago; where a store has nothing cheaper, the same as strong.
    Eventual,
}

/// Where the next page goes on; only the store that made it can read it. A store may keep a
/// snapshot inside, so that all pages of a scan show one state.
pub type PageToken = Arc<dyn Any + Send + Sync>;

/// One page of a scan.
#[derive(Clone, Default)]
pub struct ScanPage {
    /// Blocks, each with the index of its partition in [`Scan::partitions`]; within a partition in
    /// the order of their addresses.
    pub blocks: Vec<(u32, StoredBlock)>,
    /// Partitions (by index) that this page answered to their end; one without blocks is answered
    /// too, by saying so.
    pub answered: Vec<u32>,
    /// The next page, unless this is the last.
    pub next: Option<PageToken>,
}

/// A catalog document and the version that a swap must name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Content.
    pub bytes: Bytes,
    /// Changes with every write.
    pub etag: u64,
}

/// What a conditional write found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// Written; the document's new etag.
    Done(u64),
    /// The document was not as expected; nothing was written, unless on its way the request was
    /// doubled (a driver that sends again): then its first copy may have been.
    Conflict,
}

/// What went wrong; a kind exists only where callers act differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreErrorKind {
    /// Nothing was done; may work later.
    Unavailable,
    /// It may or may not have been done. Retry with the same block id and bytes.
    Unknown,
    /// No room; nothing was done.
    Full,
    /// The store takes no writes (read-only, or poisoned by an earlier I/O error) until an
    /// operator acts; nothing was done. Reads go on.
    ReadOnly,
    /// The store refuses the rate; nothing was done.
    Throttled,
    /// What was read is not what was written.
    Corrupt,
}

/// A store's error.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// How the caller should act.
    pub kind: StoreErrorKind,
    /// What happened, for an operator.
    pub message: String,
}

impl StoreError {
    /// An error of this kind.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> StoreError {
        StoreError { kind, message: message.into() }
    }
}

/// A UTC day, counted from 1970-01-01.
pub type Day = i32;

/// The UTC day of an instant.
pub fn day_of(ts: Timestamp) -> Day {
    ts.nanos().div_euclid(Span::DAY.nanos()) as Day
}

/// A UTC day as a range; the first and the last of i64 are cut short.
pub fn day_range(day: Day) -> TimeRange {
    let start = |day: i64| Timestamp::from_nanos(day.saturating_mul(Span::DAY.nanos()));
    TimeRange { from: start(day.into()), to: start(i64::from(day) + 1) }
}

/// What every store can do. Object-safe, so that wrappers (faults, metrics) stack.
pub trait Store: Send + Sync + 'static {
    /// Makes blocks durable, any number of partitions together. Idempotent by block address:
    /// the same block again changes nothing. After an error any part of them may stand, and
    /// [`StoreErrorKind::Unknown`] says that it is not known which.
    fn append(&self, blocks: Vec<EncodedBlock>) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Most bytes that an encoded block should have here.
    fn block_bytes_max(&self) -> usize {
        BLOCK_BYTES_MAX
    }

    /// One page of a scan; every block that was durable when the scan began is in one of them.
    fn scan<'a>(&'a self, scan: &'a Scan, page: Option<PageToken>) -> BoxFuture<'a, Result<ScanPage, StoreError>>;

    /// Whether scans with [`Consistency::Eventual`] may show less than others do.
    fn reads_eventually(&self) -> bool {
        false
    }

    /// The least part of the scan's range, at one end of it, whose blocks are sure to hold so many
    /// rows, going by addresses and counts alone; the whole range where they hold fewer. A hint of
    /// what to scan, no more. `None`: this store can't tell without reading blocks.
    fn narrow<'a>(&'a self, _scan: &'a Scan, _enough: Enough) -> BoxFuture<'a, Result<Option<TimeRange>, StoreError>> {
        ready(Ok(None)).boxed()
    }

    /// Puts `new` in the place of exactly the blocks `old` of one partition. Atomic where
    /// [`Store::replaces_atomically`]; elsewhere the caller appends, waits the grace and deletes.
    fn replace<'a>(
        &'a self,
        partition: &'a Partition,
        old: &'a [BlockAddress],
        new: Vec<EncodedBlock>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            self.append(new).await?;
            self.delete(partition, old).await
        }
        .boxed()
    }

    /// Whether a scan never sees a [`Store::replace`] half done.
    fn replaces_atomically(&self) -> bool;

    /// Deletes exactly these blocks; absent ones are no error.
    fn delete<'a>(&'a self, partition: &'a Partition, blocks: &'a [BlockAddress]) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Partitions with at least `least` blocks of fewer than half the most events, for
    /// compaction; at most `most` of them, going on behind `after`. Those that stand alone
    /// between full ones, fewer than [`SMALL_RUN_LEAST`] side by side, need not count.
    fn fragmented<'a>(
        &'a self,
        least: usize,
        after: Option<&'a Partition>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Partition>, StoreError>>;

    /// The part of event time that holds the small blocks of a partition that count, for compaction;
    /// all of it where the store can't tell without reading blocks.
    fn fragments<'a>(&'a self, _partition: &'a Partition) -> BoxFuture<'a, Result<TimeRange, StoreError>> {
        ready(Ok(TimeRange::ALL)).boxed()
    }

    /// Reads a document, linearizably.
    fn read_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Document>, StoreError>>;

    /// Writes a document if it is as `expected`: absent, or of this etag.
    fn swap_document<'a>(&'a self, name: &'a str, expected: Option<u64>, bytes: Bytes) -> BoxFuture<'a, Result<Swap, StoreError>>;

    /// Deletes a document; absent is no error. Only for documents that nothing names any more.
    fn delete_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Notes, durably, that these (key, day) of a namespace hold data. Idempotent.
    fn note_days<'a>(&'a self, ns: &'a Namespace, days: &'a [(Arc<str>, Day)]) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Keys of a namespace that begin with `prefix`, in byte order behind `after`, at most `limit`.
    fn keys<'a>(
        &'a self,
        ns: &'a Namespace,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;

    /// Days of a key that were noted, ascending, within `[from, to]`.
    fn days<'a>(&'a self, ns: &'a Namespace, key: &'a str, from: Day, to: Day) -> BoxFuture<'a, Result<Vec<Day>, StoreError>>;

    /// What time it is by the store's own clock, where it has one that is not this machine's.
    fn read_clock(&self) -> BoxFuture<'_, Result<Option<Timestamp>, StoreError>> {
        ready(Ok(None)).boxed()
    }

    /// Whether writes can be taken now; the reason where not.
    fn health(&self) -> Result<(), StoreError>;
}

//! Why a read was refused or failed. Chooses no status: `http/problem.rs` does.

use braid_shared::catalog::CatalogError;
use braid_shared::cold::DatabaseError;
use braid_shared::layout::LayoutVersion;
use braid_shared::model::Timestamp;
use braid_shared::partition::Partition;
use braid_shared::store::StoreError;

/// A read's error; a kind exists only where the answer differs.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QueryError {
    /// A parameter, path or body that the call does not take.
    #[error("{0}")]
    Invalid(String),
    /// Not a namespace's name.
    #[error("{0}")]
    NamespaceInvalid(String),
    /// A body over its bound.
    #[error("the body is larger than {0} bytes")]
    BodyTooLarge(usize),
    /// A cursor that was altered, or belongs to another query.
    #[error("the cursor was altered or belongs to another query")]
    CursorInvalid,
    /// No such event.
    #[error("no event of this id in what was read")]
    EventNotFound,
    /// An answer over its bounds.
    #[error("{0}")]
    ResultTooLarge(String),
    /// The catalog refused or failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store did not answer in time.
    #[error("the store did not answer within {seconds} s")]
    StoreTimeout {
        /// How long it was waited for.
        seconds: u64,
    },
    /// Not every planned shard answered to its end.
    #[error("{answered} of {expected} shards answered")]
    ShardCountMismatch {
        /// Partitions planned.
        expected: usize,
        /// Partitions that answered once, to their end.
        answered: usize,
        /// The others; the first of them.
        missing: Vec<Missing>,
    },
    /// A block that is damaged, or of another place than planned.
    #[error("a block of partition {} is not sound: {why}", place(.partition))]
    BlockDamaged {
        /// Where it was read.
        partition: Box<Partition>,
        /// What is wrong.
        why: String,
    },
    /// A table file is missing or altered, or its database can't be read.
    #[error("a table can't be read: {0}")]
    Table(#[from] DatabaseError),
    /// Reading took longer than what was read is sure to stand.
    #[error("reading one part took longer than {seconds} s; try again, or a shorter range")]
    Deadline {
        /// The deadline.
        seconds: u64,
    },
    /// More reads are in flight than the bound allows.
    #[error("more than {0} reads are in flight")]
    Overloaded(usize),
    /// A fault of Braid's own.
    #[error("internal error: {0}")]
    Internal(String),
}

/// A partition that did not answer, or whose answer is not sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Logical key.
    pub key: String,
    /// Start of the bucket.
    pub bucket: Timestamp,
    /// Layout version.
    pub version: LayoutVersion,
    /// Suffix.
    pub suffix: u32,
    /// Why it is missing.
    pub reason: String,
}

impl Missing {
    /// Names a partition.
    pub fn of(partition: &Partition, reason: impl Into<String>) -> Missing {
        Missing {
            key: partition.key.to_string(),
            bucket: partition.bucket,
            version: partition.version,
            suffix: partition.suffix,
            reason: reason.into(),
        }
    }
}

/// A partition in words.
fn place(partition: &Partition) -> String {
    let Partition { ns, key, bucket, version, suffix } = partition;
    format!("namespace {ns}, key {key:?}, bucket {bucket}, layout {}, suffix {suffix}", version.revision)
}

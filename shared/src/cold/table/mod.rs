//! Table files: a bucket's merged events as Parquet that DuckDB, Spark and Athena read as it is, and
//! that gives back every part of every event with the stamp it was written by.
//!
//! `schema`: the columns; `write` → `rows` → `encoding`, and `read`, `run`: the two ways; `digest`: what proves that they agree.
//! Works on bytes in memory; knows no database.

mod digest;
mod encoding;
mod read;
mod rows;
mod run;
mod schema;
#[cfg(test)]
mod tests;
mod write;

use serde::{Deserialize, Serialize};

pub use digest::Digest;
pub use read::TableReader;
pub use run::Run;
pub use write::{TableWriter, Written};

use crate::layout::LayoutVersion;
use crate::model::{Namespace, Timestamp};

/// Format of table files; another one is refused by number.
const FORMAT: u32 = 1;

/// What a file says of itself, in its footer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Format of the file.
    format: u32,
    /// Namespace.
    pub namespace: Namespace,
    /// Logical key.
    pub key: String,
    /// Start of the bucket, nanoseconds.
    pub bucket: i64,
    /// Version of the layout whose bucket it is.
    pub version: LayoutVersion,
}

impl About {
    /// A file of this bucket.
    pub fn new(namespace: Namespace, key: &str, bucket: Timestamp, version: LayoutVersion) -> About {
        About { format: FORMAT, namespace, key: key.to_owned(), bucket: bucket.nanos(), version }
    }
}

/// Why a file could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// It is no sound Parquet.
    #[error("no sound Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// It is sound, and not what it should be.
    #[error("{0}")]
    Damaged(&'static str),
    /// It says that it is something else.
    #[error("it is another table than the one that was asked for: {0}")]
    Misplaced(String),
}

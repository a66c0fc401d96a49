//! A layout: how many shards a key has, how wide its buckets are, and what it shards by.
//!
//! Pure; placement of one event is [`Layout::suffix`] and [`Layout::bucket`].

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{BUCKET_SECONDS_MAX, BUCKET_SECONDS_MIN, SHARDS_MAX, SHARDS_MIN};
use crate::model::{Span, TimeRange, Timestamp};

/// A layout's version: the catalog revision that published it (0 for a namespace's first layout)
/// and random bits, so that a catalog restored from a backup can never reuse a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LayoutVersion {
    /// What people and the HTTP API call the version.
    pub revision: u64,
    /// Random bits.
    pub nonce: u32,
}

/// What decides placement at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Unique in the namespace for ever.
    pub version: LayoutVersion,
    /// N, 1 to 4,096.
    pub shards: u32,
    /// Width of a bucket, 1 s to 365 d.
    pub bucket: Span,
    /// Which part of the event is hashed.
    pub shard_by: ShardBy,
}

/// The name that is hashed into a suffix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ShardBy {
    /// The event's id.
    #[default]
    Id,
    /// The value of a tag; it, or its absence, is then part of the event's identity.
    Tag(Arc<str>),
}

/// Why a layout was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LayoutError {
    /// Shard count out of bounds.
    #[error("shards must be {SHARDS_MIN} to {SHARDS_MAX}")]
    Shards,
    /// Bucket width out of bounds.
    #[error("bucket must be 1s to 365d")]
    Bucket,
}

/// `xxh3_64(name) mod shards`: the suffix function. Known answers: `testdata/suffix.json`.
pub fn suffix(name: &[u8], shards: u32) -> u32 {
    (xxh3_64(name) % u64::from(shards)) as u32
}

impl Layout {
    /// Checks the bounds of a layout's numbers.
    pub fn check(shards: u32, bucket: Span) -> Result<(), LayoutError> {
        let seconds = Span::SECOND.nanos();
        if !(SHARDS_MIN..=SHARDS_MAX).contains(&shards) {
            return Err(LayoutError::Shards);
        }
        if !(BUCKET_SECONDS_MIN * seconds..=BUCKET_SECONDS_MAX * seconds).contains(&bucket.nanos()) {
            return Err(LayoutError::Bucket);
        }
        Ok(())
    }

    /// The suffix of an event with this id and this value of the layout's tag, if it has one.
    /// An event without the tag is placed as if the tag were empty.
    pub fn suffix(&self, id: &str, shard_tag: Option<&str>) -> u32 {
        let name = match self.shard_by {
            ShardBy::Id => id,
            ShardBy::Tag(_) => shard_tag.unwrap_or(""),
        };
        suffix(name.as_bytes(), self.shards)
    }

    /// Start of the bucket that holds `ts`.
    pub fn bucket(&self, ts: Timestamp) -> Timestamp {
        ts.floor(self.bucket)
    }

    /// The bucket that begins at `start`, as a range. The earliest one begins at
    /// [`Timestamp::MIN`] and is cut short there.
    pub fn bucket_range(&self, start: Timestamp) -> TimeRange {
        let to = if start == Timestamp::MIN {
            let past = start.nanos().rem_euclid(self.bucket.nanos());
            Timestamp::from_nanos(start.nanos() + (self.bucket.nanos() - past))
        } else {
            start.saturating_add(self.bucket)
        };
        TimeRange { from: start, to }
    }
}

impl ShardBy {
    /// The tag that is hashed, if it is a tag.
    pub fn tag(&self) -> Option<&str> {
        match self {
            ShardBy::Id => None,
            ShardBy::Tag(name) => Some(name),
        }
    }
}

impl From<String> for ShardBy {
    /// `id`, or a tag's name; `tag:id` for the tag that is called `id`.
    fn from(text: String) -> ShardBy {
        match text.as_str() {
            "id" => ShardBy::Id,
            other => ShardBy::Tag(other.strip_prefix("tag:").unwrap_or(other).into()),
        }
    }
}

impl From<ShardBy> for String {
    fn from(by: ShardBy) -> String {
        by.to_string()
    }
}

impl fmt::Display for ShardBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShardBy::Id => f.write_str("id"),
            ShardBy::Tag(name) if &**name == "id" || name.starts_with("tag:") => write!(f, "tag:{name}"),
            ShardBy::Tag(name) => f.write_str(name),
        }
    }
}

//! The name of a partition and its one codec.
//!
//! Injective and prefix-free: lengths stand before what they measure, so no namespace or key can
//! collide with another by what it contains. Byte order sorts a key's partitions by bucket, then
//! layout version, then suffix, so that neighbours in time are neighbours on disk.

use std::sync::Arc;

use crate::layout::LayoutVersion;
use crate::model::{Namespace, Timestamp};

/// One partition key in a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// Namespace.
    pub ns: Namespace,
    /// Logical key.
    pub key: Arc<str>,
    /// Start of the bucket.
    pub bucket: Timestamp,
    /// Version of the layout that placed it.
    pub version: LayoutVersion,
    /// Suffix, below the layout's shard count.
    pub suffix: u32,
}

/// Appends `text` behind its length (u16, big-endian).
fn put_text(out: &mut Vec<u8>, text: &str) {
    let len = u16::try_from(text.len()).expect("names are bounded far below 64 KiB");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Orders as the timestamp does, as bytes.
pub fn ordered_time(ts: Timestamp) -> [u8; 8] {
    ((ts.nanos() as u64) ^ (1 << 63)).to_be_bytes()
}

/// Reads [`ordered_time`] back.
pub fn time_from_ordered(bytes: [u8; 8]) -> Timestamp {
    Timestamp::from_nanos((u64::from_be_bytes(bytes) ^ (1 << 63)) as i64)
}

/// The bytes that begin every partition key of one logical key.
pub fn key_prefix(ns: &Namespace, key: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(ns.as_str().len() + key.len() + 28);
    put_text(&mut out, ns.as_str());
    put_text(&mut out, key);
    out
}

impl Partition {
    /// The partition key's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = key_prefix(&self.ns, &self.key);
        out.extend_from_slice(&ordered_time(self.bucket));
        out.extend_from_slice(&self.version.revision.to_be_bytes());
        out.extend_from_slice(&self.version.nonce.to_be_bytes());
        out.extend_from_slice(&self.suffix.to_be_bytes());
        out
    }

    /// Reads a partition key from the front of `bytes`; gives it and what follows.
    pub fn decode(bytes: &[u8]) -> Option<(Partition, &[u8])> {
        let (ns, rest) = take_text(bytes)?;
        let (key, rest) = take_text(rest)?;
        let (bucket, rest) = rest.split_first_chunk::<8>()?;
        let (revision, rest) = rest.split_first_chunk::<8>()?;
        let (nonce, rest) = rest.split_first_chunk::<4>()?;
        let (suffix, rest) = rest.split_first_chunk::<4>()?;
        let partition = Partition {
            ns: ns.parse().ok()?,
            key: key.into(),
            bucket: time_from_ordered(*bucket),
            version: LayoutVersion { revision: u64::from_be_bytes(*revision), nonce: u32::from_be_bytes(*nonce) },
            suffix: u32::from_be_bytes(*suffix),
        };
        Some((partition, rest))
    }
}

fn take_text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    let (text, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

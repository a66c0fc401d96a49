//! The catalog's documents in the store: their frame, and calls that end within a deadline.
//!
//! A document is JSON, a line feed and the JSON's checksum in hex, so that a flipped digit is an
//! error and not another layout.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use xxhash_rust::xxh3::xxh3_64;

use super::CatalogError;
use crate::model::Timestamp;
use crate::store::{Store, StoreError, StoreErrorKind, Swap};

/// Longest a call on one document may take; past it the outcome is unknown.
const CALL_DEADLINE: Duration = Duration::from_secs(5);

/// Format of every document; another one is refused by name.
const FORMAT: u32 = 1;

/// Times that the write of a document which nothing names yet is tried.
const CREATE_TRIES: u32 = 3;

/// Hex digits of the checksum and the line feed before it.
const TRAILER_BYTES: usize = 17;

#[derive(Serialize, Deserialize)]
struct Framed<T> {
    format: u32,
    content: T,
}

/// Why a document could not be decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damaged {
    /// Its checksum does not fit it.
    #[error("its checksum is wrong")]
    Checksum,
    /// It is not what it should be.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// Written by another version of the program.
    #[error("its format is {0}, and this program knows {FORMAT}")]
    Format(u32),
}

/// Encodes a document.
pub(crate) fn encode(content: &impl Serialize) -> Bytes {
    let mut bytes = serde_json::to_vec(&Framed { format: FORMAT, content }).expect("plain data serializes");
    let sum = xxh3_64(&bytes);
    bytes.extend_from_slice(format!("\n{sum:016x}").as_bytes());
    bytes.into()
}

/// Decodes a document.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Damaged> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let (json, trailer) = bytes.split_at_checked(bytes.len().saturating_sub(TRAILER_BYTES)).ok_or(Damaged::Checksum)?;
    if trailer != format!("\n{:016x}", xxh3_64(json)).as_bytes() {
        return Err(Damaged::Checksum);
    }
    let Format { format } = serde_json::from_slice(json)?;
    if format != FORMAT {
        return Err(Damaged::Format(format));
    }
    Ok(serde_json::from_slice::<Framed<T>>(json)?.content)
}

/// The store's document calls, each within a deadline.
#[derive(Clone)]
pub(crate) struct Documents {
    store: Arc<dyn Store>,
}

impl Documents {
    pub(crate) fn new(store: Arc<dyn Store>) -> Documents {
        Documents { store }
    }

    /// Reads and decodes a document, with its etag.
    pub(crate) async fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<(T, u64)>, CatalogError> {
        let Some(document) = within_deadline(self.store.read_document(name)).await? else {
            return Ok(None);
        };
        let content = decode(&document.bytes).map_err(|e| CatalogError::Stale(format!("document {name} is damaged: {e}")))?;
        Ok(Some((content, document.etag)))
    }

    /// Swaps a document; the store's own outcome, a call that did not end in time being unknown.
    pub(crate) async fn swap(&self, name: &str, expected: Option<u64>, bytes: Bytes) -> Result<Swap, StoreError> {
        within_deadline(self.store.swap_document(name, expected, bytes)).await
    }

    /// Writes a document under a name never used before. Found in place, it is an earlier try's.
    pub(crate) async fn create(&self, name: &str, bytes: Bytes) -> Result<(), CatalogError> {
        let mut tries = 1;
        loop {
            match self.swap(name, None, bytes.clone()).await {
                Ok(Swap::Done(_) | Swap::Conflict) => return Ok(()),
                Err(e) if e.kind == StoreErrorKind::Unknown && tries < CREATE_TRIES => tries += 1,
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// The store's own clock, where it shows one.
    pub(crate) async fn clock(&self) -> Result<Option<Timestamp>, StoreError> {
        within_deadline(self.store.read_clock()).await
    }

    /// Deletes documents that nothing names any more; what can't be deleted stays as waste.
    pub(crate) async fn discard(&self, names: impl IntoIterator<Item = String>) {
        for name in names {
            if let Err(error) = within_deadline(self.store.delete_document(&name)).await {
                tracing::debug!(%name, %error, "a catalog document that nothing names was left behind");
            }
        }
    }
}

/// Awaits a call, but no longer than the deadline.
async fn within_deadline<T>(call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    timeout(CALL_DEADLINE, call).await.unwrap_or_else(|_| {
        let waited = CALL_DEADLINE.as_secs();
        Err(StoreError::new(StoreErrorKind::Unknown, format!("the store did not answer within {waited} s")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_survives_its_encoding() {
        assert_eq!(decode::<Vec<u64>>(&encode(&vec![1u64, u64::MAX])).unwrap(), [1, u64::MAX]);
    }

    #[test]
    fn any_changed_or_missing_byte_is_damage() {
        let bytes = encode(&vec![10u64, 20]);
        for at in 0..bytes.len() {
            let mut wrong = bytes.to_vec();
            wrong[at] ^= 1;
            assert!(decode::<Vec<u64>>(&wrong).is_err(), "byte {at}");
            assert!(decode::<Vec<u64>>(&bytes[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let json = br#"{"format":2,"anything":true}"#;
        let bytes = [json.as_slice(), format!("\n{:016x}", xxh3_64(json)).as_bytes()].concat();
        assert!(matches!(decode::<Vec<u64>>(&bytes), Err(Damaged::Format(2))));
    }
}

//! Items of the table: their attributes, and what they weigh. Pure.
//!
//! Attribute names are one letter, since every item pays for them.

use std::collections::HashMap;
use std::sync::Arc;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, DeleteRequest, PutRequest, WriteRequest};
use bytes::Bytes;

use super::keys::{self, Key};
use crate::model::Namespace;
use crate::partition::Partition;
use crate::store::{BlockAddress, Day, EncodedBlock};

/// Partition key.
pub(super) const PK: &str = "pk";
/// Sort key.
pub(super) const SK: &str = "sk";
/// Content: a block's or a document's bytes.
pub(super) const DATA: &str = "d";
/// A document's etag.
pub(super) const ETAG: &str = "e";
/// When DynamoDB may delete the item, seconds since 1970 (where the table has a time to live).
pub(super) const EXPIRES: &str = "x";

/// What one write unit carries.
const UNIT_BYTES: usize = 1024;

pub(super) type Attributes = HashMap<String, AttributeValue>;

/// A write of one item: a put, or a delete where there is no content.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) key: Key,
    /// Content; none for an item that says all by being there.
    pub(super) put: Option<Put>,
    /// The partition whose block it is.
    pub(super) partition: Option<Arc<Partition>>,
}

/// What is put.
#[derive(Clone, Debug, Default)]
pub(super) struct Put {
    pub(super) data: Option<Bytes>,
    pub(super) expires: Option<u64>,
    /// Events inside, for the account of what they cost.
    pub(super) events: u32,
}

fn binary(bytes: impl Into<Vec<u8>>) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
}

/// The attributes that name an item.
pub(super) fn key_attributes(key: &Key) -> Attributes {
    HashMap::from([(PK.to_owned(), binary(key.pk.clone())), (SK.to_owned(), binary(key.sk.clone()))])
}

/// A binary attribute's bytes, taken out of an item.
pub(super) fn take_binary(item: &mut Attributes, name: &str) -> Option<Vec<u8>> {
    match item.remove(name) {
        Some(AttributeValue::B(blob)) => Some(blob.into_inner()),
        _ => None,
    }
}

/// The key of an item, or of one that a request names.
pub(super) fn key_of(item: &Attributes) -> Option<Key> {
    let bytes = |name| item.get(name)?.as_b().ok().map(|blob| blob.as_ref().to_vec());
    Some(Key { pk: bytes(PK)?, sk: bytes(SK)? })
}

/// The key that a request of a batch is about.
pub(super) fn key_of_request(request: &WriteRequest) -> Option<Key> {
    let put = request.put_request().map(PutRequest::item);
    key_of(put.or_else(|| request.delete_request().map(DeleteRequest::key))?)
}

impl Write {
    /// Puts a block; `ttl_seconds` after its last event and its writing it may go.
    pub(super) fn block(block: EncodedBlock, ttl_seconds: Option<u64>) -> Write {
        let key = Key { pk: keys::blocks_pk(&block.partition), sk: keys::block_sk(&block.address) };
        let expires = ttl_seconds.map(|ttl| expiry(&block.address).saturating_add(ttl));
        let put = Put { data: Some(block.bytes), expires, events: block.events };
        Write { key, put: Some(put), partition: Some(block.partition) }
    }

    /// Deletes a block.
    pub(super) fn no_block(partition: &Arc<Partition>, address: &BlockAddress) -> Write {
        let key = Key { pk: keys::blocks_pk(partition), sk: keys::block_sk(address) };
        Write { key, put: None, partition: Some(partition.clone()) }
    }

    /// Notes that a namespace has a logical key.
    pub(super) fn name(ns: &Namespace, key: &str) -> Write {
        Write { key: keys::name(ns, key), put: Some(Put::default()), partition: None }
    }

    /// Notes that a logical key has data on a day.
    pub(super) fn day(ns: &Namespace, key: &str, day: Day) -> Write {
        Write { key: Key { pk: keys::days_pk(ns, key), sk: keys::day_sk(day) }, put: Some(Put::default()), partition: None }
    }

    /// The item that is put; `None` for a delete.
    pub(super) fn item(&self) -> Option<Attributes> {
        let put = self.put.as_ref()?;
        let mut item = key_attributes(&self.key);
        if let Some(data) = &put.data {
            item.insert(DATA.to_owned(), binary(data.to_vec()));
        }
        if let Some(expires) = put.expires {
            item.insert(EXPIRES.to_owned(), AttributeValue::N(expires.to_string()));
        }
        Some(item)
    }

    /// The write as part of a batch.
    pub(super) fn request(&self) -> Result<WriteRequest, BuildError> {
        let request = WriteRequest::builder();
        Ok(match self.item() {
            Some(item) => request.put_request(PutRequest::builder().set_item(Some(item)).build()?).build(),
            None => request.delete_request(DeleteRequest::builder().set_key(Some(key_attributes(&self.key))).build()?).build(),
        })
    }

    /// Bytes that are sent.
    pub(super) fn bytes(&self) -> usize {
        let data = self.put.as_ref().and_then(|put| put.data.as_ref()).map_or(0, |data| data.len() + DATA.len());
        let expires = self.put.as_ref().and_then(|put| put.expires).map_or(0, |_| 8);
        PK.len() + self.key.pk.len() + SK.len() + self.key.sk.len() + data + expires
    }

    /// Write units that it should cost; shares out what a batch did cost.
    pub(super) fn units(&self) -> f64 {
        self.bytes().div_ceil(UNIT_BYTES) as f64
    }

    /// Events inside.
    pub(super) fn events(&self) -> u64 {
        self.put.as_ref().map_or(0, |put| u64::from(put.events))
    }
}

/// The later of a block's last event and its writing, seconds. By the id, not the clock, so that
/// a block written again is the same block.
fn expiry(address: &BlockAddress) -> u64 {
    let last = u64::try_from(address.max_ts.nanos()).unwrap_or(0);
    last.max(address.id.time) / 1_000_000_000
}

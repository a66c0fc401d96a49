//! Documents of the catalog: conditional puts, and reads that see every write before them.
//!
//! An etag is random, so it tells one attempt to swap from every other there ever was: whether a swap without
//! an answer was done can be read off the document.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, ReturnConsumedCapacity};
use bytes::Bytes;

use super::engine::Engine;
use super::failure::{Failure, Kind};
use super::items::{DATA, ETAG, PK, key_attributes, take_binary};
use super::keys;
use super::retry::Tries;
use super::units::{Purpose, consumed};
use crate::store::{Document, StoreError, StoreErrorKind, Swap};

impl Engine {
    /// Reads a document, linearizably.
    pub(super) async fn document(&self, name: &str, allowed: Duration) -> Result<Option<Document>, StoreError> {
        let key = key_attributes(&keys::document(name));
        let call = self.client.get_item().table_name(&self.table).set_key(Some(key)).consistent_read(true);
        let call = call.return_consumed_capacity(ReturnConsumedCapacity::Total);
        let answer = self.read(allowed, || self.call("GetItem", call.clone().send())).await?;
        self.units.read(None, Purpose::Documents, consumed(answer.consumed_capacity()));
        let Some(mut item) = answer.item else { return Ok(None) };
        let etag = match item.get(ETAG) {
            Some(AttributeValue::N(etag)) => etag.parse().ok(),
            _ => None,
        };
        let bytes = take_binary(&mut item, DATA).map(Bytes::from);
        let whole = bytes.zip(etag).map(|(bytes, etag)| Document { bytes, etag });
        whole.map(Some).ok_or_else(|| Failure::corrupt(format!("document {name}: the item is not what Braid writes")))
    }

    /// Writes a document if it is as expected.
    pub(super) async fn swap(&self, name: &str, expected: Option<u64>, bytes: Bytes, allowed: Duration) -> Result<Swap, StoreError> {
        let etag: u64 = rand::random();
        let mut tries = Tries::of_write(allowed);
        loop {
            match self.put_if(name, expected, &bytes, etag).await {
                Ok(()) => return Ok(Swap::Done(etag)),
                Err(failure) if failure.kind == Kind::Condition && !tries.doubt => return Ok(Swap::Conflict),
                Err(failure) if failure.kind == Kind::Condition => return self.was_it_us(name, etag, allowed).await,
                Err(failure) => self.try_again(&mut tries, failure, Duration::ZERO).await?,
            }
        }
    }

    async fn put_if(&self, name: &str, expected: Option<u64>, bytes: &Bytes, etag: u64) -> Result<(), Failure> {
        let mut item = key_attributes(&keys::document(name));
        item.insert(DATA.to_owned(), AttributeValue::B(bytes.to_vec().into()));
        item.insert(ETAG.to_owned(), AttributeValue::N(etag.to_string()));
        let call = self.client.put_item().table_name(&self.table).set_item(Some(item));
        let call = match expected {
            None => call.condition_expression(format!("attribute_not_exists({PK})")),
            Some(expected) => {
                let values = HashMap::from([(":e".to_owned(), AttributeValue::N(expected.to_string()))]);
                call.condition_expression(format!("{ETAG} = :e")).set_expression_attribute_values(Some(values))
            }
        };
        let answer = self.call("PutItem", call.return_consumed_capacity(ReturnConsumedCapacity::Total).send()).await?;
        self.units.wrote_document(consumed(answer.consumed_capacity()));
        Ok(())
    }

    /// After an attempt without an answer and one that found the document changed.
    async fn was_it_us(&self, name: &str, etag: u64, allowed: Duration) -> Result<Swap, StoreError> {
        match self.document(name, allowed).await {
            Ok(Some(document)) if document.etag == etag => Ok(Swap::Done(etag)),
            // Ours may have stood for a while before what stands now.
            Ok(_) => Err(StoreError::new(
                StoreErrorKind::Unknown,
                format!("document {name} was changed by another while the outcome was unknown"),
            )),
            Err(error) => Err(StoreError { kind: StoreErrorKind::Unknown, ..error }),
        }
    }

    /// Deletes a document.
    pub(super) async fn delete_document(&self, name: &str, allowed: Duration) -> Result<(), StoreError> {
        let key = key_attributes(&keys::document(name));
        let call = self.client.delete_item().table_name(&self.table).set_key(Some(key));
        let call = call.return_consumed_capacity(ReturnConsumedCapacity::Total);
        let mut tries = Tries::of_write(allowed);
        loop {
            match self.call("DeleteItem", call.clone().send()).await {
                Ok(answer) => {
                    self.units.wrote_document(consumed(answer.consumed_capacity()));
                    return Ok(());
                }
                Err(failure) => self.try_again(&mut tries, failure, Duration::ZERO).await?,
            }
        }
    }
}

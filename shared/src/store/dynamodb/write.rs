//! Writes: many items as few batches, and what a batch left undone item by item, until every one is
//! done or the deadline has come.
//!
//! Every write here is idempotent: the same key gets the same bytes, however often it is sent. Of items that
//! a batch left undone the engine does not say why; it does say it of a single one. So those are
//! sent singly, and a hot partition's wait is its own.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use futures::future::join_all;

use super::engine::Engine;
use super::failure::{Failure, Kind};
use super::items::{Write, key_attributes, key_of_request};
use super::retry::Tries;
use super::units::{Purpose, consumed};
use crate::model::Namespace;
use crate::store::{StoreError, StoreErrorKind};

/// Most items of a batch, by the engine's own limit.
const BATCH_ITEMS_MAX: usize = 25;
/// Most bytes of a batch: far below the engine's 16 MiB, so that one attempt does not take long.
const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Whose writes these are, and what for.
#[derive(Clone, Copy)]
pub(super) struct Account<'a> {
    pub(super) ns: &'a Namespace,
    pub(super) purpose: Purpose,
}

impl Engine {
    /// Does all of these. After an error any part of them may be done.
    pub(super) async fn write(&self, account: Account<'_>, writes: Vec<Write>, allowed: Duration) -> Result<(), StoreError> {
        let outcomes =
            join_all(batches(distinct(writes)).into_iter().map(|batch| self.write_batch(account, batch, Tries::of_write(allowed))));
        worst(outcomes.await)
    }

    async fn write_batch(&self, account: Account<'_>, batch: Vec<Write>, mut tries: Tries) -> Result<(), StoreError> {
        if batch.len() == 1 {
            return worst(join_all(batch.iter().map(|write| self.write_single(account, write, tries.clone()))).await);
        }
        let left = loop {
            match self.send_batch(account, &batch).await {
                Ok(left) => break left,
                Err(failure) if matches!(failure.kind, Kind::Throttled(_)) => break batch,
                Err(failure) => self.try_again(&mut tries, failure, Duration::ZERO).await?,
            }
        };
        let singly = left.iter().map(|write| self.write_left(account, write, tries.clone()));
        worst(join_all(singly).await)
    }

    /// Writes what a batch left undone.
    async fn write_left(&self, account: Account<'_>, write: &Write, mut tries: Tries) -> Result<(), StoreError> {
        let undone = Failure::new(Kind::Unavailable, "dynamodb BatchWriteItem: an item was left undone");
        self.try_again(&mut tries, undone, self.budgets.take(&write.key.pk)).await?;
        self.write_single(account, write, tries).await
    }

    async fn write_single(&self, account: Account<'_>, write: &Write, mut tries: Tries) -> Result<(), StoreError> {
        loop {
            let Err(failure) = self.send_single(account, write).await else { return Ok(()) };
            if let Kind::Throttled(throttle) = failure.kind {
                self.units.throttled(throttle, write.partition.as_deref());
            }
            self.try_again(&mut tries, failure, self.budgets.take(&write.key.pk)).await?;
        }
    }

    /// One attempt of a batch; gives what it left undone.
    async fn send_batch(&self, account: Account<'_>, batch: &[Write]) -> Result<Vec<Write>, Failure> {
        let requests = batch.iter().map(Write::request).collect::<Result<Vec<_>, _>>();
        let requests = requests.map_err(|error| Failure::new(Kind::Refused, error.to_string()))?;
        let call = self.client.batch_write_item().request_items(&self.table, requests);
        let answer = self.call("BatchWriteItem", call.return_consumed_capacity(ReturnConsumedCapacity::Total).send()).await?;
        let mut by_key: HashMap<_, _> = batch.iter().map(|write| (&write.key, write)).collect();
        let mut left = Vec::new();
        for request in answer.unprocessed_items().into_iter().flat_map(HashMap::values).flatten() {
            let write = key_of_request(request).and_then(|key| by_key.remove(&key));
            left.push(
                write.ok_or_else(|| Failure::new(Kind::Unknown, "dynamodb BatchWriteItem: undone is what was not asked for"))?.clone(),
            );
        }
        self.units.unprocessed(left.len());
        let units = answer.consumed_capacity().iter().map(|capacity| consumed(Some(capacity))).sum();
        self.units.wrote(account.ns, account.purpose, units, &by_key.into_values().collect::<Vec<_>>());
        Ok(left)
    }

    async fn send_single(&self, account: Account<'_>, write: &Write) -> Result<(), Failure> {
        let total = ReturnConsumedCapacity::Total;
        let units = match write.item() {
            Some(item) => {
                let call = self.client.put_item().table_name(&self.table).set_item(Some(item)).return_consumed_capacity(total);
                consumed(self.call("PutItem", call.send()).await?.consumed_capacity())
            }
            None => {
                let key = Some(key_attributes(&write.key));
                let call = self.client.delete_item().table_name(&self.table).set_key(key).return_consumed_capacity(total);
                consumed(self.call("DeleteItem", call.send()).await?.consumed_capacity())
            }
        };
        self.units.wrote(account.ns, account.purpose, units, &[write]);
        Ok(())
    }
}

/// A batch must not name an item twice.
fn distinct(writes: Vec<Write>) -> Vec<Write> {
    let mut seen = std::collections::HashSet::with_capacity(writes.len());
    writes.into_iter().filter(|write| seen.insert(write.key.clone())).collect()
}

fn batches(writes: Vec<Write>) -> Vec<Vec<Write>> {
    let mut batches: Vec<Vec<Write>> = Vec::new();
    let mut bytes = 0;
    for write in writes {
        bytes += write.bytes();
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH_ITEMS_MAX && bytes <= BATCH_BYTES_MAX => batch.push(write),
            _ => {
                bytes = write.bytes();
                batches.push(vec![write]);
            }
        }
    }
    batches
}

/// The outcome of all together: in doubt if one is.
pub(super) fn worst(outcomes: Vec<Result<(), StoreError>>) -> Result<(), StoreError> {
    let errors = outcomes.into_iter().filter_map(Result::err);
    errors.min_by_key(|error| error.kind != StoreErrorKind::Unknown).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::dynamodb::items::Put;
    use crate::store::dynamodb::keys::Key;

    fn write(pk: u32, bytes: usize) -> Write {
        let put = Put { data: Some(vec![0; bytes].into()), ..Put::default() };
        Write { key: Key { pk: pk.to_be_bytes().to_vec(), sk: vec![0] }, put: Some(put), partition: None }
    }

    #[test]
    fn batches_keep_the_engines_limits_and_lose_nothing() {
        let writes: Vec<_> = (0..120).map(|pk| write(pk, if pk % 10 == 0 { 300_000 } else { 50 })).collect();
        let batches = batches(writes.clone());
        let bytes = |batch: &[Write]| batch.iter().map(Write::bytes).sum::<usize>();
        assert!(batches.iter().all(|batch| batch.len() <= BATCH_ITEMS_MAX && bytes(batch) <= BATCH_BYTES_MAX));
        assert_eq!(batches.concat().len(), writes.len());
        assert_eq!(distinct([writes.clone(), writes].concat()).len(), 120);
    }
}

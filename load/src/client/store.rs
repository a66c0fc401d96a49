//! Stores that are driven by their own client, one row or one item an event: what one would write by
//! hand without Braid.

pub(crate) mod cql_rows;
pub(crate) mod dynamodb_items;

use std::sync::Arc;

use super::{Delivery, Failure};
use crate::workload::{Portion, Read, Workload};
use cql_rows::Rows;
use dynamodb_items::Items;

/// A store, connected; all connections of a run share it.
#[derive(Clone)]
pub(crate) enum Store {
    Rows(Arc<Rows>),
    Items(Arc<Items>),
}

impl Store {
    /// Writes the events of a portion, each by itself as far as the store goes.
    pub(crate) async fn write(&self, workload: &Workload, portion: Portion) -> Delivery {
        match self {
            Store::Rows(rows) => rows.write(workload, portion).await,
            Store::Items(items) => items.write(workload, portion).await,
        }
    }

    /// Asks a read.
    pub(crate) async fn read(&self, read: &Read) -> Delivery {
        match self {
            Store::Rows(_) => Delivery::never(Failure::Refused("cql-rows is a baseline of writes".into())),
            Store::Items(items) => items.read(read).await,
        }
    }
}

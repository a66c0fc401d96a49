//! One page of a Query over a range of sort keys.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnConsumedCapacity};

use super::engine::Engine;
use super::items::{Attributes, DATA, PK, SK};
use super::units::consumed;
use crate::store::StoreError;

/// Sort keys of one partition key.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) pk: Vec<u8>,
    /// First and last sort key, both inside; the first must not be behind the last.
    pub(super) between: (Vec<u8>, Vec<u8>),
    /// Whether the page must show every write before it.
    pub(super) strong: bool,
    /// Most items of a page.
    pub(super) limit: Option<i32>,
    /// Whether content is wanted, or sort keys alone.
    pub(super) data: bool,
}

/// What a page holds.
pub(super) struct Page {
    pub(super) items: Vec<Attributes>,
    /// Behind which key the next page begins; none: there is none.
    pub(super) next: Option<Attributes>,
    /// Read units that it cost.
    pub(super) units: f64,
}

impl Engine {
    /// The page behind `after`, tried again until it is answered.
    pub(super) async fn query(&self, range: &Range, after: Option<Attributes>, allowed: Duration) -> Result<Page, StoreError> {
        let binary = |bytes: &Vec<u8>| AttributeValue::B(Blob::new(bytes.clone()));
        let values = [(":p", &range.pk), (":a", &range.between.0), (":z", &range.between.1)];
        let values: HashMap<_, _> = values.into_iter().map(|(name, bytes)| (name.to_owned(), binary(bytes))).collect();
        let call = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression(format!("{PK} = :p AND {SK} BETWEEN :a AND :z"))
            .set_expression_attribute_values(Some(values))
            .projection_expression(if range.data { format!("{SK}, {DATA}") } else { SK.to_owned() })
            .consistent_read(range.strong)
            .set_limit(range.limit)
            .set_exclusive_start_key(after)
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        let answer = self.read(allowed, || self.call("Query", call.clone().send())).await?;
        let units = consumed(answer.consumed_capacity());
        Ok(Page { next: answer.last_evaluated_key.filter(|key| !key.is_empty()), items: answer.items.unwrap_or_default(), units })
    }
}

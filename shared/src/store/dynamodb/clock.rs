//! What time it is at the engine, by the `Date` of its answers: whole seconds.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_sdk_dynamodb::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_sdk_dynamodb::types::ReturnConsumedCapacity;

use super::engine::Engine;
use super::items::key_attributes;
use super::keys;
use super::units::{Purpose, consumed};
use crate::model::Timestamp;
use crate::store::StoreError;

/// A document that is never there, so that asking for it costs half a unit.
const NO_DOCUMENT: &str = "clock";

/// Keeps the date of an answer.
#[derive(Clone, Debug, Default)]
struct Dated(Arc<OnceLock<DateTime>>);

impl Intercept for Dated {
    fn name(&self) -> &'static str {
        "Dated"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date").and_then(|date| DateTime::from_str(date, DateTimeFormat::HttpDate).ok());
        if let Some(date) = date {
            let _ = self.0.set(date);
        }
        Ok(())
    }
}

impl Engine {
    /// The clock of whoever answers, where answers are dated. What is given is the end of that second, so that no
    /// clock is found to be ahead that is not.
    pub(super) async fn clock(&self, allowed: Duration) -> Result<Option<Timestamp>, StoreError> {
        let key = Some(key_attributes(&keys::document(NO_DOCUMENT)));
        let call = self.client.get_item().table_name(&self.table).set_key(key).return_consumed_capacity(ReturnConsumedCapacity::Total);
        let attempt = || async {
            let dated = Dated::default();
            let answer = self.call("GetItem", call.clone().customize().interceptor(dated.clone()).send()).await?;
            Ok((dated, consumed(answer.consumed_capacity())))
        };
        let (dated, units) = self.read(allowed, attempt).await?;
        self.units.read(None, Purpose::Documents, units);
        let nanos = dated.0.get().and_then(|date| date.secs().checked_add(1)?.checked_mul(1_000_000_000));
        Ok(nanos.map(Timestamp::from_nanos))
    }
}

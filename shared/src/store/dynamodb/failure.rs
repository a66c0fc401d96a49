//! What an attempt's error means: whether anything was done, whether to try again, what is throttled.
//!
//! The one place that looks into the SDK's errors.

use std::error::Error;
use std::fmt;
use std::io;

use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::ThrottlingReason;
use aws_sdk_dynamodb::types::error::{ProvisionedThroughputExceededException, RequestLimitExceeded, ThrottlingException};

use crate::store::usage::Throttle;
use crate::store::{StoreError, StoreErrorKind};

/// Longest message that is kept; engines echo requests.
const MESSAGE_CHARS_MAX: usize = 600;

/// An attempt that failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    message: String,
}

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A condition did not hold; nothing was done.
    Condition,
    /// Refused for what it is: rights, a missing table, a bad request. Nothing was done, and trying
    /// again at once does not help.
    Refused,
    /// Nothing was done; another try may.
    Unavailable,
    /// It may have been done.
    Unknown,
    /// Nothing was done, for too much was asked.
    Throttled(Throttle),
}

impl Failure {
    pub(super) fn new(kind: Kind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into().chars().take(MESSAGE_CHARS_MAX).collect() }
    }

    /// What the error of a call to `operation` means.
    pub(super) fn of<E>(operation: &'static str, error: &SdkError<E>) -> Failure
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        Failure::new(kind(error), format!("dynamodb {operation}: {}", DisplayErrorContext(error)))
    }

    /// What was answered is not what was asked for.
    pub(super) fn corrupt(message: impl Into<String>) -> StoreError {
        StoreError::new(StoreErrorKind::Corrupt, message)
    }

    /// The error when this is the last word; `doubt`: an attempt of the same write may have been done.
    pub(super) fn error(self, doubt: bool) -> StoreError {
        let kind = match self.kind {
            _ if doubt => StoreErrorKind::Unknown,
            Kind::Unknown => StoreErrorKind::Unknown,
            Kind::Throttled(_) => StoreErrorKind::Throttled,
            Kind::Condition | Kind::Refused | Kind::Unavailable => StoreErrorKind::Unavailable,
        };
        StoreError::new(kind, self.message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

fn kind<E>(error: &SdkError<E>) -> Kind
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    match error {
        SdkError::ConstructionFailure(_) => Kind::Refused,
        SdkError::DispatchFailure(_) if was_not_sent(error) => Kind::Unavailable,
        SdkError::ServiceError(service) => match (service.err().code().unwrap_or_default(), service.raw().status().as_u16()) {
            ("ConditionalCheckFailedException", _) => Kind::Condition,
            (code, _) if is_throttling(code) => Kind::Throttled(throttle(error)),
            ("TransactionConflictException" | "ReplicatedWriteConflictException", _) => Kind::Unavailable,
            // An inner error of the service may come after the write was applied.
            (_, 500..) => Kind::Unknown,
            _ => Kind::Refused,
        },
        // Sent and not answered, answered with what can't be read, or an error that the SDK learns of later than we do.
        _ => Kind::Unknown,
    }
}

fn is_throttling(code: &str) -> bool {
    matches!(code, "ProvisionedThroughputExceededException" | "ThrottlingException" | "RequestLimitExceeded")
}

/// Whether the engine can't have seen the request: it did not take the connection.
fn was_not_sent(error: &(dyn Error + 'static)) -> bool {
    chain(error).any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused))
}

/// What the service says was too hot.
fn throttle(error: &(dyn Error + 'static)) -> Throttle {
    let reasons = chain(error).find_map(|cause| {
        let throttling = cause.downcast_ref::<ThrottlingException>().map(ThrottlingException::throttling_reasons);
        let provisioned =
            cause.downcast_ref::<ProvisionedThroughputExceededException>().map(ProvisionedThroughputExceededException::throttling_reasons);
        let limit = cause.downcast_ref::<RequestLimitExceeded>().map(RequestLimitExceeded::throttling_reasons);
        throttling.or(provisioned).or(limit)
    });
    let reasons = reasons.unwrap_or_default().iter().filter_map(ThrottlingReason::reason);
    // Of several, a hot key range is what Braid can do something about.
    reasons
        .map(of_reason)
        .min_by_key(|throttle| (*throttle != Throttle::KeyRange, *throttle == Throttle::Unsaid))
        .unwrap_or(Throttle::Unsaid)
}

/// A reason is resource, operation and limit in one word, such as `TableWriteKeyRangeThroughputExceeded`.
fn of_reason(reason: &str) -> Throttle {
    match reason {
        _ if reason.ends_with("KeyRangeThroughputExceeded") => Throttle::KeyRange,
        _ if reason.ends_with("AccountLimitExceeded") => Throttle::Account,
        _ if reason.ends_with("ProvisionedThroughputExceeded") || reason.ends_with("MaxOnDemandThroughputExceeded") => Throttle::Table,
        _ => Throttle::Unsaid,
    }
}

/// The error and its causes.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_key_range_is_told_from_limits_of_table_and_account() {
        for (reason, throttle) in [
            ("TableWriteKeyRangeThroughputExceeded", Throttle::KeyRange),
            ("IndexReadKeyRangeThroughputExceeded", Throttle::KeyRange),
            ("TableWriteProvisionedThroughputExceeded", Throttle::Table),
            ("TableReadMaxOnDemandThroughputExceeded", Throttle::Table),
            ("TableWriteAccountLimitExceeded", Throttle::Account),
            ("SomethingNew", Throttle::Unsaid),
        ] {
            assert_eq!(of_reason(reason), throttle, "{reason}");
        }
    }
}

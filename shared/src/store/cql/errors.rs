//! What an engine's errors mean to a caller: what was done, and whether to slow down.
//!
//! Pure. Stands on the retry policy's rule that the last attempt's error speaks for all attempts.

use scylla::errors::{DbError, ExecutionError, RequestAttemptError};

use crate::store::{StoreError, StoreErrorKind};

/// What kind of request failed: the same error leaves different things behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Changes nothing.
    Read,
    /// An insert or delete that names its own timestamp: may be repeated.
    Write,
    /// A conditional write: several rounds, so that a refusal of the last says nothing of the others.
    Swap,
}

/// The store's error for a request that failed.
pub(super) fn store_error(request: Request, error: &ExecutionError) -> StoreError {
    let kind = match request {
        Request::Read => read_kind(error),
        Request::Write => write_kind(error),
        Request::Swap => match write_kind(error) {
            _ if sent_nothing(error) => StoreErrorKind::Unavailable,
            StoreErrorKind::ReadOnly => StoreErrorKind::ReadOnly,
            _ => StoreErrorKind::Unknown,
        },
    };
    StoreError::new(kind, format!("the cluster did not {}: {error}", request.verb()))
}

/// An answer that is not what the statement asks for.
pub(super) fn corrupt(error: impl std::fmt::Display) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("the cluster's answer can't be read: {error}"))
}

impl Request {
    fn verb(self) -> &'static str {
        match self {
            Request::Read => "answer a read",
            Request::Write => "take a write",
            Request::Swap => "decide a conditional write",
        }
    }
}

/// Of errors of which some are unknown outcomes, all are.
pub(super) fn worse(one: StoreError, other: StoreError) -> StoreError {
    let rank = |error: &StoreError| match error.kind {
        StoreErrorKind::Unknown => 3,
        StoreErrorKind::ReadOnly | StoreErrorKind::Full | StoreErrorKind::Corrupt => 2,
        StoreErrorKind::Throttled => 1,
        StoreErrorKind::Unavailable => 0,
    };
    if rank(&other) > rank(&one) { other } else { one }
}

fn read_kind(error: &ExecutionError) -> StoreErrorKind {
    match last_attempt(error) {
        Some(RequestAttemptError::DbError(DbError::Overloaded | DbError::RateLimitReached { .. }, _)) => StoreErrorKind::Throttled,
        Some(RequestAttemptError::CqlResultParseError(_) | RequestAttemptError::NonfinishedPagingState) => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Unavailable,
    }
}

fn write_kind(error: &ExecutionError) -> StoreErrorKind {
    if sent_nothing(error) {
        return StoreErrorKind::Unavailable;
    }
    let Some(RequestAttemptError::DbError(error, _)) = last_attempt(error) else {
        return StoreErrorKind::Unknown;
    };
    match error {
        DbError::Unavailable { .. } | DbError::IsBootstrapping => StoreErrorKind::Unavailable,
        // A replica that refused the rate may have peers that took the write: for a write that may
        // be repeated that is no more than the append's "any part may stand".
        DbError::Overloaded | DbError::RateLimitReached { .. } => StoreErrorKind::Throttled,
        DbError::SyntaxError
        | DbError::Invalid
        | DbError::ConfigError
        | DbError::Unauthorized
        | DbError::AuthenticationError
        | DbError::AlreadyExists { .. } => StoreErrorKind::ReadOnly,
        _ => StoreErrorKind::Unknown,
    }
}

/// Whether no node can have received the request.
fn sent_nothing(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::EmptyPlan
        | ExecutionError::ConnectionPoolError(_)
        | ExecutionError::BadQuery(_)
        | ExecutionError::PrepareError(_) => true,
        ExecutionError::LastAttemptError(error) => matches!(
            error,
            RequestAttemptError::UnableToAllocStreamId
                | RequestAttemptError::SerializationError(_)
                | RequestAttemptError::CqlRequestSerialization(_)
        ),
        _ => false,
    }
}

fn last_attempt(error: &ExecutionError) -> Option<&RequestAttemptError> {
    match error {
        ExecutionError::LastAttemptError(error) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use scylla::errors::{OperationType, WriteType};
    use scylla::statement::Consistency;

    fn db(error: DbError) -> ExecutionError {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, String::new()))
    }

    fn unavailable() -> ExecutionError {
        db(DbError::Unavailable { consistency: Consistency::LocalQuorum, required: 2, alive: 1 })
    }

    fn write_timeout(write_type: WriteType) -> ExecutionError {
        db(DbError::WriteTimeout { consistency: Consistency::LocalQuorum, received: 1, required: 2, write_type })
    }

    #[test]
    fn a_write_that_may_have_been_applied_is_unknown() {
        let kind = |error| store_error(Request::Write, &error).kind;
        assert_eq!(kind(write_timeout(WriteType::Simple)), StoreErrorKind::Unknown);
        assert_eq!(kind(ExecutionError::RequestTimeout(Duration::from_secs(3))), StoreErrorKind::Unknown);
        assert_eq!(kind(db(DbError::ServerError)), StoreErrorKind::Unknown);
        assert_eq!(kind(unavailable()), StoreErrorKind::Unavailable);
        assert_eq!(kind(ExecutionError::EmptyPlan), StoreErrorKind::Unavailable);
    }

    #[test]
    fn overload_and_rate_limits_throttle() {
        let limited = || db(DbError::RateLimitReached { op_type: OperationType::Write, rejected_by_coordinator: true });
        for request in [Request::Read, Request::Write] {
            assert_eq!(store_error(request, &db(DbError::Overloaded)).kind, StoreErrorKind::Throttled);
            assert_eq!(store_error(request, &limited()).kind, StoreErrorKind::Throttled);
        }
    }

    #[test]
    fn a_swap_that_reached_a_node_is_unknown_unless_it_was_decided() {
        let kind = |error| store_error(Request::Swap, &error).kind;
        assert_eq!(kind(unavailable()), StoreErrorKind::Unknown);
        assert_eq!(kind(db(DbError::Overloaded)), StoreErrorKind::Unknown);
        assert_eq!(kind(write_timeout(WriteType::Cas)), StoreErrorKind::Unknown);
        assert_eq!(kind(ExecutionError::EmptyPlan), StoreErrorKind::Unavailable);
    }

    #[test]
    fn of_many_outcomes_the_unknown_one_is_reported() {
        let error = |kind| StoreError::new(kind, "");
        for other in [StoreErrorKind::Unavailable, StoreErrorKind::Throttled, StoreErrorKind::ReadOnly] {
            assert_eq!(worse(error(other), error(StoreErrorKind::Unknown)).kind, StoreErrorKind::Unknown);
            assert_eq!(worse(error(StoreErrorKind::Unknown), error(other)).kind, StoreErrorKind::Unknown);
        }
    }
}

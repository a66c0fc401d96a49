//! When the driver itself tries again: only where the attempt that failed is known to have done
//! nothing, or can't have done anything because it reads.
//!
//! So the last error of a request speaks for all its attempts: an outcome that is not known is
//! never hidden behind a later attempt's clean refusal. Whoever called retries that, with the same bytes.

use scylla::errors::{DbError, RequestAttemptError};
use scylla::policies::retry::{RequestInfo, RetryDecision, RetryPolicy, RetrySession};

/// Most attempts beyond the first.
const RETRIES_MAX: u32 = 2;

/// The policy of writes: retries what is known to have done nothing.
#[derive(Debug)]
pub(super) struct RetryWrites;

/// The policy of reads: retries whatever another node may answer better.
#[derive(Debug)]
pub(super) struct RetryReads;

struct Session {
    left: u32,
    worthwhile: fn(&RequestAttemptError) -> bool,
}

impl RetryPolicy for RetryWrites {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(Session { left: RETRIES_MAX, worthwhile: did_nothing })
    }
}

impl RetryPolicy for RetryReads {
    fn new_session(&self) -> Box<dyn RetrySession> {
        Box::new(Session { left: RETRIES_MAX, worthwhile: may_pass_elsewhere })
    }
}

impl RetrySession for Session {
    fn decide_should_retry(&mut self, request: RequestInfo) -> RetryDecision {
        if self.left == 0 || !(self.worthwhile)(request.error) {
            return RetryDecision::DontRetry;
        }
        self.left -= 1;
        RetryDecision::RetryNextTarget(None)
    }

    fn reset(&mut self) {
        self.left = RETRIES_MAX;
    }
}

/// Whether a write that failed so was refused before any replica heard of it. Overload is not
/// retried here: it is for the caller to slow down.
fn did_nothing(error: &RequestAttemptError) -> bool {
    match error {
        RequestAttemptError::UnableToAllocStreamId => true,
        RequestAttemptError::DbError(error, _) => matches!(error, DbError::Unavailable { .. } | DbError::IsBootstrapping),
        _ => false,
    }
}

fn may_pass_elsewhere(error: &RequestAttemptError) -> bool {
    match error {
        RequestAttemptError::BrokenConnectionError(_) => true,
        RequestAttemptError::DbError(DbError::ReadTimeout { .. } | DbError::ReadFailure { .. } | DbError::ServerError, _) => true,
        other => did_nothing(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scylla::errors::WriteType;
    use scylla::statement::Consistency;

    fn unavailable() -> RequestAttemptError {
        RequestAttemptError::DbError(DbError::Unavailable { consistency: Consistency::LocalQuorum, required: 2, alive: 1 }, String::new())
    }

    fn write_timeout() -> RequestAttemptError {
        let error =
            DbError::WriteTimeout { consistency: Consistency::LocalQuorum, received: 1, required: 2, write_type: WriteType::Simple };
        RequestAttemptError::DbError(error, String::new())
    }

    #[test]
    fn a_write_whose_outcome_is_unknown_is_never_retried_by_the_driver() {
        assert!(did_nothing(&unavailable()));
        for unknown in [write_timeout(), RequestAttemptError::DbError(DbError::ServerError, String::new())] {
            assert!(!did_nothing(&unknown));
        }
        let overloaded = RequestAttemptError::DbError(DbError::Overloaded, String::new());
        assert!(!did_nothing(&overloaded) && !may_pass_elsewhere(&overloaded), "the caller must slow down");
    }

    #[test]
    fn a_read_is_tried_elsewhere() {
        let timeout = DbError::ReadTimeout { consistency: Consistency::LocalQuorum, received: 1, required: 2, data_present: false };
        assert!(may_pass_elsewhere(&RequestAttemptError::DbError(timeout, String::new())));
        assert!(!may_pass_elsewhere(&RequestAttemptError::DbError(DbError::Invalid, String::new())));
    }
}

//! Retries: the one budget there is. The SDK's own are off, so that the two do not multiply.
//!
//! An operation tries until its deadline, with full jitter between attempts. Beside that each
//! partition key has tokens for retries: one that is refused again and again is tried at the pace at which
//! they come back, however many writers wait for it, and takes nothing from others.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use xxhash_rust::xxh3::xxh3_64;

use super::failure::{Failure, Kind};
use crate::store::{StoreError, StoreErrorKind};

/// Upper end of the first pause; it doubles with every attempt.
const PAUSE_FIRST: Duration = Duration::from_millis(25);
/// Upper end of the longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Retries of one partition key that may follow each other at once.
const TOKENS_MAX: f64 = 16.0;
/// Retries of one partition key per second that may go on for ever.
const TOKENS_PER_SECOND: f64 = 8.0;
/// Most partition keys whose tokens are counted; those beyond begin anew.
const KEYS_MAX: usize = 4_096;

/// The attempts of one operation.
#[derive(Clone, Debug)]
pub(super) struct Tries {
    made: u32,
    deadline: Instant,
    /// An attempt ended without an answer: what it was about may have been done.
    pub(super) doubt: bool,
    writes: bool,
}

impl Tries {
    /// Of a write, whose unknown outcomes stay unknown.
    pub(super) fn of_write(allowed: Duration) -> Tries {
        Tries { made: 0, deadline: Instant::now() + allowed, doubt: false, writes: true }
    }

    /// Of a read, which does nothing whatever its outcome.
    pub(super) fn of_read(allowed: Duration) -> Tries {
        Tries { writes: false, ..Tries::of_write(allowed) }
    }

    /// Waits before the next attempt, at least for `least`; the error to give where there is none.
    pub(super) async fn again(&mut self, failure: Failure, least: Duration) -> Result<(), StoreError> {
        self.doubt |= self.writes && failure.kind == Kind::Unknown;
        let retried = matches!(failure.kind, Kind::Unavailable | Kind::Unknown | Kind::Throttled(_));
        let pause = jitter(self.made).max(least);
        if !retried || Instant::now() + pause >= self.deadline {
            return Err(self.give_up(failure));
        }
        self.made += 1;
        sleep(pause).await;
        Ok(())
    }

    fn give_up(&self, failure: Failure) -> StoreError {
        let error = failure.error(self.doubt);
        match error.kind {
            StoreErrorKind::Unknown if !self.writes => StoreError { kind: StoreErrorKind::Unavailable, ..error },
            _ => error,
        }
    }
}

/// Anything from nothing to the pause that is due after so many attempts.
fn jitter(made: u32) -> Duration {
    let most = PAUSE_FIRST.saturating_mul(1 << made.min(16)).min(PAUSE_MAX);
    most.mul_f64(rand::random::<f64>())
}

/// Tokens for retries, by partition key.
#[derive(Debug, Default)]
pub(super) struct Budgets(Mutex<HashMap<u64, Tokens>>);

#[derive(Clone, Copy, Debug)]
struct Tokens {
    /// May be below nothing: retries that were promised a later time.
    left: f64,
    at: Instant,
}

impl Budgets {
    /// Takes a token of a partition key; gives how long to wait until it is there.
    pub(super) fn take(&self, pk: &[u8]) -> Duration {
        let now = Instant::now();
        let mut budgets = self.0.lock().expect("no holder panics");
        if budgets.len() >= KEYS_MAX {
            budgets.retain(|_, tokens| tokens.at(now) < TOKENS_MAX);
        }
        if budgets.len() >= KEYS_MAX {
            budgets.clear();
        }
        let tokens = budgets.entry(xxh3_64(pk)).or_insert(Tokens { left: TOKENS_MAX, at: now });
        *tokens = Tokens { left: tokens.at(now) - 1.0, at: now };
        Duration::from_secs_f64((-tokens.left).max(0.0) / TOKENS_PER_SECOND)
    }
}

impl Tokens {
    fn at(self, now: Instant) -> f64 {
        let back = now.duration_since(self.at).as_secs_f64() * TOKENS_PER_SECOND;
        (self.left + back).min(TOKENS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: Kind) -> Failure {
        Failure::new(kind, "x")
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_is_tried_until_its_deadline_and_no_longer() {
        let began = Instant::now();
        let mut tries = Tries::of_write(Duration::from_secs(20));
        let error = loop {
            if let Err(error) = tries.again(failure(Kind::Unavailable), Duration::ZERO).await {
                break error;
            }
        };
        assert_eq!(error.kind, StoreErrorKind::Unavailable);
        assert!(began.elapsed() <= Duration::from_secs(20) && tries.made > 10, "{tries:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_may_have_been_done_stays_in_doubt_and_a_read_never_is() {
        for (mut tries, kind) in [
            (Tries::of_write(Duration::from_secs(9)), StoreErrorKind::Unknown),
            (Tries::of_read(Duration::from_secs(9)), StoreErrorKind::Unavailable),
        ] {
            tries.again(failure(Kind::Unknown), Duration::ZERO).await.unwrap();
            assert_eq!(tries.again(failure(Kind::Refused), Duration::ZERO).await.unwrap_err().kind, kind);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_refused_again_and_again_is_paced_and_others_are_not() {
        let budgets = Budgets::default();
        assert!((0..TOKENS_MAX as usize).all(|_| budgets.take(b"hot").is_zero()));
        let waits: Vec<_> = (1..=8).map(|_| budgets.take(b"hot")).collect();
        assert_eq!(waits[7], Duration::from_secs_f64(8.0 / TOKENS_PER_SECOND));
        assert!(waits.is_sorted() && budgets.take(b"cold").is_zero());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(budgets.take(b"hot").is_zero(), "the tokens came back");
    }
}

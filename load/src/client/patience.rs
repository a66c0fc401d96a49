//! For how long a request is tried again, and how long the pauses are.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::Failure;

const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Longest time that a server's `Retry-After` is followed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// What all requests of a run share.
#[derive(Debug)]
pub(crate) struct Patience {
    /// How long one request is tried again.
    pub(crate) retry_for: Duration,
    /// Whether a person knows that requests are sent again.
    said: AtomicBool,
}

impl Patience {
    pub(crate) fn new(retry_for: Duration) -> Patience {
        Patience { retry_for, said: AtomicBool::new(false) }
    }

    /// Waits before the next try of a request that began at `started`, for as long as the server asked
    /// for if it did. The error where there is no time for one.
    pub(super) async fn pause(&self, started: Instant, retries: u64, after: Option<Duration>, why: String) -> Result<(), Failure> {
        let elapsed = started.elapsed();
        let wait = after.map_or_else(|| backoff(retries), |after| after.min(RETRY_AFTER_MAX));
        if elapsed + wait > self.retry_for {
            return Err(Failure::GaveUp { seconds: elapsed.as_secs_f64(), tries: retries + 1, why });
        }
        // The first time; the summary counts the others.
        if !self.said.swap(true, Ordering::Relaxed) {
            eprintln!("braid-load: {why}; trying again for up to {:?}", self.retry_for);
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// Doubles from 50 ms to 5 s; a random half of it, so that connections do not come back together.
fn backoff(retries: u64) -> Duration {
    let full = BACKOFF_FIRST.saturating_mul(1 << retries.min(10)).min(BACKOFF_MAX);
    full.mul_f64(rand::random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_to_a_bound() {
        assert!(backoff(0) <= BACKOFF_FIRST);
        assert!((BACKOFF_MAX / 2..=BACKOFF_MAX).contains(&backoff(u64::MAX)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_obeyed_up_to_a_bound_and_never_beyond_the_time_that_is_left() {
        let patience = Patience::new(Duration::from_secs(40));
        let began = Instant::now();
        patience.pause(began, 0, Some(Duration::from_secs(999)), String::new()).await.unwrap();
        assert_eq!(began.elapsed(), RETRY_AFTER_MAX);
        let given_up = patience.pause(began, 1, Some(Duration::from_secs(11)), "busy".into()).await;
        assert!(matches!(given_up, Err(Failure::GaveUp { tries: 2, .. })), "{given_up:?}");
    }
}

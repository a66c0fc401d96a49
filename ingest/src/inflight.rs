//! The bounds on what is in flight: requests, and bytes of decoded bodies.
//!
//! Never waits: over a bound the answer is `overloaded`, at once. What is reserved stays so until
//! the request's rows are settled, even where its client has left, since they hold memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use braid_shared::codes;
use prometheus::IntGauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::fault::Fault;
use crate::settings::IngestSettings;

/// What one node has in flight.
pub(crate) struct Inflight {
    requests: Arc<Semaphore>,
    requests_max: u32,
    bytes: Arc<Semaphore>,
    draining: AtomicBool,
    gauge: IntGauge,
}

/// One request's share of the bounds; given back when dropped.
pub(crate) struct Reservation {
    _request: OwnedSemaphorePermit,
    bytes: OwnedSemaphorePermit,
    pool: Arc<Semaphore>,
    gauge: IntGauge,
}

impl Inflight {
    pub(crate) fn new(settings: &IngestSettings, gauge: IntGauge) -> Inflight {
        let requests_max = u32::try_from(settings.inflight_requests_max).unwrap_or(u32::MAX);
        Inflight {
            requests: Arc::new(Semaphore::new(requests_max as usize)),
            requests_max,
            bytes: Arc::new(Semaphore::new(settings.inflight_bytes_max.min(Semaphore::MAX_PERMITS))),
            draining: AtomicBool::new(false),
            gauge,
        }
    }

    /// Room for one more request, without a body so far.
    pub(crate) fn reserve(&self) -> Result<Reservation, Fault> {
        let request = self.requests.clone().try_acquire_owned();
        // After the permit is taken: a drain that waits for all permits then waits for this one too.
        if self.draining.load(Ordering::SeqCst) {
            return Err(Fault::new(codes::SHUTTING_DOWN, "the server is shutting down; send again, to another node or later"));
        }
        let request = request.map_err(|_| overloaded("requests"))?;
        let none = self.bytes.clone().try_acquire_many_owned(0).map_err(|_| overloaded("bytes"))?;
        Ok(Reservation { _request: request, bytes: none, pool: self.bytes.clone(), gauge: self.gauge.clone() })
    }

    /// Refuses what comes from now on, and waits until all that was accepted is settled.
    pub(crate) async fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        // Only fails on a closed semaphore, and this one is never closed.
        let _all = self.requests.acquire_many(self.requests_max).await;
    }
}

impl Reservation {
    /// Makes it hold at least `bytes`.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), Fault> {
        let more = bytes.saturating_sub(self.bytes.num_permits());
        let more = u32::try_from(more).map_err(|_| overloaded("bytes"))?;
        let permit = self.pool.clone().try_acquire_many_owned(more).map_err(|_| overloaded("bytes"))?;
        self.bytes.merge(permit);
        self.gauge.add(i64::from(more));
        Ok(())
    }

    /// Gives back what it holds beyond `bytes`.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let excess = self.bytes.num_permits().saturating_sub(bytes);
        if self.bytes.split(excess).is_some() {
            self.gauge.sub(excess as i64);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.gauge.sub(self.bytes.num_permits() as i64);
    }
}

fn overloaded(what: &str) -> Fault {
    Fault::new(codes::OVERLOADED, format!("too many {what} in flight; send again in a moment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inflight(bytes: usize, requests: usize) -> Inflight {
        let settings = IngestSettings { inflight_bytes_max: bytes, inflight_requests_max: requests, ..IngestSettings::default() };
        Inflight::new(&settings, IntGauge::new("bytes", "bytes").unwrap())
    }

    fn code<T>(result: Result<T, Fault>) -> &'static str {
        result.err().expect("refused").code
    }

    fn reserve(inflight: &Inflight, bytes: usize) -> Result<Reservation, Fault> {
        let mut reservation = inflight.reserve()?;
        reservation.grow_to(bytes)?;
        Ok(reservation)
    }

    #[test]
    fn over_a_bound_a_request_is_refused_and_room_given_back_serves_the_next() {
        let inflight = inflight(100, 2);
        let mut first = reserve(&inflight, 60).ok().unwrap();
        assert_eq!(code(reserve(&inflight, 60)), codes::OVERLOADED);
        assert_eq!(code(first.grow_to(101)), codes::OVERLOADED);
        first.shrink_to(40);
        assert_eq!(inflight.gauge.get(), 40);
        let _second = reserve(&inflight, 60).ok().unwrap();
        assert_eq!(code(inflight.reserve()), codes::OVERLOADED);
        drop(first);
        assert_eq!(inflight.gauge.get(), 60);
        let _third = reserve(&inflight, 40).ok().unwrap();
    }

    #[tokio::test]
    async fn a_drain_waits_for_what_was_accepted_and_refuses_what_comes_later() {
        let inflight = Arc::new(inflight(100, 2));
        let accepted = inflight.reserve().ok().unwrap();
        let mut drain = Box::pin({
            let inflight = inflight.clone();
            async move { inflight.drain().await }
        });
        assert!(futures::poll!(&mut drain).is_pending());
        assert_eq!(code(inflight.reserve()), codes::SHUTTING_DOWN);
        drop(accepted);
        drain.await;
    }
}

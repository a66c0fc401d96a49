//! Leases: which node does work that one node is enough for. They save work and are no safety argument: clocks jump
//! and processes pause, so whatever is done under a lease must be safe where two nodes do it at once.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::documents::{Documents, encode};
use crate::clock::Clock;
use crate::model::{Span, Timestamp};
use crate::store::{Store, Swap};

/// How long a lease holds.
const HOLDS_NANOS: i64 = 60 * Span::SECOND.nanos();

/// A lease's document.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Held {
    holder: u64,
    until: i64,
}

/// One node's side of a lease.
pub(crate) struct Lease {
    documents: Documents,
    clock: Arc<dyn Clock>,
    name: String,
    me: u64,
    /// Until when it is known to be this node's.
    until: Option<Timestamp>,
}

impl Lease {
    /// A lease in the document `name`; `me` is another number on every node.
    pub(crate) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, name: String, me: u64) -> Lease {
        Lease { documents: Documents::new(store), clock, name, me, until: None }
    }

    /// Takes the lease, or renews it once half its time is over; whether this node holds it now. One that can't be read is not held.
    pub(crate) async fn hold(&mut self) -> bool {
        let now = self.clock.now();
        let left = |until: Timestamp| until.nanos().saturating_sub(now.nanos());
        if !self.until.is_some_and(|until| (HOLDS_NANOS / 2..=HOLDS_NANOS).contains(&left(until))) {
            self.until = self.take(now).await;
        }
        self.until.is_some()
    }

    async fn take(&self, now: Timestamp) -> Option<Timestamp> {
        let (held, etag) = match self.documents.read::<Held>(&self.name).await {
            Ok(found) => found.unzip(),
            Err(error) => {
                tracing::debug!(name = self.name, %error, "a lease can't be read");
                return None;
            }
        };
        // A clock that jumped must not lock the others out for ever.
        let holds = |held: &Held| held.until > now.nanos() && held.until.saturating_sub(now.nanos()) <= 2 * HOLDS_NANOS;
        if held.is_some_and(|held| held.holder != self.me && holds(&held)) {
            return None;
        }
        let until = now.nanos().saturating_add(HOLDS_NANOS);
        let swapped = self.documents.swap(&self.name, etag, encode(&Held { holder: self.me, until })).await;
        matches!(swapped, Ok(Swap::Done(_))).then_some(Timestamp::from_nanos(until))
    }

    /// Gives the lease up, where it is held.
    pub(crate) async fn release(self) {
        if self.until.is_some_and(|until| until > self.clock.now()) {
            self.documents.discard([self.name]).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::ManualClock;
    use crate::store::MemoryStore;

    fn lease(store: &Arc<MemoryStore>, clock: &Arc<ManualClock>, me: u64) -> Lease {
        Lease::new(store.clone(), clock.clone(), "work".into(), me)
    }

    #[tokio::test]
    async fn one_node_holds_it_until_it_stops_renewing() {
        let (store, clock) = (MemoryStore::new(), Arc::new(ManualClock::at(Timestamp::from_nanos(0))));
        let (mut a, mut b) = (lease(&store, &clock, 1), lease(&store, &clock, 2));
        assert!(a.hold().await && !b.hold().await && a.hold().await);
        clock.advance(Duration::from_secs(40));
        assert!(a.hold().await);
        clock.advance(Duration::from_secs(40));
        assert!(!b.hold().await);
        clock.advance(Duration::from_secs(30));
        assert!(b.hold().await && !a.hold().await);
    }

    #[tokio::test]
    async fn what_is_given_up_is_free_and_what_was_lost_is_not_given_up() {
        let (store, clock) = (MemoryStore::new(), Arc::new(ManualClock::at(Timestamp::from_nanos(0))));
        let (mut a, mut b, mut c) = (lease(&store, &clock, 1), lease(&store, &clock, 2), lease(&store, &clock, 3));
        assert!(a.hold().await);
        a.release().await;
        assert!(b.hold().await);
        clock.advance(Duration::from_secs(61));
        assert!(c.hold().await);
        b.release().await;
        assert!(!lease(&store, &clock, 4).hold().await);
    }

    #[tokio::test]
    async fn a_holder_whose_clock_is_far_ahead_locks_nobody_out() {
        let (store, clock) = (MemoryStore::new(), Arc::new(ManualClock::at(Timestamp::from_nanos(0))));
        let ahead = Arc::new(ManualClock::at(Timestamp::from_nanos(10 * HOLDS_NANOS)));
        assert!(lease(&store, &ahead, 1).hold().await && lease(&store, &clock, 2).hold().await);
    }
}

//! The lease: which node archives. It saves work and is no safety argument: two archivers at once
//! overtake each other by the rules of the manifest, and lose nothing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::catalog::documents::{Documents, encode};
use crate::clock::Clock;
use crate::model::{Span, Timestamp};
use crate::store::{Store, Swap};

/// The lease's document.
const NAME: &str = "cold-lease";
/// Seconds that a lease holds.
const HELD_SECONDS: i64 = 60;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Held {
    holder: u64,
    until: i64,
}

/// One node's side of the lease.
pub(super) struct Lease {
    documents: Documents,
    clock: Arc<dyn Clock>,
    me: u64,
}

impl Lease {
    pub(super) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Lease {
        Lease { documents: Documents::new(store), clock, me: rand::random() }
    }

    /// Takes or renews the lease; whether this node holds it now. One that can't be read is not held.
    pub(super) async fn hold(&mut self) -> bool {
        let now = self.clock.now();
        let (held, etag) = match self.documents.read::<Held>(NAME).await {
            Ok(found) => found.map_or((None, None), |(held, etag)| (Some(held), Some(etag))),
            Err(error) => {
                tracing::debug!(%error, "the archiver's lease can't be read");
                return false;
            }
        };
        let half = HELD_SECONDS * Span::SECOND.nanos() / 2;
        if let Some(held) = held.filter(|held| Timestamp::from_nanos(held.until) > now) {
            // A clock that jumped must not lock the others out for ever.
            let sane = held.until.saturating_sub(now.nanos()) <= 4 * half;
            if held.holder != self.me && sane {
                return false;
            }
            if held.holder == self.me && held.until.saturating_sub(now.nanos()) > half {
                return true;
            }
        }
        let until = now.nanos().saturating_add(2 * half);
        let swapped = self.documents.swap(NAME, etag, encode(&Held { holder: self.me, until })).await;
        matches!(swapped, Ok(Swap::Done(_)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::ManualClock;
    use crate::store::MemoryStore;

    #[tokio::test]
    async fn one_node_holds_it_until_it_stops_renewing() {
        let (store, clock) = (MemoryStore::new(), Arc::new(ManualClock::at(Timestamp::from_nanos(0))));
        let mut a = Lease::new(store.clone(), clock.clone());
        let mut b = Lease::new(store, clock.clone());
        assert!(a.hold().await && !b.hold().await && a.hold().await);
        clock.advance(Duration::from_secs(40));
        assert!(a.hold().await);
        clock.advance(Duration::from_secs(40));
        assert!(!b.hold().await);
        clock.advance(Duration::from_secs(30));
        assert!(b.hold().await && !a.hold().await);
    }
}

//! Tests of the catalog: what each call does, and what they share.

mod answers;
mod calls;
mod clocks;
mod cold;
mod keeping;
mod record;
mod rule;
mod sim;
mod world;

use std::sync::Arc;
use std::time::Duration;

use super::{Catalog, CatalogError, Shared};
use crate::clock::{Clock, ManualClock};
use crate::model::{Namespace, Span, Timestamp};
use crate::store::Store;
use crate::store::memory::MemoryStore;

/// Seconds as event time; tests begin at 1,000 s.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_nanos(seconds * Span::SECOND.nanos())
}

fn seconds(n: i64) -> Span {
    Span::from_nanos(n * Span::SECOND.nanos()).unwrap()
}

fn shared() -> Shared {
    Shared { lead: seconds(10), grace: seconds(60), read_deadline: seconds(30), write_deadline: seconds(30) }
}

fn ns(name: &str) -> Namespace {
    name.parse().unwrap()
}

/// A node: its catalog and its clock.
struct Node {
    catalog: Arc<Catalog>,
    clock: Arc<ManualClock>,
}

impl std::ops::Deref for Node {
    type Target = Arc<Catalog>;

    fn deref(&self) -> &Arc<Catalog> {
        &self.catalog
    }
}

impl Node {
    /// A node over `store` whose clock stands at `now` seconds.
    async fn open(store: &Arc<dyn Store>, now: i64) -> Result<Node, CatalogError> {
        Node::open_seeded(store, at(now), rand::random()).await
    }

    async fn open_seeded(store: &Arc<dyn Store>, now: Timestamp, seed: u64) -> Result<Node, CatalogError> {
        let clock = Arc::new(ManualClock::at(now));
        let dyn_clock: Arc<dyn Clock> = clock.clone();
        let catalog = Catalog::open_seeded(store.clone(), dyn_clock, shared(), seed).await?;
        Ok(Node { catalog, clock })
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

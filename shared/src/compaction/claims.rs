//! Which node compacts a partition, where several nodes share a store: by a lease for each. Two at once would lose nothing, but
//! leave every event twice, in full blocks that no later compaction looks at.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::clock::Clock;
use crate::lease::Lease;
use crate::partition::Partition;
use crate::store::Store;

/// The partitions that this node is at.
pub(super) struct Claims {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    leases: HashMap<Partition, Lease>,
}

impl Claims {
    pub(super) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Claims {
        Claims { store, clock, leases: HashMap::new() }
    }

    /// Claims a partition for this node; whether it is free. `me` is another number on every node.
    pub(super) async fn claim(&mut self, partition: &Partition, me: impl FnOnce() -> u64) -> bool {
        // Such a store is one process's alone.
        if self.store.replaces_atomically() {
            return true;
        }
        let Entry::Vacant(entry) = self.leases.entry(partition.clone()) else { return true };
        let name = format!("compacting/{:016x}", xxh3_64(&partition.encode()));
        let mut lease = Lease::new(self.store.clone(), self.clock.clone(), name, me());
        let free = lease.hold().await;
        if free {
            entry.insert(lease);
        }
        free
    }

    /// Keeps what is claimed.
    pub(super) async fn renew(&mut self) {
        for lease in self.leases.values_mut() {
            lease.hold().await;
        }
    }

    /// Leaves a partition to whoever comes next.
    pub(super) async fn release(&mut self, partition: &Partition) {
        if let Some(lease) = self.leases.remove(partition) {
            lease.release().await;
        }
    }
}

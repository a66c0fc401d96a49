//! The way back after a wrong clock raised the promise far ahead: a new catalog in the old one's place, made
//! while no node runs.
//!
//! Nothing lowers a promise that nodes may still use (PROMISE-4). So this is for a store that nobody else has
//! open, as the embedded store's lock proves, or as an operator says. Why it misplaces nothing: no event that was
//! ever stored lies at or after the lowered promise, which is looked up here, and whoever still held a view
//! of the old catalog refuses the new one, whose random id is another (PROMISE-7).

use std::sync::Arc;

use super::documents::encode;
use super::refresh::stale;
use super::root::{ROOT, Root};
use super::{Catalog, CatalogError};
use crate::model::{Namespace, TimeRange, Timestamp};
use crate::partition::Partition;
use crate::store::{Consistency, Day, Scan, Store, StoreError, Swap, day_of, day_range};

/// Keys asked for at once.
const KEYS_AT_ONCE: usize = 1_000;
/// Partitions looked into at once.
const PARTITIONS_AT_ONCE: usize = 256;

/// What became of the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lowered {
    /// What it was.
    pub from: Timestamp,
    /// What it is.
    pub to: Timestamp,
    /// The last event at or after this node's now, which it had to stay above.
    pub last_event: Option<Timestamp>,
}

impl Catalog {
    /// Lowers the promise to now, or to just above the last event that is stored and what is due to be archived. Only while no other
    /// process has the store open.
    pub async fn lower_promise(self: &Arc<Self>, store: &Arc<dyn Store>) -> Result<Lowered, CatalogError> {
        let _turn = self.writing.lock().await;
        let known = self.refreshed().await?;
        let (now, from) = (self.clock.now(), known.root.promise());
        let mut last_event = None;
        for ns in known.view.namespaces() {
            last_event = last_event.max(self.last_event(store, ns, TimeRange { from: now, to: Timestamp::MAX }).await?);
        }
        let above = last_event.map_or(now, |last| Timestamp::from_nanos(last.nanos().saturating_add(1)));
        // What is due may lie in tables already, and what is dropped was decided: no layout may begin before either.
        let colds = known.view.namespaces().filter_map(|ns| known.view.namespace(ns)).map(|namespace| namespace.cold);
        let cold = colds.map(|cold| cold.closing.max(cold.dropped)).max().unwrap_or(Timestamp::MIN);
        let to = above.max(cold).max(now).min(from);
        if to < from {
            let root = Root { catalog: self.dice.bits(), swap: known.root.swap + 1, promise: to.nanos(), ..known.root.clone() };
            self.replace_root(known.etag, &root).await?;
        }
        Ok(Lowered { from, to, last_event })
    }

    async fn replace_root(&self, etag: u64, root: &Root) -> Result<(), CatalogError> {
        match self.documents.swap(ROOT, Some(etag), encode(root)).await {
            Ok(Swap::Done(_)) => Ok(()),
            Ok(Swap::Conflict) => Err(stale("another process swapped the root: a node is running")),
            Err(error) => Err(CatalogError::Unknown(error.message)),
        }
    }

    /// The last event of a namespace in `range`.
    async fn last_event(&self, store: &Arc<dyn Store>, ns: &Namespace, range: TimeRange) -> Result<Option<Timestamp>, CatalogError> {
        let (mut last, mut after) = (None, None::<String>);
        loop {
            let keys = store.keys(ns, "", after.as_deref(), KEYS_AT_ONCE).await?;
            for key in &keys {
                last = last.max(self.last_event_of(store, ns, key, range).await?);
            }
            match keys.last() {
                Some(key) if keys.len() == KEYS_AT_ONCE => after = Some(key.clone()),
                _ => return Ok(last),
            }
        }
    }

    async fn last_event_of(
        &self,
        store: &Arc<dyn Store>,
        ns: &Namespace,
        key: &str,
        range: TimeRange,
    ) -> Result<Option<Timestamp>, CatalogError> {
        let mut last = None;
        for day in store.days(ns, key, day_of(range.from), Day::MAX).await? {
            last = last.max(self.last_event_in(store, ns, key, day_range(day).intersect(range)).await?);
        }
        Ok(last)
    }

    /// The last event of a key in `range`, found in all partitions that may hold one.
    async fn last_event_in(
        &self,
        store: &Arc<dyn Store>,
        ns: &Namespace,
        key: &str,
        range: TimeRange,
    ) -> Result<Option<Timestamp>, CatalogError> {
        let (view, mut last, mut some) = (self.view(), None, Vec::new());
        for (part, layout) in view.namespace(ns).map(|namespace| namespace.epochs(key, range)).unwrap_or_default() {
            let mut bucket = layout.bucket(part.from);
            while bucket < part.to {
                for suffix in 0..layout.shards {
                    some.push(Partition { ns: ns.clone(), key: key.into(), bucket, version: layout.version, suffix });
                    if some.len() == PARTITIONS_AT_ONCE {
                        last = last.max(last_in(store, std::mem::take(&mut some), range).await?);
                    }
                }
                bucket = layout.bucket_range(bucket).to;
            }
        }
        Ok(last.max(last_in(store, some, range).await?))
    }
}

/// The last event time of these partitions' blocks that lies in `range`.
async fn last_in(store: &Arc<dyn Store>, mut partitions: Vec<Partition>, range: TimeRange) -> Result<Option<Timestamp>, StoreError> {
    partitions.sort_unstable();
    let scan = Scan { partitions: partitions.into(), range, consistency: Consistency::Strong };
    let (mut last, mut page) = (None, None);
    loop {
        let answer = store.scan(&scan, page).await?;
        let within = answer.blocks.iter().map(|(_, block)| block.address.max_ts).filter(|ts| *ts >= range.from);
        last = last.max(within.max());
        match answer.next {
            Some(next) => page = Some(next),
            None => return Ok(last),
        }
    }
}

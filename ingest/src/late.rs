//! Step: what may be acknowledged of blocks that are durable (COLD-5). Nearly always everything, at
//! once, by the view at hand. A block of a bucket that is due may have come too late for the generation
//! that is being written: it counts once the bucket's mark was seen to stand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use braid_shared::catalog::{Catalog, CatalogError, View};
use braid_shared::clock::Clock;
use braid_shared::codes;
use braid_shared::cold::rules::{Ack, ack, in_time};
use braid_shared::cold::{Manifest, PageId};
use braid_shared::model::Timestamp;
use braid_shared::store::Store;

use crate::coalesce::Load;
use crate::fault::Fault;
use crate::ticket::Settled;

/// Marks buckets of late blocks.
pub(crate) struct Late {
    catalog: Arc<Catalog>,
    clock: Arc<dyn Clock>,
    manifest: Manifest,
}

impl Late {
    pub(crate) fn new(store: Arc<dyn Store>, catalog: Arc<Catalog>, clock: Arc<dyn Clock>) -> Late {
        Late { manifest: Manifest::beside(&catalog, store), catalog, clock }
    }

    /// How each load is settled, its block being durable. An error means that a mark could not be
    /// seen to stand.
    pub(crate) async fn acknowledge(&self, loads: &[Load]) -> Result<Vec<Settled>, CatalogError> {
        let view = self.view().await?;
        let age = self.clock.elapsed(view.began);
        let acks: Vec<Ack> = loads.iter().map(|load| ack_of(&view, age, load)).collect();
        let mut marks: BTreeMap<PageId, Vec<Timestamp>> = BTreeMap::new();
        for (load, _) in loads.iter().zip(&acks).filter(|(_, ack)| **ack == Ack::Marked) {
            let partition = &load.partition;
            let page = PageId::of(&partition.ns, &partition.key, &load.layout, partition.bucket);
            marks.entry(page).or_default().push(partition.bucket);
        }
        let marking = marks.iter().map(|(page, buckets)| self.manifest.mark(page, buckets));
        futures::future::try_join_all(marking).await?;
        Ok(acks.into_iter().map(settled).collect())
    }

    /// A view that is young enough to acknowledge by, where one can be had.
    async fn view(&self) -> Result<Arc<View>, CatalogError> {
        let view = self.catalog.view();
        if in_time(self.clock.elapsed(view.began), view.shared.write_deadline.duration()) { Ok(view) } else { self.catalog.refresh().await }
    }
}

fn ack_of(view: &View, age: Duration, load: &Load) -> Ack {
    let bucket = load.layout.bucket_range(load.partition.bucket);
    // A namespace that the view does not know has nothing that is due by it.
    let facts = view.namespace(&load.partition.ns).map(|namespace| namespace.cold).unwrap_or_default();
    ack(facts, bucket, age, view.shared.write_deadline.duration())
}

fn settled(ack: Ack) -> Settled {
    match ack {
        Ack::Now | Ack::Marked => Settled::Stored,
        Ack::Refused => Settled::Failed(Fault::new(codes::TIMESTAMP_TOO_OLD, "the namespace dropped that history meanwhile")),
    }
}

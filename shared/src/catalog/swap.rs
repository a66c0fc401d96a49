//! The one compare-and-swap that everything goes through.

use super::documents::encode;
use super::root::{ROOT, Root};
use super::view::Namespaces;
use super::{Catalog, CatalogError, Known};
use crate::store::{StoreErrorKind, Swap};

/// What became of an attempt to swap the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// It stands, and what it says is at hand now.
    Done,
    /// Another swap came before, so that this one can't be applied any more; or its own request came
    /// twice, and this answers the second. Read the root before anything is undone.
    Lost,
    /// No answer: it may have been applied, or may yet be for as long as the root keeps the
    /// etag it named. Read the root to learn more.
    Open,
}

impl Catalog {
    /// Swaps the root of `known` for `next`, which `namespaces` is the content of. Only a swap that
    /// is known to stand is installed (PROMISE-5). An error means that nothing was done.
    pub(super) async fn attempt(&self, known: &Known, next: Root, namespaces: Namespaces) -> Result<Attempt, CatalogError> {
        // The swap shows the root as it was after this moment, so the view is at least so fresh.
        let began = self.clock.mark();
        match self.documents.swap(ROOT, Some(known.etag), encode(&next)).await {
            Ok(Swap::Done(etag)) => {
                self.metrics.swaps.inc();
                self.metrics.observe(&self.install(Known::new(next, etag, began, namespaces)));
                Ok(Attempt::Done)
            }
            Ok(Swap::Conflict) => {
                self.metrics.conflicts.inc();
                Ok(Attempt::Lost)
            }
            Err(e) if e.kind == StoreErrorKind::Unknown => {
                self.metrics.unknown.inc();
                Ok(Attempt::Open)
            }
            Err(e) => Err(e.into()),
        }
    }
}

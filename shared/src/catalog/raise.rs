//! Raising the promise and the stamp ceiling, before they are needed where that can be foreseen.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::swap::Attempt;
use super::view::View;
use super::{Catalog, CatalogError, Known, TRIES};
use crate::model::Timestamp;
use crate::promise::{Reach, accepts, ceiling_reach, horizon_reach, raised, raised_ceiling};

use super::refresh::stale;

impl Catalog {
    /// A view whose horizon lies above `ts` and whose stamp ceiling leaves room, raising them where
    /// needed. `ts` must be below now + lead, else [`CatalogError::Invalid`] (checked by the caller
    /// first: `timestamp_too_far_ahead`). Where less than lead/2 is left but `ts` is covered, the
    /// raise runs in the background. Concurrent calls share one swap.
    pub async fn cover(self: &Arc<Self>, ts: Timestamp) -> Result<Arc<View>, CatalogError> {
        let known = self.known();
        match self.reach(&known, ts, self.clock.now()) {
            Reach::Ample => {}
            Reach::Short => self.raise_in_background(ts),
            Reach::Spent => return self.raise(ts, Reach::Spent).await,
        }
        Ok(known.view.clone())
    }

    fn raise_in_background(self: &Arc<Self>, ts: Timestamp) {
        if self.raising.swap(true, Ordering::SeqCst) {
            return;
        }
        let catalog = self.clone();
        tokio::spawn(async move {
            if let Err(error) = catalog.raise(ts, Reach::Short).await {
                tracing::debug!(%error, "the promise was not raised ahead of need");
            }
            catalog.raising.store(false, Ordering::SeqCst);
        });
    }

    /// Raises until what is at hand reaches `ts` better than `enough`. Waits for a raise that runs
    /// already, which mostly leaves nothing to do.
    async fn raise(&self, ts: Timestamp, enough: Reach) -> Result<Arc<View>, CatalogError> {
        let _turn = self.writing.lock().await;
        let mut failed = None;
        for tried in 0..TRIES {
            let known = self.known();
            let now = self.clock.now();
            if self.reach(&known, ts, now) < enough {
                return Ok(known.view.clone());
            }
            match self.raise_once(&known, ts, now).await {
                Ok(Attempt::Done) => continue,
                // Whoever swapped, what stands now may do.
                Ok(Attempt::Lost | Attempt::Open) => {
                    self.refreshed().await?;
                }
                Err(error @ CatalogError::Invalid(_)) => return Err(error),
                Err(error) => failed = Some(error),
            }
            self.dice.back_off(tried).await;
        }
        Err(failed.unwrap_or_else(|| stale(format!("the promise could not be raised in {TRIES} tries"))))
    }

    async fn raise_once(&self, known: &Known, ts: Timestamp, now: Timestamp) -> Result<Attempt, CatalogError> {
        let (root, lead) = (&known.root, known.view.shared.lead);
        let promise = match horizon_reach(root.promise(), ts, now, lead) {
            Reach::Ample => root.promise(),
            Reach::Short | Reach::Spent => raised(root.promise(), now, lead),
        };
        if !accepts(promise, ts) {
            return Err(CatalogError::Invalid(format!("{ts} lies further than {lead} ahead of this node's clock")));
        }
        if promise > root.promise() {
            self.guard.check(&self.documents, &*self.clock, lead).await?;
        }
        let ceiling = raised_ceiling(root.ceiling, self.stamps.used(now), lead);
        self.attempt(known, root.raised(promise, ceiling), known.view.namespaces.clone()).await
    }

    fn reach(&self, known: &Known, ts: Timestamp, now: Timestamp) -> Reach {
        let lead = known.view.shared.lead;
        let ceiling = ceiling_reach(known.view.stamp_ceiling, self.stamps.used(now), lead);
        ceiling.max(horizon_reach(known.view.horizon, ts, now, lead))
    }
}

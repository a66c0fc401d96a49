//! Who controls: one node by lease, which saves the others the work and decides nothing. Two that
//! both think they lead only race for the catalog's swap, which one of them loses.
//!
//! The document is swapped by compare-and-swap, and a lease is broken only after the document stood
//! still for its whole length on the breaker's own clocks: no clocks are compared. It also carries
//! the last decisions, so that a new leader knows what was tried.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::decide::{Action, Tried};
use crate::catalog::CatalogError;
use crate::catalog::documents::{Documents, encode};
use crate::clock::{Clock, Mark};
use crate::model::{Namespace, Timestamp};
use crate::store::{StoreErrorKind, Swap};

/// Name of the document.
pub(super) const LEADER: &str = "heat/leader";
/// How long a lease holds that is not renewed.
const LEASE: Duration = Duration::from_secs(10);
/// Its holder stops acting on it that long before others may break it.
const MARGIN: Duration = Duration::from_secs(3);
/// Between two renewals where there is nothing to say.
const RENEW_EVERY: Duration = Duration::from_secs(3);

/// The leader's document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Leader {
    /// Which node; empty where nobody controls because there is nothing to do.
    pub node: String,
    /// Grows with every new leader.
    pub term: u64,
    /// The last decision on each key, the latest last.
    pub decisions: Vec<KeyDecision>,
}

/// A decision on a key, with what it was made from; loads are in suffixes' worth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyDecision {
    /// Namespace.
    pub ns: Namespace,
    /// Key.
    pub key: String,
    /// When, by the leader's clock, nanoseconds.
    pub at: i64,
    /// What was decided.
    #[serde(flatten)]
    pub action: Action,
    /// N then.
    pub shards: u32,
    /// Load of all suffixes.
    pub total: f64,
    /// Load of the hottest suffix.
    pub hottest: f64,
    /// Whether the store refused the rate.
    pub throttled: bool,
    /// Version of the layout that came of it, if one did.
    pub version: Option<u64>,
    /// Whether it was only said.
    pub dry_run: bool,
    /// In words.
    pub reason: String,
    /// The last growth that was tried.
    pub tried: Option<Tried>,
}

impl KeyDecision {
    /// When, by the leader's clock.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_nanos(self.at)
    }
}

/// This node's hold on the lease, or its wish for it.
pub(super) struct Lease {
    documents: Documents,
    clock: Arc<dyn Clock>,
    node: Arc<str>,
    held: Option<Held>,
    /// The document as last seen in another's hands, and since when it stands so.
    seen: Option<(u64, Mark)>,
}

struct Held {
    etag: u64,
    term: u64,
    since: Mark,
}

impl Lease {
    pub(super) fn new(documents: Documents, clock: Arc<dyn Clock>, node: Arc<str>) -> Lease {
        Lease { documents, clock, node, held: None, seen: None }
    }

    /// Whether this node may act as the leader.
    pub(super) fn is_held(&self) -> bool {
        self.held.as_ref().is_some_and(|held| self.clock.elapsed(held.since) < LEASE - MARGIN)
    }

    /// Takes the lease where it is free; gives the decisions that the leader before had made.
    pub(super) async fn seek(&mut self) -> Result<Option<Vec<KeyDecision>>, CatalogError> {
        self.held = None;
        let (before, etag) = self.documents.read::<Leader>(LEADER).await?.unzip();
        let before = before.unwrap_or_default();
        if !before.node.is_empty() && *before.node != *self.node && !self.stood_still(etag) {
            return Ok(None);
        }
        let next = Leader { node: self.node.to_string(), term: before.term + 1, decisions: before.decisions };
        let since = self.clock.mark();
        match self.documents.swap(LEADER, etag, encode(&next)).await? {
            Swap::Done(etag) => self.held = Some(Held { etag, term: next.term, since }),
            Swap::Conflict => return Ok(None),
        }
        tracing::info!(term = next.term, "this node controls layouts by heat");
        Ok(Some(next.decisions))
    }

    /// Whether the document has been as it is for the length of a lease, before this node's eyes.
    fn stood_still(&mut self, etag: Option<u64>) -> bool {
        let Some(etag) = etag else { return true };
        match self.seen {
            Some((seen, since)) if seen == etag => self.clock.elapsed(since) >= LEASE,
            _ => {
                self.seen = Some((etag, self.clock.mark()));
                false
            }
        }
    }

    /// Renews the lease where that is due, or `news` of a decision are to be told.
    pub(super) async fn renew(&mut self, decisions: &[KeyDecision], news: bool) {
        let due = self.held.as_ref().is_some_and(|held| news || self.clock.elapsed(held.since) >= RENEW_EVERY);
        if due {
            self.write(self.node.to_string(), decisions).await;
        }
    }

    /// Gives the lease up: there is nothing to control.
    pub(super) async fn resign(&mut self, decisions: &[KeyDecision]) {
        self.write(String::new(), decisions).await;
        self.held = None;
    }

    async fn write(&mut self, node: String, decisions: &[KeyDecision]) {
        let Some(held) = &mut self.held else { return };
        let since = self.clock.mark();
        let next = Leader { node, term: held.term, decisions: decisions.to_vec() };
        match self.documents.swap(LEADER, Some(held.etag), encode(&next)).await {
            Ok(Swap::Done(etag)) => (held.etag, held.since) = (etag, since),
            Ok(Swap::Conflict) => {
                tracing::info!(term = held.term, "another node controls layouts by heat");
                self.held = None;
            }
            // It may stand under an etag that is not known here: to go on, take it anew.
            Err(error) if error.kind == StoreErrorKind::Unknown => self.held = None,
            Err(error) => tracing::debug!(%error, "the lease on control was not renewed"),
        }
    }
}

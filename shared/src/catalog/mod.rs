//! The catalog: the versioned routing truth, in the store, and this node's view of it.

// INTERFACE SKETCH: bodies are the catalog owner's work; split into files.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Mark};
use crate::layout::{Layout, ShardBy};
use crate::model::{Namespace, Span, TimeRange, Timestamp};
use crate::stamp::{Stamp, StampSource};
use crate::store::Store;
use crate::timeline::Timeline;

/// Settings that nodes must share; they live in the catalog's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// How far ahead of its clock a node promises (10 s).
    pub lead: Span,
    /// How long what is being replaced still stands (60 s).
    pub grace: Span,
    /// Longest a read of one bucket may take (< grace; 30 s).
    pub read_deadline: Span,
    /// Longest a write may take (< grace; 30 s).
    pub write_deadline: Span,
}

/// A namespace's policy: everything but its layouts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Age at which buckets are archived.
    pub archive_after: Option<Span>,
    /// Age at which events are dropped.
    pub retention: Option<Span>,
    /// Age beyond which events are refused.
    pub max_age: Option<Span>,
    /// Fewest shards the controller may choose.
    pub min_shards: Option<u32>,
    /// Most shards the controller may choose.
    pub max_shards: Option<u32>,
    /// Whether reads may be eventually consistent.
    pub eventual_reads: bool,
}

/// One layout of a timeline as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedLayout {
    /// The layout.
    pub layout: Layout,
    /// Event time from which it holds; [`Timestamp::MIN`] for layout 0.
    pub from: Timestamp,
    /// Whether it was withdrawn.
    pub withdrawn: bool,
}

/// Timelines and policy of one namespace.
#[derive(Clone, Debug)]
pub struct NamespaceView {
    /// Policy.
    pub policy: Arc<Policy>,
    default: Timeline<Arc<Layout>>,
    keys: HashMap<Arc<str>, Timeline<Arc<Layout>>>,
}

impl NamespaceView {
    /// The layout that places an event of `key` at `ts`: the latest epoch of the key's own that
    /// began by then, else the namespace's default.
    pub fn layout_at(&self, key: &str, ts: Timestamp) -> &Arc<Layout> {
        let _ = (key, ts);
        todo!()
    }

    /// The epochs of `key` that hold somewhere in `range`, each with the part it holds, in order.
    pub fn epochs(&self, key: &str, range: TimeRange) -> Vec<(TimeRange, Arc<Layout>)> {
        let _ = (key, range, &self.default, &self.keys);
        todo!()
    }

    /// The timeline as published, withdrawn ones included: of a key, or the default (`None`).
    pub fn listed(&self, key: Option<&str>) -> Vec<ListedLayout> {
        let _ = key;
        todo!()
    }
}

/// What a node knows of the catalog; immutable.
#[derive(Clone, Debug)]
pub struct View {
    /// The catalog's version.
    pub revision: u64,
    /// The promise as read: below it this view can no longer change.
    pub horizon: Timestamp,
    /// Stamps below it may be issued.
    pub stamp_ceiling: u64,
    /// When the read that gave this view began.
    pub began: Mark,
    /// Settings that nodes share.
    pub shared: Shared,
    namespaces: HashMap<Namespace, Arc<NamespaceView>>,
}

impl View {
    /// A namespace, if this view knows it.
    pub fn namespace(&self, ns: &Namespace) -> Option<&Arc<NamespaceView>> {
        self.namespaces.get(ns)
    }
}

/// What a new namespace is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNamespace {
    /// Shards of layout 0 (default 4).
    pub shards: u32,
    /// Bucket of layout 0 (default 1 h).
    pub bucket: Span,
    /// What layout 0 shards by (default: the id).
    pub shard_by: ShardBy,
    /// Policy.
    pub policy: Policy,
}

/// A layout to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLayout {
    /// Shards.
    pub shards: u32,
    /// Bucket; as the layout it follows where absent.
    pub bucket: Option<Span>,
    /// What to shard by; as the layout it follows where absent.
    pub shard_by: Option<ShardBy>,
    /// Event time from which it holds; as soon as the promise allows where absent.
    pub effective_from: Option<Timestamp>,
}

/// Why the catalog refused or failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CatalogError {
    /// It could not be read or written, or it stepped back; what is at hand does not suffice.
    #[error("the catalog can't be read: {0}")]
    Stale(String),
    /// No such namespace, by a read that began after the request.
    #[error("no namespace {0}")]
    NamespaceNotFound(Namespace),
    /// No such layout.
    #[error("no layout of version {0}")]
    LayoutNotFound(u64),
    /// The start is below the promise, or not after the timeline's last start.
    #[error("{0}")]
    LayoutConflict(String),
    /// Layout 0 is set when the namespace is made; later: append an epoch.
    #[error("{0}")]
    LayoutImmutable(String),
    /// Shards, bucket or policy out of bounds.
    #[error("{0}")]
    Invalid(String),
    /// A change whose outcome is not known (the swap's answer was lost and could not be read back).
    #[error("the outcome of the change is not known: {0}")]
    Unknown(String),
}

/// This node's door to the catalog.
pub struct Catalog {
    _todo: (),
}

impl Catalog {
    /// Reads the catalog, making its root where there is none (with `defaults`).
    /// Refuses to start where the node's clock is far off what the store shows.
    pub async fn open(store: Arc<dyn Store>, clock: Arc<dyn Clock>, defaults: Shared) -> Result<Arc<Catalog>, CatalogError> {
        let _ = (store, clock, defaults);
        todo!()
    }

    /// The view at hand. Cheap; never waits.
    pub fn view(&self) -> Arc<View> {
        todo!()
    }

    /// A view read linearizably by a read that begins after this call. Concurrent calls share reads.
    pub async fn refresh(&self) -> Result<Arc<View>, CatalogError> {
        todo!()
    }

    /// Refreshes for ever, every `every`, until dropped; failures are logged once per outage and counted.
    pub async fn keep_fresh(self: Arc<Self>, every: Duration) {
        let _ = every;
        todo!()
    }

    /// A view whose horizon lies above `ts` and whose stamp ceiling leaves room, raising them where
    /// needed. `ts` must be below now + lead, else [`CatalogError::Invalid`] (checked by the caller
    /// first: `timestamp_too_far_ahead`). Where less than lead/2 is left but `ts` is covered, the
    /// raise runs in the background. Concurrent calls share one swap.
    pub async fn cover(self: &Arc<Self>, ts: Timestamp) -> Result<Arc<View>, CatalogError> {
        let _ = ts;
        todo!()
    }

    /// A namespace by a view at hand, or by a refresh where that does not know it.
    pub async fn namespace(&self, ns: &Namespace) -> Result<(Arc<View>, Arc<NamespaceView>), CatalogError> {
        let _ = ns;
        todo!()
    }

    /// Makes a namespace where there is none; gives whether it was made.
    pub async fn create_namespace(&self, ns: &Namespace, new: NewNamespace) -> Result<bool, CatalogError> {
        let _ = (ns, new);
        todo!()
    }

    /// Replaces a namespace's policy.
    pub async fn set_policy(&self, ns: &Namespace, policy: Policy) -> Result<(), CatalogError> {
        let _ = (ns, policy);
        todo!()
    }

    /// Appends an epoch to a key's own timeline, or to the default one.
    pub async fn publish_layout(&self, ns: &Namespace, key: Option<&str>, new: NewLayout) -> Result<ListedLayout, CatalogError> {
        let _ = (ns, key, new);
        todo!()
    }

    /// Withdraws an epoch that begins at or after the promise.
    pub async fn withdraw_layout(&self, ns: &Namespace, key: Option<&str>, version: u64) -> Result<ListedLayout, CatalogError> {
        let _ = (ns, key, version);
        todo!()
    }

    /// Issues the next stamp; [`CatalogError::Stale`] where the ceiling is used up (call [`Catalog::cover`] first).
    pub fn stamp(&self) -> Result<Stamp, CatalogError> {
        let _: Option<&StampSource> = None;
        todo!()
    }
}

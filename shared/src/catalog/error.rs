//! Why the catalog refused or failed. No statuses here; each tier chooses those.

use crate::model::Namespace;
use crate::store::StoreError;

/// Why the catalog refused or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    /// What is to be changed has changed since it was looked at.
    #[error("{0}")]
    RevisionConflict(String),
    /// Layout 0 is set when the namespace is made; later: append an epoch.
    #[error("{0}")]
    LayoutImmutable(String),
    /// A cold group is not an append beyond what is archived.
    #[error("{0}")]
    GroupConflict(String),
    /// Shards, bucket or policy out of bounds.
    #[error("{0}")]
    Invalid(String),
    /// A change whose outcome is not known (the swap's answer was lost and could not be read back).
    #[error("the outcome of the change is not known: {0}")]
    Unknown(String),
}

impl From<StoreError> for CatalogError {
    /// For calls after which nothing that counts was done: reads, and writes of documents that
    /// nothing names yet. A root's swap maps its own errors.
    fn from(error: StoreError) -> CatalogError {
        CatalogError::Stale(error.message)
    }
}

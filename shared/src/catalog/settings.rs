//! Plain settings that live in the catalog, and their bounds.

use serde::{Deserialize, Serialize};

use super::CatalogError;
use crate::layout::{Layout, ShardBy};
use crate::limits::{KEY_BYTES_MAX, SHARDS_MAX, SHARDS_MIN, STRING_BYTES_MAX};
use crate::model::{Span, Timestamp};

/// Settings that nodes must share; they live in the catalog's root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

impl Default for Shared {
    /// What a new catalog begins with: lead 10 s, grace 60 s, deadlines 30 s.
    fn default() -> Shared {
        let seconds = |count: i64| Span::from_nanos(count * Span::SECOND.nanos()).expect("positive");
        Shared { lead: seconds(10), grace: seconds(60), read_deadline: seconds(30), write_deadline: seconds(30) }
    }
}

impl Shared {
    /// Both deadlines must end before the grace does, or what is being read could be deleted.
    pub(super) fn check(self) -> Result<(), CatalogError> {
        if self.read_deadline >= self.grace || self.write_deadline >= self.grace {
            return Err(CatalogError::Invalid("read_deadline and write_deadline must be shorter than grace".into()));
        }
        Ok(())
    }
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
    /// Whether the controller changes layouts here; where absent, it does if `max_shards` leaves it room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heat: Option<HeatMode>,
    /// Events per second that one suffix should take at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_events: Option<u32>,
    /// Store units per second that one suffix should take at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_units: Option<u32>,
}

/// What the controller does in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeatMode {
    /// Nothing.
    Off,
    /// It decides and says so, and changes nothing.
    DryRun,
    /// It appends epochs.
    Auto,
}

impl Policy {
    /// Checks the bounds of a policy's numbers.
    pub(super) fn check(&self) -> Result<(), CatalogError> {
        for (name, shards) in [("min_shards", self.min_shards), ("max_shards", self.max_shards)] {
            if shards.is_some_and(|n| !(SHARDS_MIN..=SHARDS_MAX).contains(&n)) {
                return Err(CatalogError::Invalid(format!("{name} must be {SHARDS_MIN} to {SHARDS_MAX}")));
            }
        }
        for (name, target) in [("target_events", self.target_events), ("target_units", self.target_units)] {
            if target == Some(0) {
                return Err(CatalogError::Invalid(format!("{name} must be at least 1")));
            }
        }
        if matches!(self.heat, Some(HeatMode::Auto | HeatMode::DryRun)) && self.max_shards.is_none() {
            return Err(CatalogError::Invalid("heat needs max_shards".into()));
        }
        match (self.min_shards, self.max_shards) {
            (Some(least), Some(most)) if least > most => Err(CatalogError::Invalid("min_shards must not exceed max_shards".into())),
            _ => Ok(()),
        }
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

impl Default for NewNamespace {
    fn default() -> NewNamespace {
        NewNamespace { shards: 4, bucket: Span::HOUR, shard_by: ShardBy::Id, policy: Policy::default() }
    }
}

impl NewNamespace {
    /// Checks every bound.
    pub(super) fn check(&self) -> Result<(), CatalogError> {
        check_layout(self.shards, self.bucket, &self.shard_by)?;
        self.policy.check()
    }
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

impl NewLayout {
    /// A layout of `shards` that else follows the one before it, as soon as the promise allows.
    pub fn of(shards: u32) -> NewLayout {
        NewLayout { shards, bucket: None, shard_by: None, effective_from: None }
    }
}

/// Checks the bounds of a layout.
pub(super) fn check_layout(shards: u32, bucket: Span, shard_by: &ShardBy) -> Result<(), CatalogError> {
    Layout::check(shards, bucket).map_err(|e| CatalogError::Invalid(e.to_string()))?;
    match shard_by.tag() {
        Some(tag) if tag.is_empty() || tag.len() > STRING_BYTES_MAX => {
            Err(CatalogError::Invalid(format!("shard_by must be 1 to {STRING_BYTES_MAX} bytes")))
        }
        _ => Ok(()),
    }
}

/// Checks the bounds of a key that is to have layouts of its own.
pub(super) fn check_key(key: &str) -> Result<(), CatalogError> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(CatalogError::Invalid(format!("a key must be 1 to {KEY_BYTES_MAX} bytes")));
    }
    Ok(())
}

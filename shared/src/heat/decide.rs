//! From a key's load to what becomes of its N. Pure; loads are in suffixes' worth (1 = one suffix
//! at its target).
//!
//! Grows at once to where every suffix is half full, and shrinks by at most half a cool-down, only
//! to where the whole cool-down's peak would have left suffixes half full. So after a change the
//! same load is far from both thresholds, and N does not flap.

use serde::{Deserialize, Serialize};

/// How full a suffix is meant to be: what N is chosen for.
const GOAL: f64 = 0.5;
/// A throttled suffix counts as hot from this load on; below, the store's trouble is not this key's.
const THROTTLED_LOAD_MIN: f64 = 0.25;
/// Part of its share that the hottest suffix may keep after growing; beyond, growing did not help.
const SHARE_KEPT_MAX: f64 = 0.8;

/// Between which N may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Fewest shards.
    pub min: u32,
    /// Most shards.
    pub max: u32,
}

/// What is known of a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// N in force.
    pub shards: u32,
    /// Load of all suffixes now.
    pub total: f64,
    /// Load of the hottest suffix now.
    pub hottest: f64,
    /// Whether a suffix has been over its target for long enough to be no burst.
    pub held: bool,
    /// Whether the store refuses the rate somewhere in the key.
    pub throttled: bool,
    /// Greatest load of all suffixes over a whole cool-down under this N; none before one has passed.
    pub peak: Option<f64>,
    /// Whether N changed a moment ago, or is about to: what is measured is not yet of this N.
    pub settling: bool,
    /// The last time the controller grew this key to the N in force.
    pub tried: Option<Tried>,
}

/// A growth that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// N that it led to.
    pub to: u32,
    /// The hottest suffix's part of all load before.
    pub share: f64,
}

/// What to do, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Nothing: suffixes are as full as they should be.
    Keep,
    /// Nothing yet: a change has just been made or is under way.
    Settle,
    /// Append an epoch with more shards.
    Grow {
        /// N.
        to: u32,
    },
    /// Append an epoch with fewer shards.
    Shrink {
        /// N.
        to: u32,
    },
    /// More would be needed, but the policy's `max_shards` is reached.
    AtMax,
    /// More suffixes did not lower the hottest one: one `shard_by` value dominates.
    Dominated,
}

/// N at which every suffix is half full, if names spread evenly; at least 1.
pub fn needed(total: f64) -> u32 {
    // Casting saturates, and takes what is no number as 0.
    ((total / GOAL).ceil() as u32).max(1)
}

/// Whether a suffix is over its target.
pub(super) fn is_over(total: f64, hottest: f64, shards: u32) -> bool {
    hottest > 1.0 || total / f64::from(shards) > 1.0
}

/// What becomes of a key's N.
pub fn decide(seen: &Observed, bounds: Bounds) -> Action {
    let Observed { shards, total, hottest, .. } = *seen;
    if seen.settling {
        return Action::Settle;
    }
    if shards < bounds.min {
        return Action::Grow { to: bounds.min };
    }
    let throttled = seen.throttled && hottest >= THROTTLED_LOAD_MIN;
    match is_over(total, hottest, shards) {
        over if throttled || over && seen.held => grow(seen, throttled, bounds),
        true => Action::Keep,
        false if seen.throttled => Action::Keep,
        false => shrink(seen, bounds),
    }
}

fn grow(seen: &Observed, throttled: bool, bounds: Bounds) -> Action {
    let share = seen.hottest / seen.total;
    let dominated = |tried: Tried| tried.to == seen.shards && share > SHARE_KEPT_MAX * tried.share;
    if !throttled && seen.tried.is_some_and(dominated) {
        return Action::Dominated;
    }
    let enough = needed(seen.total);
    // What is refused or uneven does not show what is needed: feel the way.
    let to = if throttled || enough <= seen.shards { enough.max(seen.shards.saturating_mul(2)) } else { enough };
    match to.min(bounds.max) {
        to if to > seen.shards => Action::Grow { to },
        _ => Action::AtMax,
    }
}

fn shrink(seen: &Observed, bounds: Bounds) -> Action {
    let Some(peak) = seen.peak else { return Action::Keep };
    let enough = needed(peak.max(seen.total));
    let even = seen.hottest <= GOAL;
    if even && (seen.shards > bounds.max || enough <= seen.shards / 2) {
        let to = enough.max(seen.shards.div_ceil(2)).max(bounds.min).min(bounds.max);
        if to < seen.shards {
            return Action::Shrink { to };
        }
    }
    Action::Keep
}

impl Action {
    /// A word for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Action::Keep => "keep",
            Action::Settle => "settle",
            Action::Grow { .. } => "grow",
            Action::Shrink { .. } => "shrink",
            Action::AtMax => "at_max",
            Action::Dominated => "dominated",
        }
    }
}

//! What the controller may do with a key: the namespace's policy, and what people set by hand.

use super::decide::Bounds;
use super::load::Targets;
use crate::catalog::{HeatMode, NamespaceView, Policy};
use crate::limits::{SHARDS_MAX, TIMELINE_LAYOUTS_MAX};
use crate::model::Timestamp;

/// Events per second that one suffix should take at most, unless the policy says otherwise.
pub const TARGET_EVENTS_DEFAULT: u32 = 5_000;
/// Store units per second that one suffix should take at most, unless the policy says otherwise:
/// half of what a DynamoDB partition takes.
pub const TARGET_UNITS_DEFAULT: u32 = 500;
/// Layouts of a timeline beyond which the controller leaves it alone, so that people can still
/// change it.
const AUTOMATIC_LAYOUTS_MAX: usize = TIMELINE_LAYOUTS_MAX / 2;

/// What one suffix should take at most.
pub fn targets(policy: &Policy) -> Targets {
    Targets {
        events: policy.target_events.unwrap_or(TARGET_EVENTS_DEFAULT).into(),
        units: policy.target_units.unwrap_or(TARGET_UNITS_DEFAULT).into(),
    }
}

/// What the controller does in a namespace: what the policy says, else its work where `max_shards`
/// leaves it room above the default layout.
pub fn mode(namespace: &NamespaceView, now: Timestamp) -> HeatMode {
    let room = || namespace.policy.max_shards.is_some_and(|max| max > namespace.default_at(now).shards);
    namespace.policy.heat.unwrap_or_else(|| if room() { HeatMode::Auto } else { HeatMode::Off })
}

/// A key as the controller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPolicy {
    /// Between which N may move.
    pub bounds: Bounds,
    /// When the last epoch begins or began; [`Timestamp::MIN`] for layout 0.
    pub last_start: Timestamp,
    /// Whether the timeline has room for more automatic epochs.
    pub has_room: bool,
}

impl KeyPolicy {
    /// Of a key at a time. N that a person set by hand for the key is never gone below.
    pub fn of(namespace: &NamespaceView, key: &str, now: Timestamp) -> KeyPolicy {
        let default = namespace.default_at(now);
        let own: Vec<_> = namespace.epochs_published(key).collect();
        let by_hand = own.iter().rev().find(|(_, _, audit)| !audit.is_some_and(|audit| audit.automatic));
        let least = namespace.policy.min_shards;
        let min = by_hand.map_or(least.unwrap_or(default.shards), |(_, layout, _)| layout.shards.max(least.unwrap_or(1)));
        let max = namespace.policy.max_shards.unwrap_or(SHARDS_MAX);
        let last_start = own.last().map_or(namespace.default_start(now), |(from, ..)| *from);
        KeyPolicy {
            bounds: Bounds { min: min.min(max), max },
            last_start,
            has_room: namespace.layouts_published(key) < AUTOMATIC_LAYOUTS_MAX,
        }
    }
}

//! A change: a document of its own that a swap of the root makes real.

use serde::{Deserialize, Serialize};

use super::{Audit, Policy};
use crate::cold::Group;
use crate::layout::{Layout, LayoutVersion};
use crate::model::Namespace;

/// One change and where it stands in the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeDocument {
    /// The revision it makes.
    pub(super) revision: u64,
    /// Name of the change before it; none for the first.
    pub(super) before: Option<String>,
    /// What changes.
    pub(super) change: Change,
    /// Who made it, when and why; older programs did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) audit: Option<Audit>,
}

/// What a revision changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Change {
    /// A namespace with its layout 0 and policy.
    NamespaceMade {
        /// Its name.
        namespace: Namespace,
        /// Layout 0.
        layout: Layout,
        /// Its policy.
        policy: Policy,
    },
    /// Another policy.
    PolicySet {
        /// Whose.
        namespace: Namespace,
        /// The policy.
        policy: Policy,
    },
    /// An epoch.
    LayoutPublished {
        /// Where.
        namespace: Namespace,
        /// Whose timeline; none for the default one.
        key: Option<String>,
        /// Event time from which it holds, nanoseconds.
        from: i64,
        /// The layout.
        layout: Layout,
    },
    /// An epoch that does not hold after all.
    LayoutWithdrawn {
        /// Where.
        namespace: Namespace,
        /// Whose timeline; none for the default one.
        key: Option<String>,
        /// Which one.
        version: LayoutVersion,
    },
    /// More of a namespace's buckets are due to be archived.
    ClosingRaised {
        /// Whose.
        namespace: Namespace,
        /// Event time, nanoseconds.
        to: i64,
    },
    /// More of a namespace's history is gone.
    DroppedRaised {
        /// Whose.
        namespace: Namespace,
        /// Event time, nanoseconds.
        to: i64,
    },
    /// A cold group.
    GroupAdded {
        /// Whose.
        namespace: Namespace,
        /// Event time from which it holds, nanoseconds.
        from: i64,
        /// The group.
        group: Group,
    },
}

/// Name of a change's document; the random bits keep two writers' attempts apart.
pub(super) fn change_name(revision: u64, random: u64) -> String {
    format!("change/{revision:020}-{random:016x}")
}

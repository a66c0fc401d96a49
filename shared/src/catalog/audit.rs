//! Who changed something, when and why; and what a change counts on not having changed meanwhile.
//!
//! An account for people: nothing is decided by it. Who is taken on trust.

use serde::{Deserialize, Serialize};

use super::CatalogError;
use crate::limits::{AUTHOR_BYTES_MAX, REASON_BYTES_MAX};
use crate::model::Timestamp;

/// What is kept of a change beside the change itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// The clock of the node that made it, nanoseconds.
    at: i64,
    /// Who asked for it, as they call themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the controller made it, and no person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub automatic: bool,
}

impl Audit {
    /// When it was made, by the clock of the node that made it.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_nanos(self.at)
    }
}

/// Who wants a change, why, and what they saw when they decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intent {
    /// Who, as they call themselves.
    pub author: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Whether it is the controller's.
    pub automatic: bool,
    /// The catalog's revision they looked at: what is to be changed must not have changed since.
    pub expected_revision: Option<u64>,
}

impl Intent {
    /// Checks the bounds of its texts.
    pub(super) fn check(&self) -> Result<(), CatalogError> {
        for (name, text, most) in [("author", &self.author, AUTHOR_BYTES_MAX), ("reason", &self.reason, REASON_BYTES_MAX)] {
            if text.as_ref().is_some_and(|text| text.len() > most) {
                return Err(CatalogError::Invalid(format!("{name} must be no longer than {most} bytes")));
            }
        }
        Ok(())
    }

    /// What is kept of it.
    pub(super) fn audit(&self, now: Timestamp) -> Audit {
        Audit { at: now.nanos(), author: self.author.clone(), reason: self.reason.clone(), automatic: self.automatic }
    }

    /// Refuses a change of `what`, which last changed at `changed`, where that is later than was seen.
    pub(super) fn refuse_changed(&self, what: &str, changed: u64) -> Result<(), CatalogError> {
        match self.expected_revision {
            Some(expected) if changed > expected => Err(CatalogError::RevisionConflict(format!(
                "{what} changed at revision {changed}, after the expected revision {expected}; look at it again"
            ))),
            _ => Ok(()),
        }
    }
}

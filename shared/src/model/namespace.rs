//! A namespace's name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::NAMESPACE_BYTES_MAX;

/// A valid namespace name: `[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Namespace(Arc<str>);

/// The name is not `[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}`.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a namespace is 1 to 64 characters of A-Z a-z 0-9 _ . - and begins with a letter, digit or _")]
pub struct NamespaceError;

impl Namespace {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Namespace {
    type Err = NamespaceError;

    fn from_str(name: &str) -> Result<Self, NamespaceError> {
        let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let sound = !name.is_empty()
            && name.len() <= NAMESPACE_BYTES_MAX
            && word(name.as_bytes()[0])
            && name.bytes().all(|b| word(b) || b == b'.' || b == b'-');
        if sound { Ok(Namespace(name.into())) } else { Err(NamespaceError) }
    }
}

impl TryFrom<String> for Namespace {
    type Error = NamespaceError;
    fn try_from(name: String) -> Result<Self, NamespaceError> {
        name.parse()
    }
}

impl From<Namespace> for String {
    fn from(ns: Namespace) -> String {
        ns.as_str().to_owned()
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

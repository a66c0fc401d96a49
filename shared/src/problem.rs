//! An error as clients see it: RFC 9457 problem details with a stable code. Plain data.

use serde::Serialize;
use serde_json::{Map, Value};

/// The body of `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// Stable code (docs/ERRORS.md).
    pub code: &'static str,
    /// HTTP status, chosen by the tier.
    pub status: u16,
    /// The code in words.
    pub title: String,
    /// This occurrence, for a person.
    pub detail: String,
    /// Members of this code's own (`expected`, `answered`, `missing`, …).
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Problem {
    /// A problem without members of its own.
    pub fn new(code: &'static str, status: u16, detail: impl Into<String>) -> Problem {
        Problem { code, status, title: code.replace('_', " "), detail: detail.into(), extra: Map::new() }
    }

    /// The same with one more member.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.extra.insert(name.to_owned(), value.into());
        self
    }
}

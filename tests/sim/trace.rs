//! What happened in a run, line by line, and its hash.

use std::fmt::Display;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Lines shown of a run that failed.
const SHOWN: usize = 60;

/// The lines of a run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) hash: u64,
    lines: Vec<String>,
}

impl Trace {
    pub(crate) fn line(&mut self, passed: Duration, what: impl Display) {
        let line = format!("{:>9.3} {what}", passed.as_secs_f64());
        self.hash = xxh3_64_with_seed(line.as_bytes(), self.hash);
        self.lines.push(line);
    }

    /// The last lines.
    pub(crate) fn tail(&self) -> String {
        self.lines[self.lines.len().saturating_sub(SHOWN)..].join("\n")
    }

    pub(crate) fn all(&self) -> String {
        self.lines.join("\n")
    }
}

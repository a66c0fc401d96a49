//! Aggregation: merged events of each partition → cells (group × step) → rows.
//!
//! Pure. Exact and independent of the order in which partitions come: sums are rounded once,
//! percentiles are values that occur, and partial folds merge without loss. Identities never span
//! partitions, so no k-way merge is needed here.

mod cell;
mod fold;
mod function;
mod groups;
mod steps;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use braid_shared::model::Span;

pub use self::fold::Fold;
pub use self::function::Function;
pub use self::steps::Steps;
use crate::filter::Filter;

/// Most values that the percentiles of one answer may be taken of (8 bytes each in memory).
pub const PERCENTILE_VALUES_MAX: usize = 8_000_000;

/// What is asked for.
#[derive(Debug)]
pub struct Spec {
    /// The field; without one, events are counted.
    pub field: Option<String>,
    /// Functions, each under the name it was asked for by.
    pub functions: Vec<(String, Function)>,
    /// Length of a step; without one, there is one row per group.
    pub step: Option<Span>,
    /// Tags to group by.
    pub group_by: Vec<String>,
    /// Conditions.
    pub filter: Filter,
}

/// A spec over the range it was resolved to; shared by the folds that work on one answer.
#[derive(Debug)]
pub struct Job {
    /// What is asked for.
    pub spec: Spec,
    /// The steps of the range.
    pub steps: Steps,
    /// Values kept for percentiles so far, by all folds.
    values_kept: AtomicUsize,
}

/// The answer would be larger than its bounds; says which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge(pub String);

impl Job {
    /// A job.
    pub fn new(spec: Spec, steps: Steps) -> Arc<Job> {
        Arc::new(Job { spec, steps, values_kept: AtomicUsize::new(0) })
    }

    /// Whether a function needs every value.
    fn keeps_values(&self) -> bool {
        self.spec.functions.iter().any(|(_, function)| matches!(function, Function::Percentile { .. }))
    }
}

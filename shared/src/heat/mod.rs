//! Heat: which keys and suffixes are written how fast, and the controller that changes N by it.
//!
//! - `sketch`, `track`: what one node writes, counted in bounded memory.
//! - `report`, `members`: each node's rates as a document, so that one node can sum them.
//! - `lease`: who sums. It saves work and decides nothing: a change stands by the catalog's swap alone.
//! - `load`, `decide`: from rates to a decision; pure.
//! - `control`, `watch`: the controller, and what it remembers of a key.
//!
//! Never places an event, and never answers for one: without it N just stays as it is.

mod control;
mod decide;
mod lease;
mod load;
mod members;
mod metrics;
mod policy;
mod report;
mod sketch;
#[cfg(test)]
mod tests;
mod track;
mod watch;

pub use control::{ControlOptions, Controller};
pub use decide::{Action, Bounds, Observed, Tried, decide, needed};
pub use lease::{KeyDecision, Leader};
pub use load::{KeyLoad, Targets, sum};
pub use members::{HeatState, read_state};
pub use policy::{KeyPolicy, TARGET_EVENTS_DEFAULT, TARGET_UNITS_DEFAULT, mode, targets};
pub use report::{KeyReport, Report, Reporter};
pub use track::{Counts, Rate, Tracked, TrackedRate, Tracker, Writing, units};

use std::sync::Arc;
use std::time::Duration;

/// Between two looks at what was written, and two decisions.
const TICK: Duration = Duration::from_secs(1);

/// Reports what this node writes, and controls where there is a controller, until dropped.
pub async fn run(mut reporter: Reporter, mut controller: Option<Controller>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let warm = reporter.tick().await;
        if let Some(controller) = &mut controller {
            controller.tick(warm).await;
        }
    }
}

/// A node's name in documents and records.
fn node_name(node: u64) -> Arc<str> {
    format!("{node:016x}").into()
}

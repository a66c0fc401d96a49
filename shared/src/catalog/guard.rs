//! The guard against a wrong clock: a node whose clock is ahead of its store's raises no promise.
//!
//! A promise that was raised by a clock far ahead misplaces nothing, but no layout can begin until
//! that time comes. Where the store shows no clock (it is on this machine) there is nothing to compare.

use std::sync::Mutex;
use std::time::Duration;

use super::CatalogError;
use super::documents::Documents;
use super::refresh::stale;
use crate::clock::{Clock, Mark};
use crate::model::Span;

/// How long a clock that was found right is believed …
const BELIEVED: Duration = Duration::from_secs(60);
/// … unless it was set meanwhile, by more than this.
const STEP_MAX: Duration = Duration::from_secs(1);

/// When this node's clock was last found right.
#[derive(Default)]
pub(super) struct ClockGuard(Mutex<Option<Mark>>);

impl ClockGuard {
    /// Refuses where the clock is ahead of the store's by half a lead or more. A store that can't say what time it
    /// is refuses nothing: the swap that follows will show whether it is there.
    pub(super) async fn check(&self, documents: &Documents, clock: &dyn Clock, lead: Span) -> Result<(), CatalogError> {
        let before = clock.mark();
        if self.0.lock().expect("no holder panics").is_some_and(|right| is_believed(right, before)) {
            return Ok(());
        }
        let Ok(Some(theirs)) = documents.clock().await else { return Ok(()) };
        // Read after `before`: so the true difference is no smaller.
        let ahead = before.wall.nanos().saturating_sub(theirs.nanos());
        if ahead >= lead.nanos() / 2 {
            let ahead = Duration::from_nanos(ahead.unsigned_abs());
            return Err(stale(format!(
                "this node's clock is {} s ahead of its store's; it promises nothing until that is set right",
                ahead.as_secs()
            )));
        }
        *self.0.lock().expect("no holder panics") = Some(before);
        Ok(())
    }
}

/// Whether little time passed, and the same on both clocks.
fn is_believed(right: Mark, now: Mark) -> bool {
    let passed = now.boot.saturating_sub(right.boot);
    let wall = i128::from(now.wall.nanos()) - i128::from(right.wall.nanos());
    passed < BELIEVED && (wall - passed.as_nanos() as i128).unsigned_abs() < STEP_MAX.as_nanos()
}

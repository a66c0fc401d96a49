//! From a request's bytes to a [`Batch`] of rows: one module per format.
//!
//! Pure: no I/O, no clock. A bad row becomes a fault in the batch and never costs its neighbours;
//! only a body that can't be taken apart at all is refused whole.

pub mod json;
pub mod line_protocol;

use braid_shared::codes;
use braid_shared::limits::{REQUEST_EVENTS_MAX, REQUEST_VALUES_MAX};
use braid_shared::model::Batch;

use crate::fault::Fault;

/// Whether one more event may follow `events` of them.
fn check_events(events: usize) -> Result<(), Fault> {
    if events < REQUEST_EVENTS_MAX {
        return Ok(());
    }
    Err(Fault::new(codes::TOO_MANY_EVENTS, format!("a request may hold at most {REQUEST_EVENTS_MAX} events")))
}

/// To be called after every row: a value takes ten times the memory that it may take in a body.
fn check_values(batch: &Batch<'_>) -> Result<(), Fault> {
    if batch.values() <= REQUEST_VALUES_MAX {
        return Ok(());
    }
    let detail = format!("the events of a request may have at most {REQUEST_VALUES_MAX} fields and tags together");
    Err(Fault::new(codes::TOO_MANY_VALUES, detail))
}

//! From a request's bytes to a [`Batch`](braid_shared::model::Batch) of rows: one module per format.
//!
//! Pure: no I/O, no clock. A bad row becomes a fault in the batch and never costs its neighbours;
//! only a body that can't be taken apart at all is refused whole.

pub mod json;
pub mod line_protocol;

//! The plain data of Braid: names, times, events. No I/O, no clock.

pub mod batch;
pub mod event;
pub mod id_time;
pub mod namespace;
pub mod span;
pub mod time;

pub use batch::{Batch, Row, RowFault};
pub use event::{Event, FieldValue, ValueRef};
pub use id_time::millis_of_id;
pub use namespace::Namespace;
pub use span::Span;
pub use time::{Precision, TimeRange, Timestamp};

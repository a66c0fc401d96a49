//! The query tier: HTTP → plan → fan out → verify → merge → answer.
//!
//! Every answer is provably whole, or says what is missing.

pub mod aggregate;
pub mod cold;
pub mod cursor;
pub mod error;
pub mod events;
pub mod fan_out;
pub mod filter;
mod http;
pub mod json;
pub mod merge;
pub mod metrics;
pub mod narrow;
pub mod number;
pub mod plan;
pub mod point;
mod query;
pub mod read;
pub mod sum;
pub mod summary;
pub mod tally;
pub mod verify;
pub mod walk;

pub use http::router;
pub use query::{Query, QuerySettings};

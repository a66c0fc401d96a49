//! The query tier: HTTP → plan → fan out → verify → merge → answer.
//!
//! Every answer is provably whole, or says what is missing.

pub mod filter;
pub mod number;
pub mod plan;
pub mod sum;

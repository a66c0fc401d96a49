//! x
pub mod body;

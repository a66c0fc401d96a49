//! x
pub mod body;
pub mod decode;

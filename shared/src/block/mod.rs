//! The block (format 1): a sorted run of events of one partition, encoded together.
//!
//! Write side: [`RowBuffer`] gathers rows, [`encode`] makes blocks of them. Read side:
//! [`Block::open`] checks a block, [`merge`] turns one partition's blocks into a [`Table`] of
//! events, doubles merged. [`compact`] rewrites many blocks as few, [`settle`] takes them to table files.
//!
//! The files, as data goes: `rows` → `encode` → (`order`, `gather`) → `cut` → `write` → (codecs:
//! `ints`, `floats`, `bools`, `strings`, `stamps`, `presence`, `stats`, over `bits`, `squeeze`,
//! `wire`) → `format`; and back: `format` → `decode` → `merge` or `compact` → (`order`, `gather`)
//! → `table`. All pure: no clock, no I/O.

mod bits;
mod bools;
mod builder;
mod compact;
mod cut;
mod decode;
mod dict;
mod encode;
mod error;
mod floats;
mod format;
mod gather;
mod ints;
mod merge;
mod order;
mod presence;
mod rows;
mod settle;
mod source;
mod squeeze;
mod stamps;
mod stats;
mod strings;
mod table;
mod wire;
mod write;

#[cfg(test)]
mod tests;

pub use compact::compact;
pub use decode::Block;
pub use encode::encode;
pub use error::BlockError;
pub use format::Header;
pub use merge::{Projection, merge, pieces};
pub use rows::RowBuffer;
pub use settle::{Cell, Resettle, Settled, settle};
pub use stats::{ColumnStats, NumberStats};
pub use table::{Column, Presence, Strings, Table, Values};

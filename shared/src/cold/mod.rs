//! Cold history: old buckets leave the store and become Parquet tables in databases, chosen by
//! time range → group → hash → table → database (DESIGN section 8).
//!
//! - `rules`: the life of a bucket, as pure functions with named invariants; read it first.
//! - `archive`: the archiver, step by step.
//! - `tables`, `database`: published files back to blocks, or to rows; where files lie.
//! - `manifest`: what is archived, in documents of its own.
//! - `table`: events as Parquet and back.
//! - `group`, `path`: where a bucket's tables lie and what they are called. Pure.
//!
//! Knows no HTTP and neither tier.

pub mod archive;
pub mod database;
#[cfg(test)]
mod faulty;
pub mod group;
pub mod manifest;
pub mod path;
pub mod rules;
pub mod table;
pub mod tables;

pub use archive::{ArchiveError, ArchiveOptions, Archiver, Step};
pub use database::{DatabaseError, DatabaseErrorKind, Databases};
pub use group::{Database, Group, GroupFault, Groups, Place};
pub use manifest::{Manifest, Page, PageId};
pub use rules::{Entry, Facts, Published, Sources, TableFile};
pub use table::Run;
pub use tables::{Bucket, Tables};

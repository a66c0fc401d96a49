//! What both tiers stand on: the model, placement, the promise, blocks, the catalog and the stores.
//!
//! Owns every rule that decides *where* an event lives and *whether* an answer is whole.
//! Knows no HTTP and neither tier.

pub mod background;
pub mod block;
pub mod catalog;
pub mod clock;
pub mod codes;
pub mod cold;
pub mod compaction;
pub mod heat;
pub mod layout;
mod lease;
pub mod limits;
pub mod metrics;
pub mod model;
pub mod params;
pub mod partition;
pub mod problem;
pub mod promise;
pub mod stamp;
pub mod store;
pub mod timeline;

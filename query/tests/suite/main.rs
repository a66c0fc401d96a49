//! The query tier from its HTTP calls down to a memory store.

mod cold;
mod faults;
mod http;
mod model;
mod world;

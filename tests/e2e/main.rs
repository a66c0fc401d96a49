//! The real binary, from outside: every test here starts `braid`, speaks HTTP to it, and may kill it.
//!
//! One test program, so that what they share is compiled and linked once.

mod admin;
mod bad_input;
mod balancer;
mod catalog;
mod clock;
mod cluster;
mod cold;
mod compaction;
mod cql;
mod cql_faults;
mod crash;
mod disk;
mod dynamodb;
mod export;
mod flights;
mod gate;
mod group_commit;
mod heat;
mod http;
mod layout;
mod ledger;
mod load;
mod model;
mod read;
mod s3;
mod server;
mod telegraf;
mod tiers;

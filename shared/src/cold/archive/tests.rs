//! The archiver over stores in memory: nothing is lost or doubled, whatever step is its last.

mod faults;
mod kill;
mod life;
mod world;

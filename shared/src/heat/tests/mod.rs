//! Tests of heat: the decision by itself, the counting by itself, and whole nodes on clocks that tests move.

mod control;
mod counting;
mod deciding;
mod world;

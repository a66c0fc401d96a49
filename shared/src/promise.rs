//! The promise: the rules by which no acknowledged event can be misplaced (DESIGN section 3).
//!
//! Pure; production, property tests and models call these same functions.

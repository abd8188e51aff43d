//! Parts of the daemon for tests, benches and fuzzing. Built only with the feature `testing`.

pub mod control_plane;
pub mod fuzz;
pub mod handoff;

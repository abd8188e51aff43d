//! Shapes of process trees: a grammar, its programs as text, and their execution.

// A program describes what a process does to itself and what it forks. The end of each branch
// waits, forks repeatedly, or stops itself. Every process writes its pid and start time to a
// registry. A search for remaining processes therefore needs neither their environment nor their
// command line, which may both be gone.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test's set-up, and an agent's child that must not continue in a wrong state"
)]

mod grammar;
mod play;
mod registry;

pub use grammar::ProcessShape;
pub use play::play;
pub use registry::Registry;

//! Shapes of process trees: a grammar, programs of it as text, and what plays them.
//!
//! A program says what a process does to itself and what it forks; the end of each branch stays, forks on for ever,
//! or stops itself. Every process writes down its number and start time in a registry, so that whoever looks for what
//! is left needs neither environment nor command line of it: both may be gone.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test's set-up, and an agent's child that must not go on if it is not what it should be"
)]

mod grammar;
mod play;
mod registry;

pub use grammar::Shape;
pub use play::play;
pub use registry::Registry;

//! Tools for the tests of every crate: seeded random numbers, damaged bytes, counted allocations.
//!
//! Must not depend on any crate of the product, so that a crate's own tests build nothing else first.

pub mod bytes;
pub mod counting;
mod effort;
mod own_process;
mod random;

use std::io::Write as _;

pub use effort::times;
pub use own_process::in_own_process;
pub use random::Random;

/// Prints a line even if a passing test's output is captured: counts, seeds, and skipped tests.
pub fn say(line: &str) {
    // A closed stderr must not fail a test.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

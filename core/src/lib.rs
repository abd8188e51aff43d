//! The rules of workers, turns, questions, tasks and budgets. Architecture invariant: no I/O, no
//! waiting, no clock. Recovery replays the journal through the same functions.

pub mod accounts;
#[cfg(any(test, feature = "testing"))]
#[allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken invariant stops the test; the assertions say what they check"
)]
pub mod checker;
pub mod model;
pub mod rules;
pub mod task;
#[cfg(test)]
mod tests;

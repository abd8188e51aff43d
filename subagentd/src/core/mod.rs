//! The rules: what may happen to a worker, its turn and its approvals, and what follows from it.
//!
//! Architecture invariant: nothing here does I/O, waits, or looks at a clock. A state machine is a value and one
//! function from a value and an input to the next value and what must be stored and done. Recovery feeds the same
//! function with the same journal. The written table is `docs/state-machines.md`.

pub mod accounts;
mod action;
pub mod approval;
pub mod budget;
mod cancel;
pub mod decision;
mod elicitation;
mod hibernation;
mod hook_failed;
pub mod hooks;
pub mod inbox;
mod local;
mod lost;
mod parking;
mod policy;
pub mod queue;
pub mod rate_limit;
pub(crate) mod recovered;
pub(crate) mod restart;
mod send;
mod step;
pub mod task;
pub mod task_limits;
pub mod task_result;
#[cfg(test)]
pub(crate) mod tests;
pub mod transcript;
mod turn;
mod turn_end;
pub mod usage;
pub mod worker;

pub(crate) use cancel::own_cause;
pub(crate) use policy::violation_text;
pub use worker::{Action, By, Fact, Input, Step, Worker};

//! The rules: what can happen to a worker, its turn and its approvals, and what follows.
//! Architecture invariant: no I/O, no waiting, no clock. Recovery replays the journal through the
//! same functions. `docs/state-machines.md` has the table.

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
pub use worker::{By, Fact, Transition, Worker, WorkerAction, WorkerInput};

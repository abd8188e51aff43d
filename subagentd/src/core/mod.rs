//! The rules: what can happen to a worker, its turn and its approvals, and what follows.
//! Architecture invariant: no I/O, no waiting, no clock. Recovery replays the journal through the
//! same functions. `docs/state-machines.md` has the table.

pub(crate) mod accounts;
mod action;
pub(crate) mod approval;
pub(crate) mod budget;
mod cancel;
pub(crate) mod decision;
mod elicitation;
mod hibernation;
mod hook_failed;
pub(crate) mod hooks;
pub(crate) mod inbox;
mod local;
mod lost;
mod parking;
mod policy;
pub(crate) mod queue;
pub(crate) mod rate_limit;
pub(crate) mod recovered;
pub(crate) mod restart;
mod send;
mod step;
pub(crate) mod task;
pub(crate) mod task_limits;
pub(crate) mod task_result;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod transcript;
mod turn;
mod turn_end;
pub(crate) mod usage;
pub(crate) mod worker;

pub(crate) use cancel::own_cause;
pub(crate) use policy::violation_text;
pub(crate) use worker::{By, Fact, Transition, Worker, WorkerAction, WorkerInput};

//! The handlers, a file for each kind of thing. A handler reads its request and calls the supervisor.

pub(in crate::api) mod automation;
pub(in crate::api) mod budgets;
pub(in crate::api) mod controllers;
pub(in crate::api) mod daemon;
pub(in crate::api) mod events;
pub(in crate::api) mod handoffs;
pub(in crate::api) mod maintenance;
pub(in crate::api) mod panel;
pub(in crate::api) mod questions;
pub(in crate::api) mod queue;
pub(in crate::api) mod tasks;
pub(in crate::api) mod turns;
pub(in crate::api) mod usage;
pub(in crate::api) mod waits;
pub(in crate::api) mod workers;
pub(in crate::api) mod worktrees;

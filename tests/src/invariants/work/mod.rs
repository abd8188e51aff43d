//! Turns, tasks, questions and waiting messages: each has one end.

pub(in crate::invariants) mod approvals;
pub(in crate::invariants) mod queue;
pub(in crate::invariants) mod tasks;
pub(in crate::invariants) mod turns;

//! Questions of agents: the inbox, its rules, and the answers.

pub(in crate::api) mod approvals;
pub(in crate::api) mod inbox;

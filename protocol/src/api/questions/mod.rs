//! Questions of agents: the inbox, its rules, and the answers.

pub(super) mod approvals;
pub(super) mod inbox;

//! Questions of the agent: who decides them, and what follows.

pub(super) mod approvals;
pub(super) mod hooks;
pub mod policy;
pub(super) mod questions;

//! The keys of a config file, a file for each. They check values and know no files.

pub mod approvals;
pub mod budgets;
pub mod declared;
pub(crate) mod delegation;
pub mod hosts;
pub mod idle;
pub mod mcp;
pub mod notify;
pub mod placements;
pub mod prices;
pub mod rate_limits;
pub mod sandbox;
pub mod session;
pub(crate) mod titles;
pub mod user_command;
pub(crate) mod webhook_url;
pub mod worktrees;

//! Workers, turns and tasks: their states, names, limits and results.

pub mod budget;
pub mod definition;
pub mod delegation;
pub mod depth;
pub mod policy;
pub mod state;
pub mod task_result;
pub mod task_terms;
pub mod until;
pub mod work_tree;
pub mod worker_name;
pub mod worktree;

//! Runtimes from outside of their actors: processes, locks, journals, health, and what a crash left.

pub(crate) mod adoption;
mod asked;
pub(crate) mod carrier;
mod client;
pub(crate) mod daemon_start;
pub(crate) mod ended;
mod forgotten;
pub(crate) mod health;
pub(crate) mod journal;
pub(crate) mod link;
pub(crate) mod locks;
pub(crate) mod logs;
pub(crate) mod memory;
pub(crate) mod orphaned_runtimes;
pub(crate) mod place;
pub(crate) mod process;
pub(crate) mod queued;
pub mod stray_processes;
pub(crate) mod stream;
mod submission;

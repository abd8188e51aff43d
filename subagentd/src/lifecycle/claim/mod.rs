//! The state dir of one daemon: its lock, its files, and what a copy of it must not share.

pub(in crate::lifecycle) mod files;
pub(in crate::lifecycle) mod identity;
pub(in crate::lifecycle) mod lock;
pub(in crate::lifecycle) mod separate;
pub(in crate::lifecycle) mod state_dir_watch;
pub(in crate::lifecycle) mod takeover;

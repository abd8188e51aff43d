//! Finds the running daemon, or starts one.

pub(in crate::client) mod autostart;
pub(in crate::client) mod lock;
pub(in crate::client) mod running;
pub(in crate::client) mod spawn;

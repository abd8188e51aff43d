//! Connections to the daemon: accepts them, counts them, and limits them.

pub(in crate::api) mod admission;
pub(in crate::api) mod connection;
pub(in crate::api) mod server;

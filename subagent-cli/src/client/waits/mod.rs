//! Requests that wait in the daemon, and continue after a lost connection.

pub(in crate::client) mod wait;
pub(crate) mod wait_many;
pub(in crate::client) mod waited;

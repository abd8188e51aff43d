//! `launcher`: the agents that can be started.

pub(crate) mod handshake;
mod installed;
pub(crate) mod list;
pub(crate) mod login;
pub(crate) mod probe;
pub(crate) mod show;

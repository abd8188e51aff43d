//! Launchers: the built-in ones, how their programs are found, and what their agents said.

pub mod builtin;
pub mod handshakes;
pub mod installed;
pub(crate) mod known;
pub mod launcher;
pub mod role;

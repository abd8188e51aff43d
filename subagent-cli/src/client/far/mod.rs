//! A daemon on another host, behind `ssh HOST subagent dial-daemon`. Each connection is one ssh
//! process with one stream: HTTP/1.1 ends a request with its connection, and ssh shares logins.

mod answered;
mod dial;
mod link;
mod process;

pub(in crate::client) use link::FarLocator;
pub(crate) use link::HostLink;
pub(in crate::client) use process::SshProcess;
pub(crate) use process::end_dialing;

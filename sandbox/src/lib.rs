//! Confines an agent and all its descendants. They can do only what
//! a [`Sandbox`](subagent_protocol::sandbox::Sandbox) allows them.
//!
//! Two layers, both applied if the machine has them: Landlock (files, TCP, signals, abstract
//! sockets) and bubblewrap (namespaces: hidden files do not exist there). In both, a filter of
//! system calls removes what neither limits: unix sockets by path, the keyrings, `io_uring`. No
//! capability is kept, even by root.
//!
//! Must not decide what is allowed (the config does), and must never start anything with
//! less confinement than requested.

mod machine;

#[cfg(target_os = "linux")]
mod bubblewrap;
#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod rules;
#[cfg(target_os = "linux")]
mod trial;

#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod confine;

pub use confine::main;
pub use machine::{SandboxSupport, find};

use std::ffi::OsString;
use std::path::Path;

/// The argument that selects [`main`].
pub const CONFINE: &str = "confine";
/// Prefix of environment variables for the confined command only. The prefix is removed once the
/// sandbox is applied. Otherwise an agent could choose what runs before that.
pub const COMMAND_ENV: &str = "SUBAGENT_COMMAND_ENV_";

/// Returns the arguments with which a program that calls [`main`] runs a command in a sandbox.
#[must_use]
pub fn arguments(sandbox: &str, command: &std::ffi::OsStr, args: &[OsString]) -> Vec<OsString> {
    let own = [CONFINE, sandbox, "--"].map(OsString::from);
    own.into_iter().chain([command.to_owned()]).chain(args.iter().cloned()).collect()
}

/// Whether a path equals one of the folders, or is below it.
fn within(path: &Path, folders: &[std::path::PathBuf]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

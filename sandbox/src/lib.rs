//! Confines an agent and all its descendants. They can do only what a
//! [`Sandbox`](subagent_protocol::sandbox::Sandbox) allows them. Must not decide what is allowed
//! (the config does), and must never start anything with less confinement than requested.

// Two layers, both applied if the machine has them: Landlock (files, TCP, signals, abstract
// sockets) and bubblewrap (namespaces: hidden files do not exist there). In both, a filter of
// system calls removes what neither limits: unix sockets by path, the keyrings, `io_uring`. No
// capability is kept, even by root.

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
mod handover;
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

/// Length of the token that the proxy sends first: ASCII letters and digits.
pub const TOKEN_BYTES: usize = 64;
/// User name in the address of the proxy.
pub const PROXY_USER: &str = "subagent";
/// An option before the sandbox's text: the number of the inherited channel to the proxy.
const PROXY: &str = "--proxy";

/// Returns the arguments with which a program that calls [`main`] runs a command in a sandbox.
/// `proxy` is the number of its inherited channel to the proxy. Without one, the network `hosts`
/// reaches no host.
#[must_use]
pub fn arguments(
    sandbox: &str,
    proxy: Option<i32>,
    command: &std::ffi::OsStr,
    args: &[OsString],
) -> Vec<OsString> {
    let proxy = proxy.map(|fd| [PROXY.into(), fd.to_string().into()]).into_iter().flatten();
    let start = std::iter::once(CONFINE.into()).chain(proxy).chain([sandbox.into(), "--".into()]);
    start.chain([command.to_owned()]).chain(args.iter().cloned()).collect()
}

/// Whether a path equals one of the folders, or is below it.
fn within(path: &Path, folders: &[std::path::PathBuf]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

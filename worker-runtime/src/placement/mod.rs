//! A worker that is placed apart from its daemon: `submit` starts its runtime, `dial` connects the
//! daemon with it. Everything that must last is in the worker's folder.

mod channels;
pub(crate) mod dial;
pub(crate) mod discard;
mod folder;
pub(crate) mod hold;
pub(crate) mod logs;
pub(crate) mod relay;
mod segments;
pub(crate) mod submit;
mod task_socket;
pub(crate) mod there;

use std::ffi::OsString;
use std::io;

use subagent_protocol::ids::WorkerId;

/// Parses the only argument of both commands.
fn worker_id(argument: Option<OsString>) -> io::Result<WorkerId> {
    let word = argument.and_then(|argument| argument.into_string().ok());
    word.and_then(|word| word.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the argument must be the id of a worker"))
}

/// Returns how much newer than this version a test wants it to be.
fn later_protocol() -> u32 {
    if subagent_failpoint::sabotaged("stream.later_protocol") { 1000 } else { 0 }
}

/// Tells these processes from a runtime in a list of processes, for people and tests.
fn set_name(name: &std::ffi::CStr) {
    let _ = nix::sys::prctl::set_name(name);
}

/// Returns the id of the current boot.
fn boot_id() -> io::Result<String> {
    if subagent_failpoint::sabotaged("place.rebooted") {
        return Ok("another boot".to_owned());
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(|error| {
        io::Error::new(error.kind(), format!("/proc is not mounted, or not that of this machine: {error}"))
    })?;
    Ok(text.trim().to_owned())
}

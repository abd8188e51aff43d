//! The guard: a small process between the runtime and its agent that ends the agent's whole process
//! tree. Must not start an async runtime or a thread, read configuration, know ACP or the journal,
//! or use more memory than waiting needs.

// It is the agent's parent and a subreaper in its own session. Everything that the agent starts
// therefore stays its descendant, even after forking or detaching. The tree is ended when the life
// pipe ends (the runtime is gone or wants the end) or the agent exits. The guard then stops and
// kills its descendants until `waitpid` returns ECHILD. That result proves that no process is
// left; `guard.lock` is held until then.
//
// All Linux-only code is in the modules marked below.
//
// The caller (the runtime) prepares cwd and environment of the agent, and these descriptors.
//
// | fd | what |
// |---|---|
// | 0, 1, 2 | the agent's stdin, stdout and stderr; the guard gives its own copies up after the start |
// | 3 | life pipe, read end: `T` = SIGTERM to the agent's group, `K` = end now, end of file = end now |
// | 4 | status pipe, write end: one [`GuardStatus`] as JSON per line |
// | 5 | `guard.lock`, already locked; released by the guard's exit and by nothing else |
// | 6 | with `--proxy`: the channel to the proxy of the sandbox; the guard's exit closes its last copy |

pub mod ancestry;
mod options;
pub mod status;

#[cfg(target_os = "linux")]
mod ending;
#[cfg(target_os = "linux")]
mod inherited;
#[cfg(target_os = "linux")]
mod pidfd;
#[cfg(target_os = "linux")]
mod procfs;
#[cfg(target_os = "linux")]
mod reap;
#[cfg(target_os = "linux")]
pub(crate) mod signals;
#[cfg(target_os = "linux")]
mod spawn;
#[cfg(target_os = "linux")]
mod state;
#[cfg(target_os = "linux")]
mod supervise;
#[cfg(target_os = "linux")]
mod tree;

#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod supervise;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

pub use status::GuardStatus;

/// The guard's process name (`/proc/<pid>/comm`), by which [`ancestry::guards_above`] finds it.
pub const PROCESS_NAME: &str = "subagent-guard";
/// Byte for the life pipe: send SIGTERM to the agent's process group.
pub const TERMINATE: u8 = b'T';
/// Byte for the life pipe: end the whole tree now, as closing the pipe does.
pub const END: u8 = b'K';
/// Prefix of environment variables that are for the command only. The guard removes the
/// prefix for the command and never sets the variable itself: `LD_PRELOAD`, for example,
/// would change the guard.
pub use subagent_sandbox::COMMAND_ENV;
/// The executable of this process, valid even after its path changed.
pub(crate) const OWN_EXECUTABLE: &str = "/proc/self/exe";
/// The guard's descriptor for the read end of the life pipe.
pub const LIFE_FD: i32 = 3;
/// The guard's descriptor for the write end of the status pipe.
pub const STATUS_FD: i32 = 4;
/// The guard's descriptor for the locked `guard.lock`.
pub const LOCK_FD: i32 = 5;
/// The guard's descriptor for the channel to the proxy of the sandbox.
pub const PROXY_FD: i32 = 6;

/// The result of [`end_descendants`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct EndReport {
    /// Number of processes ended by its SIGKILL.
    pub killed: u32,
    /// Descendants that remained at the deadline. Empty means the system reported
    /// that none is left.
    pub remaining: Vec<i32>,
    /// True if no descendant is left, except spared ones.
    pub clean: bool,
    /// Time from the call to the result.
    pub elapsed: Duration,
}

/// Runs the guard as this process until the agent's tree is gone. `args` follow `guard`: `[--umask
/// OCTAL] [--nofile SOFT] [--sandbox JSON [--proxy]] -- COMMAND ARGS...`.
///
/// Exits with 0 if the tree is gone or the agent could not be started (both are reported on the
/// status pipe). Exits with 2 after a wrong call (reported on stderr).
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let result = options::parse(args).map_err(|e| e.to_string());
    match result.and_then(|options| supervise::run(options).map_err(|e| e.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // The error is lost if stderr is gone too.
            let _ = writeln!(std::io::stderr(), "{PROCESS_NAME}: {message}");
            ExitCode::from(2)
        }
    }
}

/// Ends every descendant of the calling process, as the guard does: for a runtime whose guard died.
///
/// Blocks for at most about `deadline`. Processes in `spare` and their descendants are neither
/// touched nor reaped, except their orphans.
///
/// The caller must have been a subreaper since before the tree began; otherwise detached processes
/// are not its descendants. It must not reap children in another thread meanwhile: this function
/// consumes the exit statuses of all children that are not spared.
pub fn end_descendants(deadline: Duration, spare: &[i32]) -> EndReport {
    supervise::end_descendants(deadline, spare)
}

//! The guard: a small process between the runtime and its agent that ends the agent's whole process tree.
//!
//! It is the agent's parent and a subreaper in a session of its own, so that everything that the agent ever starts
//! stays its descendant, however often it forks or detaches. When the life pipe reaches its end (the runtime is
//! gone, or wants the end), or the agent exits, it stops and kills its descendants until `waitpid` answers ECHILD.
//! That answer is the proof that nothing is left; `guard.lock` is held until then.
//!
//! Must not: start an async runtime or a thread, read configuration, know ACP or the journal, use more memory than
//! it needs to wait. Everything Linux-only lives in the modules marked so below.
//!
//! What the caller prepares (the runtime): cwd and environment of the agent, and these descriptors.
//!
//! | fd | what |
//! |---|---|
//! | 0, 1, 2 | the agent's stdin, stdout and stderr; the guard gives its own copies up after the start |
//! | 3 | life pipe, read end: `T` = SIGTERM to the agent's group, `K` = end now, end of file = end now |
//! | 4 | status pipe, write end: one [`GuardStatus`] as JSON per line |
//! | 5 | `guard.lock`, already locked; released by the guard's exit and by nothing else |

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
/// Written to the life pipe: SIGTERM to the agent's process group.
pub const TERMINATE: u8 = b'T';
/// Written to the life pipe: end the whole tree now (as closing the pipe does).
pub const END: u8 = b'K';
/// Begins the name of a variable that is for the command alone: the guard gives it on without this, and never has it
/// itself (`LD_PRELOAD`, say, would make it another program).
pub use subagent_sandbox::COMMAND_ENV;
/// The executable of this process, whatever became of its path meanwhile.
pub(crate) const OWN_EXECUTABLE: &str = "/proc/self/exe";
/// The guard's descriptor for the read end of the life pipe.
pub const LIFE_FD: i32 = 3;
/// The guard's descriptor for the write end of the status pipe.
pub const STATUS_FD: i32 = 4;
/// The guard's descriptor for the locked `guard.lock`.
pub const LOCK_FD: i32 = 5;

/// What [`end_descendants`] achieved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct EndReport {
    /// How many processes ended by its SIGKILL.
    pub killed: u32,
    /// Descendants that were still there at the deadline; empty means that the system itself said that none is left.
    pub remaining: Vec<i32>,
    /// True when no descendant is left (other than spared ones).
    pub clean: bool,
    /// How long it took.
    pub elapsed: Duration,
}

/// Runs the guard as this process until nothing of the agent's tree is left; `args` are those after `guard`:
/// `[--umask OCTAL] [--nofile SOFT] [--sandbox JSON] -- COMMAND ARGS...`.
///
/// Exits with 0 when the tree is gone or the agent could not be started (both are told on the status pipe), with 2
/// when it was called wrongly (told on stderr).
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let result = options::parse(args).map_err(|e| e.to_string());
    match result.and_then(|options| supervise::run(options).map_err(|e| e.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // Nobody is left to tell when stderr is gone too.
            let _ = writeln!(std::io::stderr(), "{PROCESS_NAME}: {message}");
            ExitCode::from(2)
        }
    }
}

/// Ends every descendant of the calling process, as the guard does with its own: for a runtime whose guard died.
///
/// Blocks for at most about `deadline`. Neither the processes in `spare` nor what is below them is touched or reaped
/// (what they leave orphaned meanwhile is). The caller must be a subreaper since before the tree began, or detached
/// processes are not its descendants, and must not reap children in another thread meanwhile: exit statuses of all
/// children that are not spared are consumed here.
pub fn end_descendants(deadline: Duration, spare: &[i32]) -> EndReport {
    supervise::end_descendants(deadline, spare)
}

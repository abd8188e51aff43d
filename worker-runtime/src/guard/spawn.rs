//! Starts the agent below the guard.
//!
//! The agent inherits nothing of the guard's: no signal mask, process group or descriptor above 2.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl, open};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::SigSet;
use nix::sys::stat::{Mode, umask};
use nix::unistd::write;

use super::options::GuardOptions;
use super::{COMMAND_ENV, OWN_EXECUTABLE};

/// Raises the agent's OOM score above the runtime's, so that the kernel kills the agent first.
const OOM_SCORE_RAISE: i32 = 300;
const OOM_SCORE_MAX: i32 = 1000;

/// Starts the agent in its own process group, with the guard's descriptors 0, 1 and
/// 2, and `proxy` for its sandbox. Returns its pid.
///
/// The caller reaps it: the standard library's handle is dropped, which neither waits nor kills.
///
/// # Errors
///
/// The system's error of fork, of a limit, or of exec.
pub(super) fn agent(options: &GuardOptions, proxy: Option<&OwnedFd>) -> io::Result<i32> {
    let mut command = command(options, proxy);
    command.process_group(0);
    before_exec(&mut command, options, proxy.map(AsRawFd::as_raw_fd));
    // Failpoints apply to the guard and not to programs of the agent.
    for (name, _) in subagent_failpoint::armed_with() {
        command.env_remove(name);
    }
    subagent_failpoint::check("agent.before_spawn")?;
    let child = command.spawn()?;
    subagent_failpoint::hit("agent.after_spawn");
    i32::try_from(child.id()).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Returns the command of the agent, or of this program, which becomes the
/// agent inside its sandbox.
fn command(options: &GuardOptions, proxy: Option<&OwnedFd>) -> Command {
    if let Some(sandbox) = &options.sandbox {
        let mut command = Command::new(OWN_EXECUTABLE);
        command.arg0("subagent-runtime");
        let proxy = proxy.map(AsRawFd::as_raw_fd);
        command.args(subagent_sandbox::arguments(sandbox, proxy, &options.command, &options.args));
        return command;
    }
    let mut command = Command::new(&options.command);
    command.args(&options.args);
    for (name, value) in std::env::vars_os() {
        let bare = name.as_bytes().strip_prefix(COMMAND_ENV.as_bytes()).map(OsStr::from_bytes);
        if let Some(bare) = bare.filter(|bare| !bare.is_empty()) {
            command.env(bare, value).env_remove(&name);
        }
    }
    command
}

/// Sets what applies only to the agent: limits, its OOM score, and an empty signal mask.
///
/// All this happens between fork and exec, so the agent's children inherit it and the
/// guard's signals stay blocked.
#[allow(unsafe_code)]
fn before_exec(command: &mut Command, options: &GuardOptions, proxy: Option<RawFd>) {
    let (mode, nofile) = (options.umask.map(Mode::from_bits_truncate), options.nofile);
    let oom_score = raised_oom_score();
    let prepare = move || {
        if let Some(mode) = mode {
            umask(mode);
        }
        if let Some(soft) = nofile {
            let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
            setrlimit(Resource::RLIMIT_NOFILE, soft.min(hard), hard)?;
        }
        if let Some(fd) = proxy {
            // SAFETY: the guard holds it open, also across fork.
            fcntl(unsafe { BorrowedFd::borrow_raw(fd) }, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        // Best effort: a kernel or container that rejects it only takes a convenience away.
        let _ = write_oom_score(oom_score.as_bytes());
        // Last: from here on a signal may end the agent, as it should.
        SigSet::empty().thread_set_mask()?;
        Ok(())
    };
    // SAFETY: only system calls, no allocation, no lock. The guard has one thread, so fork left no
    // lock held.
    unsafe { command.pre_exec(prepare) };
}

fn raised_oom_score() -> String {
    let own = fs::read_to_string("/proc/self/oom_score_adj").ok().and_then(|text| text.trim().parse().ok());
    own.unwrap_or(0_i32).saturating_add(OOM_SCORE_RAISE).min(OOM_SCORE_MAX).to_string()
}

fn write_oom_score(score: &[u8]) -> Result<(), Errno> {
    let file = open(c"/proc/self/oom_score_adj", OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    write(&file, score).map(drop)
}

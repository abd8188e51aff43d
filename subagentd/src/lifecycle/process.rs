//! Detaches the process from its starter's session, folder, umask and ignored signals. It must run
//! before there are threads.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc::_exit;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};
use nix::sys::stat::{Mode as FileMode, umask};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, dup2_stdin, fork, pipe2, read, setsid, write};
use subagent_protocol::Result;

use super::error;
use super::options::StartMode;

/// The process between a background daemon and its starter, until the daemon is ready.
#[derive(Debug)]
pub(super) struct ReadinessProxy(OwnedFd);

impl ReadinessProxy {
    /// Reports readiness. The stand-in then exits, and the daemon has no tie to its starter left.
    pub(super) fn ready(self) {
        let _ = write(self.0, b".");
    }
}

/// Prepares the process for its mode. Returns the stand-in of a background daemon.
///
/// # Errors
/// `DAEMON_START_FAILED`.
pub(super) fn prepare(mode: StartMode) -> Result<Option<ReadinessProxy>> {
    umask(FileMode::from_bits_truncate(0o077));
    raise_descriptor_limit();
    // Also in the foreground: with SIGCHLD ignored, children cannot be waited for.
    reset(Signal::SIGCHLD);
    if mode == StartMode::Background { detach().map(Some) } else { Ok(None) }
}

fn detach() -> Result<ReadinessProxy> {
    close_inherited();
    Signal::iterator().for_each(reset);
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
    let stand_in = leave_starter()
        .map_err(|cause| error::start_failed("it cannot leave the process that started it", &cause))?;
    match setsid() {
        Ok(_) | Err(Errno::EPERM) => {}
        Err(cause) => return Err(error::start_failed("it cannot leave its session", &cause)),
    }
    // A background daemon must not keep a file system busy.
    std::env::set_current_dir("/").map_err(|cause| error::start_failed("it cannot change to /", &cause))?;
    File::open("/dev/null")
        .and_then(|null| Ok(dup2_stdin(null.as_fd())?))
        .map_err(|cause| error::start_failed("it cannot use /dev/null", &cause))?;
    Ok(stand_in)
}

/// Continues in a child. Many programs kill the process tree of a command when it ends, which would
/// include the daemon and all runtimes. The starter only knows the stand-in, which exits with the
/// daemon's result.
#[allow(unsafe_code)]
fn leave_starter() -> nix::Result<ReadinessProxy> {
    let (ready, is_ready) = pipe2(OFlag::O_CLOEXEC)?;
    // SAFETY: there are no threads yet.
    match unsafe { fork() }? {
        ForkResult::Child => Ok(ReadinessProxy(is_ready)),
        ForkResult::Parent { child } => {
            drop(is_ready);
            let code = stand_in(child, &ready);
            // SAFETY: `_exit` skips the program's exit handlers, which belong to the child.
            unsafe { _exit(code) }
        }
    }
}

/// Waits until the daemon is ready or has ended. Returns the exit code.
fn stand_in(daemon: Pid, ready: &OwnedFd) -> i32 {
    let mut said = [0];
    loop {
        match read(ready, &mut said) {
            Err(Errno::EINTR) => {}
            Ok(1) => return 0,
            _ => break,
        }
    }
    loop {
        match waitpid(daemon, None) {
            Err(Errno::EINTR) => {}
            Ok(WaitStatus::Exited(_, code)) => return code,
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                let _ = nix::sys::signal::raise(signal);
                return 128 + signal as i32;
            }
            _ => return 1,
        }
    }
}

/// Closes descriptors inherited from the starter: a script's lock or pipe would otherwise stay held
/// for the daemon's life.
#[allow(unsafe_code)]
fn close_inherited() {
    // SAFETY: this runs right after parsing the command line, so only the three standard
    // descriptors are in use. Kernels before 5.9 lack the call; the descriptors then stay open.
    let _ = unsafe { nix::libc::close_range(3, nix::libc::c_uint::MAX, 0) };
}

/// Raises the limit of open files: each worker and each follower costs descriptors. Agents get
/// their caller's limit.
fn raise_descriptor_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // On failure the daemon supports fewer workers.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Restores a signal's default action, since a shell may have left it ignored. SIGPIPE stays
/// ignored: a disconnected client is an error of its connection only. SIGSEGV and SIGBUS keep the
/// standard library's handlers, which report stack overflows.
#[allow(unsafe_code)]
fn reset(signal: Signal) {
    let keeps = [Signal::SIGPIPE, Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGKILL, Signal::SIGSTOP];
    if keeps.contains(&signal) {
        return;
    }
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: this installs no handler and removes none that this process has installed.
    let _ = unsafe { sigaction(signal, &default) };
}

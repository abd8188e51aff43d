//! What the daemon makes of the process that it was started as, before there are threads: nothing of its starter's
//! session, folder, mask or ignored signals may be left in it.

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
use super::options::Mode;

/// The process that stands between a daemon in the background and its starter until the daemon is ready.
#[derive(Debug)]
pub(super) struct StandIn(OwnedFd);

impl StandIn {
    /// It ends, and with it the last that the daemon had to do with its starter.
    pub(super) fn ready(self) {
        let _ = write(self.0, b".");
    }
}

/// Prepares the process.
///
/// # Errors
/// `DAEMON_START_FAILED`.
pub(super) fn prepare(mode: Mode) -> Result<Option<StandIn>> {
    umask(FileMode::from_bits_truncate(0o077));
    raise_descriptor_limit();
    // In the foreground too: with this one ignored nobody can wait for a child.
    reset(Signal::SIGCHLD);
    if mode == Mode::Background { detach().map(Some) } else { Ok(None) }
}

fn detach() -> Result<StandIn> {
    close_inherited();
    Signal::iterator().for_each(reset);
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
    let stand_in = leave_starter()
        .map_err(|cause| error::start_failed("it cannot leave the process that started it", &cause))?;
    match setsid() {
        Ok(_) | Err(Errno::EPERM) => {}
        Err(cause) => return Err(error::start_failed("it cannot leave its session", &cause)),
    }
    // So that no file system is kept busy by a daemon that nobody sees.
    std::env::set_current_dir("/").map_err(|cause| error::start_failed("it cannot change to /", &cause))?;
    File::open("/dev/null")
        .and_then(|null| Ok(dup2_stdin(null.as_fd())?))
        .map_err(|cause| error::start_failed("it cannot use /dev/null", &cause))?;
    Ok(stand_in)
}

/// Goes on in a child. Many a program ends what it has started with all that descends from it; the daemon of a command that
/// it ran would end with that, and so would all runtimes. What the starter knows is a process that stays until the daemon
/// is ready or has ended, and ends as it.
#[allow(unsafe_code)]
fn leave_starter() -> nix::Result<StandIn> {
    let (ready, is_ready) = pipe2(OFlag::O_CLOEXEC)?;
    // SAFETY: there are no threads yet.
    match unsafe { fork() }? {
        ForkResult::Child => Ok(StandIn(is_ready)),
        ForkResult::Parent { child } => {
            drop(is_ready);
            let code = stand_in(child, &ready);
            // SAFETY: it ends at once, without what is done at the end of a program: that is the child's.
            unsafe { _exit(code) }
        }
    }
}

/// Waits until the daemon is ready or has ended; gives the code to end with.
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

/// Closes what the starter's own starters left open: a lock or pipe of a script that once ran a command would else be
/// held for the daemon's whole life.
#[allow(unsafe_code)]
fn close_inherited() {
    // SAFETY: this is the first thing that the program does after reading its command line, so nothing in it owns a
    // descriptor beyond the three standard ones. Kernels before 5.9 do not know the call; then they stay open.
    let _ = unsafe { nix::libc::close_range(3, nix::libc::c_uint::MAX, 0) };
}

/// Each worker and each follower costs descriptors. Agents get their caller's limit, not this one.
fn raise_descriptor_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Without it the daemon works, for fewer workers.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Gives a signal its default back; a shell may have left it ignored. SIGPIPE stays ignored: a client that goes away
/// is an error of its connection only. SIGSEGV and SIGBUS have the standard library's handlers, which report a stack
/// that is too small, and are never inherited ignored with an effect.
#[allow(unsafe_code)]
fn reset(signal: Signal) {
    let keeps = [Signal::SIGPIPE, Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGKILL, Signal::SIGSTOP];
    if keeps.contains(&signal) {
        return;
    }
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: no handler is installed by this, and none that anything in this process has installed is removed.
    let _ = unsafe { sigaction(signal, &default) };
}

//! `subagent-runtime hold FOLDER`: the first process of a container. It reaps, and ends when no
//! runtime and no guard of the worker lives; then the kernel ends what is left in the container.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::os::fd::AsFd as _;

use super::folder::{PlacedFolder, WorkerLock};

/// Time in which a runtime must be started.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The first and the longest pause between two looks at a live runtime. A process that ends resets it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LAST_PAUSE: Duration = Duration::from_secs(60);

/// Holds the container until its runtime has ended.
///
/// # Errors
///
/// Of the system, or the folder cannot be used. Then the container ends.
pub(crate) fn run(folder: Option<OsString>) -> io::Result<()> {
    super::set_name(c"subagent-hold");
    let missing = || io::Error::new(io::ErrorKind::InvalidInput, "the argument must be a worker's folder");
    let folder = PlacedFolder::at(folder.map(PathBuf::from).ok_or_else(missing)?)?;
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT] {
        signals.add(signal);
    }
    // The first process of a container gets only signals that it handles or blocks.
    signals.thread_block()?;
    let pending = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    let (mut pause, mut look_at) = (FIRST_PAUSE, Instant::now() + START_TIMEOUT);
    loop {
        let left = look_at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        let timeout = PollTimeout::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(pending.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(signal) = pending.read_signal()? {
            if signal.ssi_signo != Signal::SIGCHLD as u32 {
                return Ok(());
            }
        }
        if reap()? {
            pause = FIRST_PAUSE;
        } else if Instant::now() < look_at {
            continue;
        }
        if !lives(&folder)? {
            return Ok(());
        }
        // Another process may look at a lock at this moment, and this one not be the parent of all
        // others in the container. So the end of the last one is not enough to wait for.
        look_at = Instant::now() + pause;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Returns whether a process was reaped.
fn reap() -> io::Result<bool> {
    let mut reaped = false;
    loop {
        match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(reaped),
            Ok(_) => reaped = true,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn lives(folder: &PlacedFolder) -> io::Result<bool> {
    Ok(folder.try_lock(WorkerLock::Runtime)?.is_none() || folder.try_lock(WorkerLock::Guard)?.is_none())
}

//! Stops an orphaned runtime and its children: gracefully first, then through its guard.
//!
//! Waits on the processes with a timeout. Must never signal a process other than the one that was found.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::holders::{LockHolder, ProcessRole};

/// Timeout of a graceful stop.
const POLITE: Duration = Duration::from_secs(15);
/// Timeout after a kill, and for a guard that is cleaning up.
const KILLED: Duration = Duration::from_secs(10);

/// Stops the runtime and waits for its guard, which stops all others.
///
/// # Errors
/// The remaining processes.
pub(super) fn end_runtime(holders: &[&LockHolder]) -> Result<(), String> {
    let open = |role: ProcessRole| {
        holders.iter().filter(move |holder| holder.role == role).filter_map(|holder| {
            let handle = handle(holder)?;
            Some((holder.pid, handle))
        })
    };
    let guards: Vec<(i32, OwnedFd)> = open(ProcessRole::Guard).collect();
    for (pid, runtime) in open(ProcessRole::Runtime) {
        for signal in [Signal::TERM, Signal::CONT] {
            // A process that is gone needs no signal.
            let _ = pidfd_send_signal(&runtime, signal);
        }
        if !ends_within(&runtime, POLITE) {
            let _ = pidfd_send_signal(&runtime, Signal::KILL);
            if !ends_within(&runtime, KILLED) {
                return Err(format!("pid {pid} does not end"));
            }
        }
    }
    for (pid, guard) in guards {
        // A guard without a runtime stops the processes below it. A stopped guard must continue to do so.
        let _ = pidfd_send_signal(&guard, Signal::CONT);
        if !ends_within(&guard, KILLED) {
            return Err(format!("the guard (pid {pid}) still has processes that do not end"));
        }
    }
    Ok(())
}

/// Opens a handle of this process; `None` if it is gone.
fn handle(holder: &LockHolder) -> Option<OwnedFd> {
    let handle = pidfd_open(Pid::from_raw(holder.pid)?, PidfdFlags::empty()).ok()?;
    // The pid may be reused; the start time identifies the process.
    holder.lives().then_some(handle)
}

fn ends_within(process: &OwnedFd, time: Duration) -> bool {
    let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
    let mut fds = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, timeout).is_ok_and(|ready| ready > 0)
}

//! Ending a runtime that nobody knows of, with all that it has started: politely, then through its guard.
//!
//! Waits on the processes themselves, each time with a bound. Must never touch a process that is not the one that was
//! found.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::holders::{Holder, Role};

/// For the steps of an ordinary end.
const POLITE: Duration = Duration::from_secs(15);
/// For a killed process, and for a guard at work.
const KILLED: Duration = Duration::from_secs(10);

/// Ends the runtime and waits for its guard, which ends everything else.
///
/// # Errors
/// What is left.
pub(super) fn end_runtime(holders: &[&Holder]) -> Result<(), String> {
    let open = |role: Role| {
        holders.iter().filter(move |holder| holder.role == role).filter_map(|holder| {
            let handle = handle(holder)?;
            Some((holder.pid, handle))
        })
    };
    let guards: Vec<(i32, OwnedFd)> = open(Role::Guard).collect();
    for (pid, runtime) in open(Role::Runtime) {
        for signal in [Signal::TERM, Signal::CONT] {
            // One that is gone needs no signal.
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
        // A guard without a runtime ends what is below it; one that was stopped has to go on for that.
        let _ = pidfd_send_signal(&guard, Signal::CONT);
        if !ends_within(&guard, KILLED) {
            return Err(format!("the guard (pid {pid}) still has processes that do not end"));
        }
    }
    Ok(())
}

/// A handle of exactly this process; none if it is gone.
fn handle(holder: &Holder) -> Option<OwnedFd> {
    let handle = pidfd_open(Pid::from_raw(holder.pid)?, PidfdFlags::empty()).ok()?;
    // The handle means whoever has the number now; the start time tells whether that is the one.
    holder.lives().then_some(handle)
}

fn ends_within(process: &OwnedFd, time: Duration) -> bool {
    let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
    let mut fds = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, timeout).is_ok_and(|ready| ready > 0)
}

//! Process handles (pidfds): a pid can be reused, a handle cannot. Decides nothing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::signal::Signal;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

/// Returns a handle for the process that has this pid now.
///
/// # Errors
///
/// ESRCH if there is none, EINVAL for an invalid pid, ENOSYS before Linux 5.3.
pub(super) fn open(pid: i32) -> io::Result<OwnedFd> {
    let pid = process_number(pid)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Sends a signal to exactly the process of the handle.
///
/// # Errors
///
/// ESRCH if it has been reaped, EPERM if we may not signal it.
pub(super) fn send(process: impl AsFd, signal: Signal) -> io::Result<()> {
    // All signals that have a name here have one there.
    let signal = rustix::process::Signal::from_named_raw(signal as i32).ok_or(rustix::io::Errno::INVAL)?;
    Ok(pidfd_send_signal(process, signal)?)
}

/// The kernel accepts only positive numbers.
fn process_number(pid: i32) -> io::Result<Pid> {
    let pid = (pid > 0).then(|| Pid::from_raw(pid)).flatten();
    Ok(pid.ok_or(rustix::io::Errno::INVAL)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use nix::libc::{EINVAL, ESRCH};

    use super::*;

    #[test]
    fn a_handle_reaches_its_process_until_that_is_reaped() {
        // It would read its standard input without end.
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let handle = open(i32::try_from(child.id()).unwrap()).unwrap();
        for signal in [Signal::SIGSTOP, Signal::SIGCONT, Signal::SIGKILL] {
            send(&handle, signal).unwrap();
        }
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
        assert_eq!(send(&handle, Signal::SIGKILL).unwrap_err().raw_os_error(), Some(ESRCH));
    }

    #[test]
    fn an_invalid_process_number_is_an_error() {
        for pid in [0, -1, i32::MIN] {
            assert_eq!(open(pid).unwrap_err().raw_os_error(), Some(EINVAL), "{pid}");
        }
        assert_eq!(open(i32::MAX).unwrap_err().raw_os_error(), Some(ESRCH));
    }

    #[test]
    fn every_signal_has_the_same_number() {
        for signal in Signal::iterator() {
            let named = rustix::process::Signal::from_named_raw(signal as i32);
            assert_eq!(named.map(rustix::process::Signal::as_raw), Some(signal as i32), "{signal}");
        }
    }
}

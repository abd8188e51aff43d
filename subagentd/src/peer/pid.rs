//! The process behind a connection, held so that its number cannot come to mean another one unnoticed.
//!
//! With `SO_PEERPIDFD` (Linux 6.5) the kernel hands out the process itself. It is the one whose number `SO_PEERCRED` says:
//! both are of the process that connected, for as long as the socket exists (the number in the pid namespace of the daemon, of
//! which `/proc` is too, or it does not start). Without, the number and the start time are
//! all there is; they are compared before and after each use.

use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use subagent_config::proc::{self, Process};
use subagent_protocol::process::ProcessId;

use super::PeerError;

/// The process that called `connect`.
#[derive(Debug)]
pub(super) struct PeerProcess {
    read: Process,
    /// `None` on kernels that cannot hand it out.
    pidfd: Option<OwnedFd>,
}

impl PeerProcess {
    /// `pid` is what `SO_PEERCRED` said: 0 for a process of another pid namespace.
    pub(super) fn of(socket: &impl AsFd, pid: i32) -> Result<Self, PeerError> {
        let pidfd = match getsockopt(socket, sockopt::PeerPidfd) {
            Ok(pidfd) => Some(pidfd),
            Err(Errno::ENOPROTOOPT) => None,
            // What the kernels say of a peer that is gone: ESRCH, and before 6.10 EINVAL.
            Err(Errno::ESRCH | Errno::EINVAL | Errno::ENODATA) => return Err(PeerError::Ended),
            Err(error) => return Err(PeerError::Unknown(error.into())),
        };
        if pid <= 0 {
            // We could not see anything above it.
            return Err(PeerError::Ended);
        }
        let read = proc::process(pid).map_err(|error| {
            if proc::is_gone(&error) { PeerError::Ended } else { PeerError::Unknown(error) }
        })?;
        let process = Self { read, pidfd };
        if process.read.ended || !process.is_alive() {
            return Err(PeerError::Ended);
        }
        Ok(process)
    }

    pub(super) fn id(&self) -> ProcessId {
        ProcessId { pid: self.read.pid, start_time: self.read.start_time }
    }

    /// As it was when it was met.
    pub(super) fn as_read(&self) -> &Process {
        &self.read
    }

    /// Whether the process has not ended: what was read of its number before this call was then about it.
    pub(super) fn is_alive(&self) -> bool {
        match &self.pidfd {
            // A pidfd can be read as soon as the process has ended.
            Some(pidfd) => {
                poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(0)
            }
            None => proc::process(self.read.pid)
                .is_ok_and(|found| found.start_time == self.read.start_time && !found.ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn without_a_pidfd_the_start_time_tells() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let read = proc::process(pid).unwrap();
        let process = |read| PeerProcess { read, pidfd: None };
        assert!(process(read.clone()).is_alive());
        assert!(!process(Process { start_time: read.start_time + 1, ..read.clone() }).is_alive());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!process(read).is_alive());
    }
}

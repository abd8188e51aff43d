//! Holds the process behind a connection, so that a reused pid is noticed. `SO_PEERPIDFD` (Linux
//! 6.5) returns the process that `SO_PEERCRED` names, in the daemon's pid namespace. Older kernels:
//! pid and start time are compared before and after use.

use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use subagent_config::proc::{self, ProcessEntry};
use subagent_protocol::process::ProcessId;

use super::PeerError;

/// The process that called `connect` on the socket.
#[derive(Debug)]
pub(super) struct PeerProcess {
    read: ProcessEntry,
    /// `None` on kernels without `SO_PEERPIDFD`.
    pidfd: Option<OwnedFd>,
}

impl PeerProcess {
    /// `pid` is from `SO_PEERCRED`; 0 means a process in another pid namespace.
    pub(super) fn of(socket: &impl AsFd, pid: i32) -> Result<Self, PeerError> {
        let pidfd = match getsockopt(socket, sockopt::PeerPidfd) {
            Ok(pidfd) => Some(pidfd),
            Err(Errno::ENOPROTOOPT) => None,
            // Errors for a peer that is gone: ESRCH, and EINVAL before Linux 6.10.
            Err(Errno::ESRCH | Errno::EINVAL | Errno::ENODATA) => return Err(PeerError::Ended),
            Err(error) => return Err(PeerError::Unknown(error.into())),
        };
        if pid <= 0 {
            // The ancestors of a process in another pid namespace are not visible.
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

    /// Returns the process as read at the connection.
    pub(super) fn as_read(&self) -> &ProcessEntry {
        &self.read
    }

    /// Whether the process is alive. If so, all earlier reads of its pid described this process.
    pub(super) fn is_alive(&self) -> bool {
        match &self.pidfd {
            // A pidfd becomes readable when the process ends.
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
    fn without_a_pidfd_the_start_time_identifies() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let read = proc::process(pid).unwrap();
        let process = |read| PeerProcess { read, pidfd: None };
        assert!(process(read.clone()).is_alive());
        assert!(!process(ProcessEntry { start_time: read.start_time + 1, ..read.clone() }).is_alive());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!process(read).is_alive());
    }
}

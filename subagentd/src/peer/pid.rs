//! The process behind a connection, held so that its number cannot come to mean another one unnoticed.
//!
//! With `SO_PEERPIDFD` (Linux 6.5) the kernel hands out the process itself. Without, the number and the start time are
//! all there is; they are compared before and after each use.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use subagent_config::proc;
use subagent_protocol::process::ProcessId;

use super::PeerError;

/// Longer than the kernel's description of a pidfd gets up to its `Pid`.
const INFO_BYTES: usize = 1024;

/// The process that called `connect`.
#[derive(Debug)]
pub(super) struct PeerProcess {
    id: ProcessId,
    /// `None` on kernels that cannot hand it out.
    pidfd: Option<OwnedFd>,
}

impl PeerProcess {
    /// `pid` is what `SO_PEERCRED` said.
    pub(super) fn of(socket: &impl AsFd, pid: i32) -> Result<Self, PeerError> {
        let pidfd = match getsockopt(socket, sockopt::PeerPidfd) {
            Ok(pidfd) => Some(pidfd),
            Err(Errno::ENOPROTOOPT) => None,
            // What the kernels say of a peer that is gone: ESRCH, and before 6.10 EINVAL.
            Err(Errno::ESRCH | Errno::EINVAL | Errno::ENODATA) => return Err(PeerError::Ended),
            Err(error) => return Err(PeerError::Unknown(error.into())),
        };
        let pid = match &pidfd {
            Some(pidfd) => pid_of(pidfd)?,
            None => pid,
        };
        if pid <= 0 {
            // A process of another pid namespace, above which we cannot see anything.
            return Err(PeerError::Ended);
        }
        let found = proc::process(pid).map_err(|error| {
            if proc::is_gone(&error) { PeerError::Ended } else { PeerError::Unknown(error) }
        })?;
        let process = Self { id: ProcessId { pid, start_time: found.start_time }, pidfd };
        if found.ended || !process.is_alive() {
            return Err(PeerError::Ended);
        }
        Ok(process)
    }

    pub(super) fn id(&self) -> ProcessId {
        self.id
    }

    /// Whether the process has not ended: what was read of its number before this call was then about it.
    pub(super) fn is_alive(&self) -> bool {
        match &self.pidfd {
            // A pidfd can be read as soon as the process has ended.
            Some(pidfd) => {
                poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(0)
            }
            None => proc::process(self.id.pid)
                .is_ok_and(|found| found.start_time == self.id.start_time && !found.ended),
        }
    }
}

/// The number of the process of a pidfd; -1 if it was reaped, 0 if it is not in our pid namespace.
fn pid_of(pidfd: &OwnedFd) -> Result<i32, PeerError> {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd());
    let mut buffer = [0; INFO_BYTES];
    let length = File::open(path).and_then(|mut file| file.read(&mut buffer)).map_err(PeerError::Unknown)?;
    let text = String::from_utf8_lossy(&buffer[..length]);
    text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok()).ok_or_else(|| {
        PeerError::Unknown(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            "the kernel's description of a pidfd has no Pid",
        ))
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn without_a_pidfd_the_start_time_tells() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let id = ProcessId { pid, start_time: proc::start_time(pid).unwrap() };
        let process = |id| PeerProcess { id, pidfd: None };
        assert!(process(id).is_alive());
        assert!(!process(ProcessId { start_time: id.start_time + 1, ..id }).is_alive());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!process(id).is_alive());
    }
}

//! Decides whether the peer of a connection is trusted.

// An agent runs as the same user as its owner, so it could connect and command its own worker or
// another one. Every process that an agent started has its guard as an ancestor. A guard that is
// also above this runtime is no reason to refuse: the daemon itself then runs below an agent.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::socket::{getsockopt, sockopt};

use crate::guard::ancestry;

/// The decision about a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerAdmission {
    /// The peer may send commands.
    Trusted,
    /// The peer is outside of this container. It may send commands after its token.
    Outside,
    /// The peer runs below an agent and gets a refusal.
    BelowGuard,
    /// The peer belongs to another user or is gone. It gets no answer.
    Dropped,
}

/// Inspects the peer of a connection. One from outside of this container has no pid and no ancestors
/// here. It may be the daemon's `dial`, or another agent.
pub(crate) fn judge(socket: impl AsFd, contained: bool) -> PeerAdmission {
    match look(&socket, contained) {
        Ok(verdict) => verdict,
        // A process that cannot be inspected is gone or hides.
        Err(_) => PeerAdmission::Dropped,
    }
}

fn look(socket: &impl AsFd, contained: bool) -> io::Result<PeerAdmission> {
    let credentials = getsockopt(socket, sockopt::PeerCredentials)?;
    let own = nix::unistd::geteuid().as_raw();
    if credentials.uid() != own && !subagent_failpoint::sabotaged("peer.any_user") {
        return Ok(PeerAdmission::Dropped);
    }
    let pid = credentials.pid();
    if pid == 0 && contained {
        return Ok(PeerAdmission::Outside);
    }
    // With a pidfd the pid cannot be reused meanwhile. Without one, the start time reveals a reuse.
    let handle = getsockopt(socket, sockopt::PeerPidfd).ok();
    let before = ancestry::start_time(pid)?;
    let guards = ancestry::guards_above(pid)?;
    let same = match &handle {
        Some(handle) => is_handle_of(handle, pid)?,
        None => ancestry::start_time(pid)? == before,
    };
    if !same {
        return Ok(PeerAdmission::Dropped);
    }
    if guards.is_empty() {
        return Ok(PeerAdmission::Trusted);
    }
    let own = ancestry::guards_above(nix::unistd::getpid().as_raw())?;
    Ok(if guards.iter().all(|guard| own.contains(guard)) {
        PeerAdmission::Trusted
    } else {
        PeerAdmission::BelowGuard
    })
}

/// Whether the pidfd still refers to this pid; it does not once the process was reaped.
pub(crate) fn is_handle_of(handle: &OwnedFd, pid: i32) -> io::Result<bool> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd()))?;
    let line = info.lines().find_map(|line| line.strip_prefix("Pid:"));
    Ok(line.and_then(|number| number.trim().parse().ok()) == Some(pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn this_process_is_trusted() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert_eq!(look(&ours, false).unwrap(), PeerAdmission::Trusted);
    }
}

//! Reaping children one at a time.
//!
//! Must not wait: "nothing yet" is an answer.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::libc;

use super::state::Exit;

/// What `waitpid` answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaped {
    /// This child has ended and is gone now.
    Child { pid: i32, exit: Exit },
    /// There are children, none has ended.
    NothingYet,
    /// There is no such child; asked for any child: none is left at all.
    NoneLeft,
}

/// Reaps one ended child: any, or the given one.
///
/// Not through nix: it fails, with the child already reaped, on the real-time signals that it has no name for.
#[allow(unsafe_code)]
pub(super) fn next(child: Option<i32>) -> Reaped {
    loop {
        let mut status = 0;
        // __WALL: children made with clone() and another exit signal count as well.
        // SAFETY: `status` is a valid place for the answer during the call.
        let pid =
            unsafe { libc::waitpid(child.unwrap_or(-1), &raw mut status, libc::WNOHANG | libc::__WALL) };
        if pid > 0 {
            let status = ExitStatus::from_raw(status);
            // Without WUNTRACED and WCONTINUED it is one of the two.
            let exit = status.code().map_or_else(|| Exit::Signal(status.signal().unwrap_or(0)), Exit::Code);
            return Reaped::Child { pid, exit };
        }
        if pid == 0 {
            return Reaped::NothingYet;
        }
        if nix::errno::Errno::last() != nix::errno::Errno::EINTR {
            return Reaped::NoneLeft;
        }
    }
}

//! Reaps children one at a time.
//!
//! Does not wait: "nothing yet" is a result.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::libc;

use super::state::ChildExit;

/// The result of `waitpid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaped {
    /// This child has ended and was reaped.
    Child { pid: i32, exit: ChildExit },
    /// There are children, but none has ended.
    NothingYet,
    /// The given child does not exist; for any child: none is left at all.
    NoneLeft,
}

/// Reaps one ended child: any, or the given one.
///
/// Does not use nix, which reaps the child and then fails for real-time signals that it
/// has no name for.
#[allow(unsafe_code)]
pub(super) fn next(child: Option<i32>) -> Reaped {
    loop {
        let mut status = 0;
        // __WALL: includes children made by clone() with another exit signal.
        // SAFETY: `status` is valid for writes during the call.
        let pid =
            unsafe { libc::waitpid(child.unwrap_or(-1), &raw mut status, libc::WNOHANG | libc::__WALL) };
        if pid > 0 {
            let status = ExitStatus::from_raw(status);
            // Without WUNTRACED and WCONTINUED it is one of the two.
            let exit = status
                .code()
                .map_or_else(|| ChildExit::Signal(status.signal().unwrap_or(0)), ChildExit::Code);
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

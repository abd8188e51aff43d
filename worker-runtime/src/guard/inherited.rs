//! The descriptors that the guard is started with.
//!
//! Must not trust them: a wrong call must fail before anything is started, and what the runtime let slip must neither
//! get to the agent nor be held open here.

use std::fs::{self, File};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::{LIFE_FD, LOCK_FD, STATUS_FD};

/// The guard's own descriptors, all close-on-exec.
pub(super) struct Inherited {
    /// Read end.
    pub(super) life: File,
    /// Write end.
    pub(super) status: File,
    /// `guard.lock`, locked: held by being open.
    pub(super) lock: OwnedFd,
}

/// Takes the descriptors 3, 4 and 5, so that the agent does not get them, and closes those above.
///
/// To be called first of all: nothing else in the process may own a descriptor yet.
///
/// # Errors
/// When one of the three is not open: the guard was not started by the runtime.
pub(super) fn take() -> io::Result<Inherited> {
    let mut open = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        open.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()));
    }
    // That of the listing itself is among them and closed by now: an error to skip.
    for fd in open.into_iter().filter(|fd| *fd > LOCK_FD) {
        drop(own(fd, "unexpected"));
    }
    Ok(Inherited {
        life: own(LIFE_FD, "life pipe")?.into(),
        status: own(STATUS_FD, "status pipe")?.into(),
        lock: own(LOCK_FD, "guard.lock")?,
    })
}

/// Takes an open descriptor and marks it close-on-exec.
#[allow(unsafe_code)]
fn own(fd: RawFd, name: &str) -> io::Result<OwnedFd> {
    // SAFETY: used for one fcntl() that answers EBADF if it is not open; never -1, since the callers' are 3 and more.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    fcntl(borrowed, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map_err(|error| {
        let kind = io::Error::from(error).kind();
        io::Error::new(
            kind,
            format!("descriptor {fd} ({name}) is not open; start a worker instead of its guard"),
        )
    })?;
    // SAFETY: it is open, and by the guard's contract handed over to it; each is taken once, at the process' start.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

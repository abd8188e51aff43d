//! The descriptors that the guard is started with. Does not trust them. A wrong call fails before
//! anything is started. Descriptors that leaked from the runtime are neither passed to the agent
//! nor held open here.

use std::fs::{self, File};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::{LIFE_FD, LOCK_FD, PROXY_FD, STATUS_FD};

/// The guard's own descriptors, all close-on-exec.
pub(super) struct Inherited {
    /// The read end of the life pipe.
    pub(super) life: File,
    /// The write end of the status pipe.
    pub(super) status: File,
    /// The locked `guard.lock`; held while open.
    pub(super) lock: OwnedFd,
    /// The channel to the proxy of the sandbox, if there is one.
    pub(super) proxy: Option<OwnedFd>,
}

/// Takes the descriptors 3, 4 and 5, and 6 with `proxy`, so that the agent does not inherit them.
/// Closes all higher ones.
///
/// Call this first: nothing else in the process may own a descriptor yet.
///
/// # Errors
///
/// One of them is not open: the guard was not started by the runtime.
pub(super) fn take(proxy: bool) -> io::Result<Inherited> {
    let last = if proxy { PROXY_FD } else { LOCK_FD };
    let mut open = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        open.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()));
    }
    // The list contains the listing's own descriptor, which is closed by now;
    // that error is ignored.
    for fd in open.into_iter().filter(|fd| *fd > last) {
        drop(own(fd, "unexpected"));
    }
    Ok(Inherited {
        life: own(LIFE_FD, "life pipe")?.into(),
        status: own(STATUS_FD, "status pipe")?.into(),
        lock: own(LOCK_FD, "guard.lock")?,
        proxy: proxy.then(|| own(PROXY_FD, "channel to the proxy")).transpose()?,
    })
}

/// Takes an open descriptor and marks it close-on-exec.
#[allow(unsafe_code)]
fn own(fd: RawFd, name: &str) -> io::Result<OwnedFd> {
    // SAFETY: used for one fcntl(), which returns EBADF if it is not open. Never -1: the callers
    // pass 3 and more.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    fcntl(borrowed, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map_err(|error| {
        let kind = io::Error::from(error).kind();
        io::Error::new(
            kind,
            format!("descriptor {fd} ({name}) is not open; start a worker instead of its guard"),
        )
    })?;
    // SAFETY: the descriptor is open, and the guard's contract gives it ownership. Each is taken
    // once, at the start of the process.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

//! Process descriptors: a handle that keeps meaning the same process when its number is given to another one.
//!
//! Must not decide anything: two system calls that no library at hand wraps.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::libc;
use nix::sys::signal::Signal;

/// A handle for the process that has this number now.
///
/// # Errors
/// ESRCH when there is none, ENOSYS before Linux 5.3.
#[allow(unsafe_code)]
pub(super) fn open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes two numbers, touches no memory of ours.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match RawFd::try_from(fd) {
        // SAFETY: the kernel just made this descriptor for us; nobody else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends a signal to exactly the process of the handle.
///
/// # Errors
/// ESRCH when it has been reaped, EPERM when it is not ours to signal.
#[allow(unsafe_code)]
pub(super) fn send(process: impl AsFd, signal: Signal) -> io::Result<()> {
    let fd = process.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open for the whole call; without a siginfo the kernel fills in one as for kill().
    let result = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, fd, signal as i32, std::ptr::null::<libc::siginfo_t>(), 0)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

//! The replaced functions of the C library. Each asks for a verdict and otherwise calls the kernel.
//!
//! Functions with two widths behave the same in both where `off_t` has 64 bits.

use std::mem::MaybeUninit;

use nix::libc::{self, c_char, c_int, c_long, c_uint, c_void, iovec, off_t, size_t, ssize_t};

use super::rules::{FileOperation, Verdict, on_descriptor, on_path};

/// Ends a call with an error.
fn fail(errno: c_int) -> c_int {
    // SAFETY: the address of this thread's errno, which always exists.
    unsafe { *libc::__errno_location() = errno };
    -1
}

fn narrow(result: c_long) -> c_int {
    c_int::try_from(result).unwrap_or(-1)
}

fn wide(result: c_long) -> ssize_t {
    ssize_t::try_from(result).unwrap_or(-1)
}

/// Replaces functions that act on a descriptor.
macro_rules! on_descriptor {
    ($($op:ident: $name:ident ($($arg:ident: $type:ty),*) = $call:ident;)+) => {$(
        /// The C library's function of this name, unless a rule says otherwise.
        ///
        /// # Safety
        ///
        /// The same requirements as the replaced function.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(fd: c_int $(, $arg: $type)*) -> c_int {
            match on_descriptor(FileOperation::$op, fd) {
                Verdict::Fail(errno) => fail(errno),
                // SAFETY: the caller's own arguments, for the call of the same meaning.
                _ => narrow(unsafe { libc::syscall(libc::$call, fd $(, $arg)*) }),
            }
        }
    )+};
}

on_descriptor! {
    Sync: fsync () = SYS_fsync;
    Sync: fdatasync () = SYS_fdatasync;
    Truncate: ftruncate (length: off_t) = SYS_ftruncate;
    Truncate: ftruncate64 (length: off_t) = SYS_ftruncate;
    Allocate: fallocate (mode: c_int, offset: off_t, length: off_t) = SYS_fallocate;
    Allocate: fallocate64 (mode: c_int, offset: off_t, length: off_t) = SYS_fallocate;
}

/// Replaces functions that write from one buffer.
macro_rules! on_write {
    ($($name:ident ($($arg:ident: $type:ty),*) = $call:ident;)+) => {$(
        /// The C library's function of this name, unless a rule says otherwise.
        ///
        /// # Safety
        ///
        /// The same requirements as the replaced function.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(fd: c_int, bytes: *const c_void, length: size_t $(, $arg: $type)*) -> ssize_t {
            let length = match on_descriptor(FileOperation::Write, fd) {
                Verdict::Fail(errno) => return wide(c_long::from(fail(errno))),
                Verdict::Short => length / 2,
                Verdict::GoOn => length,
            };
            // SAFETY: the caller's own arguments, and at most the length of its buffer.
            wide(unsafe { libc::syscall(libc::$call, fd, bytes, length $(, $arg)*) })
        }
    )+};
}

on_write! {
    write () = SYS_write;
    pwrite (offset: off_t) = SYS_pwrite64;
    pwrite64 (offset: off_t) = SYS_pwrite64;
}

/// Like `write`, from several buffers. A short write writes only the first one.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn writev(fd: c_int, buffers: *const iovec, count: c_int) -> ssize_t {
    match on_descriptor(FileOperation::Write, fd) {
        Verdict::Fail(errno) => wide(c_long::from(fail(errno))),
        // SAFETY: the caller's own arguments, and at most its number of buffers.
        Verdict::Short => wide(unsafe { libc::syscall(libc::SYS_writev, fd, buffers, count.min(1)) }),
        // SAFETY: the caller's own arguments.
        Verdict::GoOn => wide(unsafe { libc::syscall(libc::SYS_writev, fd, buffers, count) }),
    }
}

/// Like `writev`, at an offset.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pwritev(
    fd: c_int,
    buffers: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    let count = match on_descriptor(FileOperation::Write, fd) {
        Verdict::Fail(errno) => return wide(c_long::from(fail(errno))),
        Verdict::Short => count.min(1),
        Verdict::GoOn => count,
    };
    // SAFETY: the caller's own arguments, and at most its number of buffers. The kernel takes the
    // offset in two halves; the first contains all of it where a register has 64 bits.
    wide(unsafe { libc::syscall(libc::SYS_pwritev, fd, buffers, count, offset, 0) })
}

/// The same under its other name.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pwritev64(
    fd: c_int,
    buffers: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the same arguments.
    unsafe { pwritev(fd, buffers, count, offset) }
}

/// Returns the error instead of setting it.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn posix_fallocate(fd: c_int, offset: off_t, length: off_t) -> c_int {
    // SAFETY: the same arguments; then the address of this thread's errno, which always exists.
    unsafe { if fallocate(fd, 0, offset, length) == 0 { 0 } else { *libc::__errno_location() } }
}

/// The same under its other name.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn posix_fallocate64(fd: c_int, offset: off_t, length: off_t) -> c_int {
    // SAFETY: the same arguments.
    unsafe { posix_fallocate(fd, offset, length) }
}

/// The `mode` may be absent. The kernel then ignores it, and reading an unset argument register is
/// harmless on the machines that Linux runs on.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn openat(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: c_uint,
) -> c_int {
    let changes = flags & (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) != 0;
    let change = if changes { on_path(FileOperation::Change, folder, path) } else { Verdict::GoOn };
    match (change, on_path(FileOperation::Open, folder, path)) {
        (Verdict::Fail(errno), _) | (_, Verdict::Fail(errno)) => fail(errno),
        // SAFETY: the caller's own arguments.
        _ => narrow(unsafe { libc::syscall(libc::SYS_openat, folder, path, flags, mode) }),
    }
}

/// See [`openat`] for the mode.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn openat64(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: c_uint,
) -> c_int {
    // SAFETY: the same arguments.
    unsafe { openat(folder, path, flags, mode) }
}

/// See [`openat`] for the mode.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the same arguments.
    unsafe { openat(libc::AT_FDCWD, path, flags, mode) }
}

/// See [`openat`] for the mode.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the same arguments.
    unsafe { openat(libc::AT_FDCWD, path, flags, mode) }
}

/// Renames a file; the new name selects the rule.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn renameat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
) -> c_int {
    match on_path(FileOperation::Rename, to_folder, to) {
        Verdict::Fail(errno) => fail(errno),
        // SAFETY: the caller's own arguments.
        _ => narrow(unsafe { libc::syscall(libc::SYS_renameat2, from_folder, from, to_folder, to, 0) }),
    }
}

/// See [`renameat`] for the rule.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the same arguments.
    unsafe { renameat(libc::AT_FDCWD, from, libc::AT_FDCWD, to) }
}

/// See [`unlink`] for the rule.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    match on_path(FileOperation::Unlink, folder, path) {
        Verdict::Fail(errno) => fail(errno),
        // SAFETY: the caller's own arguments.
        _ => narrow(unsafe { libc::syscall(libc::SYS_unlinkat, folder, path, flags) }),
    }
}

/// Removes a file, unless a rule says otherwise.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the same arguments.
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}

/// Returns the free space; a rule with `ENOSPC` leaves none.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn statvfs(path: *const c_char, found: *mut libc::statvfs) -> c_int {
    let full = match on_path(FileOperation::Room, libc::AT_FDCWD, path) {
        Verdict::Fail(libc::ENOSPC) => true,
        Verdict::Fail(errno) => return fail(errno),
        _ => false,
    };
    let mut kernel = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the caller's own path, and a buffer for the kernel's answer.
    let result = unsafe { libc::syscall(libc::SYS_statfs, path, kernel.as_mut_ptr()) };
    if result != 0 {
        return narrow(result);
    }
    // SAFETY: only numbers, for which zero is valid; then the caller's own result buffer.
    unsafe {
        let kernel = kernel.assume_init();
        let mut answer = MaybeUninit::<libc::statvfs>::zeroed().assume_init();
        answer.f_bsize = kernel.f_bsize.unsigned_abs();
        answer.f_frsize = kernel.f_frsize.unsigned_abs();
        answer.f_blocks = kernel.f_blocks;
        answer.f_bfree = kernel.f_bfree;
        answer.f_bavail = if full { 0 } else { kernel.f_bavail };
        answer.f_files = kernel.f_files;
        answer.f_ffree = kernel.f_ffree;
        answer.f_favail = kernel.f_ffree;
        answer.f_namemax = kernel.f_namelen.unsigned_abs();
        found.write(answer);
    }
    0
}

/// See [`statvfs`] for the rule.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn statvfs64(path: *const c_char, found: *mut libc::statvfs) -> c_int {
    // SAFETY: the same arguments.
    unsafe { statvfs(path, found) }
}

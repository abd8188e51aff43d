//! A clock that can be set back.

use std::ffi::CString;
use std::sync::OnceLock;

use nix::libc::{self, c_int, clockid_t, timespec};

/// The difference in seconds.
const SET_BACK: i64 = 3600;

static GATE: OnceLock<CString> = OnceLock::new();

/// Reads the file name from the environment.
pub(crate) fn load() {
    if let Some(gate) = std::env::var("FAULT_CLOCK").ok().and_then(|path| CString::new(path).ok()) {
        let _ = GATE.set(gate);
    }
}

/// The C library's function of this name. The time of day is an hour earlier while the file exists.
///
/// # Safety
///
/// The same requirements as the replaced function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    // SAFETY: the caller's own arguments.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    // SAFETY: a path that ends with NUL.
    let is_set = |gate: &CString| unsafe { libc::access(gate.as_ptr(), libc::F_OK) } == 0;
    if result == 0 && clock == libc::CLOCK_REALTIME && GATE.get().is_some_and(is_set) {
        // SAFETY: the kernel has just written there.
        unsafe { (*time).tv_sec -= SET_BACK };
    }
    c_int::try_from(result).unwrap_or(-1)
}

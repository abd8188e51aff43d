//! A clock that can be set to another time.

use std::ffi::CString;
use std::sync::OnceLock;

use nix::libc::{self, c_int, clockid_t, timespec};

/// The difference in seconds without a variable that sets it.
const AN_HOUR_EARLY: i64 = -3600;

static GATE: OnceLock<CString> = OnceLock::new();
static SECONDS: OnceLock<i64> = OnceLock::new();

/// Reads the file name and the difference from the environment.
pub(crate) fn load() {
    if let Some(gate) = std::env::var("FAULT_CLOCK").ok().and_then(|path| CString::new(path).ok()) {
        let _ = GATE.set(gate);
    }
    if let Some(seconds) = std::env::var("FAULT_CLOCK_SECONDS").ok().and_then(|text| text.parse().ok()) {
        let _ = SECONDS.set(seconds);
    }
}

/// The C library's function of this name. The time of day is another one while the file exists.
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
        unsafe { (*time).tv_sec += SECONDS.get().copied().unwrap_or(AN_HOUR_EARLY) };
    }
    c_int::try_from(result).unwrap_or(-1)
}

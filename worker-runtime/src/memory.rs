//! Releases memory after a burst: hundreds of idle runtimes share one machine.

/// Returns free heap memory to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(crate) fn trim() {
    // SAFETY: may be called at any time; only free memory is touched.
    unsafe { nix::libc::malloc_trim(0) };
}

/// Does nothing, because this allocator cannot return memory.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn trim() {}

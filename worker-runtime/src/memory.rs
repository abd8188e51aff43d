//! Gives memory back after a burst: hundreds of idle runtimes share one machine.

/// Returns free memory of the heap to the system. Does nothing where the allocator cannot.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(crate) fn trim() {
    // SAFETY: may be called at any time; only memory that is free is touched.
    unsafe { nix::libc::malloc_trim(0) };
}

/// Returns free memory of the heap to the system. Does nothing where the allocator cannot.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn trim() {}

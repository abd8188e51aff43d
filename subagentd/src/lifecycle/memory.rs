//! Allocator tuning: large blocks (long agent lines) return to the system when freed, instead of
//! staying in the heap.

/// Size in bytes from which a block is mapped separately. Frequent allocations are smaller.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_BLOCK_BYTES: i32 = 4 * 1024 * 1024;

/// Fixes the threshold. Otherwise glibc raises it with each freed block of that size.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(super) fn give_back_large_blocks() {
    // SAFETY: `mallopt` may be called at any time; it sets two parameters of the allocator.
    unsafe { nix::libc::mallopt(nix::libc::M_MMAP_THRESHOLD, OWN_BLOCK_BYTES) };
}

/// Does nothing with other allocators.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn give_back_large_blocks() {}

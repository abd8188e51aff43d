//! What the allocator does with large blocks. A long line of an agent is read, stored and told in blocks of its length: each
//! goes back to the system when it is freed, and not into a heap that keeps the most that was ever needed at once.

/// From here on a block is one of its own. It is above everything that is allocated often.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_BLOCK_BYTES: i32 = 4 * 1024 * 1024;

/// Says so to the allocator, which would otherwise raise this bound with each such block that is freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
pub(super) fn give_back_large_blocks() {
    // SAFETY: may be called at any time; it sets two numbers of the allocator.
    unsafe { nix::libc::mallopt(nix::libc::M_MMAP_THRESHOLD, OWN_BLOCK_BYTES) };
}

/// Does nothing where the allocator is another one.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn give_back_large_blocks() {}

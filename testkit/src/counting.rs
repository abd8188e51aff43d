//! An allocator that counts, for test executables that measure allocations: `#[global_allocator]
//! static ALLOCATOR: Counting = Counting;` It counts for the whole process, so a test that measures
//! runs [`crate::in_own_process`].

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// The system's allocator with counters.
#[derive(Debug)]
pub struct Counting;

fn count(bytes: usize) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}

// SAFETY: everything is passed to the system's allocator; counting allocates nothing.
#[allow(unsafe_code, reason = "an allocator is an unsafe trait")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs `something` `times` times. Returns the allocations and their bytes per
/// run, as whole numbers.
pub fn allocations(times: u64, mut something: impl FnMut()) -> (u64, u64) {
    let before = (COUNT.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed));
    for _ in 0..times {
        something();
    }
    let after = (COUNT.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed));
    ((after.0 - before.0).div_ceil(times), (after.1 - before.1).div_ceil(times))
}

//! An allocator that counts, for tests that show that a path does not allocate; large allocations by the kernel.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Lets the C library take allocations of this many bytes and more from the kernel and return them there, for ever
/// (mallopt(3), `M_MMAP_THRESHOLD`). Otherwise it keeps the memory of tables that were freed for those that follow, which then
/// takes their memory at once, to fill it with zeros, instead of page by page where it is used. Does nothing with
/// other C libraries than glibc.
pub fn take_from_kernel(bytes: u32) {
    #[cfg(target_env = "gnu")]
    if let Ok(bytes) = i32::try_from(bytes) {
        // SAFETY: the function only changes a setting of the allocator, and may be called at any time.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, bytes) };
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = bytes;
}

thread_local! {
    /// Allocations of this thread, of new memory or of more.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, with a count of allocations per thread.
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingAllocator;

impl CountingAllocator {
    /// Allocations and reallocations of the calling thread so far. Always
    /// 0 unless this is the global allocator.
    #[must_use]
    pub fn count_of_thread() -> u64 {
        COUNT.with(Cell::get)
    }

    fn count() {
        // At the end of a thread there is no counter any more.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
    }
}

// SAFETY: every call is passed on to `System` as it is; the counter needs no memory, since it is
// initialised by a constant and has no destructor.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: the caller's promises are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        Self::count();
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

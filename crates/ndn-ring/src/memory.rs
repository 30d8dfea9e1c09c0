//! Address space of a pool: reserved at once, populated by the kernel on first touch.

use std::io;
use std::ptr::NonNull;

use crate::pages::{HUGE_PAGE_BYTES, PagePreference, PoolPages};

/// Bytes in one block. Offsets in a block fit 16 bits.
pub const BLOCK_SIZE: usize = 64 * 1024;

const _: () = assert!(BLOCK_SIZE - 1 == u16::MAX as usize);

/// Zeroed memory for `block_count` blocks.
#[derive(Debug)]
pub(crate) struct BlockMemory {
    base: NonNull<u8>,
    block_count: u32,
    /// The whole mapping, including the unused ends before and after the blocks.
    whole: (NonNull<u8>, usize),
    pages: PoolPages,
}

// SAFETY: a `BlockMemory` only hands out addresses; who may read or write which bytes is the
// business of `PacketHandle` and `FillBlock`, which keep the two apart on every thread.
unsafe impl Send for BlockMemory {}
// SAFETY: as for `Send`; no method reads or writes the memory.
unsafe impl Sync for BlockMemory {}

impl BlockMemory {
    /// Reserves `block_count` blocks: the first ones in reserved huge pages (hugetlb), up to
    /// `huge_bytes_max` bytes, if the kernel has them. The others become resident when touched,
    /// except what is touched to detect the page size.
    pub(crate) fn reserve(
        block_count: u32,
        preference: PagePreference,
        huge_bytes_max: usize,
    ) -> io::Result<Self> {
        let length = length_of(block_count)?;
        let mut huge = match preference {
            PagePreference::Best => huge_bytes_max.min(length) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES,
            PagePreference::Transparent | PagePreference::Ordinary => 0,
        };
        let Mapped { whole, base } = loop {
            match map_zeroed(length, huge) {
                Ok(mapped) => break mapped,
                Err(error) if huge == 0 => return Err(error),
                // Another process was faster, or this process may have fewer: try half of them.
                Err(_) => huge = huge / 2 / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES,
            }
        };
        let rest = length - huge;
        let is_transparent = preference != PagePreference::Ordinary
            && rest >= HUGE_PAGE_BYTES
            // SAFETY: it lies in the mapping, behind what is huge.
            && advise_transparent(unsafe { base.add(huge) }, rest);
        let (transparent_bytes, ordinary_bytes) =
            if is_transparent { (rest, 0) } else { (0, rest) };
        let pages = PoolPages { huge_bytes: huge, transparent_bytes, ordinary_bytes };
        Ok(Self { base, block_count, whole, pages })
    }

    pub(crate) fn pages(&self) -> PoolPages {
        self.pages
    }

    /// The first byte of a block; the pointer is valid for [`BLOCK_SIZE`] bytes.
    #[inline]
    pub(crate) fn block(&self, block_index: u32) -> NonNull<u8> {
        if block_index >= self.block_count {
            no_block(block_index);
        }
        // SAFETY: the index is in range.
        unsafe { self.block_unchecked(block_index) }
    }

    /// [`block`](Self::block) without a test of the index.
    ///
    /// # Safety
    /// There is such a block.
    #[inline]
    pub(crate) unsafe fn block_unchecked(&self, block_index: u32) -> NonNull<u8> {
        debug_assert!(block_index < self.block_count);
        // SAFETY: the index is in range, so the result lies inside the one mapping.
        unsafe { self.base.add(block_index as usize * BLOCK_SIZE) }
    }
}

impl Drop for BlockMemory {
    fn drop(&mut self) {
        let (start, length) = self.whole;
        unmap(start, length);
    }
}

// A function: the number is in a register until then.
#[cold]
#[inline(never)]
fn no_block(block_index: u32) -> ! {
    panic!("no block {block_index} in this pool");
}

fn length_of(block_count: u32) -> io::Result<usize> {
    (block_count as usize).checked_mul(BLOCK_SIZE).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// A new mapping.
struct Mapped {
    /// The whole mapping.
    whole: (NonNull<u8>, usize),
    /// The first byte of it on a huge page boundary.
    base: NonNull<u8>,
}

/// Maps at least `length` bytes from a huge page boundary on, the first `huge` of them in reserved
/// huge pages.
#[cfg(all(target_os = "linux", not(any(miri, loom))))]
fn map_zeroed(length: usize, huge: usize) -> io::Result<Mapped> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let whole_length = length.checked_add(HUGE_PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
    // SAFETY: a new private mapping at an address of the kernel's choice aliases nothing.
    let whole = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            whole_length,
            protection,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    }?;
    let whole = NonNull::new(whole.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
    let skipped = whole.addr().get().next_multiple_of(HUGE_PAGE_BYTES) - whole.addr().get();
    // SAFETY: less than a huge page is skipped, and so much more was mapped than is used.
    let base = unsafe { whole.add(skipped) };
    if huge == 0 {
        return Ok(Mapped { whole: (whole, whole_length), base });
    }
    // The address range of the huge pages is unmapped and mapped again, never mapped over: a kernel
    // with too few pages would leave a hole there, which another thread might fill.
    unmap(base, huge);
    // SAFETY: it is only mapped where nothing is.
    let mapped = unsafe {
        mmap_anonymous(
            base.as_ptr().cast(),
            huge,
            protection,
            MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB | MapFlags::FIXED_NOREPLACE,
        )
    };
    let populated = mapped.and_then(|at| {
        // A kernel that does not know the flag treats the address as a hint.
        if at != base.as_ptr().cast() {
            if let Some(elsewhere) = NonNull::new(at.cast()) {
                unmap(elsewhere, huge);
            }
            return Err(rustix::io::Errno::EXIST);
        }
        // Populated now rather than on first touch: a process that may not use them after all (a
        // control group) would be killed. By the calling thread, from whose NUMA node they come.
        // SAFETY: no other reference to the memory exists, and its content stays.
        unsafe { madvise(base.as_ptr().cast(), huge, Advice::LinuxPopulateWrite) }
            .inspect_err(|_| unmap(base, huge))
    });
    match populated {
        Ok(()) => Ok(Mapped { whole: (whole, whole_length), base }),
        Err(error) => {
            // SAFETY: inside of what was mapped.
            let rest = unsafe { base.add(huge) };
            if skipped > 0 {
                unmap(whole, skipped);
            }
            unmap(rest, whole_length - skipped - huge);
            Err(error.into())
        }
    }
}

/// Requests transparent huge pages, and checks whether the first page is one. That touches one huge
/// page, which would be used first anyway.
#[cfg(all(target_os = "linux", not(any(miri, loom))))]
fn advise_transparent(start: NonNull<u8>, length: usize) -> bool {
    use rustix::mm::{Advice, madvise};
    // SAFETY: no other reference to the memory exists, and its content stays.
    let advised = unsafe { madvise(start.as_ptr().cast(), length, Advice::LinuxHugepage) };
    if advised.is_err() {
        return false;
    }
    // SAFETY: as above; at least a huge page was mapped.
    unsafe { start.as_ptr().write_volatile(0) };
    crate::pages::transparent_bytes_at(start.addr().get()).is_ok_and(|bytes| bytes > 0)
}

#[cfg(all(target_os = "linux", not(any(miri, loom))))]
fn unmap(base: NonNull<u8>, length: usize) {
    // SAFETY: `base` and `length` are part of what `map_zeroed` mapped, and the pool unmaps only when no
    // handle and no `FillBlock` is left. It can fail only for arguments that were never mapped.
    let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), length) };
}

/// Interpreters do not implement mappings, and other systems have no huge pages: use the standard allocator.
#[cfg(not(all(target_os = "linux", not(any(miri, loom)))))]
fn map_zeroed(length: usize, _huge: usize) -> io::Result<Mapped> {
    // SAFETY: the layout is not empty, because a pool has at least one block.
    let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(length)) })
        .ok_or(io::ErrorKind::OutOfMemory)?;
    Ok(Mapped { whole: (base, length), base })
}

#[cfg(not(all(target_os = "linux", not(any(miri, loom)))))]
fn advise_transparent(_start: NonNull<u8>, _length: usize) -> bool {
    false
}

#[cfg(not(all(target_os = "linux", not(any(miri, loom)))))]
fn unmap(base: NonNull<u8>, length: usize) {
    // SAFETY: allocated by `map_zeroed` with the same layout.
    unsafe { std::alloc::dealloc(base.as_ptr(), layout(length)) };
}

#[cfg(not(all(target_os = "linux", not(any(miri, loom)))))]
fn layout(length: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(length, 4096).expect("a page-aligned layout")
}

#[cfg(all(test, not(any(miri, loom))))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    /// Every block can be written and read, whatever pages the kernel gave.
    #[test]
    fn all_blocks_are_usable_with_any_page_preference() {
        let everything = usize::MAX;
        for (preference, huge_bytes_max) in [
            (PagePreference::Best, everything),
            (PagePreference::Best, 3 << 20),
            (PagePreference::Best, 0),
            (PagePreference::Transparent, everything),
            (PagePreference::Ordinary, everything),
        ] {
            let memory = BlockMemory::reserve(100, preference, huge_bytes_max).unwrap();
            let PoolPages { huge_bytes, transparent_bytes, ordinary_bytes } = memory.pages();
            assert_eq!(huge_bytes + transparent_bytes + ordinary_bytes, 100 * BLOCK_SIZE);
            assert!(huge_bytes <= huge_bytes_max && huge_bytes.is_multiple_of(HUGE_PAGE_BYTES));
            match preference {
                PagePreference::Best => {}
                PagePreference::Transparent => assert_eq!(huge_bytes, 0),
                PagePreference::Ordinary => assert_eq!(ordinary_bytes, 100 * BLOCK_SIZE),
            }
            assert!(memory.block(0).addr().get().is_multiple_of(HUGE_PAGE_BYTES));
            for block in 0..100 {
                // SAFETY: no other reference to the memory exists, and the offsets lie in the block.
                unsafe {
                    for at in [0, BLOCK_SIZE - 1] {
                        let place = memory.block(block).add(at);
                        assert_eq!(place.read(), 0, "{preference:?}, block {block}");
                        place.write(7);
                    }
                }
            }
        }
    }

    /// More than the machine has free: the mapping succeeds nevertheless.
    #[test]
    fn pool_uses_ordinary_pages_without_huge_pages() {
        // Other processes may release some meanwhile.
        let length = crate::pages::free_huge_bytes(None) + 64 * HUGE_PAGE_BYTES;
        let blocks = u32::try_from(length / BLOCK_SIZE).unwrap();
        let memory = BlockMemory::reserve(blocks, PagePreference::Best, usize::MAX).unwrap();
        let pages = memory.pages();
        assert!(pages.huge_bytes < blocks as usize * BLOCK_SIZE, "{pages:?}");
    }
}

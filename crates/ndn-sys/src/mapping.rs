//! Memory that is shared with the kernel.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// The usual size of a huge page.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// The kind of pages of a memory area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    /// Huge pages that the administrator has set aside.
    Huge,
    /// Base pages, with a request for transparent huge pages.
    Ordinary,
}

/// A piece of mapped memory, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    length: usize,
    /// The mapped area, if it is larger.
    whole: (NonNull<u8>, usize),
}

// SAFETY: the memory belongs to the mapping, which has one owner.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `length` bytes from `offset` on of `socket`.
    pub(crate) fn of_socket(
        socket: BorrowedFd<'_>,
        length: usize,
        offset: u64,
    ) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses a place where nothing is.
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, protection, flags, socket, offset)? };
        Self::of(start.cast(), length)
    }

    /// `length` bytes of zeros in huge pages if there are any, else in ordinary ones.
    pub(crate) fn zeroed(length: usize) -> io::Result<(Self, PageKind)> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let private = MapFlags::PRIVATE;
        let huge_length = length.next_multiple_of(HUGE_PAGE);
        // SAFETY: the kernel chooses a place where nothing is.
        let huge = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                huge_length,
                protection,
                private | MapFlags::HUGETLB,
            )
        };
        if let Ok(start) = huge {
            return Ok((Self::of(start.cast(), huge_length)?, PageKind::Huge));
        }
        // As much as it takes to have a multiple of a huge page in it that starts on one.
        let whole_length = huge_length + HUGE_PAGE;
        // SAFETY: as above.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), whole_length, protection, private)? };
        let mut mapping = Self::of(start.cast(), whole_length)?;
        let skipped = start.addr().next_multiple_of(HUGE_PAGE) - start.addr();
        // SAFETY: less than a huge page is skipped, and so much more was mapped than is kept.
        mapping.start = unsafe { mapping.start.add(skipped) };
        mapping.length = huge_length;
        // SAFETY: this lies in the mapping, whose content the advice does not change.
        let _ =
            unsafe { madvise(mapping.start.as_ptr().cast(), huge_length, Advice::LinuxHugepage) };
        Ok((mapping, PageKind::Ordinary))
    }

    fn of(start: *mut u8, length: usize) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length, whole: (start, length) })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (start, length) = self.whole;
        // SAFETY: it was mapped with this length, and every reader holds the mapping.
        let _ = unsafe { munmap(start.as_ptr().cast(), length) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn mapping_is_aligned_to_huge_pages_and_writable() {
        let (mapping, kind) = Mapping::zeroed(3 << 20).unwrap();
        assert_eq!(mapping.len(), 4 << 20, "{kind:?}");
        assert!(mapping.start().addr().get().is_multiple_of(HUGE_PAGE));
        for at in [0, 4095, (4 << 20) - 1] {
            // SAFETY: the address is in the mapping, which has one owner.
            unsafe {
                let place = mapping.start().add(at);
                assert_eq!(place.read(), 0);
                place.write(7);
            }
        }
    }
}

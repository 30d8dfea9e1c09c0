//! Memory that is shared with the kernel.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The mapped ring of a socket, unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory belongs to the mapping, which nobody else has.
unsafe impl Send for Mapping {}

impl Mapping {
    /// The first `length` bytes of what `socket` shares.
    pub(super) fn new(socket: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses a place where nothing is.
        let start = unsafe { mmap(std::ptr::null_mut(), length, protection, flags, socket, 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and whoever reads it holds the mapping.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

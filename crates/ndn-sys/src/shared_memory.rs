//! Memory that another process writes to at any time, and that cannot go away.
//!
//! A file that is mapped and then made shorter raises `SIGBUS` in every process that accesses the removed part. So
//! memory of a peer is mapped only if it is sealed against that (`memfd_create(2)`,
//! `F_SEAL_SHRINK`), lies in plain memory (pages of hugetlbfs may be missing when they are touched),
//! and has the length that the peer announced.
//!
//! Nothing here is ever borrowed as plain bytes: words are atomics, and ranges are copied, word by
//! word with relaxed atomics or by an instruction of the processor that the compiler does not see through,
//! so that a peer that writes meanwhile affects only the content of the copy.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::mapping::HUGE_PAGE;
use crate::prefetch::prefetch_line;

/// The file system of memory (`TMPFS_MAGIC`).
const MEMORY_FILE_SYSTEM: u64 = 0x0102_1994;
/// Bytes of the words in which ranges are copied.
const WORD: usize = size_of::<u64>();
/// Bytes from which on a copy by one instruction is quicker than by words (bench/notebook/README.md, memif).
const STRING_MIN: usize = 256;
/// Bytes of a line of the cache.
const LINE: usize = 64;
/// Cache lines to prefetch: a short packet. The hardware prefetcher fetches the rest.
const PREFETCH_LINES: usize = 3;

/// An access outside of the memory, or a misaligned word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange;

/// A range of memory that is shared with another process, unmapped when dropped.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to the value, and lasts until it is dropped, whatever thread drops it.
unsafe impl Send for SharedMemory {}
// SAFETY: the memory is read and written by atomics only.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// New memory full of zeros, and the descriptor by which others map it. Its length is sealed.
    ///
    /// # Errors
    /// Those of `memfd_create(2)`, `ftruncate(2)` and `mmap(2)`.
    pub fn create(name: &str, length: usize) -> io::Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(name, flags)?;
        rustix::fs::ftruncate(&file, length as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = Self::map(file.as_fd(), length)?;
        Ok((memory, file))
    }

    /// Maps the first `length` bytes of a file of a peer.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] if the peer could take the memory away again,
    /// [`io::ErrorKind::InvalidInput`] if it is shorter or empty, and those of `mmap(2)`.
    pub fn adopt(file: BorrowedFd<'_>, length: u64) -> io::Result<Self> {
        let refuse = |text: &str| io::Error::new(io::ErrorKind::PermissionDenied, text);
        let seals = rustix::fs::fcntl_get_seals(file)
            .map_err(|_| refuse("what is shared is not memory that can be sealed"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(refuse("the shared memory is not sealed against shrinking"));
        }
        if u64::try_from(rustix::fs::fstatfs(file)?.f_type).ok() != Some(MEMORY_FILE_SYSTEM) {
            return Err(refuse("the shared memory has pages that may be missing"));
        }
        // After the seals: it cannot become shorter any more.
        let available = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
        match usize::try_from(length) {
            Ok(length) if length > 0 && length as u64 <= available => Self::map(file, length),
            Ok(_) | Err(_) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the shared memory is not as long as it is said to be",
            )),
        }
    }

    fn map(file: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses a place where nothing is.
        let start = unsafe { mmap(std::ptr::null_mut(), length, protection, flags, file, 0)? };
        let start: NonNull<u8> = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let memory = Self { start, length };
        if length >= HUGE_PAGE {
            // Rings touch a page for each packet. A hint, which the kernel may not know.
            // SAFETY: this is the mapping, whose content the advice does not change.
            let _ = unsafe { madvise(start.as_ptr().cast(), length, Advice::LinuxHugepage) };
        }
        Ok(memory)
    }

    /// Its length, bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.length
    }

    /// The start of `length` bytes at `offset`, if they lie in the memory and the place is a multiple
    /// of `alignment`.
    #[inline]
    fn place(
        &self,
        offset: usize,
        length: usize,
        alignment: usize,
    ) -> Result<NonNull<u8>, OutOfRange> {
        let fits = offset.checked_add(length).is_some_and(|end| end <= self.length);
        // Mappings start on a page.
        if !fits || !offset.is_multiple_of(alignment) {
            return Err(OutOfRange);
        }
        // SAFETY: `offset` is no larger than the length of the mapping.
        Ok(unsafe { self.start.add(offset) })
    }

    /// The word of 16 bits at `offset`.
    ///
    /// # Errors
    /// If it does not lie in the memory, or `offset` is odd.
    #[inline]
    pub fn word16(&self, offset: usize) -> Result<&AtomicU16, OutOfRange> {
        let place = self.place(offset, 2, 2)?;
        // SAFETY: the place lies in the mapping, which is borrowed, on a multiple of two.
        Ok(unsafe { AtomicU16::from_ptr(place.cast().as_ptr()) })
    }

    /// The word of 32 bits at `offset`.
    ///
    /// # Errors
    /// If it does not lie in the memory, or `offset` is no multiple of four.
    #[inline]
    pub fn word32(&self, offset: usize) -> Result<&AtomicU32, OutOfRange> {
        let place = self.place(offset, 4, 4)?;
        // SAFETY: the place lies in the mapping, which is borrowed, on a multiple of four.
        Ok(unsafe { AtomicU32::from_ptr(place.cast().as_ptr()) })
    }

    /// The word of 64 bits at `offset`.
    ///
    /// # Errors
    /// If it does not lie in the memory, or `offset` is no multiple of eight.
    #[inline]
    pub fn word64(&self, offset: usize) -> Result<&AtomicU64, OutOfRange> {
        let place = self.place(offset, WORD, WORD)?;
        // SAFETY: the place lies in the mapping, which is borrowed, on a multiple of eight.
        Ok(unsafe { AtomicU64::from_ptr(place.cast().as_ptr()) })
    }

    /// Prefetches the first lines at `offset`, to read or to write. A hint:
    /// outside of the memory it does nothing.
    #[inline]
    pub fn prefetch(&self, offset: usize, to_write: bool) {
        for line in 0..PREFETCH_LINES {
            let Ok(place) = self.place(offset + line * LINE, 1, 1) else { return };
            prefetch_line(place.as_ptr(), to_write);
        }
    }

    /// Copies the bytes at `offset` into `buffer`, reading each byte once.
    ///
    /// # Errors
    /// If it does not lie in the memory; nothing is copied then.
    #[inline]
    pub fn copy_out(&self, offset: usize, buffer: &mut [u8]) -> Result<(), OutOfRange> {
        let place = self.place(offset, buffer.len(), 1)?;
        if buffer.len() >= STRING_MIN && has_quick_strings() {
            // SAFETY: the bytes are inside the mapping and the buffer.
            unsafe { copy_string(place.as_ptr(), buffer.as_mut_ptr(), buffer.len()) };
            return Ok(());
        }
        let (head, words) = limits(place, buffer.len());
        let (first, rest) = buffer.split_at_mut(head);
        for (index, byte) in first.iter_mut().enumerate() {
            // SAFETY: these bytes lie in the mapping.
            *byte = unsafe { byte_at(place, index) }.load(Ordering::Relaxed);
        }
        let (middle, last) = rest.split_at_mut(words * WORD);
        for (index, word) in middle.chunks_exact_mut(WORD).enumerate() {
            // SAFETY: these words lie in the mapping, and the first on a multiple of eight.
            let value = unsafe { word_at(place, head, index) }.load(Ordering::Relaxed);
            word.copy_from_slice(&value.to_ne_bytes());
        }
        for (index, byte) in last.iter_mut().enumerate() {
            // SAFETY: these bytes lie in the mapping.
            *byte = unsafe { byte_at(place, head + words * WORD + index) }.load(Ordering::Relaxed);
        }
        Ok(())
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    /// If they do not fit the memory; nothing is copied then.
    #[inline]
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfRange> {
        let place = self.place(offset, bytes.len(), 1)?;
        if bytes.len() >= STRING_MIN && has_quick_strings() {
            // SAFETY: the bytes are inside the mapping and the slice.
            unsafe { copy_string(bytes.as_ptr(), place.as_ptr(), bytes.len()) };
            return Ok(());
        }
        let (head, words) = limits(place, bytes.len());
        let (first, rest) = bytes.split_at(head);
        for (index, byte) in first.iter().enumerate() {
            // SAFETY: these bytes lie in the mapping.
            unsafe { byte_at(place, index) }.store(*byte, Ordering::Relaxed);
        }
        let (middle, last) = rest.split_at(words * WORD);
        for (index, word) in middle.chunks_exact(WORD).enumerate() {
            let value = u64::from_ne_bytes(word.try_into().unwrap_or_default());
            // SAFETY: these words lie in the mapping, and the first on a multiple of eight.
            unsafe { word_at(place, head, index) }.store(value, Ordering::Relaxed);
        }
        for (index, byte) in last.iter().enumerate() {
            // SAFETY: these bytes lie in the mapping.
            unsafe { byte_at(place, head + words * WORD + index) }.store(*byte, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Whether [`copy_string`] is there, and quicker than a loop (`ERMS`). The answer of the processor is kept.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn has_quick_strings() -> bool {
    std::arch::is_x86_feature_detected!("ermsb")
}

/// Whether [`copy_string`] is there.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn has_quick_strings() -> bool {
    false
}

/// Copies `length` bytes, each once and in any order, by the processor's string instruction. The compiler knows
/// nothing of the accesses but that there are some, so that others may write meanwhile. A later store, such as that
/// of a ring's head, is seen after all of them (Intel SDM, volume 3A, "fast-string operation and out-of-order
/// stores").
///
/// # Safety
/// This number of bytes may be read at `from` and written at `to`, and the two do not overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn copy_string(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: as the caller promises; the direction flag is clear, as between all functions.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") length => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
/// It is not to be called.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy_string(_from: *const u8, _to: *mut u8, _length: usize) {
    unreachable!("there is no such instruction")
}

/// Of `length` bytes from `place` on, how many come before the first whole word, and how many words
/// follow.
#[inline]
fn limits(place: NonNull<u8>, length: usize) -> (usize, usize) {
    let head = place.align_offset(WORD).min(length);
    (head, (length - head) / WORD)
}

/// # Safety
/// The byte lies in a mapping that lasts for `'a`, and is read and written by atomics only.
#[inline]
unsafe fn byte_at<'a>(place: NonNull<u8>, index: usize) -> &'a AtomicU8 {
    // SAFETY: as the caller promises.
    unsafe { AtomicU8::from_ptr(place.add(index).as_ptr()) }
}

/// # Safety
/// The word lies in a mapping that lasts for `'a`, on a multiple of eight, and is read and written by
/// atomics only.
#[inline]
unsafe fn word_at<'a>(place: NonNull<u8>, head: usize, index: usize) -> &'a AtomicU64 {
    // SAFETY: as the caller promises.
    unsafe { AtomicU64::from_ptr(place.add(head + index * WORD).cast().as_ptr()) }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and every user borrows it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests;

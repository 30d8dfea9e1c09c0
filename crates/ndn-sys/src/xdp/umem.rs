//! The memory for frames (UMEM): chunks of one size, each owned by the kernel or by this process.

use std::io;

use crate::mapping::{Mapping, PageKind};
use crate::prefetch::prefetch_line;

/// Headroom before each received frame (`XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;
/// Sizes of chunks: the minimum, and a page.
const CHUNK_SHORT: usize = 2048;
const CHUNK_LONG: usize = 4096;
/// An Ethernet header with a VLAN tag, which the kernel may leave in place.
const HEADER_MAX: usize = 18;
/// Cache lines to prefetch: a short frame.
const LINES_AHEAD: usize = 3;
/// Minimum chunks for received frames of a queue, so that a burst fits whatever the number of queues.
const RECEIVE_COUNT_MIN: u32 = 256;
const RECEIVE_COUNT_MAX: u32 = 8192;

/// The division of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of a chunk: a power of two.
    pub(super) chunk_length: usize,
    /// Chunks for received frames of each queue: a power of two.
    pub(super) receive_count: u32,
    /// Chunks for frames to be sent: a power of two.
    pub(super) transmit_count: u32,
    pub(super) queue_count: u32,
}

impl Layout {
    /// The layout for payloads of up to `payload_max` bytes on `queue_count` queues, with about `bytes` bytes for received
    /// frames, and at least 256 frames for each queue.
    pub(super) fn new(payload_max: usize, bytes: usize, queue_count: u32) -> Self {
        let fits_short = payload_max + HEADER_MAX <= CHUNK_SHORT - HEADROOM;
        let chunk_length = if fits_short { CHUNK_SHORT } else { CHUNK_LONG };
        let chunks = u32::try_from(bytes / chunk_length).unwrap_or(u32::MAX);
        let each = (chunks / queue_count.max(1)).clamp(RECEIVE_COUNT_MIN, RECEIVE_COUNT_MAX);
        // Rings have a power of two of entries.
        let receive_count = 1 << each.ilog2();
        let transmit_count = 1 << chunks.clamp(256, 4096).ilog2();
        Self { chunk_length, receive_count, transmit_count, queue_count }
    }

    /// Longest payload of a received frame in one chunk.
    pub(super) fn payload_max(self) -> usize {
        self.chunk_length - HEADROOM - HEADER_MAX
    }

    /// Addresses of the chunks for received frames of the queue with this position.
    pub(super) fn receive_chunks(self, queue: u32) -> impl Iterator<Item = u64> {
        let first = u64::from(queue) * u64::from(self.receive_count);
        self.chunks(first, self.receive_count)
    }

    /// Addresses of the chunks for frames to be sent.
    pub(super) fn transmit_chunks(self) -> impl Iterator<Item = u64> {
        let first = u64::from(self.queue_count) * u64::from(self.receive_count);
        self.chunks(first, self.transmit_count)
    }

    fn chunks(self, first: u64, count: u32) -> impl Iterator<Item = u64> {
        let length = self.chunk_length as u64;
        (first..first + u64::from(count)).map(move |chunk| chunk * length)
    }

    /// The chunk of an address.
    pub(super) fn chunk_of(self, address: u64) -> u64 {
        address & !(self.chunk_length as u64 - 1)
    }

    pub(super) fn length(self) -> usize {
        let received = self.queue_count as usize * self.receive_count as usize;
        (received + self.transmit_count as usize) * self.chunk_length
    }
}

/// The memory.
#[derive(Debug)]
pub(super) struct Umem {
    mapping: Mapping,
    pages: PageKind,
}

impl Umem {
    pub(super) fn new(length: usize) -> io::Result<Self> {
        let (mapping, pages) = Mapping::zeroed(length)?;
        Ok(Self { mapping, pages })
    }

    pub(super) fn pages(&self) -> PageKind {
        self.pages
    }

    /// The start address, as a number for the kernel.
    pub(super) fn address(&self) -> u64 {
        self.mapping.start().as_ptr().expose_provenance() as u64
    }

    /// Prefetches the first lines at `address`.
    #[inline]
    pub(super) fn prefetch(&self, address: u64) {
        let Some(at) = self.place(address, 1) else { return };
        for line in 0..LINES_AHEAD {
            prefetch_line(self.mapping.start().as_ptr().wrapping_add(at + line * 64), false);
        }
    }

    /// `length` bytes from `address` on, or none if they are outside of the memory.
    ///
    /// # Safety
    /// This process owns the chunk, and returns it to the kernel only after the slice is gone.
    pub(super) unsafe fn bytes(&self, address: u64, length: usize) -> &[u8] {
        let Some(at) = self.place(address, length) else { return &[] };
        // SAFETY: the bytes lie in the mapping, and the caller promises that nobody writes to them.
        unsafe { std::slice::from_raw_parts(self.mapping.start().add(at).as_ptr(), length) }
    }

    /// As [`bytes`](Self::bytes), to write to.
    ///
    /// # Safety
    /// This process owns the chunk, and gives it to the kernel only after the slice is gone.
    pub(super) unsafe fn bytes_mut(&mut self, address: u64, length: usize) -> &mut [u8] {
        let Some(at) = self.place(address, length) else { return &mut [] };
        // SAFETY: the bytes lie in the mapping, which is borrowed, and the caller promises that the
        // kernel does not use them.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.start().add(at).as_ptr(), length) }
    }

    fn place(&self, address: u64, length: usize) -> Option<usize> {
        let at = usize::try_from(address).ok()?;
        let end = at.checked_add(length)?;
        (end <= self.mapping.len()).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn chunks_are_disjoint_and_inside_the_memory() {
        for (payload_max, bytes, queues) in
            [(1500, 4 << 20, 1), (9000, 4 << 20, 4), (1500, 64 << 10, 64), (60, 1 << 30, 3)]
        {
            let layout = Layout::new(payload_max, bytes, queues);
            assert!(
                layout.receive_count.is_power_of_two() && layout.transmit_count.is_power_of_two()
            );
            let received = (0..queues).flat_map(|queue| layout.receive_chunks(queue));
            let all: Vec<u64> = received.chain(layout.transmit_chunks()).collect();
            for (index, chunk) in all.iter().enumerate() {
                assert_eq!(*chunk, (index * layout.chunk_length) as u64);
                assert_eq!(layout.chunk_of(chunk + 300), *chunk);
            }
            assert_eq!(all.len() * layout.chunk_length, layout.length());
        }
        assert_eq!(Layout::new(1500, 4 << 20, 1).payload_max(), 1774);
        assert_eq!(Layout::new(9000, 4 << 20, 1).payload_max(), 3822);
    }

    #[test]
    fn range_outside_the_memory_is_rejected() {
        let mut umem = Umem::new(4096).unwrap();
        let length = umem.mapping.len();
        // SAFETY: the memory is not registered with the kernel.
        unsafe {
            umem.bytes_mut(100, 4).copy_from_slice(b"abcd");
            assert_eq!(umem.bytes(101, 2), b"bc");
            for (address, requested) in
                [(length as u64, 1), (0, length + 1), (u64::MAX, 2), (u64::MAX, 0)]
            {
                assert!(umem.bytes(address, requested).is_empty());
                assert!(umem.bytes_mut(address, requested).is_empty());
            }
        }
    }
}

//! Memory that is written past the caches.

use std::ops::Range;

use crate::advise_huge_pages;

/// Bytes of a cache line.
const LINE: usize = 64;

/// A large zeroed array for bytes that are written once and seldom read soon, such as a packet
/// cache: [`write`](Self::write) neither reads the old bytes into the caches nor displaces what is
/// there.
///
/// Address space is reserved at construction, memory taken when it is first written.
#[derive(Debug)]
pub struct StreamMemory {
    bytes: Vec<u8>,
    /// Where the first whole line starts in `bytes`.
    origin: usize,
}

impl StreamMemory {
    /// Zeroed memory of `length` bytes, rounded up to whole cache lines. Position 0 is at the
    /// start of a cache line.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let bytes = vec![0; length.next_multiple_of(LINE) + LINE];
        advise_huge_pages(&bytes);
        let origin = bytes.as_ptr().align_offset(LINE).min(LINE);
        Self { bytes, origin }
    }

    /// The bytes in a range of positions.
    ///
    /// # Panics
    /// When the range is not inside the memory.
    #[must_use]
    #[inline(always)]
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[self.origin + range.start..self.origin + range.end]
    }

    /// The bytes in a range of positions, to be written through the caches.
    ///
    /// # Panics
    /// When the range is not inside the memory.
    #[inline(always)]
    pub fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.bytes[self.origin + range.start..self.origin + range.end]
    }

    /// Copies `source` to `position` past the caches. The rest of the last cache line is
    /// overwritten with zeroes.
    ///
    /// Call [`settle`](Self::settle) after a number of writes, and before the memory is given to
    /// another thread.
    ///
    /// # Panics
    /// When `position` is not at the start of a cache line, or the lines reach beyond the memory.
    #[inline]
    pub fn write(&mut self, position: usize, source: &[u8]) {
        assert!(position.is_multiple_of(LINE), "writes start at a cache line");
        let padded = source.len().next_multiple_of(LINE);
        let target = self.bytes_mut(position..position + padded);
        let (targets, _) = target.as_chunks_mut::<LINE>();
        let (lines, rest) = source.as_chunks::<LINE>();
        let (whole, last) = targets.split_at_mut(lines.len());
        write_lines(whole, lines);
        if !last.is_empty() {
            let mut line = [[0; LINE]];
            line[0][..rest.len()].copy_from_slice(rest);
            write_lines(last, &line);
        }
    }

    /// Makes all writes visible in the order in which other threads may come to see this memory.
    #[inline]
    pub fn settle(&mut self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            // SAFETY: SFENCE is part of the x86-64 baseline and only orders stores.
            unsafe { std::arch::x86_64::_mm_sfence() };
        }
    }

    /// Asks for the cache line at `position`.
    #[inline(always)]
    pub fn prefetch(&self, position: usize) {
        crate::prefetch_slice(&self.bytes, self.origin + position);
    }
}

/// Copies lines; the targets start at a cache line.
#[inline(always)]
fn write_lines(targets: &mut [[u8; LINE]], sources: &[[u8; LINE]]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if !sources.is_empty() {
        assert!(sources.len() == targets.len(), "as many lines as there is room for");
        // SAFETY: the loop runs over whole borrowed lines, as many in both slices and at least
        // one, and MOVNTDQ's 16-byte alignment holds because `StreamMemory` aligns lines to 64.
        // SSE2 is in the baseline. The stores are written in assembly because they are ordinary
        // stores to this thread, which sees its own stores in order, and become visible to others
        // late: `&mut` shows that nobody else looks now, and a thread that is given the memory
        // later synchronises with this one by way of `settle`, or of a locked instruction or the
        // kernel, each of which drains the write-combining buffers. For speed: the benches of
        // ndn-table; a 1 KB copy takes 25 to 45 ns less, and the tables stay in the cache.
        unsafe {
            std::arch::asm!(
                "2:",
                "movdqu {a}, [{source}]",
                "movdqu {b}, [{source} + 16]",
                "movdqu {c}, [{source} + 32]",
                "movdqu {d}, [{source} + 48]",
                "movntdq [{target}], {a}",
                "movntdq [{target} + 16], {b}",
                "movntdq [{target} + 32], {c}",
                "movntdq [{target} + 48], {d}",
                "add {source}, 64",
                "add {target}, 64",
                "cmp {source}, {end}",
                "jne 2b",
                source = inout(reg) sources.as_ptr() => _,
                target = inout(reg) targets.as_mut_ptr() => _,
                end = in(reg) sources.as_ptr_range().end,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack)
            );
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    targets.copy_from_slice(sources);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_read_back() {
        let mut memory = StreamMemory::new(10 * LINE);
        for length in 0..=4 * LINE {
            let source: Vec<u8> = (0..length).map(|i| i.to_le_bytes()[0] ^ 0x5A).collect();
            memory.bytes_mut(0..10 * LINE).fill(0xEE);
            memory.write(2 * LINE, &source);
            assert_eq!(memory.bytes(2 * LINE..2 * LINE + length), source);
            let end = 2 * LINE + length.next_multiple_of(LINE);
            assert!(memory.bytes(2 * LINE + length..end).iter().all(|&byte| byte == 0));
            assert!(memory.bytes(0..2 * LINE).iter().all(|&byte| byte == 0xEE));
            assert!(memory.bytes(end..10 * LINE).iter().all(|&byte| byte == 0xEE));
        }
        memory.settle();
        let memory = std::thread::spawn(move || memory).join();
        assert_eq!(memory.map(|memory| memory.bytes(0..2)[0]).ok(), Some(0xEE));
    }

    #[test]
    #[should_panic(expected = "cache line")]
    fn unaligned_writes_are_refused() {
        StreamMemory::new(LINE).write(1, &[1]);
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn writes_beyond_the_end_are_refused() {
        StreamMemory::new(LINE).write(2 * LINE, &[1]);
    }
}

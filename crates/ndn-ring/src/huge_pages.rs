//! Huge pages for large tables, behind a safe function.

/// Smaller tables stay on ordinary pages: they would gain little and waste up to a huge page.
const TABLE_BYTES_MIN: usize = if cfg!(miri) { 64 * 1024 } else { 4 * 1024 * 1024 };

/// Smallest page: the kernel accepts advice for whole pages only.
const PAGE_BYTES: usize = 4096;

/// Advises the kernel to back untouched parts of `memory` with huge pages.
///
/// For tables that are read at random: a lookup in gigabytes of 4 KiB pages misses the TLB every
/// time. It changes neither content nor address, does nothing for small memory, and failure is no
/// error. Meant for memory that was reserved and not written, such as [`Vec::spare_capacity_mut`]
/// of a new vector or a large zeroed one.
pub fn advise_huge_pages<T>(memory: &[T]) {
    #[cfg(all(target_os = "linux", not(any(miri, loom))))]
    {
        use rustix::mm::{Advice, madvise};
        let start = memory.as_ptr().cast::<u8>();
        let skipped = start.align_offset(PAGE_BYTES);
        let length = size_of_val(memory).saturating_sub(skipped) / PAGE_BYTES * PAGE_BYTES;
        if length < TABLE_BYTES_MIN {
            return;
        }
        // SAFETY: the range lies inside of `memory`, and this advice only chooses the size of the
        // pages behind it; no byte changes, whatever is read or written meanwhile. For speed: see the
        // table benches of ndn-table.
        let _ = unsafe {
            madvise(start.wrapping_add(skipped).cast_mut().cast(), length, Advice::LinuxHugepage)
        };
    }
    #[cfg(not(all(target_os = "linux", not(any(miri, loom)))))]
    let _ = memory;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_does_not_change_content() {
        let mut large: Vec<u64> = Vec::with_capacity(2 * TABLE_BYTES_MIN / 8);
        advise_huge_pages(large.spare_capacity_mut());
        large.push(7);
        advise_huge_pages(&large);
        advise_huge_pages::<u8>(&[]);
        assert_eq!(large, [7]);
        let zeroed = vec![0_u8; TABLE_BYTES_MIN + 3];
        advise_huge_pages(&zeroed[1..]);
        assert!(zeroed.iter().all(|&byte| byte == 0));
    }
}

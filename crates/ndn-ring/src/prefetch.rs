//! Prefetch hints. They change timing only, never results, so they are safe for any reference and
//! any index.

/// Prefetches the cache line at the start of `value` into all cache levels.
///
/// A hint: it returns at once and has no visible effect. On processors without a known instruction
/// it does nothing.
#[inline(always)]
pub fn prefetch_read<T: ?Sized>(value: &T) {
    prefetch_address(std::ptr::from_ref(value).cast::<u8>());
}

/// Prefetches the cache lines of `bytes` bytes from this address on, every `LINE` bytes one, for writing, which invalidates them in
/// other processors' caches.
#[inline(always)]
pub(crate) fn prefetch_write<const LINE: usize>(address: *const u8, bytes: usize) {
    let mut offset = 0;
    while offset < bytes {
        // Two at a time, because an operand of the instruction is a register: the second one takes no addition.
        prefetch_write_pair::<LINE>(address.wrapping_add(offset), offset + LINE < bytes);
        offset += 2 * LINE;
    }
}

#[inline(always)]
fn prefetch_write_pair<const LINE: usize>(address: *const u8, is_pair: bool) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // The intrinsic is the instruction for reading where the compiler may not assume this one.
        // SAFETY: PREFETCHW never faults, whatever the address, and touches neither memory, stack nor flags;
        // 64-bit processors without it do nothing.
        unsafe {
            if is_pair {
                std::arch::asm!(
                    "prefetchw [{address}]",
                    "prefetchw [{address} + {line}]",
                    address = in(reg) address,
                    line = const LINE,
                    options(nostack, preserves_flags, readonly)
                );
            } else {
                std::arch::asm!(
                    "prefetchw [{address}]",
                    address = in(reg) address,
                    options(nostack, preserves_flags, readonly)
                );
            }
        }
    }
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    {
        prefetch_address(address);
        if is_pair {
            prefetch_address(address.wrapping_add(LINE));
        }
    }
}

/// Prefetches the cache line of `slice[index]` into all cache levels.
///
/// An index past the end is allowed; the hint is then wasted.
#[inline(always)]
pub fn prefetch_slice<T>(slice: &[T], index: usize) {
    prefetch_address(slice.as_ptr().wrapping_add(index).cast::<u8>());
}

#[inline(always)]
fn prefetch_address(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: PREFETCHT0 is part of the x86-64 baseline and never faults, whatever the
        // address. For speed: a table probed in batches of 32 costs 18-26 ns a line instead of
        // 375-480 ns (ARCHITECTURE.md; `namewire bench pipeline` shows it end to end).
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        // SAFETY: PRFM is a hint that never faults and touches neither memory, stack nor flags.
        unsafe {
            std::arch::asm!(
                "prfm pldl1keep, [{address}]",
                address = in(reg) address,
                options(nostack, preserves_flags, readonly)
            );
        }
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_accept_any_address() {
        let lines = [[1_u64; 8]; 4];
        prefetch_read(&lines);
        prefetch_read("text");
        prefetch_read::<[u8]>(&[]);
        for index in [0, 3, 4, usize::MAX] {
            prefetch_slice(&lines, index);
        }
        assert_eq!(lines, [[1; 8]; 4]);
    }
}

//! Asking the processor for memory that the kernel or another process has written last.

/// Asks for the line of the cache at `address`, to read it soon, or to write. A hint, whatever the address.
#[inline]
pub(crate) fn prefetch_line(address: *const u8, to_write: bool) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults. For speed: the other side has written these lines last, on
        // another processor, and each would be waited for (`namewire bench relay --transport memif,ether`).
        unsafe {
            match to_write {
                true => _mm_prefetch::<_MM_HINT_ET0>(address.cast()),
                false => _mm_prefetch::<_MM_HINT_T0>(address.cast()),
            }
        }
    }
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    let _ = (address, to_write);
}

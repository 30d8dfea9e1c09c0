//! Compares sixteen bytes at once.

/// Lanes compared by [`equal_lanes`].
pub const LANES: usize = 16;

/// Compares each of sixteen bytes with `requested`: bit `i` is set if byte `i` is equal.
#[inline(always)]
#[must_use]
pub fn equal_lanes(bytes: &[u8; LANES], requested: u8) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi32,
        };
        // SAFETY: SSE2 is part of the x86-64 baseline, and the load reads exactly the 16 bytes of
        // `bytes`, at any alignment. For speed: a hash bucket of ndn-table is searched a dozen
        // times per packet, in 5 instructions instead of 30.
        unsafe {
            let bytes = _mm_loadu_si128(std::ptr::from_ref(bytes).cast::<__m128i>());
            // The multiplication replaces two shuffles.
            let four_times = u32::from(requested) * 0x0101_0101;
            let equal = _mm_cmpeq_epi8(bytes, _mm_set1_epi32(four_times.cast_signed()));
            _mm_movemask_epi8(equal).cast_unsigned()
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    equal_lanes_one_by_one(bytes, requested)
}

/// [`equal_lanes`] for other processors.
#[cfg(any(test, miri, not(target_arch = "x86_64")))]
fn equal_lanes_one_by_one(bytes: &[u8; LANES], requested: u8) -> u32 {
    let lanes = bytes.iter().zip(0_u32..);
    lanes.fold(0, |mask, (&byte, lane)| mask | u32::from(byte == requested) << lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_implementations_agree() {
        // Under Miri all cases take a minute, and both implementations are the same.
        let step = if cfg!(miri) { 4099 } else { 1 };
        for requested in [0, 1, 0x7F, 0x80, 0xFF] {
            for mask in (0..1 << LANES).step_by(step) {
                let bytes: [u8; LANES] = std::array::from_fn(|lane| {
                    if mask >> lane & 1 == 1 { requested } else { requested ^ (1 << (lane % 8)) }
                });
                assert_eq!(equal_lanes(&bytes, requested), mask);
                if mask % 257 == 0 {
                    assert_eq!(equal_lanes_one_by_one(&bytes, requested), mask);
                }
            }
        }
    }
}

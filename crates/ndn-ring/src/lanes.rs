//! Eight small numbers compared at once.

/// Lanes compared by [`equal_lanes`].
pub const LANES: usize = 8;

/// Which of eight 16-bit numbers equal `wanted`: bits `2 i` and `2 i + 1` are set for number `i`.
#[inline(always)]
#[must_use]
pub fn equal_lanes(numbers: &[u16; LANES], wanted: u16) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi16,
        };
        // SAFETY: SSE2 is part of the x86-64 baseline, and the load reads exactly the 16 bytes of
        // `numbers`, at any alignment. For speed: a hash bucket of ndn-table is searched a dozen
        // times per packet, in 5 instructions instead of 20.
        unsafe {
            let numbers = _mm_loadu_si128(std::ptr::from_ref(numbers).cast::<__m128i>());
            let equal = _mm_cmpeq_epi16(numbers, _mm_set1_epi16(wanted.cast_signed()));
            _mm_movemask_epi8(equal).cast_unsigned()
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    equal_lanes_one_by_one(numbers, wanted)
}

/// [`equal_lanes`] for every processor.
#[cfg(any(test, miri, not(target_arch = "x86_64")))]
fn equal_lanes_one_by_one(numbers: &[u16; LANES], wanted: u16) -> u32 {
    let lanes = numbers.iter().zip(0_u32..);
    lanes.fold(0, |mask, (&number, lane)| mask | (u32::from(number == wanted) * 3) << (2 * lane))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_agree() {
        for wanted in [0, 1, 0x7FFF, 0x8000, 0xFFFF] {
            for mask in 0..256_u32 {
                let numbers: [u16; LANES] = std::array::from_fn(|lane| {
                    if mask >> lane & 1 == 1 { wanted } else { wanted ^ (0x101 << (lane % 4)) }
                });
                let expected =
                    (0..8).filter(|lane| mask >> lane & 1 == 1).map(|lane| 3 << (2 * lane));
                assert_eq!(equal_lanes(&numbers, wanted), expected.sum());
                assert_eq!(equal_lanes(&numbers, wanted), equal_lanes_one_by_one(&numbers, wanted));
            }
        }
    }
}

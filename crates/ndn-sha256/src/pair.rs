//! Two inputs at a time, with the SHA-256 instructions of x86-64.

use std::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_blend_epi16, _mm_loadu_si128, _mm_set_epi32,
    _mm_set_epi64x, _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32,
    _mm_shuffle_epi8, _mm_shuffle_epi32, _mm_storeu_si128,
};

use super::{BLOCK_LEN, DIGEST_LEN, INITIAL, K, tail};

/// Whether the processor has the required instructions.
#[inline]
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("sha")
        && is_x86_feature_detected!("ssse3")
        && is_x86_feature_detected!("sse4.1")
}

/// The state of one input, in the order that the instructions use.
#[derive(Clone, Copy)]
struct State {
    abef: __m128i,
    cdgh: __m128i,
}

#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn initial() -> State {
    let word = |index: usize| INITIAL[index].cast_signed();
    State {
        abef: _mm_set_epi32(word(0), word(1), word(4), word(5)),
        cdgh: _mm_set_epi32(word(2), word(3), word(6), word(7)),
    }
}

/// Big-endian words of 16 bytes.
#[inline]
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn words(block: &[u8; BLOCK_LEN], quarter: usize) -> __m128i {
    let swap = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    let bytes = &block[quarter * 16..][..16];
    // SAFETY: there are 16 bytes, and any alignment will do.
    let words = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    _mm_shuffle_epi8(words, swap)
}

/// Four rounds, with the round constants from `4 * step` on.
#[inline]
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn rounds(state: &mut State, message: __m128i, step: usize) {
    let constants = &K[step * 4..][..4];
    // SAFETY: there are 16 bytes, and any alignment will do.
    let constants = unsafe { _mm_loadu_si128(constants.as_ptr().cast()) };
    let sum = _mm_add_epi32(message, constants);
    state.cdgh = _mm_sha256rnds2_epu32(state.cdgh, state.abef, sum);
    let high = _mm_shuffle_epi32(sum, 0x0e);
    state.abef = _mm_sha256rnds2_epu32(state.abef, state.cdgh, high);
}

/// The four words of the message schedule that follow sixteen others.
#[inline]
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn next_words(before: [__m128i; 4]) -> __m128i {
    let [a, b, c, d] = before;
    let sum = _mm_add_epi32(_mm_sha256msg1_epu32(a, b), _mm_alignr_epi8(d, c, 4));
    _mm_sha256msg2_epu32(sum, d)
}

/// Processes one block of each of `N` inputs.
#[inline]
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn compress<const N: usize>(states: &mut [State; N], blocks: [&[u8; BLOCK_LEN]; N]) {
    let before = *states;
    let zero = _mm_set_epi64x(0, 0);
    let mut message = [[zero; 4]; N];
    macro_rules! step {
        ($($step:literal)*) => {$(
            for lane in 0..N {
                let next = if $step < 4 {
                    words(blocks[lane], $step % 4)
                } else {
                    let at = |index: usize| message[lane][($step + index) % 4];
                    next_words([at(0), at(1), at(2), at(3)])
                };
                message[lane][$step % 4] = next;
                rounds(&mut states[lane], next, $step);
            }
        )*};
    }
    step!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    for (state, before) in states.iter_mut().zip(before) {
        state.abef = _mm_add_epi32(state.abef, before.abef);
        state.cdgh = _mm_add_epi32(state.cdgh, before.cdgh);
    }
}

/// Processes the blocks of two inputs: interleaved as far as both have some.
#[inline]
#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn absorb(states: &mut [State; 2], one: &[u8], other: &[u8]) {
    let (one, _) = one.as_chunks::<BLOCK_LEN>();
    let (other, _) = other.as_chunks::<BLOCK_LEN>();
    let both = one.len().min(other.len());
    let mut together = *states;
    for (one, other) in one.iter().zip(other) {
        compress(&mut together, [one, other]);
    }
    let [mut first, mut second] = together.map(|state| [state]);
    for block in &one[both..] {
        compress(&mut first, [block]);
    }
    for block in &other[both..] {
        compress(&mut second, [block]);
    }
    *states = [first[0], second[0]];
}

#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
pub(super) fn digest_pair(one: &[u8], other: &[u8]) -> [[u8; DIGEST_LEN]; 2] {
    let mut states = [initial(); 2];
    absorb(&mut states, one, other);
    let ((one, one_blocks), (other, other_blocks)) = (tail(one), tail(other));
    absorb(&mut states, &one[..one_blocks * BLOCK_LEN], &other[..other_blocks * BLOCK_LEN]);
    states.map(|state| output(state))
}

#[target_feature(enable = "sha,sse2,ssse3,sse4.1")]
fn output(state: State) -> [u8; DIGEST_LEN] {
    // From f e b a and h g d c, lowest word first, to a b c d and e f g h.
    let swap = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    let feba = _mm_shuffle_epi32(state.abef, 0x1b);
    let dchg = _mm_shuffle_epi32(state.cdgh, 0xb1);
    let dcba = _mm_blend_epi16(feba, dchg, 0xf0);
    let hgfe = _mm_alignr_epi8(dchg, feba, 8);
    let mut out = [0; DIGEST_LEN];
    // SAFETY: there are 32 bytes, and any alignment will do.
    unsafe {
        _mm_storeu_si128(out.as_mut_ptr().cast(), _mm_shuffle_epi8(dcba, swap));
        _mm_storeu_si128(out[16..].as_mut_ptr().cast(), _mm_shuffle_epi8(hgfe, swap));
    }
    out
}

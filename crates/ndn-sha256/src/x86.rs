//! The processor's instructions for SHA-256, on x86-64.

use std::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_alignr_epi8, _mm_blend_epi16, _mm_loadu_si128, _mm_set_epi32,
    _mm_set_epi64x, _mm_sha256msg1_epu32, _mm_sha256msg2_epu32, _mm_sha256rnds2_epu32,
    _mm_shuffle_epi8, _mm_shuffle_epi32, _mm_storeu_si128,
};

use super::{BLOCK_LEN, DIGEST_LEN};

/// FIPS 180-4, section 5.3.3.
const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// Round constants: FIPS 180-4, section 4.2.2.
const K: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

/// Whether the processor has SHA-256, and what else is used.
#[inline]
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("sha")
        && is_x86_feature_detected!("ssse3")
        && is_x86_feature_detected!("sse4.1")
}

/// The state of one input, in the order in which the instructions have it.
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

/// Four rounds, with the round constants `4 * step` and on.
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

/// Takes one block of each of `N` inputs into its state.
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

/// The last one or two blocks of an input: what does not fill a block, and the padding.
fn tail(input: &[u8]) -> ([u8; 2 * BLOCK_LEN], usize) {
    let rest = &input[input.len() - input.len() % BLOCK_LEN..];
    let mut out = [0; 2 * BLOCK_LEN];
    out[..rest.len()].copy_from_slice(rest);
    out[rest.len()] = 0x80;
    let blocks = if rest.len() + 9 > BLOCK_LEN { 2 } else { 1 };
    let bits = (input.len() as u64).wrapping_mul(8).to_be_bytes();
    out[blocks * BLOCK_LEN - 8..blocks * BLOCK_LEN].copy_from_slice(&bits);
    (out, blocks)
}

/// Takes the blocks of two inputs into their states: side by side as far as both have some.
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

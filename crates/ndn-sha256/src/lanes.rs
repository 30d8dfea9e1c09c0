//! Sixteen inputs at a time, one per vector lane, on x86-64 with AVX-512.
//!
//! The words of a block are transposed first: a row of one input's words becomes a column, so that
//! a vector has the same word of all inputs, and every step of FIPS 180-4 is done for all of them
//! at once.

use std::arch::x86_64::{
    __m512i, _mm_set_epi64x, _mm512_add_epi32, _mm512_broadcast_i32x4, _mm512_loadu_si512,
    _mm512_mask_add_epi32, _mm512_ror_epi32, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_shuffle_epi8, _mm512_shuffle_i32x4, _mm512_srli_epi32, _mm512_storeu_si512,
    _mm512_ternarylogic_epi32, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32,
    _mm512_unpacklo_epi64,
};

use super::{BLOCK_LEN, DIGEST_LEN, INITIAL, K, LANES, tail};

/// Truth tables of three bits for `_mm512_ternarylogic_epi32`: exclusive or, choice, majority.
const XOR: i32 = 0x96;
const CHOICE: i32 = 0xca;
const MAJORITY: i32 = 0xe8;

/// Words of a state, and of half a block.
const WORDS: usize = 8;

/// Start of the blocks of each input.
type Starts = [*const [u8; BLOCK_LEN]; LANES];

/// Whether the processor has 512-bit vectors with the required instructions.
#[inline]
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
}

/// The 32 bits of a constant, in the type that the intrinsics take.
fn bits(word: u32) -> i32 {
    word.cast_signed()
}

/// The words of one block of each input, in host order: word by word, one lane per input.
///
/// # Safety
/// All inputs must have this block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn words_of(starts: &Starts, block: usize) -> [__m512i; 2 * WORDS] {
    let swap = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
    let swap = _mm512_broadcast_i32x4(swap);
    let zero = _mm512_setzero_si512();
    // Within each quarter, four rows become columns.
    let mut quarters = [zero; LANES];
    for group in 0..4 {
        let row = |index: usize| {
            // SAFETY: the input has the block (above), which has 64 bytes, and any alignment will do.
            let row = unsafe { _mm512_loadu_si512(starts[group * 4 + index].add(block).cast()) };
            _mm512_shuffle_epi8(row, swap)
        };
        let (a, b, c, d) = (row(0), row(1), row(2), row(3));
        let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        quarters[group * 4] = _mm512_unpacklo_epi64(ab_low, cd_low);
        quarters[group * 4 + 1] = _mm512_unpackhi_epi64(ab_low, cd_low);
        quarters[group * 4 + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
        quarters[group * 4 + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
    }
    // Then the quarters themselves.
    let mut words = [zero; 2 * WORDS];
    for column in 0..4 {
        let of = |group: usize| quarters[group * 4 + column];
        let low = _mm512_shuffle_i32x4::<0x44>(of(0), of(1));
        let high = _mm512_shuffle_i32x4::<0xee>(of(0), of(1));
        let other_low = _mm512_shuffle_i32x4::<0x44>(of(2), of(3));
        let other_high = _mm512_shuffle_i32x4::<0xee>(of(2), of(3));
        words[column] = _mm512_shuffle_i32x4::<0x88>(low, other_low);
        words[4 + column] = _mm512_shuffle_i32x4::<0xdd>(low, other_low);
        words[8 + column] = _mm512_shuffle_i32x4::<0x88>(high, other_high);
        words[12 + column] = _mm512_shuffle_i32x4::<0xdd>(high, other_high);
    }
    words
}

/// The word of the message schedule that replaces the one sixteen before it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn next_word(words: &[__m512i; 2 * WORDS], at: usize) -> __m512i {
    let word = |ahead: usize| words[(at + ahead) % (2 * WORDS)];
    let (one, two) = (word(1), word(14));
    let sigma0 = _mm512_ternarylogic_epi32::<XOR>(
        _mm512_ror_epi32::<7>(one),
        _mm512_ror_epi32::<18>(one),
        _mm512_srli_epi32::<3>(one),
    );
    let sigma1 = _mm512_ternarylogic_epi32::<XOR>(
        _mm512_ror_epi32::<17>(two),
        _mm512_ror_epi32::<19>(two),
        _mm512_srli_epi32::<10>(two),
    );
    _mm512_add_epi32(_mm512_add_epi32(word(0), sigma0), _mm512_add_epi32(word(9), sigma1))
}

/// The rounds on `state` with the words of one block of each input, without the final addition.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn rounds(state: [__m512i; WORDS], mut words: [__m512i; 2 * WORDS]) -> [__m512i; WORDS] {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
    macro_rules! round {
        ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $from:expr, $at:expr) => {
            let constant = _mm512_set1_epi32(bits(K[$from + $at]));
            let sum = _mm512_ternarylogic_epi32::<XOR>(
                _mm512_ror_epi32::<6>($e),
                _mm512_ror_epi32::<11>($e),
                _mm512_ror_epi32::<25>($e),
            );
            let first = _mm512_add_epi32(
                _mm512_add_epi32(
                    _mm512_add_epi32($h, _mm512_add_epi32(words[$at], constant)),
                    _mm512_ternarylogic_epi32::<CHOICE>($e, $f, $g),
                ),
                sum,
            );
            let sum = _mm512_ternarylogic_epi32::<XOR>(
                _mm512_ror_epi32::<2>($a),
                _mm512_ror_epi32::<13>($a),
                _mm512_ror_epi32::<22>($a),
            );
            $d = _mm512_add_epi32($d, first);
            let majority = _mm512_ternarylogic_epi32::<MAJORITY>($a, $b, $c);
            $h = _mm512_add_epi32(_mm512_add_epi32(first, majority), sum);
        };
    }
    // After eight rounds, all variables are in their original positions.
    macro_rules! eight_rounds {
        ($from:expr, $at:literal) => {
            round!(a b c d e f g h, $from, $at);
            round!(h a b c d e f g, $from, $at + 1);
            round!(g h a b c d e f, $from, $at + 2);
            round!(f g h a b c d e, $from, $at + 3);
            round!(e f g h a b c d, $from, $at + 4);
            round!(d e f g h a b c, $from, $at + 5);
            round!(c d e f g h a b, $from, $at + 6);
            round!(b c d e f g h a, $from, $at + 7);
        };
    }
    eight_rounds!(0, 0);
    eight_rounds!(0, 8);
    for from in [16, 32, 48] {
        macro_rules! next_words {
            ($($at:literal)*) => {$(words[$at] = next_word(&words, $at);)*};
        }
        next_words!(0 1 2 3 4 5 6 7);
        eight_rounds!(from, 0);
        next_words!(8 9 10 11 12 13 14 15);
        eight_rounds!(from, 8);
    }
    [a, b, c, d, e, f, g, h]
}

/// Processes the first `blocks` blocks of the inputs in `mask` (one bit per lane). All inputs have
/// that many.
#[target_feature(enable = "avx512f,avx512bw")]
fn absorb(
    state: &mut [__m512i; WORDS],
    inputs: [&[[u8; BLOCK_LEN]]; LANES],
    blocks: usize,
    mask: u16,
) {
    let starts = inputs.map(|input| input[..blocks].as_ptr());
    let mut sums = *state;
    for block in 0..blocks {
        // SAFETY: all inputs have `blocks` blocks, by the slices taken of them.
        let after = rounds(sums, unsafe { words_of(&starts, block) });
        for (sum, after) in sums.iter_mut().zip(after) {
            *sum = _mm512_mask_add_epi32(*sum, mask, *sum, after);
        }
    }
    *state = sums;
}

/// Digests of all inputs, of any lengths.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn digest_lanes(inputs: [&[u8]; LANES]) -> [[u8; DIGEST_LEN]; LANES] {
    let mut state = [_mm512_setzero_si512(); WORDS];
    for (word, initial) in state.iter_mut().zip(INITIAL) {
        *word = _mm512_set1_epi32(bits(initial));
    }
    let whole = inputs.map(|input| input.as_chunks::<BLOCK_LEN>().0);
    let common = whole.iter().map(|blocks| blocks.len()).min().unwrap_or(0);
    absorb(&mut state, whole, common, u16::MAX);
    // The blocks beyond the shortest input, and the padding: the state of finished lanes is kept.
    let tails = inputs.map(tail);
    let lengths: [usize; LANES] = std::array::from_fn(|lane| whole[lane].len() + tails[lane].1);
    let longest = lengths.iter().copied().max().unwrap_or(0);
    for at in common..longest {
        let mut mask = 0;
        let blocks = std::array::from_fn(|lane| {
            mask |= u16::from(at < lengths[lane]) << lane;
            let (padding, _) = tails[lane].0.as_chunks::<BLOCK_LEN>();
            let beyond = at.saturating_sub(whole[lane].len()).min(padding.len() - 1);
            std::slice::from_ref(whole[lane].get(at).unwrap_or(&padding[beyond]))
        });
        absorb(&mut state, blocks, 1, mask);
    }
    output(state)
}

#[target_feature(enable = "avx512f,avx512bw")]
fn output(state: [__m512i; WORDS]) -> [[u8; DIGEST_LEN]; LANES] {
    let mut digests = [[0; DIGEST_LEN]; LANES];
    for (index, word) in state.into_iter().enumerate() {
        let mut lanes = [0_u32; LANES];
        // SAFETY: there are 64 bytes, and any alignment will do.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), word) };
        for (digest, lane) in digests.iter_mut().zip(lanes) {
            digest[index * 4..][..4].copy_from_slice(&lane.to_be_bytes());
        }
    }
    digests
}

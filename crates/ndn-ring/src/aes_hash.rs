//! A keyed hash of every wanted prefix of a byte string, in one pass, on the processor's AES unit.
//!
//! # Construction
//! The state starts as a secret key. A whole 16-byte block is added to it and followed by four AES
//! rounds with four secret round keys. The hash of a prefix takes the state after its last whole
//! block, adds the bytes that are left, padded with zeroes and their number in the last byte, and
//! applies five rounds with five other secret keys; the lower half of the result is the hash.
//!
//! # Why strangers cannot flood a table with it
//! Whoever does not know the keys and never sees a hash has to choose strings that collide
//! blindly. Four AES rounds with independent keys turn a chosen difference into any other with a
//! probability of at most 2^-113 (Keliher and Sui, "Exact maximum expected differential and linear
//! probability for two-round AES", 2007). On this bound Minematsu and Tsunoo built proven message
//! authentication codes ("Provably Secure MACs from Differentially-Uniform Permutations and
//! AES-Based Implementations", FSE 2006). Here the keys are the same for every block, so it is an
//! argument and not their proof: to make two strings meet in one state, a stranger would have to
//! know differences through four rounds of AES with unknown keys. The last five rounds, with keys
//! of their own, spread the state over the bits that choose a bucket. It is not meant to
//! authenticate anything.

/// Round keys of an [`AesHasher`]: the first state, four for a block, five for the end.
pub const AES_HASHER_KEYS: usize = 10;

const BLOCK: usize = 16;

/// The hash function for one set of secret keys.
#[derive(Clone, Copy)]
pub struct AesHasher {
    keys: [[u8; BLOCK]; AES_HASHER_KEYS],
}

impl std::fmt::Debug for AesHasher {
    /// Keeps the keys out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AesHasher").finish_non_exhaustive()
    }
}

/// The prefixes of a string that are to be hashed.
pub trait PrefixEnds {
    /// The end of the next prefix from the end of the last one, at first 0; `None` for an error.
    fn next_end(&mut self, end: usize) -> Option<usize>;
}

/// One prefix: everything.
struct Whole(usize);

impl PrefixEnds for Whole {
    #[inline(always)]
    fn next_end(&mut self, _: usize) -> Option<usize> {
        Some(self.0)
    }
}

impl AesHasher {
    /// A hasher with these independent, random keys; `None` when the processor has no AES unit.
    #[must_use]
    pub fn new(keys: [[u8; BLOCK]; AES_HASHER_KEYS]) -> Option<Self> {
        is_available().then_some(Self { keys })
    }

    /// Writes the hashes of prefixes of `bytes` to `hashes` and returns how many.
    ///
    /// `None` after an error, when an end does not lie after the last one or lies behind the last
    /// byte, or when `hashes` is full before a prefix is all of `bytes`.
    #[inline]
    pub fn hash_prefixes(
        &self,
        bytes: &[u8],
        hashes: &mut [u64],
        ends: impl PrefixEnds,
    ) -> Option<usize> {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            // SAFETY: `new` has found that the processor has AES and SSSE3. For speed: 4 prefixes
            // of 40 bytes in a fifth of the instructions of SipHash-1-3 (table benches, `hash`).
            unsafe { x86::hash_prefixes(&self.keys, bytes, hashes, ends) }
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        {
            let _ = (bytes, hashes, ends, self.keys);
            None
        }
    }

    /// The hash of all of `bytes`.
    #[must_use]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hash = [0];
        let mut hashed = self.hash_prefixes(bytes, &mut hash, Whole(bytes.len()));
        if bytes.is_empty() {
            // The end of the empty string does not lie after its start.
            hashed = self.hash_empty(&mut hash);
        }
        debug_assert_eq!(hashed, Some(1));
        hash[0]
    }

    fn hash_empty(&self, hash: &mut [u64; 1]) -> Option<usize> {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            // SAFETY: as in `hash_prefixes`.
            hash[0] = unsafe { x86::hash_empty(&self.keys) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = hash;
        Some(1)
    }
}

fn is_available() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("ssse3")
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    false
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[expect(clippy::cast_possible_truncation, reason = "lengths below a block")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, _mm_aesenc_si128, _mm_and_si128, _mm_cvtsi128_si64, _mm_loadu_si128,
        _mm_setzero_si128, _mm_shuffle_epi8, _mm_xor_si128,
    };

    use super::{AES_HASHER_KEYS, BLOCK, PrefixEnds};

    /// For each length: the order that moves so many of the last bytes of a block to its front.
    static TO_FRONT: [[u8; BLOCK]; BLOCK] = {
        let mut orders = [[0x80; BLOCK]; BLOCK];
        let mut length = 0;
        while length < BLOCK {
            let mut byte = 0;
            while byte < length {
                orders[length][byte] = (BLOCK - length + byte) as u8;
                byte += 1;
            }
            length += 1;
        }
        orders
    };

    /// For each length: the mask that keeps so many of the first bytes of a block.
    static KEEP: [[u8; BLOCK]; BLOCK] = {
        let mut masks = [[0; BLOCK]; BLOCK];
        let mut length = 0;
        while length < BLOCK {
            let mut byte = 0;
            while byte < length {
                masks[length][byte] = 0xFF;
                byte += 1;
            }
            length += 1;
        }
        masks
    };

    /// For each length: a block with the length in its last byte.
    static LENGTHS: [[u8; BLOCK]; BLOCK] = {
        let mut blocks = [[0; BLOCK]; BLOCK];
        let mut length = 0;
        while length < BLOCK {
            blocks[length][BLOCK - 1] = length as u8;
            length += 1;
        }
        blocks
    };

    type Keys = [[u8; BLOCK]; AES_HASHER_KEYS];

    #[target_feature(enable = "aes,ssse3")]
    pub(super) fn hash_prefixes(
        keys: &Keys,
        bytes: &[u8],
        hashes: &mut [u64],
        mut ends: impl PrefixEnds,
    ) -> Option<usize> {
        let mut state = load(&keys[0]);
        let block_keys = [load(&keys[1]), load(&keys[2]), load(&keys[3]), load(&keys[4])];
        let mut absorbed = 0;
        let mut end = 0;
        for (count, hash) in hashes.iter_mut().enumerate() {
            if end == bytes.len() {
                return Some(count);
            }
            let next = ends.next_end(end)?;
            if next <= end || next > bytes.len() {
                return None;
            }
            end = next;
            while let Some(block) = bytes[absorbed..end].first_chunk() {
                state = _mm_xor_si128(state, load(block));
                state = _mm_aesenc_si128(state, block_keys[0]);
                state = _mm_aesenc_si128(state, block_keys[1]);
                state = _mm_aesenc_si128(state, block_keys[2]);
                state = _mm_aesenc_si128(state, block_keys[3]);
                absorbed += BLOCK;
            }
            *hash = finish(keys, state, tail(bytes, absorbed, end), end - absorbed);
        }
        (end == bytes.len()).then_some(hashes.len())
    }

    #[target_feature(enable = "aes,ssse3")]
    pub(super) fn hash_empty(keys: &Keys) -> u64 {
        finish(keys, load(&keys[0]), _mm_setzero_si128(), 0)
    }

    #[inline]
    #[target_feature(enable = "aes,ssse3")]
    fn finish(keys: &Keys, state: __m128i, tail: __m128i, length: usize) -> u64 {
        let padding = load(&LENGTHS[length]);
        let mut state = _mm_xor_si128(state, _mm_xor_si128(tail, padding));
        state = _mm_aesenc_si128(state, load(&keys[5]));
        state = _mm_aesenc_si128(state, load(&keys[6]));
        state = _mm_aesenc_si128(state, load(&keys[7]));
        state = _mm_aesenc_si128(state, load(&keys[8]));
        state = _mm_aesenc_si128(state, load(&keys[9]));
        _mm_cvtsi128_si64(state).cast_unsigned()
    }

    /// `bytes[start..end]`, less than a block, padded with zeroes.
    #[inline]
    #[target_feature(enable = "aes,ssse3")]
    fn tail(bytes: &[u8], start: usize, end: usize) -> __m128i {
        let length = (end - start) % BLOCK;
        if let Some(last) = bytes[..end].last_chunk() {
            return _mm_shuffle_epi8(load(last), load(&TO_FRONT[length]));
        }
        // The first block: `start` is 0.
        if let Some(first) = bytes.first_chunk() {
            return _mm_and_si128(load(first), load(&KEEP[length]));
        }
        let mut block = [0; BLOCK];
        block[..length].copy_from_slice(&bytes[..length]);
        load(&block)
    }

    #[inline]
    #[target_feature(enable = "aes,ssse3")]
    fn load(block: &[u8; BLOCK]) -> __m128i {
        // SAFETY: an unaligned load of exactly the 16 bytes of `block`.
        unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    #![allow(clippy::cast_possible_truncation, reason = "small test numbers")]

    use super::*;

    /// One AES round as FIPS 197 describes it: SubBytes, ShiftRows, MixColumns, AddRoundKey.
    fn round(state: [u8; 16], key: [u8; 16]) -> [u8; 16] {
        let double = |byte: u8| (byte << 1) ^ if byte & 0x80 == 0 { 0 } else { 0x1B };
        let mut mixed = [0; 16];
        for column in 0..4 {
            let shifted: [u8; 4] =
                std::array::from_fn(|row| substitute(state[(column + row) % 4 * 4 + row]));
            for row in 0..4 {
                let [a, b, c, d] = std::array::from_fn(|i| shifted[(row + i) % 4]);
                mixed[column * 4 + row] = double(a) ^ double(b) ^ b ^ c ^ d;
            }
        }
        std::array::from_fn(|i| mixed[i] ^ key[i])
    }

    /// The S-box: the inverse in GF(2^8), and an affine map.
    fn substitute(byte: u8) -> u8 {
        let multiply = |mut a: u8, mut b: u8| {
            let mut product = 0;
            while b != 0 {
                if b & 1 == 1 {
                    product ^= a;
                }
                a = (a << 1) ^ if a & 0x80 == 0 { 0 } else { 0x1B };
                b >>= 1;
            }
            product
        };
        // The inverse is the 254th power.
        let inverse = (0..253).fold(byte, |power, _| multiply(power, byte));
        [0, 1, 2, 3, 4].iter().fold(0x63, |sum, &turn| sum ^ inverse.rotate_left(turn))
    }

    fn reference(keys: &[[u8; 16]; AES_HASHER_KEYS], bytes: &[u8]) -> u64 {
        let add = |state: [u8; 16], block: [u8; 16]| std::array::from_fn(|i| state[i] ^ block[i]);
        let (blocks, rest) = bytes.as_chunks::<16>();
        let mut state = keys[0];
        for block in blocks {
            state = keys[1..5].iter().fold(add(state, *block), |state, &key| round(state, key));
        }
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        last[15] = u8::try_from(rest.len()).unwrap();
        state = keys[5..].iter().fold(add(state, last), |state, &key| round(state, key));
        u64::from_le_bytes(*state.first_chunk().unwrap())
    }

    /// Prefixes that end where a closure says.
    struct Ends<F>(F);

    impl<F: FnMut(usize) -> Option<usize>> PrefixEnds for Ends<F> {
        fn next_end(&mut self, end: usize) -> Option<usize> {
            (self.0)(end)
        }
    }

    fn keys() -> [[u8; 16]; AES_HASHER_KEYS] {
        std::array::from_fn(|key| {
            std::array::from_fn(|i| ((key * 16 + i) as u8).wrapping_mul(151).wrapping_add(77))
        })
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i as u8).wrapping_mul(29) ^ 0xA5).collect()
    }

    #[test]
    fn the_s_box_of_the_standard() {
        assert_eq!([0x00, 0x01, 0x53, 0xFF].map(substitute), [0x63, 0x7C, 0xED, 0x16]);
    }

    #[test]
    fn agrees_with_the_standard_step_by_step() {
        let Some(hasher) = AesHasher::new(keys()) else { return };
        for length in 0..100 {
            assert_eq!(hasher.hash(&bytes(length)), reference(&keys(), &bytes(length)));
        }
    }

    #[test]
    fn every_prefix_hashes_as_if_alone() {
        let Some(hasher) = AesHasher::new(keys()) else { return };
        for length in 1..90 {
            let bytes = bytes(length);
            for step in 1..40 {
                let mut hashes = [0; 100];
                let ends = Ends(|end: usize| Some((end + step).min(length)));
                let count = hasher.hash_prefixes(&bytes, &mut hashes, ends).unwrap();
                assert_eq!(count, length.div_ceil(step));
                for (position, &hash) in hashes[..count].iter().enumerate() {
                    let end = ((position + 1) * step).min(length);
                    assert_eq!(hash, hasher.hash(&bytes[..end]), "{end} of {length} bytes");
                }
            }
        }
    }

    #[test]
    fn wrong_ends_and_too_little_room_are_refused() {
        let Some(hasher) = AesHasher::new(keys()) else { return };
        let bytes = bytes(20);
        let mut hashes = [0; 4];
        assert_eq!(hasher.hash_prefixes(&bytes, &mut hashes, Ends(|_| None)), None);
        assert_eq!(hasher.hash_prefixes(&bytes, &mut hashes, Ends(|_| Some(21))), None);
        assert_eq!(hasher.hash_prefixes(&bytes, &mut hashes, Ends(|_| Some(7))), None);
        assert_eq!(hasher.hash_prefixes(&bytes, &mut hashes, Ends(|end| Some(end + 4))), None);
        assert_eq!(hasher.hash_prefixes(&bytes, &mut hashes, Ends(|end| Some(end + 5))), Some(4));
        assert_eq!(hasher.hash_prefixes(&[], &mut hashes, Ends(|_| None)), Some(0));
    }

    #[test]
    fn every_bit_of_key_and_string_matters() {
        let Some(hasher) = AesHasher::new(keys()) else { return };
        let bytes = bytes(40);
        let hash = hasher.hash(&bytes);
        for bit in 0..8 * bytes.len() {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            let changed = (hasher.hash(&other) ^ hash).count_ones();
            assert!((12..=52).contains(&changed), "{changed} bits change");
        }
        for bit in 0..8 * 16 * AES_HASHER_KEYS {
            let mut other = keys();
            other[bit / 128][bit % 128 / 8] ^= 1 << (bit % 8);
            assert!(AesHasher::new(other).is_some_and(|other| {
                // Half of the last two keys only reaches the half that is not shown.
                other.hash(&bytes) != hash || bit >= 8 * 128
            }));
        }
    }
}

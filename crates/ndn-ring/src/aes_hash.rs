//! Keyed hash of every section prefix of a string, in one pass, with the processor's AES
//! instructions.
//!
//! # Construction
//! The state starts as a secret key. A section is split into blocks of 16 bytes, the last padded
//! with zeroes. A block is added to the state, followed by four AES rounds with four secret round
//! keys. The hash of a prefix is the lower half of the state after its last block and two more
//! rounds with two other secret keys.
//!
//! Sections must be self-delimiting, as TLVs are: different strings then give different blocks, and
//! padding needs no length. A string without sections follows a block that no TLV starts with, and
//! ends with a block that holds its length.
//!
//! # Resistance to chosen names
//! An attacker who knows neither the keys nor any hash must choose colliding strings blindly. Four
//! AES rounds with independent keys turn a chosen difference into any other with a probability of
//! at most 2^-113 (Keliher and Sui, "Exact maximum expected differential and linear probability for
//! two-round AES", 2007). Minematsu and Tsunoo built proven message authentication codes on this
//! bound ("Provably Secure MACs from Differentially-Uniform Permutations and AES-Based
//! Implementations", FSE 2006). Here the keys are the same for every block, so their proof does not
//! apply, only its argument: to make two strings collide, an attacker would have to predict
//! differences through four rounds of AES with unknown keys. The last two rounds, with their own
//! keys, spread every byte of the state over all bits that choose a bucket: full diffusion takes
//! two rounds, and six lie between any byte of a string and its hash. The function is not meant for
//! authentication.

use std::ops::{Range, RangeFrom};

/// Round keys of an [`AesHasher`]: the initial state, four per block, two for the end.
const KEYS: usize = 7;

/// Bytes per block.
const BLOCK: usize = 16;

/// A self-delimiting section of a string.
#[derive(Clone, Copy, Debug)]
pub enum Section<'a> {
    /// The first `len` bytes of `block`.
    Short {
        /// The section, followed by arbitrary bytes.
        block: &'a [u8; BLOCK],
        /// Its length in bytes.
        len: usize,
    },
    /// All the bytes.
    Long(&'a [u8]),
}

impl<'a> Section<'a> {
    /// The bytes of the section.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        match *self {
            Self::Short { block, len } => block.get(..len).unwrap_or(block),
            Self::Long(bytes) => bytes,
        }
    }
}

/// A string divided into sections that begin with their type and the length of the rest, a byte each, for
/// [`AesHasher::hash_all_prefixes`].
pub trait Sections<'a>: Iterator<Item = Section<'a>> {
    /// The sections of the string at `range` in `bytes`.
    fn within(bytes: &'a [u8], range: Range<usize>) -> Self;

    /// Whether all sections were returned. Otherwise the iterator ends before an invalid one.
    fn is_at_end(&self) -> bool;
}

/// Types of sections that are valid whatever they contain, and usual. They are compared as signed numbers, so that one comparison
/// excludes those from 128 on, too.
const PLAIN_TYPES: RangeFrom<i8> = 3..;

/// The hash function for one set of secret keys.
#[derive(Clone, Copy)]
pub struct AesHasher {
    keys: Keys,
}

type Keys = [[u8; BLOCK]; KEYS];

impl std::fmt::Debug for AesHasher {
    /// Omits the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AesHasher").finish_non_exhaustive()
    }
}

impl AesHasher {
    /// A hasher with these independent, random keys; `None` when the processor has no AES
    /// instructions.
    #[must_use]
    pub fn new(keys: [[u8; BLOCK]; KEYS]) -> Option<Self> {
        is_available().then_some(Self { keys })
    }

    /// Writes the hash of the first `i + 1` sections to `hashes[i]`, until the sections or `hashes`
    /// are exhausted, and returns the number of hashes.
    #[inline]
    pub fn hash_prefixes<'a>(
        &self,
        sections: &mut (impl Iterator<Item = Section<'a>> + Clone),
        hashes: &mut [u64],
    ) -> usize {
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: `new` has found that the processor has AES and SSSE3. For speed: 4 prefixes
            // of 40 bytes take about 220 instructions, with the check of the components
            // (`bench pipeline` under callgrind; `hash` in the table benches times it alone).
            unsafe { x86::hash_prefixes(&self.keys, sections, hashes) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (sections, hashes, self.keys);
            0
        }
    }

    /// Writes the hash of the first `i + 1` sections to `hashes[i]`, for all sections of the string that is the first
    /// `length` bytes of `front`. Returns their number and the last hash. The number is 0 if one of them is invalid, or
    /// `hashes` has no room for all.
    ///
    /// Takes less time if sixteen further bytes follow the string.
    #[inline]
    pub fn hash_all_prefixes<'a, S: Sections<'a>>(
        &self,
        front: &'a [u8],
        length: usize,
        hashes: &mut [u64],
    ) -> (usize, u64) {
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: `new` has found that the processor has AES and SSSE3. For speed: see
            // `hash_prefixes`; sections that are short take a third less here.
            unsafe { x86::hash_all_prefixes::<S>(&self.keys, front, length, hashes) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (front, length, hashes, self.keys, PLAIN_TYPES);
            (0, 0)
        }
    }

    /// The hash of all sections.
    pub fn hash_sections<'a>(&self, sections: impl Iterator<Item = Section<'a>>) -> u64 {
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: as in `hash_prefixes`.
            unsafe { x86::hash_sections(&self.keys, sections) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = sections;
            0
        }
    }

    /// The hash of a string without sections.
    #[must_use]
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut length = [0; BLOCK];
        length[..8].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.hash_sections([&[0xFF; BLOCK], bytes, &length].into_iter().map(Section::Long))
    }
}

fn is_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("ssse3")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, _mm_aesenc_si128, _mm_and_si128, _mm_cvtsi128_si64, _mm_load_si128,
        _mm_loadu_si128, _mm_xor_si128,
    };

    use super::{BLOCK, Keys, PLAIN_TYPES, Section, Sections};

    /// For each length: the mask that keeps that many leading bytes of a block.
    static KEEP: Masks = {
        let mut masks = [[0; BLOCK]; BLOCK + 1];
        let mut length = 0;
        while length <= BLOCK {
            let mut byte = 0;
            while byte < length {
                masks[length][byte] = 0xFF;
                byte += 1;
            }
            length += 1;
        }
        Masks(masks)
    };

    #[repr(align(16))]
    struct Masks([[u8; BLOCK]; BLOCK + 1]);

    #[target_feature(enable = "aes,ssse3")]
    pub(super) fn hash_all_prefixes<'a, S: Sections<'a>>(
        keys: &Keys,
        front: &'a [u8],
        length: usize,
        hashes: &mut [u64],
    ) -> (usize, u64) {
        // Without calls inside of the loop, keys and state stay in registers.
        let loaded = keys.each_ref().map(|key| load(key));
        let mut state = loaded[0];
        // A section has two bytes at least, so that those before this limit have places for their hashes.
        let limit = if front.len() >= length + BLOCK { length.min(2 * hashes.len()) } else { 0 };
        let mut next = front.as_ptr();
        let limit = next.wrapping_add(limit);
        let mut place = hashes.as_mut_ptr();
        while next < limit {
            // SAFETY: `next` is before the end of the string, behind which `front` has BLOCK bytes more. For speed: one
            // comparison for a section instead of four (`scripts/count-instructions`).
            let (ty, rest) = unsafe { (*next.cast::<i8>(), usize::from(*next.add(1))) };
            if rest > BLOCK - 2 || !PLAIN_TYPES.contains(&ty) {
                break;
            }
            // SAFETY: as above; `KEEP` has BLOCK + 1 masks; and as the sections before this one have two bytes or more each, and end
            // before `limit`, they are fewer than `hashes`. Their last may end behind `front`, but not by as much as would matter
            // to a pointer that is only compared.
            unsafe {
                let block = _mm_loadu_si128(next.cast());
                let mask = _mm_load_si128(KEEP.0.as_ptr().add(2 + rest).cast());
                state = rounds(&loaded, state, _mm_and_si128(block, mask));
                *place = finish(&loaded, state);
                place = place.add(1);
            }
            next = next.wrapping_add(2 + rest);
        }
        // SAFETY: both are in `hashes`, or one behind.
        let count = unsafe { place.offset_from_unsigned(hashes.as_ptr()) };
        let position = next.addr() - front.as_ptr().addr();
        if position == length && count > 0 {
            // SAFETY: the last place that was written.
            return (count, unsafe { *place.sub(1) });
        }
        let rest = front.get(position..length).unwrap_or_default();
        hash_further_prefixes::<S>(keys, state, rest, hashes, count)
    }

    /// Continues with `rest` behind `count` sections, where the state is `state`.
    #[cold]
    #[inline(never)]
    #[target_feature(enable = "aes,ssse3")]
    fn hash_further_prefixes<'a, S: Sections<'a>>(
        keys: &Keys,
        mut state: __m128i,
        rest: &'a [u8],
        hashes: &mut [u64],
        mut count: usize,
    ) -> (usize, u64) {
        let mut sections = S::within(rest, 0..rest.len());
        let loaded = keys.each_ref().map(|key| load(key));
        let mut last = 0;
        for hash in hashes.iter_mut().skip(count) {
            let Some(section) = sections.next() else { break };
            state = absorb_long(keys, state, section.bytes());
            last = finish(&loaded, state);
            *hash = last;
            count += 1;
        }
        // Without a further section, the one before ends behind the string.
        if sections.is_at_end() && !rest.is_empty() { (count, last) } else { (0, 0) }
    }

    #[target_feature(enable = "aes,ssse3")]
    pub(super) fn hash_prefixes<'a>(
        keys: &Keys,
        sections: &mut (impl Iterator<Item = Section<'a>> + Clone),
        hashes: &mut [u64],
    ) -> usize {
        // A local copy stays in registers.
        let mut walk = sections.clone();
        let loaded = keys.each_ref().map(|key| load(key));
        let mut state = loaded[0];
        let mut count = 0;
        for hash in hashes {
            let Some(section) = walk.next() else { break };
            state = match section {
                Section::Short { block, len } => absorb_short(&loaded, state, block, len),
                Section::Long(bytes) => absorb_long(keys, state, bytes),
            };
            *hash = finish(&loaded, state);
            count += 1;
        }
        *sections = walk;
        count
    }

    #[target_feature(enable = "aes,ssse3")]
    pub(super) fn hash_sections<'a>(
        keys: &Keys,
        sections: impl Iterator<Item = Section<'a>>,
    ) -> u64 {
        let mut state = load(&keys[0]);
        for section in sections {
            state = absorb_long(keys, state, section.bytes());
        }
        finish(&keys.each_ref().map(|key| load(key)), state)
    }

    type LoadedKeys = [__m128i; super::KEYS];

    #[inline]
    #[target_feature(enable = "aes,ssse3")]
    fn absorb_short(keys: &LoadedKeys, state: __m128i, block: &[u8; BLOCK], len: usize) -> __m128i {
        rounds(keys, state, _mm_and_si128(load(block), load(&KEEP.0[len])))
    }

    #[cold]
    #[inline(never)]
    #[target_feature(enable = "aes,ssse3")]
    fn absorb_long(keys: &Keys, mut state: __m128i, bytes: &[u8]) -> __m128i {
        let keys = keys.each_ref().map(|key| load(key));
        let (blocks, rest) = bytes.as_chunks();
        for block in blocks {
            state = rounds(&keys, state, load(block));
        }
        if rest.is_empty() {
            return state;
        }
        let mut block = [0; BLOCK];
        block[..rest.len()].copy_from_slice(rest);
        rounds(&keys, state, load(&block))
    }

    #[inline]
    #[target_feature(enable = "aes,ssse3")]
    fn rounds(keys: &LoadedKeys, state: __m128i, block: __m128i) -> __m128i {
        let mut state = _mm_xor_si128(block, state);
        state = _mm_aesenc_si128(state, keys[1]);
        state = _mm_aesenc_si128(state, keys[2]);
        state = _mm_aesenc_si128(state, keys[3]);
        _mm_aesenc_si128(state, keys[4])
    }

    #[inline]
    #[target_feature(enable = "aes,ssse3")]
    fn finish(keys: &LoadedKeys, mut state: __m128i) -> u64 {
        state = _mm_aesenc_si128(state, keys[5]);
        state = _mm_aesenc_si128(state, keys[6]);
        _mm_cvtsi128_si64(state).cast_unsigned()
    }

    #[inline]
    #[target_feature(enable = "aes,ssse3")]
    fn load(block: &[u8; BLOCK]) -> __m128i {
        // SAFETY: an unaligned load of exactly the 16 bytes of `block`.
        unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
    }
}

#[cfg(test)]
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

    fn reference(keys: &[[u8; 16]; KEYS], sections: &[&[u8]]) -> u64 {
        let mut state = keys[0];
        for section in sections {
            for block in section.chunks(16) {
                let block: [u8; 16] = std::array::from_fn(|i| block.get(i).copied().unwrap_or(0));
                state = std::array::from_fn(|i| state[i] ^ block[i]);
                state = keys[1..5].iter().fold(state, |state, &key| round(state, key));
            }
        }
        state = keys[5..].iter().fold(state, |state, &key| round(state, key));
        u64::from_le_bytes(*state.first_chunk().unwrap())
    }

    /// Sections of a string with the given lengths; short ones within a block where possible.
    #[derive(Clone)]
    struct Cut<'a>(&'a [u8], Vec<usize>);

    impl<'a> Iterator for Cut<'a> {
        type Item = Section<'a>;

        fn next(&mut self) -> Option<Section<'a>> {
            let len = self.1.pop()?;
            let block = self.0.first_chunk();
            let (section, rest) = self.0.split_at(len);
            self.0 = rest;
            Some(match block {
                Some(block) if len <= 16 => Section::Short { block, len },
                _ => Section::Long(section),
            })
        }
    }

    fn keys() -> [[u8; 16]; KEYS] {
        std::array::from_fn(|key| {
            std::array::from_fn(|i| ((key * 16 + i) as u8).wrapping_mul(151).wrapping_add(77))
        })
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|i| (i as u8).wrapping_mul(29) ^ 0xA5).collect()
    }

    #[test]
    fn s_box_agrees_with_the_standard() {
        assert_eq!([0x00, 0x01, 0x53, 0xFF].map(substitute), [0x63, 0x7C, 0xED, 0x16]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes long, and has no pointers of its own")]
    fn hashes_of_strings_equal_those_of_the_reference_implementation() {
        let Some(hasher) = AesHasher::new(keys()) else { return };
        for length in [0, 1, 15, 16, 17, 32, 40] {
            let bytes = bytes(usize::from(length));
            let mut end = [0; 16];
            end[0] = length;
            let expected = reference(&keys(), &[&[0xFF; 16], &bytes, &end]);
            assert_eq!(hasher.hash(&bytes), expected);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes long, and has no pointers of its own")]
    fn hashes_of_prefixes_equal_those_of_the_reference_implementation() {
        let Some(hasher) = AesHasher::new(keys()) else { return };
        for length in [1, 10, 16, 17, 50] {
            let bytes = bytes(length);
            for step in [2, 7, 10, 15, 16, 17, 33] {
                let sections: Vec<&[u8]> = bytes.chunks(step).collect();
                let lengths = || sections.iter().rev().map(|section| section.len()).collect();
                let mut hashes = [0; 100];
                hasher.hash_prefixes(&mut Cut(&bytes, lengths()), &mut hashes);
                let count = sections.len();
                assert_eq!(hashes[count], 0);
                for (position, &hash) in hashes[..count].iter().enumerate() {
                    let expected = reference(&keys(), &sections[..=position]);
                    assert_eq!(hash, expected, "{position} of {length} bytes by {step}");
                }
                let whole = hasher.hash_sections(Cut(&bytes, lengths()));
                assert_eq!(whole, hashes[count - 1]);
            }
        }
    }

    /// Sections of a string that begin with type and length.
    #[derive(Clone)]
    struct Elements<'a>(&'a [u8]);

    impl<'a> Iterator for Elements<'a> {
        type Item = Section<'a>;

        fn next(&mut self) -> Option<Section<'a>> {
            let [ty, length, ..] = *self.0 else { return None };
            let (section, rest) = self.0.split_at_checked(2 + usize::from(length))?;
            self.0 = rest;
            (3..=252).contains(&ty).then_some(Section::Long(section))
        }
    }

    impl<'a> Sections<'a> for Elements<'a> {
        fn within(bytes: &'a [u8], range: Range<usize>) -> Self {
            Self(&bytes[range])
        }

        fn is_at_end(&self) -> bool {
            self.0.is_empty()
        }
    }

    /// Strings that end anywhere, in memory of exactly their length or somewhat more: Miri finds what is accessed behind it.
    #[test]
    fn all_prefixes_are_hashed_within_their_memory() {
        let Some(hasher) = AesHasher::new(keys()) else { return };
        for lengths in [&[0_u8][..], &[3, 14], &[14, 14, 1], &[15], &[2, 30, 4], &[5, 0, 0, 7]] {
            let (mut string, mut ends) = (Vec::new(), vec![0]);
            for (&length, ty) in lengths.iter().zip([8, 127, 128, 8]) {
                string.extend([ty, length]);
                string.extend(bytes(usize::from(length)));
                ends.push(string.len());
            }
            let mut expected = vec![0; lengths.len()];
            let count = hasher.hash_prefixes(&mut Elements(&string), &mut expected);
            assert_eq!(count, lengths.len());
            for behind in [0, 1, 15, 16, 17] {
                let front = [&string[..], &vec![8; behind]].concat().into_boxed_slice();
                for (length, places) in
                    (0..=string.len()).flat_map(|end| (0..=count).map(move |places| (end, places)))
                {
                    let mut hashes = vec![0; places].into_boxed_slice();
                    let found =
                        hasher.hash_all_prefixes::<Elements<'_>>(&front, length, &mut hashes);
                    let sections = ends.iter().position(|&end| end == length).unwrap_or(0);
                    if (1..=places).contains(&sections) {
                        assert_eq!(found, (sections, expected[sections - 1]));
                        assert_eq!(hashes[..sections], expected[..sections]);
                    } else {
                        assert_eq!(found.0, 0, "{length} bytes of {ends:?}, {places} places");
                    }
                }
            }
        }
    }

    #[test]
    fn hashing_stops_when_the_output_is_full() {
        let Some(hasher) = AesHasher::new(keys()) else { return };
        let mut sections = Cut(&[8, 0, 9, 0, 10, 0], vec![2, 2, 2]);
        let mut hashes = [0; 3];
        hasher.hash_prefixes(&mut sections, &mut hashes[..2]);
        assert!(hashes[1] != 0);
        assert_eq!(sections.0, [10, 0], "the third is left");
        hasher.hash_prefixes(&mut Cut(&[], vec![]), &mut hashes[2..]);
        assert_eq!(hashes[2], 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes long, and has no pointers of its own")]
    fn every_bit_of_key_and_string_affects_the_hash() {
        let Some(hasher) = AesHasher::new(keys()) else { return };
        let bytes = bytes(40);
        let hash = hasher.hash(&bytes);
        for bit in 0..8 * bytes.len() {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            let changed = (hasher.hash(&other) ^ hash).count_ones();
            assert!((12..=52).contains(&changed), "{changed} bits change");
        }
        for bit in 0..8 * 16 * KEYS {
            let (key, byte) = (bit / 128, bit % 128 / 8);
            let mut other = keys();
            other[key][byte] ^= 1 << (bit % 8);
            // Only half of the last two keys affects the half that is returned: the last one
            // directly, the one before through ShiftRows.
            let is_seen = match key {
                5 => [0, 5, 10, 15, 4, 9, 14, 3].contains(&byte),
                6 => byte < 8,
                _ => true,
            };
            let changes = AesHasher::new(other).unwrap().hash(&bytes) != hash;
            assert_eq!(changes, is_seen, "bit {bit}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes long, and has no pointers of its own")]
    fn low_bits_of_similar_names_spread_evenly() {
        let Some(hasher) = AesHasher::new(keys()) else { return };
        let mut buckets = [0_u32; 256];
        for number in 0..65_536_u32 {
            let mut section = *b"\x08\x08name\0\0\0\0";
            section[6..].copy_from_slice(&number.to_be_bytes());
            let hash = hasher.hash_sections([Section::Long(&section)].into_iter());
            buckets[(hash & 0xFF) as usize] += 1;
        }
        // 256 each are expected, with a standard deviation of 16.
        assert!(buckets.iter().all(|&count| (160..=352).contains(&count)), "{buckets:?}");
    }
}

//! SipHash-1-3 that yields the hash of every prefix of its input in one pass.
//!
//! Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), with one compression and
//! three finalisation rounds. The value of a prefix equals what hashing that prefix alone gives.

use ndn_ring::Section;

/// SipHash-1-3 with a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SipHasher {
    initial: SipState,
}

impl SipHasher {
    pub(crate) fn new(key: [u8; 16]) -> Self {
        let [low, high] = [&key[..8], &key[8..]].map(little_endian_word);
        Self { initial: SipState::new(low, high) }
    }

    /// Writes the hash of the first `i + 1` sections to `hashes[i]`, until the sections or `hashes`
    /// are exhausted, and returns the number of hashes.
    #[inline(never)]
    pub(crate) fn hash_prefixes<'a>(
        &self,
        sections: &mut impl Iterator<Item = Section<'a>>,
        hashes: &mut [u64],
    ) -> usize {
        let mut state = self.initial;
        let mut count = 0;
        // The bytes that do not fill a word yet.
        let mut word = 0;
        let mut length = 0_usize;
        for hash in hashes {
            let Some(section) = sections.next() else { break };
            for &byte in section.bytes() {
                word |= u64::from(byte) << (8 * (length % 8));
                length += 1;
                if length.is_multiple_of(8) {
                    state.absorb(word);
                    word = 0;
                }
            }
            *hash = state.finish((length as u64) << 56 | word);
            count += 1;
        }
        count
    }

    /// The hash of all of `bytes`.
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        let mut state = self.initial;
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            state.absorb(little_endian_word(word));
        }
        state.finish(last_word(bytes, bytes.len() - words.remainder().len(), bytes.len()))
    }
}

/// SipHash state after a whole number of 8-byte words.
#[derive(Clone, Copy, Debug)]
struct SipState {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl SipState {
    /// The initial state for a 128-bit key given as two little-endian halves.
    #[inline]
    const fn new(k0: u64, k1: u64) -> Self {
        Self {
            v0: k0 ^ 0x736f_6d65_7073_6575,
            v1: k1 ^ 0x646f_7261_6e64_6f6d,
            v2: k0 ^ 0x6c79_6765_6e65_7261,
            v3: k1 ^ 0x7465_6462_7974_6573,
        }
    }

    /// Absorbs one word of the message.
    #[inline(always)]
    fn absorb(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.v0 ^= word;
    }

    /// The hash of a message that ends here. `last` is the final word: the 0 to 7 remaining bytes
    /// in its low part and the message length modulo 256 in its top byte.
    #[inline(always)]
    fn finish(mut self, last: u64) -> u64 {
        self.absorb(last);
        self.v2 ^= 0xff;
        self.round();
        self.round();
        self.round();
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }

    #[inline(always)]
    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }
}

/// The final SipHash word of a message `value[..end]` of which `absorbed` bytes are absorbed.
#[inline(always)]
fn last_word(value: &[u8], absorbed: usize, end: usize) -> u64 {
    let length = (end as u64) << 56;
    let rest = end - absorbed;
    if rest == 0 {
        return length;
    }
    let tail = if let Some(bytes) = value.get(absorbed..absorbed + 8) {
        little_endian_word(bytes) & (u64::MAX >> (64 - 8 * rest))
    } else if end >= 8 {
        little_endian_word(&value[end - 8..end]) >> (64 - 8 * rest)
    } else {
        value[absorbed..end].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    };
    length | tail
}

#[inline(always)]
fn little_endian_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

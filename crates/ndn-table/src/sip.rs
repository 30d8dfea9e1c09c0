//! SipHash-1-3 with a state that yields the hash of every prefix of its input in one pass.
//!
//! Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012), with one compression and
//! three finalisation rounds. The value of a prefix equals what hashing that prefix alone gives.

/// SipHash state after a whole number of 8-byte words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SipState {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl SipState {
    /// The initial state for a 128-bit key given as two little-endian halves.
    #[inline]
    pub(crate) const fn new(k0: u64, k1: u64) -> Self {
        Self {
            v0: k0 ^ 0x736f_6d65_7073_6575,
            v1: k1 ^ 0x646f_7261_6e64_6f6d,
            v2: k0 ^ 0x6c79_6765_6e65_7261,
            v3: k1 ^ 0x7465_6462_7974_6573,
        }
    }

    /// Takes in one word of the message.
    #[inline(always)]
    pub(crate) fn absorb(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.v0 ^= word;
    }

    /// The hash of a message that ends here. `last` is the final word: the 0 to 7 remaining bytes
    /// in its low part and the message length modulo 256 in its top byte.
    #[inline(always)]
    pub(crate) fn finish(mut self, last: u64) -> u64 {
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

//! PIT tokens that this forwarder originates.

/// Length of an originated token in bytes.
///
/// Six, although a PIT token may have 1 to 32 bytes (NDNLPv2), because one widespread forwarder
/// rejects other lengths of its own returning tokens.
pub const TOKEN_LENGTH: usize = 6;

/// Identifies a PIT entry to the forwarder that sent the Interest upstream: shard, entry,
/// generation.
///
/// The token is only a hint. It comes back from the network, so a lookup by token must also compare
/// the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// Shard that holds the entry.
    pub shard: u8,
    /// Slot of the entry, 24 bits.
    pub entry: u32,
    /// Generation of the slot when the Interest was sent.
    pub generation: u16,
}

impl Token {
    /// Number of entries that a token can name.
    pub const ENTRY_COUNT_MAX: u32 = 1 << 24;

    /// The token as it travels in a PitToken field: shard, entry, generation, each big-endian.
    #[must_use]
    pub const fn encode(self) -> [u8; TOKEN_LENGTH] {
        let entry = self.entry.to_be_bytes();
        let generation = self.generation.to_be_bytes();
        [self.shard, entry[1], entry[2], entry[3], generation[0], generation[1]]
    }

    /// The token in the first [`TOKEN_LENGTH`] of eight bytes.
    #[inline]
    #[must_use]
    pub const fn from_padded(bytes: [u8; 8]) -> Self {
        // One load; byte by byte, the compiler makes several.
        let all = u64::from_be_bytes(bytes);
        #[expect(clippy::cast_possible_truncation, reason = "parts of the word")]
        let (shard, entry, generation) =
            ((all >> 56) as u8, (all >> 32) as u32, (all >> 16) as u16);
        Self { shard, entry: entry & (Self::ENTRY_COUNT_MAX - 1), generation }
    }

    /// The number whose big-endian bytes start with [`Self::encode`]; the lowest 16 bits are 0.
    #[inline]
    #[must_use]
    pub const fn to_number(self) -> u64 {
        (self.shard as u64) << 56 | (self.entry as u64) << 32 | (self.generation as u64) << 16
    }

    /// Reads a returning token; `None` unless it has exactly [`TOKEN_LENGTH`] bytes.
    #[must_use]
    pub const fn decode(bytes: &[u8]) -> Option<Self> {
        match *bytes {
            [a, b, c, d, e, f] => Some(Self::from_padded([a, b, c, d, e, f, 0, 0])),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_bytes_round_trip() {
        let token = Token { shard: 0xFE, entry: 0x00AB_CDEF, generation: 0x1234 };
        assert_eq!(token.encode(), [0xFE, 0xAB, 0xCD, 0xEF, 0x12, 0x34]);
        assert_eq!(Token::decode(&token.encode()), Some(token));
        assert_eq!(token.to_number(), 0xFEAB_CDEF_1234_0000);
    }

    #[test]
    fn token_of_other_length_is_rejected() {
        for length in (0..40).filter(|&length| length != TOKEN_LENGTH) {
            assert_eq!(Token::decode(&vec![7; length]), None);
        }
    }
}

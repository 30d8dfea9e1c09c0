//! The NDNLPv2 fields of a packet that concern forwarding.

use ndn_packet::NackReason;
use ndn_packet::lp::PIT_TOKEN_LENGTH_MAX;

/// A PIT token of 0 to 32 bytes; 0 means that there is none.
#[derive(Debug, Clone, Copy, Default)]
pub struct PitToken {
    bytes: [u8; PIT_TOKEN_LENGTH_MAX],
    length: u8,
}

impl PitToken {
    /// No token.
    pub const NONE: Self = Self { bytes: [0; PIT_TOKEN_LENGTH_MAX], length: 0 };

    /// The token `bytes`; `None` if they are too long for one.
    #[must_use]
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut token = Self::NONE;
        token.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        token.length = u8::try_from(bytes.len()).ok()?;
        Some(token)
    }

    /// The token of a number, as in [`ShortToken`].
    #[must_use]
    #[inline(always)]
    pub fn from_short(token: ShortToken) -> Self {
        let mut bytes = [0; PIT_TOKEN_LENGTH_MAX];
        if let Some(start) = bytes.first_chunk_mut() {
            *start = token.bytes.to_le_bytes();
        }
        Self { bytes, length: token.length }
    }

    /// The token's length and first bytes.
    #[inline]
    pub(crate) fn length_and_start<const N: usize>(&self) -> (u8, [u8; N]) {
        let start = self.bytes.first_chunk().copied().unwrap_or([0; N]);
        (self.length, start)
    }

    /// The bytes of the token; empty if there is none.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A PIT token of no bytes or of 4 to 8, in two registers.
#[derive(Debug, Clone, Copy)]
pub struct ShortToken {
    /// The bytes, the first one lowest, followed by zeros.
    bytes: u64,
    length: u8,
}

impl ShortToken {
    /// The token `bytes`, if they are none or 4 to 8, without a call to copy them.
    #[must_use]
    #[inline(always)]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let number = match (bytes.first_chunk(), bytes.last_chunk()) {
            _ if bytes.is_empty() => 0,
            (Some(&first), Some(&last)) if bytes.len() <= size_of::<u64>() => {
                let shift = (bytes.len() - size_of::<u32>()) * 8;
                let (first, last) = (u32::from_le_bytes(first), u32::from_le_bytes(last));
                u64::from(first) | u64::from(last) << shift
            }
            _ => return None,
        };
        Some(Self { bytes: number, length: u8::try_from(bytes.len()).ok()? })
    }
}

impl PartialEq for PitToken {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for PitToken {}

/// NDNLPv2 header fields of a received packet.
#[derive(Debug, Clone, Copy, Default)]
pub struct LpFields {
    /// Of an Interest, the token to return with the answer; of a Data or Nack, the returned token.
    pub pit_token: PitToken,
    /// Set if the packet is a Nack for the Interest inside.
    pub nack: Option<NackReason>,
    /// Congestion mark; 0 if there is none.
    pub congestion_mark: u64,
    /// NextHopFaceId. As in NFD, a packet with this field is dropped unless it is an Interest on a
    /// face with local fields enabled.
    pub next_hop_face_id: Option<u64>,
    /// CachePolicy NoCache. Accepted from any face, as in NFD: it needs no privilege.
    pub no_cache: bool,
    /// NonDiscovery: the Interest follows routes and does not discover new ones. Only allowed on an
    /// Interest.
    pub non_discovery: bool,
    /// Length of the PrefixAnnouncement (a Data TLV) that follows the packet; 0 if there is none.
    /// Only allowed on a Data.
    pub announcement_length: u16,
}

impl LpFields {
    /// Whether there is no field but a PIT token of at most `token_length_max` bytes.
    #[inline(always)]
    pub(crate) fn is_token_only(&self, token_length_max: usize) -> bool {
        let Self {
            pit_token,
            nack,
            congestion_mark,
            next_hop_face_id,
            no_cache,
            non_discovery,
            announcement_length,
        } = self;
        // One branch for all.
        let others = u64::from(nack.is_some())
            | *congestion_mark
            | u64::from(next_hop_face_id.is_some())
            | u64::from(*no_cache | *non_discovery)
            | u64::from(*announcement_length);
        usize::from(pit_token.length) <= token_length_max && others == 0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn short_tokens_are_those_that_are_copied_otherwise() {
        let bytes: [u8; PIT_TOKEN_LENGTH_MAX] =
            std::array::from_fn(|index| u8::try_from(index + 1).unwrap());
        for length in 0..=bytes.len() {
            let token = PitToken::new(&bytes[..length]);
            assert_eq!(token.unwrap().as_bytes(), &bytes[..length]);
            let is_short = length == 0 || (4..=8).contains(&length);
            let short = ShortToken::new(&bytes[..length]).map(PitToken::from_short);
            assert_eq!(short, token.filter(|_| is_short), "{length}");
        }
    }
}

//! The NDNLPv2 fields of one packet that concern forwarding.

use ndn_packet::NackReason;

/// Longest PIT token (NDNLPv2).
pub const PIT_TOKEN_LENGTH_MAX: usize = 32;

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
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut token = Self::NONE;
        token.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        token.length = u8::try_from(bytes.len()).ok()?;
        Some(token)
    }

    /// Its length, and its first bytes.
    #[inline]
    pub(crate) fn length_and_start<const N: usize>(&self) -> (u8, [u8; N]) {
        let start = self.bytes.first_chunk().copied().unwrap_or([0; N]);
        (self.length, start)
    }

    /// The bytes; empty if there is no token.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or(&[])
    }
}

impl PartialEq for PitToken {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for PitToken {}

/// What the link service found in the header of a packet.
#[derive(Debug, Clone, Copy, Default)]
pub struct LpFields {
    /// The token to return with the answer, or the one that was returned.
    pub pit_token: PitToken,
    /// The packet is a Nack for the Interest inside.
    pub nack: Option<NackReason>,
    /// 0 if there is none.
    pub congestion_mark: u64,
    /// NextHopFaceId. An Interest with it is dropped, as by NFD, unless the face has local fields
    /// enabled; and so is any other packet.
    pub next_hop_face_id: Option<u64>,
    /// CachePolicy NoCache. Heeded from any face, as by NFD: it takes no privilege.
    pub no_cache: bool,
    /// NonDiscovery: the Interest follows routes and looks for none. Only an Interest may have it.
    pub non_discovery: bool,
    /// Bytes of the PrefixAnnouncement (a Data TLV) that lie right behind the packet; 0 if there is
    /// none. Only a Data may have one.
    pub announcement_length: u16,
}

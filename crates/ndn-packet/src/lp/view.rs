//! LpPacket parser and view.

use crate::error::{DecodeError, saturate};
use crate::span::{Span, check_size};
use crate::tlv::{Reader, Tlv};
use crate::types;
use core::fmt;

/// The longest PIT token, in bytes.
pub const PIT_TOKEN_LENGTH_MAX: usize = 32;

/// Reason of a Nack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NackReason(pub u64);

impl NackReason {
    /// Not stated.
    pub const NONE: Self = Self(0);
    /// The link is congested.
    pub const CONGESTION: Self = Self(50);
    /// The Nonce was seen before.
    pub const DUPLICATE: Self = Self(100);
    /// There is no path towards the name.
    pub const NO_ROUTE: Self = Self(150);
}

impl fmt::Display for NackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::NONE => "None",
            Self::CONGESTION => "Congestion",
            Self::DUPLICATE => "Duplicate",
            Self::NO_ROUTE => "NoRoute",
            Self(other) => return write!(f, "NackReason {other}"),
        })
    }
}

/// An NDNLPv2 packet, or a bare Interest or Data viewed as one without header fields.
#[derive(Clone, Copy, Debug)]
pub struct LpPacket<'a> {
    wire: &'a [u8],
    sequence: Option<u64>,
    frag_index: Option<u64>,
    frag_count: Option<u64>,
    nack: Option<NackReason>,
    incoming_face_id: Option<u64>,
    next_hop_face_id: Option<u64>,
    cache_policy: Option<u64>,
    congestion_mark: Option<u64>,
    tx_sequence: Option<u64>,
    pit_token: Span,
    /// The Ack TLVs, all of them.
    acks: Span,
    prefix_announcement: Span,
    fragment: Fragment,
    non_discovery: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fragment {
    /// A bare network packet.
    Bare,
    Absent,
    Present(Span),
}

impl<'a> LpPacket<'a> {
    /// Parses an LpPacket, or a bare Interest or Data, that fills `wire`. The fragment is not
    /// parsed.
    ///
    /// # Errors
    /// When the bytes are anything else, or a header field is invalid.
    #[inline]
    pub fn parse(wire: &'a [u8]) -> Result<Self, DecodeError> {
        check_size(wire)?;
        let mut packet = Self::empty(wire);
        match wire.first() {
            Some(5 | 6) => {
                packet.fragment = Fragment::Bare;
                Ok(packet)
            }
            Some(_) | None => {
                packet.parse_fields()?;
                Ok(packet)
            }
        }
    }

    const fn empty(wire: &'a [u8]) -> Self {
        Self {
            wire,
            sequence: None,
            frag_index: None,
            frag_count: None,
            nack: None,
            incoming_face_id: None,
            next_hop_face_id: None,
            cache_policy: None,
            congestion_mark: None,
            tx_sequence: None,
            pit_token: Span::NONE,
            acks: Span::NONE,
            prefix_announcement: Span::NONE,
            fragment: Fragment::Absent,
            non_discovery: false,
        }
    }

    #[inline]
    fn parse_fields(&mut self) -> Result<(), DecodeError> {
        let mut reader = Reader::new(self.wire).read_only(types::LP_PACKET)?.reader();
        let mut last = 0;
        macro_rules! take {
            ($($ty:path),*) => {$(
                if let Some(tlv) = reader.take::<{ $ty }>() {
                    self.field(&tlv, false)?;
                    last = $ty;
                }
            )*};
        }
        take!(types::LP_SEQUENCE, types::LP_FRAG_INDEX, types::LP_FRAG_COUNT, types::LP_PIT_TOKEN);
        take!(types::LP_FRAGMENT);
        if reader.is_empty() { Ok(()) } else { self.rest(reader, last) }
    }

    /// Handles the fields that are not in the common order.
    #[inline(never)]
    fn rest(&mut self, mut reader: Reader<'a>, mut last: u32) -> Result<(), DecodeError> {
        while !reader.is_empty() {
            let tlv = reader.read()?;
            // Fragment ends the packet; the others ascend, and only Ack repeats.
            let ended = matches!(self.fragment, Fragment::Present(_));
            if ended || tlv.ty() < last && tlv.ty() != types::LP_FRAGMENT {
                return Err(tlv.out_of_order());
            }
            self.field(&tlv, tlv.ty() == last)?;
            last = tlv.ty();
        }
        Ok(())
    }

    #[inline(always)]
    fn field(&mut self, tlv: &Tlv<'a>, repeated: bool) -> Result<(), DecodeError> {
        let span = Span::new(tlv.value_offset(), tlv.end());
        match tlv.ty() {
            types::LP_FRAGMENT => self.fragment = Fragment::Present(span),
            types::LP_ACK => {
                tlv.array::<8>()?;
                let start = if repeated { self.acks.start as usize } else { tlv.offset() };
                self.acks = Span::new(start, tlv.end());
            }
            ty if !is_known(ty) => {
                if !types::is_ignorable_lp_field(ty) {
                    return Err(DecodeError::UnrecognizedLpField {
                        ty,
                        offset: saturate(tlv.offset()),
                    });
                }
            }
            _ if repeated => return Err(tlv.out_of_order()),
            types::LP_SEQUENCE => self.sequence = Some(u64::from_be_bytes(*tlv.array()?)),
            types::LP_FRAG_INDEX => self.frag_index = Some(tlv.number()?),
            types::LP_FRAG_COUNT => self.frag_count = Some(tlv.number()?),
            types::LP_PIT_TOKEN => {
                if tlv.value_len() == 0 || tlv.value_len() > PIT_TOKEN_LENGTH_MAX {
                    return Err(tlv.invalid_length());
                }
                self.pit_token = span;
            }
            types::LP_NACK => self.nack = Some(nack_reason(tlv)?),
            types::LP_INCOMING_FACE_ID => self.incoming_face_id = Some(tlv.number()?),
            types::LP_NEXT_HOP_FACE_ID => self.next_hop_face_id = Some(tlv.number()?),
            types::LP_CACHE_POLICY => self.cache_policy = Some(cache_policy_type(tlv)?),
            types::LP_CONGESTION_MARK => self.congestion_mark = Some(tlv.number()?),
            types::LP_TX_SEQUENCE => self.tx_sequence = Some(u64::from_be_bytes(*tlv.array()?)),
            types::LP_NON_DISCOVERY => {
                tlv.expect_empty()?;
                self.non_discovery = true;
            }
            _ => {
                tlv.reader().read_only(types::DATA)?;
                self.prefix_announcement = span;
            }
        }
        Ok(())
    }

    /// The whole packet.
    #[inline]
    #[must_use]
    pub const fn wire(&self) -> &'a [u8] {
        self.wire
    }

    /// Whether the network packet is bare.
    #[inline]
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.fragment == Fragment::Bare
    }

    /// The network packet, or a fragment of it; `None` for an IDLE packet.
    #[inline]
    #[must_use]
    pub fn fragment(&self) -> Option<&'a [u8]> {
        match self.fragment {
            Fragment::Bare => Some(self.wire),
            Fragment::Absent => None,
            Fragment::Present(span) => span.slice(self.wire),
        }
    }

    /// Offset in the packet of [`LpPacket::fragment`], which extends to the packet's end.
    #[inline]
    #[must_use]
    pub const fn fragment_offset(&self) -> Option<usize> {
        match self.fragment {
            Fragment::Bare => Some(0),
            Fragment::Absent => None,
            Fragment::Present(span) => Some(span.start as usize),
        }
    }

    /// Sequence.
    #[inline]
    #[must_use]
    pub const fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    /// FragIndex, 0 if absent.
    #[inline]
    #[must_use]
    pub fn frag_index(&self) -> u64 {
        self.frag_index.unwrap_or(0)
    }

    /// FragCount, 1 if absent.
    #[inline]
    #[must_use]
    pub fn frag_count(&self) -> u64 {
        self.frag_count.unwrap_or(1)
    }

    /// Whether FragIndex or FragCount is present.
    #[inline]
    #[must_use]
    pub const fn has_fragmentation(&self) -> bool {
        self.frag_index.is_some() || self.frag_count.is_some()
    }

    /// PitToken, 1 to [`PIT_TOKEN_LENGTH_MAX`] bytes.
    #[inline]
    #[must_use]
    pub fn pit_token(&self) -> Option<&'a [u8]> {
        self.pit_token.slice(self.wire)
    }

    /// The reason, if the packet is a Nack; [`NackReason::NONE`] if it has none.
    #[inline]
    #[must_use]
    pub const fn nack(&self) -> Option<NackReason> {
        self.nack
    }

    /// IncomingFaceId.
    #[inline]
    #[must_use]
    pub const fn incoming_face_id(&self) -> Option<u64> {
        self.incoming_face_id
    }

    /// NextHopFaceId.
    #[inline]
    #[must_use]
    pub const fn next_hop_face_id(&self) -> Option<u64> {
        self.next_hop_face_id
    }

    /// CachePolicyType; 1 is NoCache.
    #[inline]
    #[must_use]
    pub const fn cache_policy(&self) -> Option<u64> {
        self.cache_policy
    }

    /// CongestionMark; 0 is the same as absent.
    #[inline]
    #[must_use]
    pub const fn congestion_mark(&self) -> Option<u64> {
        self.congestion_mark
    }

    /// The acknowledged TxSequence numbers.
    #[inline]
    #[must_use]
    pub fn acks(&self) -> Acks<'a> {
        Acks { reader: Reader::new(self.acks.slice(self.wire).unwrap_or_default()) }
    }

    /// TxSequence.
    #[inline]
    #[must_use]
    pub const fn tx_sequence(&self) -> Option<u64> {
        self.tx_sequence
    }

    /// NonDiscovery.
    #[inline]
    #[must_use]
    pub const fn non_discovery(&self) -> bool {
        self.non_discovery
    }

    /// The Data TLV in PrefixAnnouncement, not parsed.
    #[inline]
    #[must_use]
    pub fn prefix_announcement(&self) -> Option<&'a [u8]> {
        self.prefix_announcement.slice(self.wire)
    }
}

/// The header fields in the order that this view reads them.
const fn is_known(ty: u32) -> bool {
    matches!(
        ty,
        types::LP_SEQUENCE
            | types::LP_FRAG_INDEX
            | types::LP_FRAG_COUNT
            | types::LP_PIT_TOKEN
            | types::LP_NACK
            | types::LP_INCOMING_FACE_ID
            | types::LP_NEXT_HOP_FACE_ID
            | types::LP_CACHE_POLICY
            | types::LP_CONGESTION_MARK
            | types::LP_TX_SEQUENCE
            | types::LP_NON_DISCOVERY
            | types::LP_PREFIX_ANNOUNCEMENT
    )
}

fn nack_reason(nack: &Tlv<'_>) -> Result<NackReason, DecodeError> {
    Ok(inner_number(nack, types::LP_NACK_REASON)?.map_or(NackReason::NONE, NackReason))
}

fn cache_policy_type(policy: &Tlv<'_>) -> Result<u64, DecodeError> {
    inner_number(policy, types::LP_CACHE_POLICY_TYPE)?
        .ok_or_else(|| policy.missing(types::LP_CACHE_POLICY_TYPE))
}

/// The number in the element `ty` nested in `field`.
fn inner_number(field: &Tlv<'_>, ty: u32) -> Result<Option<u64>, DecodeError> {
    let mut found = None;
    let mut reader = field.reader();
    while let Some(tlv) = reader.next_tlv()? {
        if tlv.ty() != ty {
            tlv.skip_unrecognized()?;
        } else if found.is_some() {
            return Err(tlv.out_of_order());
        } else {
            found = Some(tlv.number()?);
        }
    }
    Ok(found)
}

/// Iterator over the Ack fields.
#[derive(Clone, Debug)]
pub struct Acks<'a> {
    reader: Reader<'a>,
}

impl Iterator for Acks<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let tlv = self.reader.next_tlv().ok()??;
        tlv.array().ok().map(|bytes| u64::from_be_bytes(*bytes))
    }
}

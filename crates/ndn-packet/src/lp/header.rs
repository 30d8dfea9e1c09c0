//! LpPacket header encoder.

use crate::error::EncodeError;
use crate::lp::{NackReason, PIT_TOKEN_LENGTH_MAX};
use crate::tlv::{Writer, number_tlv_len, tlv_len};
use crate::types;

const ACK_TLV_LEN: usize = tlv_len(types::LP_ACK, 8);

/// The header fields of an LpPacket. The payload is not copied: the encoded header ends with the
/// type and length of Fragment, so that the payload sent right after it completes the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LpHeader<'a> {
    /// Sequence.
    pub sequence: Option<u64>,
    /// FragIndex.
    pub frag_index: Option<u64>,
    /// FragCount.
    pub frag_count: Option<u64>,
    /// PitToken; not written if empty.
    pub pit_token: &'a [u8],
    /// Nack; NackReason is not written for [`NackReason::NONE`].
    pub nack: Option<NackReason>,
    /// IncomingFaceId.
    pub incoming_face_id: Option<u64>,
    /// NextHopFaceId.
    pub next_hop_face_id: Option<u64>,
    /// CachePolicyType.
    pub cache_policy: Option<u64>,
    /// CongestionMark.
    pub congestion_mark: Option<u64>,
    /// Ack fields.
    pub acks: &'a [u64],
    /// TxSequence.
    pub tx_sequence: Option<u64>,
    /// NonDiscovery.
    pub non_discovery: bool,
    /// The Data TLV of PrefixAnnouncement.
    pub prefix_announcement: Option<&'a [u8]>,
}

impl LpHeader<'_> {
    /// Whether there are no fields, so that the payload may be sent bare.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields_len() == 0
    }

    /// Length of all header fields.
    fn fields_len(&self) -> usize {
        let number = |ty, n: Option<u64>| n.map_or(0, |n| number_tlv_len(ty, n));
        let mut len = 0;
        if self.sequence.is_some() {
            len += tlv_len(types::LP_SEQUENCE, 8);
        }
        len += number(types::LP_FRAG_INDEX, self.frag_index);
        len += number(types::LP_FRAG_COUNT, self.frag_count);
        if !self.pit_token.is_empty() {
            len += tlv_len(types::LP_PIT_TOKEN, self.pit_token.len());
        }
        if let Some(reason) = self.nack {
            len += tlv_len(types::LP_NACK, nack_value_len(reason));
        }
        len += number(types::LP_INCOMING_FACE_ID, self.incoming_face_id);
        len += number(types::LP_NEXT_HOP_FACE_ID, self.next_hop_face_id);
        if let Some(policy) = self.cache_policy {
            len += tlv_len(
                types::LP_CACHE_POLICY,
                number_tlv_len(types::LP_CACHE_POLICY_TYPE, policy),
            );
        }
        len += number(types::LP_CONGESTION_MARK, self.congestion_mark);
        len += self.acks.len() * ACK_TLV_LEN;
        if self.tx_sequence.is_some() {
            len += tlv_len(types::LP_TX_SEQUENCE, 8);
        }
        if self.non_discovery {
            len += tlv_len(types::LP_NON_DISCOVERY, 0);
        }
        if let Some(data) = self.prefix_announcement {
            len += tlv_len(types::LP_PREFIX_ANNOUNCEMENT, data.len());
        }
        len
    }

    /// Number of bytes before a payload of `payload_len` bytes: outer type and length, fields, type
    /// and length of Fragment.
    #[must_use]
    pub fn encoded_len(&self, payload_len: usize) -> usize {
        let value_len = self.fields_len() + tlv_len(types::LP_FRAGMENT, payload_len);
        tlv_len(types::LP_PACKET, value_len) - payload_len
    }

    /// Length of the packet without Fragment.
    #[must_use]
    pub fn encoded_len_idle(&self) -> usize {
        tlv_len(types::LP_PACKET, self.fields_len())
    }

    /// Writes the bytes before a payload of `payload_len` bytes and returns their length.
    ///
    /// # Errors
    /// [`EncodeError::BufferTooSmall`]; [`EncodeError::InvalidField`] for a token of more than
    /// [`PIT_TOKEN_LENGTH_MAX`] bytes.
    pub fn write_prefix(&self, payload_len: usize, out: &mut [u8]) -> Result<usize, EncodeError> {
        let fields_len = self.fields_len();
        let mut writer = Writer::new(out);
        writer.header(types::LP_PACKET, fields_len + tlv_len(types::LP_FRAGMENT, payload_len))?;
        if fields_len > 0 {
            self.write_fields(&mut writer)?;
        }
        writer.header(types::LP_FRAGMENT, payload_len)?;
        Ok(writer.len())
    }

    /// Writes the whole packet, payload included, and returns its length.
    ///
    /// # Errors
    /// As [`LpHeader::write_prefix`].
    pub fn write(&self, payload: &[u8], out: &mut [u8]) -> Result<usize, EncodeError> {
        let start = self.write_prefix(payload.len(), out)?;
        let end = start + payload.len();
        out.get_mut(start..end).ok_or(EncodeError::BufferTooSmall)?.copy_from_slice(payload);
        Ok(end)
    }

    /// Writes an IDLE packet (header fields only) and returns its length.
    ///
    /// # Errors
    /// As [`LpHeader::write_prefix`].
    pub fn write_idle(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut writer = Writer::new(out);
        writer.header(types::LP_PACKET, self.fields_len())?;
        self.write_fields(&mut writer)?;
        Ok(writer.len())
    }

    /// Fields in ascending order of type.
    fn write_fields(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        if let Some(sequence) = self.sequence {
            writer.tlv(types::LP_SEQUENCE, &sequence.to_be_bytes())?;
        }
        write_number(writer, types::LP_FRAG_INDEX, self.frag_index)?;
        write_number(writer, types::LP_FRAG_COUNT, self.frag_count)?;
        if self.pit_token.len() > PIT_TOKEN_LENGTH_MAX {
            return Err(EncodeError::InvalidField { ty: types::LP_PIT_TOKEN });
        }
        if !self.pit_token.is_empty() {
            writer.tlv(types::LP_PIT_TOKEN, self.pit_token)?;
        }
        if let Some(reason) = self.nack {
            writer.header(types::LP_NACK, nack_value_len(reason))?;
            if reason != NackReason::NONE {
                writer.number(types::LP_NACK_REASON, reason.0)?;
            }
        }
        write_number(writer, types::LP_INCOMING_FACE_ID, self.incoming_face_id)?;
        write_number(writer, types::LP_NEXT_HOP_FACE_ID, self.next_hop_face_id)?;
        if let Some(policy) = self.cache_policy {
            writer.header(
                types::LP_CACHE_POLICY,
                number_tlv_len(types::LP_CACHE_POLICY_TYPE, policy),
            )?;
            writer.number(types::LP_CACHE_POLICY_TYPE, policy)?;
        }
        write_number(writer, types::LP_CONGESTION_MARK, self.congestion_mark)?;
        for ack in self.acks {
            writer.tlv(types::LP_ACK, &ack.to_be_bytes())?;
        }
        if let Some(tx_sequence) = self.tx_sequence {
            writer.tlv(types::LP_TX_SEQUENCE, &tx_sequence.to_be_bytes())?;
        }
        if self.non_discovery {
            writer.tlv(types::LP_NON_DISCOVERY, &[])?;
        }
        if let Some(data) = self.prefix_announcement {
            writer.tlv(types::LP_PREFIX_ANNOUNCEMENT, data)?;
        }
        Ok(())
    }
}

fn nack_value_len(reason: NackReason) -> usize {
    if reason == NackReason::NONE { 0 } else { number_tlv_len(types::LP_NACK_REASON, reason.0) }
}

fn write_number(writer: &mut Writer<'_>, ty: u32, n: Option<u64>) -> Result<(), EncodeError> {
    n.map_or(Ok(()), |n| writer.number(ty, n))
}

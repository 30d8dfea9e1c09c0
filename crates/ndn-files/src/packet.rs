//! Segments as packets: laid out first, then filled by the reader, then signed, so that content is
//! read directly into its position.

use std::ops::Range;

use ndn_packet::tlv::{
    Number, Writer, append_nested, append_number, append_tlv, header_len, number_tlv_len, tlv_len,
};
use ndn_packet::{ComponentType, EncodeError, Name, types};
use ndn_security::{Sha256Digest, SignError, Signer, sha256_each};

use crate::counters::Counters;

/// DigestSha256 and implicit digests of segments.
pub(crate) type Hashed = (Vec<Sha256Digest>, Vec<Sha256Digest>);

/// Longest encoded type and length of a Data: its value has at most 65535 bytes.
const DATA_HEADER_LEN_MAX: usize = 4;
/// Longest encoded segment number component.
const SEGMENT_COMPONENT_LEN_MAX: usize = 10;
/// Space reserved in a packet for the link header of forwarders.
const LINK_HEADER_LEN: usize = 64;

/// The common parts of all segments of one version of an object.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Name with version.
    pub(crate) name: Name,
    /// Length of the object.
    pub(crate) size: u64,
    /// Content bytes of each segment but the last.
    pub(crate) segment_len: usize,
    /// Number of the last segment.
    pub(crate) final_segment: u64,
    /// MetaInfo, encoded.
    meta_info: Vec<u8>,
}

/// The common limits of all packets of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PacketLimits {
    /// Target content length of each segment.
    pub(crate) segment_len: usize,
    /// Longest packet.
    pub(crate) packet_len_max: usize,
    /// FreshnessPeriod of segments.
    pub(crate) freshness_ms: u64,
}

impl Layout {
    /// `None` if no content fits next to the name.
    pub(crate) fn new(
        name: Name,
        size: u64,
        limits: &PacketLimits,
        seal: &PreparedSigner<'_>,
    ) -> Option<Self> {
        let overhead = DATA_HEADER_LEN_MAX
            + tlv_len(types::NAME, name.value().len() + SEGMENT_COMPONENT_LEN_MAX)
            + meta_info(limits.freshness_ms, u64::MAX).len()
            + header_len(types::CONTENT, limits.segment_len)
            + seal.len_max()
            + LINK_HEADER_LEN;
        let room = limits.packet_len_max.checked_sub(overhead)?;
        let segment_len = limits.segment_len.min(room);
        let per_segment = u64::try_from(segment_len).ok().filter(|length| *length > 0)?;
        let final_segment = size.div_ceil(per_segment).saturating_sub(1);
        let meta_info = meta_info(limits.freshness_ms, final_segment);
        Some(Self { name, size, segment_len, final_segment, meta_info })
    }

    /// MetaInfo of all segments, encoded.
    pub(crate) fn meta_info(&self) -> &[u8] {
        &self.meta_info
    }

    /// Offset and length of a segment's content.
    pub(crate) fn extent(&self, segment: u64) -> (u64, usize) {
        let per_segment = u64::try_from(self.segment_len).unwrap_or(u64::MAX);
        let offset = segment.saturating_mul(per_segment);
        let rest = self.size.saturating_sub(offset).min(per_segment);
        (offset, usize::try_from(rest).unwrap_or(self.segment_len))
    }

    /// Maximum number of bytes used by [`Self::lay_out`].
    pub(crate) fn packet_len_max(&self, seal: &PreparedSigner<'_>) -> usize {
        DATA_HEADER_LEN_MAX
            + tlv_len(types::NAME, self.name.value().len() + SEGMENT_COMPONENT_LEN_MAX)
            + self.meta_info.len()
            + tlv_len(types::CONTENT, self.segment_len)
            + seal.len_max()
    }

    /// Writes a segment's packet except content and signature to the front of `out`.
    pub(crate) fn lay_out(
        &self,
        segment: u64,
        seal: &PreparedSigner<'_>,
        out: &mut [u8],
    ) -> Result<Slot, EncodeError> {
        let (_, content_len) = self.extent(segment);
        let number = Number::new(segment);
        let component_type = ComponentType::SEGMENT.tlv_type();
        let component_len = tlv_len(component_type, number.as_bytes().len());
        let value = out.get_mut(DATA_HEADER_LEN_MAX..).ok_or(EncodeError::BufferTooSmall)?;
        let mut writer = Writer::new(value);
        writer.header(types::NAME, self.name.value().len() + component_len)?;
        writer.bytes(self.name.value())?;
        writer.tlv(component_type, number.as_bytes())?;
        writer.bytes(&self.meta_info)?;
        writer.header(types::CONTENT, content_len)?;
        let content_start = DATA_HEADER_LEN_MAX + writer.len();
        let content = content_start..content_start + content_len;
        let info = out.get_mut(content.end..).ok_or(EncodeError::BufferTooSmall)?;
        Writer::new(info).bytes(&seal.info)?;
        Ok(Slot { signed_end: content.end + seal.info.len(), content })
    }
}

/// MetaInfo with FreshnessPeriod and FinalBlockId.
fn meta_info(freshness_ms: u64, final_segment: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(
        number_tlv_len(types::FRESHNESS_PERIOD, freshness_ms) + SEGMENT_COMPONENT_LEN_MAX + 6,
    );
    append_nested(&mut out, types::META_INFO, |out| {
        append_number(out, types::FRESHNESS_PERIOD, freshness_ms);
        append_nested(out, types::FINAL_BLOCK_ID, |out| {
            append_number(out, ComponentType::SEGMENT.tlv_type(), final_segment);
        });
    });
    out
}

/// Positions of the parts of a packet that is laid out.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    /// The content, to be filled.
    pub(crate) content: Range<usize>,
    signed_end: usize,
}

impl Slot {
    /// The signed portion of the packet in `out`.
    pub(crate) fn signed<'a>(&self, out: &'a [u8]) -> &'a [u8] {
        out.get(DATA_HEADER_LEN_MAX..self.signed_end).unwrap_or_default()
    }
}

/// A signer with its SignatureInfo, encoded.
pub(crate) struct PreparedSigner<'a> {
    signer: &'a dyn Signer,
    info: Vec<u8>,
}

impl<'a> PreparedSigner<'a> {
    pub(crate) fn new(signer: &'a dyn Signer) -> Result<Self, EncodeError> {
        let signature_info = signer.signature_info();
        let mut info = vec![0; signature_info.encoded_len(types::SIGNATURE_INFO)];
        signature_info.write(types::SIGNATURE_INFO, &mut Writer::new(&mut info))?;
        Ok(Self { signer, info })
    }

    /// Maximum number of bytes of SignatureInfo and SignatureValue.
    pub(crate) fn len_max(&self) -> usize {
        self.info.len() + tlv_len(types::SIGNATURE_VALUE, self.signer.signature_len_max())
    }

    /// Signs the packet described by `slot`, whose content is present, and returns its range in
    /// `out`. `signature` is scratch space.
    pub(crate) fn close(
        &self,
        slot: &Slot,
        out: &mut [u8],
        signature: &mut Vec<u8>,
    ) -> Result<Range<usize>, SignError> {
        let signer = self.signer;
        Self::end(slot, out, signature, signer.signature_len_max(), |signed, value| {
            signer.sign(&[signed], value)
        })
    }

    /// As [`Self::close`], with an existing signature.
    pub(crate) fn close_with(
        &self,
        slot: &Slot,
        out: &mut [u8],
        signature: &mut Vec<u8>,
        known: &[u8],
    ) -> Result<Range<usize>, SignError> {
        Self::end(slot, out, signature, known.len(), |_, value| {
            value.copy_from_slice(known);
            Ok(known.len())
        })
    }

    fn end(
        slot: &Slot,
        out: &mut [u8],
        signature: &mut Vec<u8>,
        signature_len_max: usize,
        sign: impl FnOnce(&[u8], &mut [u8]) -> Result<usize, SignError>,
    ) -> Result<Range<usize>, SignError> {
        let too_small = || SignError::Encode(EncodeError::BufferTooSmall);
        let signed = out.get(DATA_HEADER_LEN_MAX..slot.signed_end).ok_or_else(too_small)?;
        let mut value = [0; 1024];
        let value = value.get_mut(..signature_len_max).ok_or_else(too_small)?;
        let length = sign(signed, value)?;
        signature.clear();
        append_tlv(signature, types::SIGNATURE_VALUE, &value[..length]);
        let end = slot.signed_end + signature.len();
        out.get_mut(slot.signed_end..end).ok_or_else(too_small)?.copy_from_slice(signature);
        let value_len = end - DATA_HEADER_LEN_MAX;
        let start = DATA_HEADER_LEN_MAX
            .checked_sub(header_len(types::DATA, value_len))
            .ok_or_else(too_small)?;
        Writer::new(&mut out[start..DATA_HEADER_LEN_MAX])
            .header(types::DATA, value_len)
            .map_err(SignError::Encode)?;
        Ok(start..end)
    }
}

/// Hashes packets whose contents are present, many at a time: for their DigestSha256, with which they are completed, and for
/// their implicit digests. `seal` is that of DigestSha256.
pub(crate) fn hash_packets<'a>(
    seal: &PreparedSigner<'_>,
    packets: impl IntoIterator<Item = (&'a Slot, &'a mut [u8])>,
    counters: &Counters,
) -> Result<Hashed, SignError> {
    let mut packets: Vec<_> = packets.into_iter().collect();
    let signed: Vec<&[u8]> = packets.iter().map(|(slot, out)| slot.signed(out)).collect();
    let signatures = sha256_each(&signed);
    let mut scratch = Vec::new();
    let mut closed: Vec<&[u8]> = Vec::with_capacity(packets.len());
    let mut content_bytes = 0;
    for ((slot, out), signature) in packets.iter_mut().zip(&signatures) {
        let range = seal.close_with(slot, out, &mut scratch, signature)?;
        closed.push(&out[range]);
        content_bytes += u64::try_from(slot.content.len()).unwrap_or(0);
    }
    let digests = sha256_each(&closed);
    counters.add_signed(content_bytes);
    counters.add_digested(content_bytes);
    Ok((signatures, digests))
}

impl std::fmt::Debug for PreparedSigner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedSigner").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ndn_packet::{Data, DataBuilder};
    use ndn_security::{
        DigestSigner, HmacKey, KeySigner, KeyType, Locator, NullSigner, PrivateKey, sign_data,
        verify_data,
    };

    use super::*;

    const LIMITS: PacketLimits =
        PacketLimits { segment_len: 8192, packet_len_max: 8800, freshness_ms: 10_000 };

    fn name() -> Name {
        Name::from_uri("/x/file/v=1700000000123456789").unwrap()
    }

    fn packet(layout: &Layout, seal: &PreparedSigner<'_>, segment: u64, object: &[u8]) -> Vec<u8> {
        let mut out = vec![0xee; layout.packet_len_max(seal)];
        let slot = layout.lay_out(segment, seal, &mut out).unwrap();
        let (offset, length) = layout.extent(segment);
        let offset = usize::try_from(offset).unwrap();
        out[slot.content.clone()].copy_from_slice(&object[offset..offset + length]);
        let range = seal.close(&slot, &mut out, &mut Vec::new()).unwrap();
        out[range].to_vec()
    }

    #[test]
    fn packets_equal_those_of_the_builder() {
        let hmac = HmacKey::new(b"key", Locator::Name(Name::from_uri("/key").unwrap()));
        let signers: [&dyn Signer; 3] = [&DigestSigner, &NullSigner, &hmac];
        for signer in signers {
            let seal = PreparedSigner::new(signer).unwrap();
            for size in [0, 1, 100, 8191, 8192, 8193, 30_000] {
                let object: Vec<u8> = (0..size).map(|i| u8::try_from(i % 251).unwrap()).collect();
                let layout =
                    Layout::new(name(), u64::try_from(size).unwrap(), &LIMITS, &seal).unwrap();
                for segment in 0..=layout.final_segment {
                    let found = packet(&layout, &seal, segment, &object);
                    let content = object.chunks(8192).nth(usize::try_from(segment).unwrap());
                    let mut full = name();
                    full.push_segment(segment);
                    let expected = DataBuilder::new(&full)
                        .freshness_ms(10_000)
                        .final_segment(layout.final_segment)
                        .content(content.unwrap_or_default());
                    assert!(found == sign_data(&expected, signer).unwrap(), "{size} {segment}");
                }
            }
        }
    }

    #[test]
    fn signatures_of_any_length_are_supported() {
        let key = Arc::new(PrivateKey::generate(KeyType::Ecdsa).unwrap());
        let signer = KeySigner::new(Arc::clone(&key), Locator::Digest(key.key_digest()));
        let seal = PreparedSigner::new(&signer).unwrap();
        let verifier = key.public_key().unwrap();
        for size in [0_u64, 20, 60, 140, 8192] {
            let layout = Layout::new(name(), size, &LIMITS, &seal).unwrap();
            for _ in 0..20 {
                let found = packet(&layout, &seal, 0, &[7; 8192]);
                verify_data(&Data::parse(&found).unwrap(), &verifier).unwrap();
            }
        }
    }

    #[test]
    fn long_names_and_small_packets_shorten_segments() {
        let seal = PreparedSigner::new(&DigestSigner).unwrap();
        for packet_len_max in [300, 1452, 8800] {
            let limits = PacketLimits { packet_len_max, ..LIMITS };
            for length in [10, 100, 250] {
                let mut long = name();
                long.push_generic(vec![b'x'; length]).push_version(u64::MAX);
                let Some(layout) = Layout::new(long, u64::MAX, &limits, &seal) else {
                    assert_eq!((packet_len_max, length), (300, 250));
                    continue;
                };
                assert!(layout.packet_len_max(&seal) + LINK_HEADER_LEN <= packet_len_max);
                assert_eq!(layout.extent(layout.final_segment + 1).1, 0);
            }
        }
    }
}

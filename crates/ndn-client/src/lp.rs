//! NDNLPv2 for applications: header fields of a packet.

use std::time::Duration;

use bytes::Bytes;
use ndn_packet::{DecodeError, LpPacket, NackReason};

/// A PIT token: opaque bytes of the forwarder, returned with the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PitToken {
    length: u8,
    bytes: [u8; 32],
}

impl PitToken {
    fn new(token: &[u8]) -> Self {
        let mut bytes = [0; 32];
        let length = token.len().min(bytes.len());
        bytes[..length].copy_from_slice(&token[..length]);
        Self { length: u8::try_from(length).unwrap_or(0), bytes }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A network packet with its link header fields.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    /// Interest or Data.
    pub(crate) wire: Bytes,
    pub(crate) nack: Option<NackReason>,
    pub(crate) token: PitToken,
    pub(crate) congestion_mark: bool,
}

/// Converts link packets into network packets.
#[derive(Default)]
pub(crate) struct Reassembler(ndn_packet::lp::Reassembler);

impl Reassembler {
    /// Handles one link packet, or a bare network packet. Returns `None` when it contains no
    /// packet, or not yet a whole one. `now` counts from an arbitrary origin.
    pub(crate) fn handle(
        &mut self,
        now: Duration,
        frame: &Bytes,
    ) -> Result<Option<Incoming>, DecodeError> {
        let packet = LpPacket::parse(frame)?;
        if packet.frag_count() <= 1 {
            return Ok(incoming(frame, &packet));
        }
        let Some(whole) = self.0.add(now, &packet).map(Bytes::from) else { return Ok(None) };
        Ok(incoming(&whole, &LpPacket::parse(&whole)?))
    }
}

/// The content of a frame with a whole packet; `None` for an empty one.
fn incoming(frame: &Bytes, packet: &LpPacket<'_>) -> Option<Incoming> {
    Some(Incoming {
        wire: frame.slice_ref(packet.fragment()?),
        nack: packet.nack(),
        token: PitToken::new(packet.pit_token().unwrap_or_default()),
        congestion_mark: packet.congestion_mark().is_some_and(|mark| mark != 0),
    })
}

#[cfg(test)]
mod tests {
    use ndn_packet::LpHeader;
    use ndn_packet::lp::{append_packet, fragment_frame};

    use super::*;

    const NOW: Duration = Duration::ZERO;

    /// A packet arrives equally in one frame and in several.
    #[test]
    fn packets_arrive_with_their_header_fields() {
        let name = ndn_packet::Name::from_uri("/lp/test").unwrap();
        let data = ndn_packet::DataBuilder::new(name.as_ref()).content(&[3; 8000]);
        let data = ndn_security::sign_data(&data, &ndn_security::DigestSigner).unwrap();
        let mut frame = Vec::new();
        let header =
            LpHeader { pit_token: &[7; 32], congestion_mark: Some(1), ..LpHeader::default() };
        append_packet(&mut frame, &header, &data);
        for mtu in [1400, 10_000] {
            let mut reassembler = Reassembler::default();
            let mut found = Vec::new();
            fragment_frame(&frame, mtu, &mut 0, |piece| {
                let piece = Bytes::copy_from_slice(piece);
                found.extend(reassembler.handle(NOW, &piece).unwrap());
            })
            .unwrap();
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].wire, data);
            assert_eq!(found[0].token.as_bytes(), [7; 32]);
            assert!(found[0].congestion_mark);
        }
        let bare = Reassembler::default().handle(NOW, &Bytes::from(data.clone())).unwrap().unwrap();
        assert_eq!(bare.wire, data);
        assert_eq!(bare.token.as_bytes(), b"");
    }
}

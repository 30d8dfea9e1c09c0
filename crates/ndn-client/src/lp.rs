//! NDNLPv2 on the client's side: what accompanies a packet, fragmentation and reassembly.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ndn_packet::{DecodeError, LpHeader, LpPacket, NackReason};

/// Messages under reassembly at a time.
const MESSAGES_MAX: usize = 64;
/// Fragments of one message.
const FRAGMENTS_MAX: u64 = 400;
/// Bytes of one message.
const MESSAGE_LEN_MAX: usize = 64 * 1024;
/// How long fragments are waited for.
const REASSEMBLY_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest header in front of a fragment: sequence, index, count, token, mark, and the outer TLs.
const FRAGMENT_HEADER_LEN_MAX: usize = 96;

/// A PIT token: opaque bytes of the forwarder that go back with the answer.
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

/// A network packet with what its link header said.
#[derive(Debug, Clone)]
pub(crate) struct Incoming {
    /// Interest or Data.
    pub(crate) wire: Bytes,
    pub(crate) nack: Option<NackReason>,
    pub(crate) token: PitToken,
    pub(crate) congestion_mark: bool,
}

struct Partial {
    first_sequence: u64,
    fragments: Vec<Option<Bytes>>,
    missing: usize,
    length: usize,
    /// Fields of the first fragment, which describe the whole message.
    header: Option<Incoming>,
    deadline: Duration,
}

/// Turns link packets into network packets.
#[derive(Default)]
pub(crate) struct Reassembler {
    partial: VecDeque<Partial>,
}

impl Reassembler {
    /// Takes one link packet, or a bare network packet. `None` when it carries nothing, or not yet
    /// a whole packet. `now` counts from an arbitrary moment.
    pub(crate) fn handle(
        &mut self,
        now: Duration,
        frame: &Bytes,
    ) -> Result<Option<Incoming>, DecodeError> {
        let packet = LpPacket::parse(frame)?;
        let Some(fragment) = packet.fragment() else {
            return Ok(None);
        };
        let incoming = Incoming {
            wire: frame.slice_ref(fragment),
            nack: packet.nack(),
            token: PitToken::new(packet.pit_token().unwrap_or_default()),
            congestion_mark: packet.congestion_mark().is_some_and(|mark| mark != 0),
        };
        if packet.frag_count() <= 1 {
            return Ok(Some(incoming));
        }
        Ok(self.add_fragment(now, &packet, incoming))
    }

    fn add_fragment(
        &mut self,
        now: Duration,
        packet: &LpPacket<'_>,
        incoming: Incoming,
    ) -> Option<Incoming> {
        while self.partial.front().is_some_and(|partial| partial.deadline <= now) {
            self.partial.pop_front();
        }
        let (index, count) = (packet.frag_index(), packet.frag_count());
        if count > FRAGMENTS_MAX || index >= count {
            return None;
        }
        let first_sequence = packet.sequence()?.wrapping_sub(index);
        let count = usize::try_from(count).ok()?;
        let index = usize::try_from(index).ok()?;
        let found = self.partial.iter().position(|partial| {
            partial.first_sequence == first_sequence && partial.fragments.len() == count
        });
        let place = found.unwrap_or_else(|| {
            if self.partial.len() >= MESSAGES_MAX {
                self.partial.pop_front();
            }
            self.partial.push_back(Partial {
                first_sequence,
                fragments: vec![None; count],
                missing: count,
                length: 0,
                header: None,
                deadline: now + REASSEMBLY_TIMEOUT,
            });
            self.partial.len() - 1
        });
        let partial = self.partial.get_mut(place)?;
        let slot = partial.fragments.get_mut(index)?;
        if slot.is_some() {
            return None;
        }
        partial.missing -= 1;
        partial.length += incoming.wire.len();
        *slot = Some(incoming.wire.clone());
        if index == 0 {
            partial.header = Some(incoming);
        }
        if partial.length > MESSAGE_LEN_MAX {
            self.partial.remove(place);
            return None;
        }
        if partial.missing > 0 {
            return None;
        }
        let partial = self.partial.remove(place)?;
        let mut wire = BytesMut::with_capacity(partial.length);
        for fragment in partial.fragments.iter().flatten() {
            wire.extend_from_slice(fragment);
        }
        Some(Incoming { wire: wire.freeze(), ..partial.header? })
    }
}

/// Appends `packet` to `out` in an LpPacket that carries `header`, bare if there is nothing to carry.
pub(crate) fn append_packet(out: &mut Vec<u8>, header: &LpHeader<'_>, packet: &[u8]) {
    if !header.is_empty() {
        let start = out.len();
        let prefix_len = header.encoded_len(packet.len());
        out.resize(start + prefix_len, 0);
        if header.write_prefix(packet.len(), &mut out[start..]).is_err() {
            // Only a token longer than the format allows; ours come from parsed packets.
            out.truncate(start);
        }
    }
    out.extend_from_slice(packet);
}

/// Cuts `frame`, a bare or LP packet, into datagrams of at most `mtu` bytes and hands each to
/// `send`. `sequence` numbers the fragments of this connection.
pub(crate) fn fragment(
    frame: &[u8],
    mtu: usize,
    sequence: &mut u64,
    mut send: impl FnMut(&[u8]),
) -> Result<(), DecodeError> {
    if frame.len() <= mtu {
        send(frame);
        return Ok(());
    }
    let packet = LpPacket::parse(frame)?;
    let Some(payload) = packet.fragment() else {
        return Ok(());
    };
    let chunk_len = mtu.saturating_sub(FRAGMENT_HEADER_LEN_MAX).max(1);
    let count = u64::try_from(payload.len().div_ceil(chunk_len)).unwrap_or(u64::MAX);
    let mut out = Vec::with_capacity(mtu);
    for (index, chunk) in (0u64..).zip(payload.chunks(chunk_len)) {
        let mut header = LpHeader {
            sequence: Some(*sequence),
            frag_index: Some(index),
            frag_count: Some(count),
            ..LpHeader::default()
        };
        if index == 0 {
            header.pit_token = packet.pit_token().unwrap_or_default();
            header.nack = packet.nack();
            header.congestion_mark = packet.congestion_mark();
        }
        *sequence = sequence.wrapping_add(1);
        out.clear();
        append_packet(&mut out, &header, chunk);
        send(&out);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn data(length: usize) -> Vec<u8> {
        let name = ndn_packet::Name::from_uri("/lp/test").unwrap();
        let content: Vec<u8> = (0..length).map(|i| u8::try_from(i % 251).unwrap()).collect();
        ndn_security::sign_data(
            &ndn_packet::DataBuilder::new(name.as_ref()).content(&content),
            &ndn_security::DigestSigner,
        )
        .unwrap()
    }

    fn fragments(frame: &[u8], mtu: usize, sequence: &mut u64) -> Vec<Bytes> {
        let mut datagrams = Vec::new();
        fragment(frame, mtu, sequence, |datagram| {
            assert!(datagram.len() <= mtu);
            datagrams.push(Bytes::copy_from_slice(datagram));
        })
        .unwrap();
        datagrams
    }

    #[test]
    fn small_packets_go_bare() {
        let packet = data(100);
        assert_eq!(fragments(&packet, 1400, &mut 0), [Bytes::from(packet.clone())]);
        let incoming =
            Reassembler::default().handle(NOW, &Bytes::from(packet.clone())).unwrap().unwrap();
        assert_eq!(incoming.wire, packet);
        assert_eq!(incoming.token.as_bytes(), b"");
    }

    #[test]
    fn fragments_in_any_order_give_the_packet_and_its_header() {
        let packet = data(8000);
        let mut frame = Vec::new();
        let header =
            LpHeader { pit_token: &[7; 32], congestion_mark: Some(1), ..LpHeader::default() };
        append_packet(&mut frame, &header, &packet);
        let mut sequence = u64::MAX - 2;
        for turn in 0..7 {
            let mut datagrams = fragments(&frame, 1400, &mut sequence);
            let count = datagrams.len();
            assert!(count >= 6);
            datagrams.rotate_left(turn % count);
            let mut reassembler = Reassembler::default();
            let mut found = None;
            for datagram in &datagrams {
                assert!(found.is_none());
                // Repetition does no harm.
                found = reassembler.handle(NOW, datagram).unwrap();
                if found.is_none() {
                    assert!(reassembler.handle(NOW, datagram).unwrap().is_none());
                }
            }
            let found = found.unwrap();
            assert_eq!(found.wire, packet);
            assert_eq!(found.token.as_bytes(), [7; 32]);
            assert!(found.congestion_mark);
            assert!(reassembler.partial.is_empty());
        }
    }

    #[test]
    fn what_is_missing_too_long_is_forgotten() {
        let datagrams = fragments(&data(3000), 1400, &mut 5);
        let mut reassembler = Reassembler::default();
        let (last, rest) = datagrams.split_last().unwrap();
        for datagram in rest {
            assert!(reassembler.handle(NOW, datagram).unwrap().is_none());
        }
        assert!(reassembler.handle(REASSEMBLY_TIMEOUT, last).unwrap().is_none());
        assert_eq!(reassembler.partial.len(), 1);
    }

    #[test]
    fn memory_is_bounded() {
        let mut reassembler = Reassembler::default();
        let mut out = Vec::new();
        for sequence in 0..1000 {
            out.clear();
            let header = LpHeader {
                sequence: Some(sequence * 1000),
                frag_index: Some(0),
                frag_count: Some(2),
                ..LpHeader::default()
            };
            append_packet(&mut out, &header, &[0; 10]);
            assert!(reassembler.handle(NOW, &Bytes::copy_from_slice(&out)).unwrap().is_none());
        }
        assert_eq!(reassembler.partial.len(), MESSAGES_MAX);
        out.clear();
        let header = LpHeader {
            sequence: Some(1),
            frag_index: Some(1),
            frag_count: Some(100_000),
            ..LpHeader::default()
        };
        append_packet(&mut out, &header, &[0; 10]);
        assert!(reassembler.handle(NOW, &Bytes::copy_from_slice(&out)).unwrap().is_none());
        assert_eq!(reassembler.partial.len(), MESSAGES_MAX);
    }
}

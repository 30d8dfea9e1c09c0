//! Fragmentation and reassembly for applications (NDNLPv2). Forwarders use `ndn-face`, which limits
//! memory over many faces.

use std::collections::VecDeque;
use std::time::Duration;

use super::{LpHeader, LpPacket, NackReason};
use crate::DecodeError;

/// Maximum number of messages under reassembly.
const MESSAGES_MAX: usize = 64;
/// Maximum number of fragments per message.
const FRAGMENTS_MAX: u64 = 400;
/// Maximum number of bytes per message.
const MESSAGE_LEN_MAX: usize = 64 * 1024;
/// Time limit for the reassembly of a message.
const REASSEMBLY_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum length of a fragment's header: sequence, index, count, token, mark, and the outer types
/// and lengths.
const PIECE_HEADER_LEN_MAX: usize = 96;

/// Appends `packet` to `out` in an LpPacket with `header`; bare if the header is empty, or has a
/// token longer than the format allows.
pub fn append_packet(out: &mut Vec<u8>, header: &LpHeader<'_>, packet: &[u8]) {
    if !header.is_empty() {
        let start = out.len();
        let prefix_len = header.encoded_len(packet.len());
        out.resize(start + prefix_len, 0);
        if header.write_prefix(packet.len(), &mut out[start..]).is_err() {
            out.truncate(start);
        }
    }
    out.extend_from_slice(packet);
}

/// Fragments `frame`, a bare network packet or an LpPacket, into frames of at most `mtu` bytes, and
/// passes each to `send`. A frame that fits is passed unchanged. `sequence` is the next Sequence of
/// the link.
///
/// # Errors
/// When `frame` must be fragmented and is neither.
pub fn fragment_frame(
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
    let piece_len = mtu.saturating_sub(PIECE_HEADER_LEN_MAX).max(1);
    let count = u64::try_from(payload.len().div_ceil(piece_len)).unwrap_or(u64::MAX);
    let mut out = Vec::with_capacity(mtu);
    for (index, fragment) in (0u64..).zip(payload.chunks(piece_len)) {
        let mut header = if index == 0 { fields_of(&packet) } else { LpHeader::default() };
        header.sequence = Some(*sequence);
        header.frag_index = Some(index);
        header.frag_count = Some(count);
        *sequence = sequence.wrapping_add(1);
        out.clear();
        append_packet(&mut out, &header, fragment);
        send(&out);
    }
    Ok(())
}

/// The header fields that belong to the packet rather than to the frame.
fn fields_of<'a>(packet: &LpPacket<'a>) -> LpHeader<'a> {
    LpHeader {
        pit_token: packet.pit_token().unwrap_or_default(),
        nack: packet.nack(),
        congestion_mark: packet.congestion_mark(),
        ..LpHeader::default()
    }
}

#[derive(Debug)]
struct Partial {
    first_sequence: u64,
    fragments: Vec<Option<Vec<u8>>>,
    missing: usize,
    length: usize,
    /// Fields of the packet, from the header of the first fragment.
    pit_token: Vec<u8>,
    nack: Option<NackReason>,
    congestion_mark: Option<u64>,
    deadline: Duration,
}

/// Reassembles fragmented packets.
#[derive(Debug, Default)]
pub struct Reassembler {
    partial: VecDeque<Partial>,
}

impl Reassembler {
    /// Number of incomplete packets.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.partial.len()
    }

    /// Takes an LpPacket whose [`frag_count`](LpPacket::frag_count) is above 1; returns the whole
    /// packet once it is complete, as a frame with PIT token, Nack and congestion mark of the first
    /// fragment. Invalid and duplicate fragments are ignored. `now` counts from an arbitrary
    /// origin.
    pub fn add(&mut self, now: Duration, packet: &LpPacket<'_>) -> Option<Vec<u8>> {
        while self.partial.front().is_some_and(|partial| partial.deadline <= now) {
            self.partial.pop_front();
        }
        let (index, count) = (packet.frag_index(), packet.frag_count());
        if count > FRAGMENTS_MAX || index >= count {
            return None;
        }
        let fragment = packet.fragment()?;
        let first_sequence = packet.sequence()?.wrapping_sub(index);
        let (count, index) = (usize::try_from(count).ok()?, usize::try_from(index).ok()?);
        let position = self.position(now, first_sequence, count);
        let partial = self.partial.get_mut(position)?;
        let slot = partial.fragments.get_mut(index)?;
        if slot.is_some() {
            return None;
        }
        partial.missing -= 1;
        partial.length += fragment.len();
        *slot = Some(fragment.to_vec());
        if index == 0 {
            let LpHeader { pit_token, nack, congestion_mark, .. } = fields_of(packet);
            partial.pit_token = pit_token.to_vec();
            (partial.nack, partial.congestion_mark) = (nack, congestion_mark);
        }
        if partial.length > MESSAGE_LEN_MAX {
            self.partial.remove(position);
            return None;
        }
        if partial.missing > 0 {
            return None;
        }
        let partial = self.partial.remove(position)?;
        Some(partial.reassembled())
    }

    /// The position of a message, which may be new.
    fn position(&mut self, now: Duration, first_sequence: u64, count: usize) -> usize {
        let found = self.partial.iter().position(|partial| {
            partial.first_sequence == first_sequence && partial.fragments.len() == count
        });
        found.unwrap_or_else(|| {
            if self.partial.len() >= MESSAGES_MAX {
                self.partial.pop_front();
            }
            self.partial.push_back(Partial {
                first_sequence,
                fragments: vec![None; count],
                missing: count,
                length: 0,
                pit_token: Vec::new(),
                nack: None,
                congestion_mark: None,
                deadline: now + REASSEMBLY_TIMEOUT,
            });
            self.partial.len() - 1
        })
    }
}

impl Partial {
    /// The reassembled packet in a frame.
    fn reassembled(&self) -> Vec<u8> {
        let payload: Vec<u8> = self.fragments.iter().flatten().flatten().copied().collect();
        let header = LpHeader {
            pit_token: &self.pit_token,
            nack: self.nack,
            congestion_mark: self.congestion_mark,
            ..LpHeader::default()
        };
        let mut frame = Vec::with_capacity(payload.len() + PIECE_HEADER_LEN_MAX);
        append_packet(&mut frame, &header, &payload);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tlv;

    const NOW: Duration = Duration::ZERO;

    fn data(length: usize) -> Vec<u8> {
        let content: Vec<u8> = (0..length).map(|i| u8::try_from(i % 251).unwrap()).collect();
        tlv(6, &[&[7, 3, 8, 1, 65][..], &tlv(21, &content)].concat())
    }

    fn fragments(frame: &[u8], mtu: usize, sequence: &mut u64) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        fragment_frame(frame, mtu, sequence, |frame| {
            assert!(frame.len() <= mtu);
            frames.push(frame.to_vec());
        })
        .unwrap();
        frames
    }

    fn add(reassembler: &mut Reassembler, now: Duration, frame: &[u8]) -> Option<Vec<u8>> {
        reassembler.add(now, &LpPacket::parse(frame).unwrap())
    }

    #[test]
    fn small_packets_are_not_fragmented() {
        let packet = data(100);
        assert_eq!(fragments(&packet, 1400, &mut 0), [packet]);
    }

    #[test]
    fn fragments_in_any_order_are_reassembled_with_header() {
        let packet = data(8000);
        for header in [
            LpHeader { pit_token: &[7; 32], congestion_mark: Some(1), ..LpHeader::default() },
            LpHeader { nack: Some(NackReason::NO_ROUTE), ..LpHeader::default() },
            LpHeader::default(),
        ] {
            let mut frame = Vec::new();
            append_packet(&mut frame, &header, &packet);
            let mut sequence = u64::MAX - 2;
            for turn in 0..7 {
                let mut frames = fragments(&frame, 1400, &mut sequence);
                let count = frames.len();
                assert!(count >= 6);
                frames.rotate_left(turn % count);
                let mut reassembler = Reassembler::default();
                let mut found = None;
                for fragment in &frames {
                    assert!(found.is_none());
                    found = add(&mut reassembler, NOW, fragment);
                    // Duplicates have no effect.
                    if found.is_none() {
                        assert!(add(&mut reassembler, NOW, fragment).is_none());
                    }
                }
                assert_eq!(found.unwrap(), frame);
                assert_eq!(reassembler.pending(), 0);
            }
        }
    }

    #[test]
    fn incomplete_messages_expire() {
        let frames = fragments(&data(3000), 1400, &mut 5);
        let mut reassembler = Reassembler::default();
        let (last, rest) = frames.split_last().unwrap();
        for frame in rest {
            assert!(add(&mut reassembler, NOW, frame).is_none());
        }
        assert!(add(&mut reassembler, REASSEMBLY_TIMEOUT, last).is_none());
        assert_eq!(reassembler.pending(), 1);
    }

    #[test]
    fn memory_is_bounded() {
        let mut reassembler = Reassembler::default();
        let mut send = |sequence, frag_index, frag_count| {
            let mut frame = Vec::new();
            let header = LpHeader {
                sequence: Some(sequence),
                frag_index: Some(frag_index),
                frag_count: Some(frag_count),
                ..LpHeader::default()
            };
            append_packet(&mut frame, &header, &[0; 10]);
            assert!(add(&mut reassembler, NOW, &frame).is_none());
            reassembler.pending()
        };
        let most = (0..1000).map(|message| send(message * 1000, 0, 2)).max();
        assert_eq!(most, Some(MESSAGES_MAX));
        assert_eq!(send(1, 1, 100_000), MESSAGES_MAX);
        assert_eq!(send(1, 2, 2), MESSAGES_MAX);
    }
}

//! Packets that travel in several frames, on the side of applications: cut up, and put together again
//! (NDNLPv2, fragmentation and reassembly). Forwarders do it in `ndn-face`, where memory is budgeted
//! over many faces.

use std::collections::VecDeque;
use std::time::Duration;

use super::{LpHeader, LpPacket, NackReason};
use crate::DecodeError;

/// Messages under reassembly at a time.
const MESSAGES_MAX: usize = 64;
/// Pieces of one message.
const PIECES_MAX: u64 = 400;
/// Bytes of one message.
const MESSAGE_LEN_MAX: usize = 64 * 1024;
/// How long pieces are waited for.
const REASSEMBLY_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest header in front of a piece: sequence, index, count, token, mark, and the outer TLs.
const PIECE_HEADER_LEN_MAX: usize = 96;

/// Appends `packet` to `out` in an LpPacket that carries `header`, bare if there is nothing to carry, or
/// if the header has a token longer than the format allows.
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

/// Cuts `frame`, a bare network packet or an LpPacket, into frames of at most `mtu` bytes, and hands each
/// to `send`. One that fits is handed over as it is. `sequence` numbers the pieces of this link.
///
/// # Errors
/// When `frame` has to be cut and is neither.
pub fn cut(
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
    for (index, piece) in (0u64..).zip(payload.chunks(piece_len)) {
        let mut header = if index == 0 { fields_of(&packet) } else { LpHeader::default() };
        header.sequence = Some(*sequence);
        header.frag_index = Some(index);
        header.frag_count = Some(count);
        *sequence = sequence.wrapping_add(1);
        out.clear();
        append_packet(&mut out, &header, piece);
        send(&out);
    }
    Ok(())
}

/// What the header of an application's packet says of the packet, rather than of the frame.
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
    pieces: Vec<Option<Vec<u8>>>,
    missing: usize,
    length: usize,
    /// What the header of the first piece says of the packet.
    pit_token: Vec<u8>,
    nack: Option<NackReason>,
    congestion_mark: Option<u64>,
    deadline: Duration,
}

/// Packets of which some pieces have come.
#[derive(Debug, Default)]
pub struct Reassembler {
    partial: VecDeque<Partial>,
}

impl Reassembler {
    /// Packets that are not complete yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.partial.len()
    }

    /// Takes an LpPacket whose [`frag_count`](LpPacket::frag_count) is above 1; returns the whole packet
    /// once it is complete, as a frame with PIT token, Nack and congestion mark of the first piece. What
    /// makes no sense is left out, and so is what was taken before. `now` counts from an arbitrary moment.
    pub fn add(&mut self, now: Duration, packet: &LpPacket<'_>) -> Option<Vec<u8>> {
        while self.partial.front().is_some_and(|partial| partial.deadline <= now) {
            self.partial.pop_front();
        }
        let (index, count) = (packet.frag_index(), packet.frag_count());
        if count > PIECES_MAX || index >= count {
            return None;
        }
        let piece = packet.fragment()?;
        let first_sequence = packet.sequence()?.wrapping_sub(index);
        let (count, index) = (usize::try_from(count).ok()?, usize::try_from(index).ok()?);
        let place = self.place(now, first_sequence, count);
        let partial = self.partial.get_mut(place)?;
        let slot = partial.pieces.get_mut(index)?;
        if slot.is_some() {
            return None;
        }
        partial.missing -= 1;
        partial.length += piece.len();
        *slot = Some(piece.to_vec());
        if index == 0 {
            let LpHeader { pit_token, nack, congestion_mark, .. } = fields_of(packet);
            partial.pit_token = pit_token.to_vec();
            (partial.nack, partial.congestion_mark) = (nack, congestion_mark);
        }
        if partial.length > MESSAGE_LEN_MAX {
            self.partial.remove(place);
            return None;
        }
        if partial.missing > 0 {
            return None;
        }
        let partial = self.partial.remove(place)?;
        Some(partial.joined())
    }

    /// Where the pieces of a message are, which may be new.
    fn place(&mut self, now: Duration, first_sequence: u64, count: usize) -> usize {
        let found = self.partial.iter().position(|partial| {
            partial.first_sequence == first_sequence && partial.pieces.len() == count
        });
        found.unwrap_or_else(|| {
            if self.partial.len() >= MESSAGES_MAX {
                self.partial.pop_front();
            }
            self.partial.push_back(Partial {
                first_sequence,
                pieces: vec![None; count],
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
    /// The whole packet in its frame.
    fn joined(&self) -> Vec<u8> {
        let payload: Vec<u8> = self.pieces.iter().flatten().flatten().copied().collect();
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

    fn pieces(frame: &[u8], mtu: usize, sequence: &mut u64) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        cut(frame, mtu, sequence, |frame| {
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
    fn small_packets_go_as_they_are() {
        let packet = data(100);
        assert_eq!(pieces(&packet, 1400, &mut 0), [packet]);
    }

    #[test]
    fn pieces_in_any_order_give_the_packet_and_its_header() {
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
                let mut frames = pieces(&frame, 1400, &mut sequence);
                let count = frames.len();
                assert!(count >= 6);
                frames.rotate_left(turn % count);
                let mut reassembler = Reassembler::default();
                let mut found = None;
                for piece in &frames {
                    assert!(found.is_none());
                    found = add(&mut reassembler, NOW, piece);
                    // Repetition does no harm.
                    if found.is_none() {
                        assert!(add(&mut reassembler, NOW, piece).is_none());
                    }
                }
                assert_eq!(found.unwrap(), frame);
                assert_eq!(reassembler.pending(), 0);
            }
        }
    }

    #[test]
    fn what_is_missing_too_long_is_forgotten() {
        let frames = pieces(&data(3000), 1400, &mut 5);
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

//! NDNLPv2 on one face: headers off and on, fragments together and apart.
//!
//! Pure: frames and the time come in, network packets and frames go out. Fields that a later
//! version of the protocol or of this forwarder uses (Ack, TxSequence) are accepted and ignored.

mod congestion;
mod reassembly;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use ndn_forwarding::{LpFields, PitToken, TxKind, TxPacket};
use ndn_packet::{LpHeader, LpPacket};

use crate::{FaceCounters, LinkDropReason};

pub use congestion::{CongestionMarker, CongestionOptions};
pub use reassembly::{
    FRAGMENT_COUNT_MAX, PARTIAL_MESSAGES_MAX, REASSEMBLY_TIMEOUT_NS, Reassembler,
};

/// Largest network packet that is sent or accepted, in bytes (`MAX_NDN_PACKET_SIZE` elsewhere).
pub const PACKET_LENGTH_MAX: usize = 8800;
/// Smallest MTU of a face: a header with every field leaves room for payload.
pub const MTU_MIN: usize = 128;
/// Longest header that a link service writes: all fields but PrefixAnnouncement.
const HEADER_LENGTH_MAX: usize = 160;
/// CachePolicyType NoCache.
const NO_CACHE: u64 = 1;

/// How a link service behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkOptions {
    /// Longest frame that the transport takes; `None` for a stream, which takes any.
    pub mtu: Option<usize>,
    /// When to set congestion marks; `None` for never.
    pub congestion: Option<CongestionOptions>,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self { mtu: None, congestion: Some(CongestionOptions::default()) }
    }
}

/// What a received frame gave.
#[derive(Debug)]
pub enum Received<'a> {
    /// A whole network packet in this range of the frame.
    Packet(Range<usize>, LpFields),
    /// A network packet whose last missing fragment came with the frame.
    Reassembled(&'a [u8], LpFields),
    /// Nothing yet: a fragment, or an IDLE packet.
    Nothing,
    /// The frame was dropped, and counted.
    Dropped(LinkDropReason),
}

/// The link service of one face.
#[derive(Debug)]
pub struct LinkService {
    options: LinkOptions,
    reassembler: Reassembler,
    marker: Option<CongestionMarker>,
    next_sequence: u64,
    counters: Arc<FaceCounters>,
}

impl LinkService {
    /// A link service that counts in `counters`. Sequence numbers of fragments start at
    /// `first_sequence`, which should be random, so that a peer does not mix the fragments of a
    /// restarted face with older ones.
    #[must_use]
    pub fn new(options: LinkOptions, first_sequence: u64, counters: Arc<FaceCounters>) -> Self {
        Self {
            options,
            reassembler: Reassembler::default(),
            marker: options.congestion.map(CongestionMarker::new),
            next_sequence: first_sequence,
            counters,
        }
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> &Arc<FaceCounters> {
        &self.counters
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> LinkOptions {
        self.options
    }

    /// Replaces the options; partial messages stay.
    pub fn set_options(&mut self, options: LinkOptions) {
        if options.congestion != self.options.congestion {
            self.marker = options.congestion.map(CongestionMarker::new);
        }
        self.options = options;
    }

    /// Takes one frame from the transport.
    #[inline]
    pub fn receive(&mut self, now_ns: u64, frame: &[u8]) -> Received<'_> {
        self.counters.in_frames.increment();
        self.counters.in_bytes.add(frame.len() as u64);
        match frame.first() {
            Some(5) => self.counters.in_interests.increment(),
            Some(6) => self.counters.in_data.increment(),
            _ => return self.receive_lp(now_ns, frame),
        }
        Received::Packet(0..frame.len(), LpFields::default())
    }

    fn receive_lp(&mut self, now_ns: u64, frame: &[u8]) -> Received<'_> {
        let Ok(packet) = LpPacket::parse(frame) else {
            return dropped(&self.counters, LinkDropReason::MalformedHeader);
        };
        let (Some(payload), Some(offset)) = (packet.fragment(), packet.fragment_offset()) else {
            return Received::Nothing;
        };
        let fields = fields_of(&packet);
        if packet.frag_count() == 1 && packet.frag_index() == 0 {
            count_kind(&self.counters, payload, &fields);
            return Received::Packet(offset..offset + payload.len(), fields);
        }
        let Some(sequence) = packet.sequence() else {
            return dropped(&self.counters, LinkDropReason::InvalidFragment);
        };
        let fragment = reassembly::Fragment {
            sequence,
            index: packet.frag_index(),
            count: packet.frag_count(),
            payload,
            fields,
        };
        match self.reassembler.add(now_ns, &fragment, &self.counters) {
            Err(reason) => dropped(&self.counters, reason),
            Ok(None) => Received::Nothing,
            Ok(Some(message)) => {
                count_kind(&self.counters, message.payload, &message.fields);
                Received::Reassembled(message.payload, message.fields)
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due: a partial message will have waited
    /// too long.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.reassembler.next_deadline()
    }

    /// Gives up partial messages that have waited too long.
    pub fn handle_timeout(&mut self, now_ns: u64) {
        self.reassembler.expire(now_ns, &self.counters);
    }

    /// Turns a network packet into frames: `emit` gets the header and the payload of each, in
    /// order. `queued_bytes` is the length of the transport's output queue now, for congestion
    /// marking.
    ///
    /// # Errors
    /// [`LinkDropReason::MtuExceeded`], counted; nothing was emitted.
    #[inline]
    pub fn send(
        &mut self,
        now_ns: u64,
        queued_bytes: usize,
        packet: &TxPacket<'_>,
        mut emit: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), LinkDropReason> {
        let header = self.header(now_ns, queued_bytes, packet);
        let mtu = self.options.mtu.unwrap_or(usize::MAX);
        if header.is_empty() && packet.wire.len() <= mtu {
            self.count_sent(packet, packet.wire.len());
            emit(&[], packet.wire);
            return Ok(());
        }
        let header_length = header.encoded_len(packet.wire.len());
        if header_length + packet.wire.len() > mtu {
            return self.send_fragments(&header, packet, mtu, &mut emit);
        }
        let mut prefix = [0; HEADER_LENGTH_MAX];
        let Ok(length) = header.write_prefix(packet.wire.len(), &mut prefix) else {
            self.counters.count_drop(LinkDropReason::MtuExceeded);
            return Err(LinkDropReason::MtuExceeded);
        };
        self.count_sent(packet, length + packet.wire.len());
        emit(&prefix[..length], packet.wire);
        Ok(())
    }

    fn header<'a>(
        &mut self,
        now_ns: u64,
        queued_bytes: usize,
        packet: &TxPacket<'a>,
    ) -> LpHeader<'a> {
        let mut mark = packet.congestion_mark;
        if let Some(marker) = &mut self.marker
            && marker.marks(now_ns, queued_bytes)
        {
            self.counters.out_marked.increment();
            mark = mark.max(1);
        }
        LpHeader {
            pit_token: packet.pit_token,
            nack: match packet.kind {
                TxKind::Nack(reason) => Some(reason),
                TxKind::Interest | TxKind::Data => None,
            },
            incoming_face_id: packet.incoming_face_id,
            congestion_mark: (mark != 0).then_some(mark),
            ..LpHeader::default()
        }
    }

    /// The fields go with the first fragment alone (NDNLPv2, "Fragmentation and Reassembly").
    #[cold]
    fn send_fragments(
        &mut self,
        header: &LpHeader<'_>,
        packet: &TxPacket<'_>,
        mtu: usize,
        emit: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), LinkDropReason> {
        // Lengths are taken for the largest numbers, so that all fragments but the last are alike.
        let count_max = FRAGMENT_COUNT_MAX as u64;
        let overhead = |fields: LpHeader<'_>| {
            let numbered = LpHeader {
                sequence: Some(0),
                frag_index: Some(count_max),
                frag_count: Some(count_max),
                ..fields
            };
            numbered.encoded_len(PACKET_LENGTH_MAX)
        };
        let first_room = mtu.saturating_sub(overhead(*header));
        let room = mtu.saturating_sub(overhead(LpHeader::default()));
        let rest = packet.wire.len().saturating_sub(first_room);
        let count = 1 + if rest == 0 { 0 } else { rest.div_ceil(room.max(1)) };
        if first_room == 0 || room == 0 || count > FRAGMENT_COUNT_MAX {
            self.counters.count_drop(LinkDropReason::MtuExceeded);
            return Err(LinkDropReason::MtuExceeded);
        }
        let mut bytes = 0;
        let mut start = 0;
        for index in 0..count as u64 {
            let numbers = LpHeader {
                sequence: Some(self.next_sequence),
                frag_index: Some(index),
                frag_count: Some(count as u64),
                ..if index == 0 { *header } else { LpHeader::default() }
            };
            self.next_sequence = self.next_sequence.wrapping_add(1);
            let length = if index == 0 { first_room } else { room };
            let end = (start + length).min(packet.wire.len());
            let payload = &packet.wire[start..end];
            start = end;
            let mut prefix = [0; HEADER_LENGTH_MAX];
            // It fits: the array is longer than any header without PrefixAnnouncement.
            let written = numbers.write_prefix(payload.len(), &mut prefix).unwrap_or(0);
            bytes += written + payload.len();
            emit(&prefix[..written], payload);
        }
        self.counters.out_frames.add(count as u64 - 1);
        self.count_sent(packet, bytes);
        Ok(())
    }

    #[inline]
    fn count_sent(&self, packet: &TxPacket<'_>, bytes: usize) {
        match packet.kind {
            TxKind::Interest => self.counters.out_interests.increment(),
            TxKind::Data => self.counters.out_data.increment(),
            TxKind::Nack(_) => self.counters.out_nacks.increment(),
        }
        self.counters.out_frames.increment();
        self.counters.out_bytes.add(bytes as u64);
    }
}

fn dropped(counters: &FaceCounters, reason: LinkDropReason) -> Received<'static> {
    counters.count_drop(reason);
    Received::Dropped(reason)
}

fn count_kind(counters: &FaceCounters, payload: &[u8], fields: &LpFields) {
    match payload.first() {
        Some(5) if fields.nack.is_some() => counters.in_nacks.increment(),
        Some(5) => counters.in_interests.increment(),
        Some(6) => counters.in_data.increment(),
        // Forwarding drops and counts what is neither.
        _ => {}
    }
}

fn fields_of(packet: &LpPacket<'_>) -> LpFields {
    LpFields {
        pit_token: packet.pit_token().and_then(PitToken::new).unwrap_or(PitToken::NONE),
        nack: packet.nack(),
        congestion_mark: packet.congestion_mark().unwrap_or(0),
        next_hop_face_id: packet.next_hop_face_id(),
        no_cache: packet.cache_policy() == Some(NO_CACHE),
        non_discovery: packet.non_discovery(),
    }
}

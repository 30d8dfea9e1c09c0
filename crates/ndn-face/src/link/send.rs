//! From network packets to frames.

use ndn_forwarding::{TxKind, TxPacket};
use ndn_packet::{LpHeader, MAX_PACKET_SIZE};
use ndn_ring::PacketHandle;
use ndn_table::Timestamp;

use crate::LinkDropReason;
use crate::link::LinkService;

/// Room for the longest header that is written here: every field at its longest is 119 bytes.
const HEADER_LENGTH_MAX: usize = 160;

/// Bytes of a packet that travel with its announcement in the first fragment, at least.
const FIRST_PIECE_MIN: usize = 64;

/// Fragments of one packet at most: what NFD takes.
const FRAGMENTS_MAX: usize = 400;

/// The output queue of a transport.
pub trait FrameSink {
    /// Bytes in the queue, for congestion marking: those that wait here and those that wait in
    /// the kernel, as far as known.
    fn queued_bytes(&self) -> usize;

    /// Adds the frame `header` + `payload`. If there is a `handle`, it names the bytes of
    /// `payload`, and the queue may retain it instead of copying them.
    ///
    /// # Errors
    /// Why the frame is dropped instead.
    fn push_frame(
        &mut self,
        header: &[u8],
        payload: &[u8],
        handle: Option<&PacketHandle>,
    ) -> Result<(), LinkDropReason>;
}

impl LinkService {
    /// Sends one packet: as it is, behind a header, or in fragments.
    ///
    /// # Errors
    /// Why the packet was dropped; it is counted already. Of a packet in fragments, some may have
    /// been queued.
    #[inline]
    pub fn send(
        &mut self,
        now: Timestamp,
        packet: &TxPacket<'_>,
        sink: &mut impl FrameSink,
    ) -> Result<(), LinkDropReason> {
        match self.send_uncounted(now, packet, sink) {
            Ok(()) => {
                match packet.kind {
                    TxKind::Interest => &self.counters.out_interests,
                    TxKind::Data => &self.counters.out_data,
                    TxKind::Nack(_) => &self.counters.out_nacks,
                }
                .increment();
                Ok(())
            }
            Err(reason) => {
                self.counters.dropped(reason).increment();
                Err(reason)
            }
        }
    }

    #[inline]
    fn send_uncounted(
        &mut self,
        now: Timestamp,
        packet: &TxPacket<'_>,
        sink: &mut impl FrameSink,
    ) -> Result<(), LinkDropReason> {
        if packet.wire.len() > MAX_PACKET_SIZE {
            return Err(LinkDropReason::TooLong);
        }
        let mark = self.mark_for(now, packet, sink.queued_bytes());
        let incoming_face_id = packet.incoming_face_id.filter(|_| self.options.local_fields);
        let nack = match packet.kind {
            TxKind::Nack(reason) => Some(reason),
            TxKind::Interest | TxKind::Data => None,
        };
        let frame_max = self.options.mtu.unwrap_or(usize::MAX);
        let announcement = self.announcement_that_fits(packet);
        let has_fields = !packet.pit_token.is_empty()
            || incoming_face_id.is_some()
            || packet.non_discovery
            || announcement.is_some()
            || self.is_reliable();
        if !has_fields && nack.is_none() && mark == 0 && packet.wire.len() <= frame_max {
            sink.push_frame(&[], packet.wire, packet.handle)?;
            self.count_frame(packet.wire.len());
            return Ok(());
        }
        let header = LpHeader {
            pit_token: packet.pit_token,
            nack,
            incoming_face_id,
            congestion_mark: (mark != 0).then_some(mark),
            non_discovery: packet.non_discovery,
            prefix_announcement: announcement,
            ..LpHeader::default()
        };
        if self.is_reliable() {
            return self.send_reliably(now, &header, packet, frame_max, sink);
        }
        if header.encoded_len(packet.wire.len()) + packet.wire.len() <= frame_max {
            return self.push(&header, packet.wire, packet.handle, sink);
        }
        self.send_fragments(now, &header, packet.wire, frame_max, sink)
    }

    /// The announcement of a packet, unless the peer would find the frame too long: it is worth
    /// less than the Data that it comes with. A first fragment has room for it, and for some of the
    /// packet.
    #[inline]
    fn announcement_that_fits<'a>(&self, packet: &TxPacket<'a>) -> Option<&'a [u8]> {
        let announcement = packet.prefix_announcement;
        if announcement.is_empty() {
            return None;
        }
        let needed = match self.options.mtu {
            Some(_) => announcement.len() + HEADER_LENGTH_MAX + FIRST_PIECE_MIN,
            None => announcement.len() + HEADER_LENGTH_MAX + packet.wire.len(),
        };
        (needed <= self.options.mtu.unwrap_or(MAX_PACKET_SIZE)).then_some(announcement)
    }

    /// The congestion mark that a packet came with, or one of our own.
    #[inline]
    fn mark_for(&mut self, now: Timestamp, packet: &TxPacket<'_>, queued_bytes: usize) -> u64 {
        if !self.marker.marks(now, queued_bytes, &self.options) {
            return packet.congestion_mark;
        }
        self.counters.out_marks.increment();
        packet.congestion_mark.max(1)
    }

    /// Every frame has its Sequence, by which the peer knows it when it comes again.
    #[cold]
    fn send_reliably(
        &mut self,
        now: Timestamp,
        header: &LpHeader<'_>,
        packet: &TxPacket<'_>,
        frame_max: usize,
        sink: &mut impl FrameSink,
    ) -> Result<(), LinkDropReason> {
        let whole =
            LpHeader { sequence: Some(self.next_sequence), tx_sequence: Some(0), ..*header };
        if whole.encoded_len(packet.wire.len()) + packet.wire.len() > frame_max {
            return self.send_fragments(now, header, packet.wire, frame_max, sink);
        }
        self.next_sequence = self.next_sequence.wrapping_add(1);
        self.push_reliably(now, &whole, packet.wire, packet.handle, sink)
    }

    /// Sends frames again that are lost, and acknowledgements that are due.
    pub fn resend(&mut self, now: Timestamp, sink: &mut impl FrameSink) {
        let frame_max = self.options.mtu.unwrap_or(usize::MAX);
        if let Some(reliability) = &mut self.reliability {
            reliability.handle_timeout(now, frame_max, sink, &self.counters);
        }
    }

    /// Cuts `payload` into frames of `frame_max` bytes. The fields of `header` go with the first.
    fn send_fragments(
        &mut self,
        now: Timestamp,
        header: &LpHeader<'_>,
        payload: &[u8],
        frame_max: usize,
        sink: &mut impl FrameSink,
    ) -> Result<(), LinkDropReason> {
        // Numbers of the longest form that can occur, so that the plan holds for all fragments.
        let numbered = LpHeader {
            sequence: Some(0),
            frag_index: Some(FRAGMENTS_MAX as u64),
            frag_count: Some(FRAGMENTS_MAX as u64),
            tx_sequence: self.is_reliable().then_some(0),
            ..LpHeader::default()
        };
        let room = |header: &LpHeader<'_>| {
            let room = frame_max.saturating_sub(header.encoded_len(frame_max));
            if room == 0 { Err(LinkDropReason::OverMtu) } else { Ok(room) }
        };
        let LpHeader { sequence, frag_index, frag_count, tx_sequence, .. } = numbered;
        let first = LpHeader { sequence, frag_index, frag_count, tx_sequence, ..*header };
        let first_room = room(&first)?;
        let other_room = room(&numbered)?;
        let first_length = first_room.min(payload.len());
        let count = 1 + (payload.len() - first_length).div_ceil(other_room);
        if count > FRAGMENTS_MAX {
            return Err(LinkDropReason::OverMtu);
        }
        let (first, rest) = payload.split_at(first_length);
        let pieces = std::iter::once(first).chain(rest.chunks(other_room));
        for (index, piece) in pieces.enumerate() {
            let fields = if index == 0 { *header } else { LpHeader::default() };
            let fields = LpHeader {
                sequence: Some(self.next_sequence),
                frag_index: Some(index as u64),
                frag_count: Some(count as u64),
                ..fields
            };
            self.next_sequence = self.next_sequence.wrapping_add(1);
            if self.is_reliable() {
                self.push_reliably(now, &fields, piece, None, sink)?;
            } else {
                self.push(&fields, piece, None, sink)?;
            }
        }
        Ok(())
    }

    fn push_reliably(
        &mut self,
        now: Timestamp,
        header: &LpHeader<'_>,
        payload: &[u8],
        handle: Option<&PacketHandle>,
        sink: &mut impl FrameSink,
    ) -> Result<(), LinkDropReason> {
        let frame_max = self.options.mtu.unwrap_or(usize::MAX);
        if let Some(reliability) = &mut self.reliability {
            let length = reliability.send(now, header, payload, handle, frame_max, sink)?;
            self.count_frame(length);
        }
        Ok(())
    }

    #[inline]
    fn push(
        &self,
        header: &LpHeader<'_>,
        payload: &[u8],
        handle: Option<&PacketHandle>,
        sink: &mut impl FrameSink,
    ) -> Result<(), LinkDropReason> {
        if header.prefix_announcement.is_some() {
            return self.push_announced(header, payload, sink);
        }
        let mut buffer = [0; HEADER_LENGTH_MAX];
        // Fails only for a PIT token that no packet can have carried.
        let length =
            header.write_prefix(payload.len(), &mut buffer).map_err(|_| LinkDropReason::OverMtu)?;
        sink.push_frame(&buffer[..length], payload, handle)?;
        self.count_frame(length + payload.len());
        Ok(())
    }

    /// Announcements are rare, and longer than other headers.
    #[cold]
    fn push_announced(
        &self,
        header: &LpHeader<'_>,
        payload: &[u8],
        sink: &mut impl FrameSink,
    ) -> Result<(), LinkDropReason> {
        let mut buffer = vec![0; header.encoded_len(payload.len())];
        let length =
            header.write_prefix(payload.len(), &mut buffer).map_err(|_| LinkDropReason::OverMtu)?;
        sink.push_frame(&buffer[..length], payload, None)?;
        self.count_frame(length + payload.len());
        Ok(())
    }

    #[inline]
    fn count_frame(&self, length: usize) {
        self.counters.out_frames.increment();
        self.counters.out_bytes.add(length as u64);
    }
}

//! The link service: from frames to network packets and back (NDNLPv2).
//!
//! A state machine without I/O and clock. Frames come in by [`LinkService::receive`], packets go
//! out by [`LinkService::send`] into a [`FrameSink`], and time passes by
//! [`LinkService::handle_timeout`].

mod congestion;
mod rate;
mod reassembler;
mod reliability;

#[cfg(test)]
mod announcement_tests;
#[cfg(test)]
mod rate_tests;
#[cfg(test)]
mod reliability_tests;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use ndn_forwarding::{LpFields, PitToken, TxKind, TxPacket};
use ndn_packet::{LpHeader, LpPacket, MAX_PACKET_SIZE, types};
use ndn_ring::PacketHandle;
use ndn_types::Timestamp;

use crate::counters::{FaceCounters, LinkDropReason};
use crate::memory::{Account, MemoryKind};
use crate::options::{LinkOptions, ReassemblyLimits};
use crate::output::FrameSink;
use crate::source::Sender;

use congestion::CongestionMarker;
use rate::{InterestRate, is_for_management};
use reassembler::{Fragment, Reassembler};

use reliability::Reliability;

/// Room for the longest header that is written here: 119 bytes with every field at its maximum.
const HEADER_LENGTH_MAX: usize = 160;

/// Bytes of a packet that travel with its announcement in the first fragment, at least.
const FIRST_PIECE_MIN: usize = 64;

/// Fragments of one packet at most: what NFD takes.
const FRAGMENTS_MAX: usize = 400;

/// CachePolicyType NoCache (NDNLPv2, "Cache Policy").
const NO_CACHE: u64 = 1;

/// On a reliable link a missing fragment is retransmitted up to three times, about a second apart.
const RELIABLE_REASSEMBLY_TIMEOUT: Duration = Duration::from_secs(4);
/// Messages that may be incomplete meanwhile.
const RELIABLE_MESSAGES_MAX: usize = 512;

/// The content of a frame.
#[derive(Debug)]
pub enum Received<'a> {
    /// A network packet: the frame from `offset` to its end.
    Packet {
        /// Where it starts in the frame.
        offset: usize,
        /// The fields of its header.
        fields: LpFields,
    },
    /// A network packet that does not lie in the frame as it is: the last missing fragment has
    /// arrived, or the packet has a PrefixAnnouncement.
    Reassembled {
        /// The network packet, and behind it the PrefixAnnouncement
        /// ([`LpFields::announcement_length`]). Valid until the next frame.
        packet: &'a [u8],
        /// The fields of the header of its first fragment.
        fields: LpFields,
    },
    /// Nothing for forwarding: a fragment of an incomplete message, or an IDLE packet.
    Nothing,
}

impl Received<'_> {
    /// Whether `frame` holds an Interest, and no Nack.
    #[inline]
    fn is_interest(&self, frame: &[u8]) -> bool {
        let first = self.packet(frame).and_then(|packet| packet.first());
        first.is_some_and(|first| u32::from(*first) == types::INTEREST)
    }

    /// Whether `frame` holds an Interest to management.
    #[cold]
    fn is_for_management(&self, frame: &[u8]) -> bool {
        self.packet(frame).is_some_and(is_for_management)
    }

    /// The network packet in `frame`, unless it is the Interest of a Nack.
    #[inline]
    fn packet<'f>(&'f self, frame: &'f [u8]) -> Option<&'f [u8]> {
        let (packet, fields) = match self {
            Self::Packet { offset, fields } => (frame.get(*offset..), fields),
            Self::Reassembled { packet, fields } => (Some(*packet), fields),
            Self::Nothing => return None,
        };
        packet.filter(|_| fields.nack.is_none())
    }
}

/// One face's link service.
#[derive(Debug)]
pub struct LinkService {
    options: LinkOptions,
    counters: Arc<FaceCounters>,
    /// Sequence of the next fragment.
    next_sequence: u64,
    marker: CongestionMarker,
    rate: InterestRate,
    management_rate: InterestRate,
    /// Allocated with the first fragment, which most faces never receive.
    reassembler: Option<Box<Reassembler>>,
    /// Present while the link is reliable.
    reliability: Option<Box<Reliability>>,
}

impl LinkService {
    /// A link service that numbers its fragments from `first_sequence`, which should be random so
    /// that a restart does not repeat recent numbers.
    #[must_use]
    pub fn new(options: LinkOptions, counters: Arc<FaceCounters>, first_sequence: u64) -> Self {
        let mut service = Self {
            options,
            counters,
            next_sequence: first_sequence,
            marker: CongestionMarker::default(),
            rate: InterestRate::default(),
            management_rate: InterestRate::default(),
            reassembler: None,
            reliability: None,
        };
        service.set_options(options);
        service
    }

    /// The settings.
    #[must_use]
    pub fn options(&self) -> &LinkOptions {
        &self.options
    }

    /// Changes the settings, for packets from now on. A link that is no longer reliable forgets
    /// what it has sent.
    pub fn set_options(&mut self, options: LinkOptions) {
        self.options = options;
        if !options.reliability {
            self.reliability = None;
        } else if self.reliability.is_none() {
            // Of another range than the Sequences, so that the two cannot be confused.
            let first = !self.next_sequence;
            self.reliability = Some(Box::new(Reliability::new(first)));
        }
    }

    /// Whether frames are acknowledged, and sent again until they are. Then
    /// [`next_deadline`](Self::next_deadline) changes with every frame, and what
    /// [`resend`](Self::resend) sends is due with it.
    #[inline]
    #[must_use]
    pub fn is_reliable(&self) -> bool {
        self.reliability.is_some()
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> &Arc<FaceCounters> {
        &self.counters
    }

    /// Processes one frame: a whole TLV, or the content of a datagram.
    ///
    /// Fragments of incomplete messages are charged to `memory`.
    ///
    /// # Errors
    /// Why the frame, or the message that it belongs to, was dropped; it is counted already.
    #[inline]
    pub fn receive(
        &mut self,
        now: Timestamp,
        frame: &[u8],
        memory: &mut Account<'_>,
    ) -> Result<Received<'_>, LinkDropReason> {
        self.receive_from(now, None, frame, memory)
    }

    /// [`receive`](Self::receive) on a link with several senders: each sender numbers its fragments
    /// independently, so reassembly is per sender.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    #[inline]
    pub fn receive_from(
        &mut self,
        now: Timestamp,
        sender: Option<Sender>,
        frame: &[u8],
        memory: &mut Account<'_>,
    ) -> Result<Received<'_>, LinkDropReason> {
        let Self { options, counters, reassembler, reliability, rate, management_rate, .. } = self;
        counters.in_frames.increment();
        counters.in_bytes.add(frame.len() as u64);
        let reliability = reliability.as_deref_mut();
        let mut limits = options.reassembly;
        if reliability.is_some() {
            limits.timeout = limits.timeout.max(RELIABLE_REASSEMBLY_TIMEOUT);
            limits.messages_max = limits.messages_max.max(RELIABLE_MESSAGES_MAX);
        }
        let input = LinkInput { now, sender, frame, limits: &limits, counters };
        let mut result = decode(&input, reassembler, reliability, memory);
        if let Some(per_second) = options.interests_per_second
            && result.as_ref().is_ok_and(|received| received.is_interest(frame))
            && !rate.admit(now, per_second)
        {
            result = Err(LinkDropReason::InterestRate);
        }
        // Only set on faces whose management commands were refused too often.
        if let Some(per_second) = options.management_per_second
            && result.as_ref().is_ok_and(|received| received.is_for_management(frame))
            && !management_rate.admit(now, per_second)
        {
            result = Err(LinkDropReason::ManagementRate);
        }
        if let Err(reason) = &result {
            counters.dropped(*reason).increment();
        }
        result
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let reassembly = self.reassembler.as_ref().map(|reassembler| reassembler.next_deadline());
        let Some(reliability) = &self.reliability else { return reassembly };
        [reassembly, reliability.next_deadline()].into_iter().flatten().min()
    }

    /// Drops incomplete messages whose timeout has passed, and an idle reassembler.
    pub fn handle_timeout(&mut self, now: Timestamp, memory: &mut Account<'_>) {
        let Some(reassembler) = &mut self.reassembler else { return };
        reassembler.expire(now, memory, &self.counters);
        if reassembler.next_deadline() <= now {
            self.reassembler = None;
        }
    }

    /// Drops the oldest incomplete message; `false` if there is none.
    pub(crate) fn evict_message(&mut self, memory: &mut Account<'_>) -> bool {
        let reassembler = self.reassembler.as_mut();
        reassembler.is_some_and(|reassembler| reassembler.evict_oldest(memory, &self.counters))
    }

    /// Releases the memory of incomplete messages and of frames that were sent when the face ends.
    pub fn close(&mut self, memory: &mut Account<'_>) {
        if let Some(mut reassembler) = self.reassembler.take() {
            reassembler.clear(memory);
        }
        self.reliability = None;
        self.settle(&mut memory.of(MemoryKind::Reliability));
    }

    /// Charges what a reliable link has taken since the last call to `memory`, or gives back what it has freed.
    pub(crate) fn settle(&mut self, memory: &mut Account<'_>) {
        match &mut self.reliability {
            Some(reliability) => reliability.settle(memory),
            None => memory.give_back(memory.held()),
        }
    }

    /// Forgets the frames that a reliable link may have to send again, and the numbers of those it has received.
    pub(crate) fn forget_sent(&mut self, memory: &mut Account<'_>) {
        if let Some(reliability) = &mut self.reliability {
            reliability.forget();
        }
        self.settle(memory);
    }
}

/// The send side.
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

    /// The announcement of a packet, unless it would make the frame too long: the Data is more
    /// important. A first fragment needs room for it and for some of the packet.
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

    /// The congestion mark of the packet, or one of this face.
    #[inline]
    fn mark_for(&mut self, now: Timestamp, packet: &TxPacket<'_>, queued_bytes: usize) -> u64 {
        if !self.marker.marks(now, queued_bytes, &self.options) {
            return packet.congestion_mark;
        }
        self.counters.out_marks.increment();
        packet.congestion_mark.max(1)
    }

    /// Every frame has a Sequence, by which the peer detects duplicates.
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

    /// Retransmits lost frames, and sends acknowledgements that are due.
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
        // Numbers at their maximum length, so that the computed room holds for all fragments.
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
        // Fails only for a PIT token longer than a packet can carry.
        let length =
            header.write_prefix(payload.len(), &mut buffer).map_err(|_| LinkDropReason::OverMtu)?;
        sink.push_frame(&buffer[..length], payload, handle)?;
        self.count_frame(length + payload.len());
        Ok(())
    }

    /// A header with an announcement does not fit the buffer on the stack; announcements are rare.
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

/// A frame, with the limits and counters that apply to it.
#[derive(Clone, Copy)]
struct LinkInput<'f> {
    now: Timestamp,
    sender: Option<Sender>,
    frame: &'f [u8],
    limits: &'f ReassemblyLimits,
    counters: &'f FaceCounters,
}

/// The receive side, on the parts of a link service, so that the result borrows only one of them.
#[inline]
fn decode<'a>(
    input: &LinkInput<'_>,
    reassembler: &'a mut Option<Box<Reassembler>>,
    reliability: Option<&mut Reliability>,
    memory: &mut Account<'_>,
) -> Result<Received<'a>, LinkDropReason> {
    let LinkInput { frame, counters, .. } = *input;
    match frame.first().map(|first| u32::from(*first)) {
        Some(types::INTEREST | types::DATA) => {
            let fields = LpFields::default();
            accept(counters, frame, &fields)?;
            Ok(Received::Packet { offset: 0, fields })
        }
        Some(types::LP_PACKET) => decode_lp(input, reassembler, reliability, memory),
        Some(_) => Err(LinkDropReason::UnknownType),
        None => Err(LinkDropReason::Malformed),
    }
}

fn decode_lp<'a>(
    input: &LinkInput<'_>,
    reassembler: &'a mut Option<Box<Reassembler>>,
    reliability: Option<&mut Reliability>,
    memory: &mut Account<'_>,
) -> Result<Received<'a>, LinkDropReason> {
    let LinkInput { now, sender, frame, limits, counters } = *input;
    let lp = LpPacket::parse(frame).map_err(|_| LinkDropReason::Malformed)?;
    if let Some(reliability) = reliability
        && !reliability.receive(now, &lp, counters)
    {
        return Err(LinkDropReason::DuplicateSequence);
    }
    let (Some(offset), Some(payload)) = (lp.fragment_offset(), lp.fragment()) else {
        return Ok(Received::Nothing);
    };
    let announcement = lp.prefix_announcement().unwrap_or_default();
    let fields = fields_of(&lp, announcement)?;
    let Some(fragment) = fragment_of(&lp, payload, limits)? else {
        accept(counters, payload, &fields)?;
        if !announcement.is_empty() {
            let reassembler = reassembler.get_or_insert_default();
            let packet = reassembler.join(now, payload, announcement);
            return Ok(Received::Reassembled { packet, fields });
        }
        return Ok(Received::Packet { offset, fields });
    };
    let fragment = Fragment { sender, announcement, ..fragment };
    let reassembler = reassembler.get_or_insert_default();
    reassembler.expire(now, memory, counters);
    match reassembler.receive(now, &fragment, &fields, limits, memory, counters)? {
        Some((packet, fields)) => {
            let end = packet.len().saturating_sub(usize::from(fields.announcement_length));
            accept(counters, &packet[..end], &fields)?;
            Ok(Received::Reassembled { packet, fields })
        }
        None => Ok(Received::Nothing),
    }
}

/// Checks type and length of a packet, and counts it.
#[inline]
fn accept(counters: &FaceCounters, packet: &[u8], fields: &LpFields) -> Result<(), LinkDropReason> {
    if packet.len() > MAX_PACKET_SIZE {
        return Err(LinkDropReason::TooLong);
    }
    match packet.first().map(|first| u32::from(*first)) {
        Some(types::INTEREST) if fields.nack.is_some() => counters.in_nacks.increment(),
        Some(types::INTEREST) => counters.in_interests.increment(),
        Some(types::DATA) => counters.in_data.increment(),
        Some(_) => return Err(LinkDropReason::UnknownType),
        None => return Err(LinkDropReason::Malformed),
    }
    Ok(())
}

/// The fields that concern forwarding. IncomingFaceId is checked and ignored: a forwarder does not request it
/// (NDNLPv2, "Incoming Face Indication").
#[inline]
fn fields_of(lp: &LpPacket<'_>, announcement: &[u8]) -> Result<LpFields, LinkDropReason> {
    let is_data = announcement.first().is_none_or(|first| u32::from(*first) == types::DATA);
    if announcement.len() > MAX_PACKET_SIZE || !is_data {
        return Err(LinkDropReason::Malformed);
    }
    let pit_token = PitToken::new(lp.pit_token().unwrap_or_default());
    Ok(LpFields {
        pit_token: pit_token.ok_or(LinkDropReason::Malformed)?,
        nack: lp.nack(),
        congestion_mark: lp.congestion_mark().unwrap_or(0),
        next_hop_face_id: lp.next_hop_face_id(),
        no_cache: lp.cache_policy() == Some(NO_CACHE),
        non_discovery: lp.non_discovery(),
        announcement_length: u16::try_from(announcement.len()).unwrap_or(0),
    })
}

/// The position of `payload` in its message; `None` if it is the whole message.
fn fragment_of<'a>(
    lp: &LpPacket<'_>,
    payload: &'a [u8],
    limits: &ReassemblyLimits,
) -> Result<Option<Fragment<'a>>, LinkDropReason> {
    if !lp.has_fragmentation() {
        return Ok(None);
    }
    let (index, count) = (lp.frag_index(), lp.frag_count());
    if count > limits.fragments_max as u64 {
        return Err(LinkDropReason::TooManyFragments);
    }
    if index >= count {
        return Err(LinkDropReason::BadFragment);
    }
    if count == 1 {
        return Ok(None);
    }
    if payload.is_empty() {
        return Err(LinkDropReason::BadFragment);
    }
    let sequence = lp.sequence().ok_or(LinkDropReason::BadFragment)?;
    let small = |number: u64| usize::try_from(number).map_err(|_| LinkDropReason::BadFragment);
    Ok(Some(Fragment {
        sender: None,
        announcement: &[],
        message: sequence.wrapping_sub(index),
        index: small(index)?,
        count: small(count)?,
        payload,
    }))
}

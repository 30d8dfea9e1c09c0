//! The link service: from frames to network packets and back (NDNLPv2).
//!
//! A state machine without I/O and clock. Frames come in by [`LinkService::receive`], packets go
//! out by [`LinkService::send`] into a [`FrameSink`], and time passes by
//! [`LinkService::handle_timeout`].

mod congestion;
mod rate;
mod reassembler;
mod reliability;
mod send;

#[cfg(test)]
mod announcement_tests;
#[cfg(test)]
mod rate_tests;
#[cfg(test)]
mod reliability_tests;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ndn_forwarding::{LpFields, PitToken};
use ndn_packet::{LpPacket, MAX_PACKET_SIZE, types};
use ndn_table::Timestamp;

use crate::{Budget, FaceCounters, LinkDropReason, LinkOptions};

use congestion::CongestionMarker;
use rate::{InterestRate, is_for_management};
use reassembler::{Fragment, Reassembler};
use reliability::Reliability;

pub use reassembler::ReassemblyLimits;
pub use send::FrameSink;

/// CachePolicyType NoCache (NDNLPv2, "Cache Policy").
const NO_CACHE: u64 = 1;

/// On a reliable link a missing fragment comes again, up to three times a second after the other.
const RELIABLE_REASSEMBLY_TIMEOUT: Duration = Duration::from_secs(4);
/// And others go on arriving meanwhile.
const RELIABLE_MESSAGES_MAX: usize = 512;

/// What a frame turned out to hold.
#[derive(Debug)]
pub enum Received<'a> {
    /// A network packet: the frame from `offset` to its end.
    Packet {
        /// Where it starts in the frame.
        offset: usize,
        /// What the header said.
        fields: LpFields,
    },
    /// A network packet that does not lie in the frame as it is: the last missing fragment has
    /// come, or there is a PrefixAnnouncement to go with it.
    Reassembled {
        /// The network packet, and behind it the PrefixAnnouncement
        /// ([`LpFields::announcement_length`]). Valid until the next frame.
        packet: &'a [u8],
        /// What the header of its first fragment said.
        fields: LpFields,
    },
    /// Nothing for forwarding: a fragment that was kept, or an IDLE packet.
    Nothing,
}

impl Received<'_> {
    /// Whether `frame` brought an Interest, and no Nack.
    #[inline]
    fn is_interest(&self, frame: &[u8]) -> bool {
        let first = self.packet(frame).and_then(|packet| packet.first());
        first.is_some_and(|first| u32::from(*first) == types::INTEREST)
    }

    /// Whether `frame` brought an Interest to management.
    #[cold]
    fn is_for_management(&self, frame: &[u8]) -> bool {
        self.packet(frame).is_some_and(is_for_management)
    }

    /// The network packet that `frame` brought, unless it is the Interest of a Nack.
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

/// One of the senders on a link that has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// By its address and port.
    Internet(SocketAddr),
    /// By its hardware address.
    Station([u8; 6]),
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
    /// Made with the first fragment: most faces never see one.
    reassembler: Option<Box<Reassembler>>,
    /// There while the link is reliable.
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
            // Of another range than the Sequences, so that nobody takes one for the other.
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

    /// Takes one frame: a whole TLV, or whatever a datagram held.
    ///
    /// Fragments that wait for others are charged to `memory`.
    ///
    /// # Errors
    /// Why the frame, or the message that it belongs to, was dropped; it is counted already.
    #[inline]
    pub fn receive(
        &mut self,
        now: Timestamp,
        frame: &[u8],
        memory: &mut Budget,
    ) -> Result<Received<'_>, LinkDropReason> {
        self.receive_from(now, None, frame, memory)
    }

    /// [`receive`](Self::receive) on a link with several senders: packets in pieces of one are
    /// told apart from those of another, which number their fragments as they like.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    #[inline]
    pub fn receive_from(
        &mut self,
        now: Timestamp,
        sender: Option<Sender>,
        frame: &[u8],
        memory: &mut Budget,
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
        let arrival = Arrival { now, sender, frame, limits: &limits, counters };
        let mut result = decode(&arrival, reassembler, reliability, memory);
        if let Some(per_second) = options.interests_per_second
            && result.as_ref().is_ok_and(|received| received.is_interest(frame))
            && !rate.admit(now, per_second)
        {
            result = Err(LinkDropReason::InterestRate);
        }
        // None but a face that has annoyed management pays for more than this test.
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

    /// Drops the messages that have been in pieces for too long, and memory that is not needed.
    pub fn handle_timeout(&mut self, now: Timestamp, memory: &mut Budget) {
        let Some(reassembler) = &mut self.reassembler else { return };
        reassembler.expire(now, memory, &self.counters);
        if reassembler.next_deadline() <= now {
            self.reassembler = None;
        }
    }

    /// Gives the memory of messages in pieces back, at the end of the face.
    pub fn close(&mut self, memory: &mut Budget) {
        if let Some(mut reassembler) = self.reassembler.take() {
            reassembler.clear(memory);
        }
    }
}

/// A frame, and what it is judged by.
#[derive(Clone, Copy)]
struct Arrival<'f> {
    now: Timestamp,
    sender: Option<Sender>,
    frame: &'f [u8],
    limits: &'f ReassemblyLimits,
    counters: &'f FaceCounters,
}

/// The receive side, on the parts of a link service, so that the result borrows only one of them.
#[inline]
fn decode<'a>(
    arrival: &Arrival<'_>,
    reassembler: &'a mut Option<Box<Reassembler>>,
    reliability: Option<&mut Reliability>,
    memory: &mut Budget,
) -> Result<Received<'a>, LinkDropReason> {
    let Arrival { frame, counters, .. } = *arrival;
    match frame.first().map(|first| u32::from(*first)) {
        Some(types::INTEREST | types::DATA) => {
            let fields = LpFields::default();
            accept(counters, frame, &fields)?;
            Ok(Received::Packet { offset: 0, fields })
        }
        Some(types::LP_PACKET) => decode_lp(arrival, reassembler, reliability, memory),
        Some(_) => Err(LinkDropReason::UnknownType),
        None => Err(LinkDropReason::Malformed),
    }
}

fn decode_lp<'a>(
    arrival: &Arrival<'_>,
    reassembler: &'a mut Option<Box<Reassembler>>,
    reliability: Option<&mut Reliability>,
    memory: &mut Budget,
) -> Result<Received<'a>, LinkDropReason> {
    let Arrival { now, sender, frame, limits, counters } = *arrival;
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

/// Checks that forwarding can look at a packet, and counts it.
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

/// The fields that concern forwarding. IncomingFaceId is read, checked, and not used here: no one
/// here asked for it.
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

/// The place of `payload` in its message; `None` if it is the whole message.
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

//! Link reliability (NDNLPv2, "Link Reliability").
//!
//! Every frame gets a TxSequence, and the peer acknowledges each. A frame is lost when its
//! acknowledgement does not arrive within the retransmission timeout, or when three later ones were
//! acknowledged; it is then retransmitted under a new TxSequence. After three retransmissions its packet is
//! dropped. Acknowledgements are piggybacked on frames in the other direction, or sent alone after 5 ms.
//!
//! A state machine without I/O and clock. Its memory is limited, and charged to the principal of the face: a frame for which
//! there is no room is sent without protection.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashSet;
use ndn_packet::{LpHeader, LpPacket, MAX_PACKET_SIZE};
use ndn_ring::PacketHandle;
use ndn_types::Timestamp;

use crate::counters::{FaceCounters, LinkDropReason};
use crate::memory::Account;
use crate::output::FrameSink;

/// Maximum number of retransmissions of a frame.
const RETRANSMISSIONS_MAX: u8 = 3;
/// Acknowledgements of later frames after which a frame is lost.
const LATER_ACKS_MAX: u8 = 3;
/// Time for which an acknowledgement is delayed to be piggybacked on a frame.
const IDLE_ACK_WAIT: Duration = Duration::from_millis(5);
/// Frames that one call retransmits or gives up; the next call continues, after the other faces had their turn.
pub(super) const TIMEOUTS_PER_CALL: usize = 256;
/// Acknowledgements in one frame.
const ACKS_PER_FRAME: usize = 64;
/// Acknowledgements that are queued. Further ones are not sent; the peer will retransmit.
const ACKS_MAX: usize = 8192;
/// Sequences that are remembered to detect duplicates.
const RECENT_MAX: usize = WINDOW_SPAN_MAX;
/// Room for the longest header: 64 acknowledgements of 12 bytes, and all other fields.
const HEADER_LENGTH_MAX: usize = 160 + ACKS_PER_FRAME * ACK_LENGTH;
/// Bytes of an Ack field.
const ACK_LENGTH: usize = 12;
/// Bytes of a sequence that is remembered.
const RECENT_LENGTH: usize = size_of::<(Timestamp, u64)>() + 2 * size_of::<u64>();
/// Memory that one packet takes at most, in some hundred fragments.
const PACKET_MEMORY_MAX: usize = 2 * MAX_PACKET_SIZE + 400 * size_of::<Option<Unacked>>();

/// The state of one reliable link.
#[derive(Debug)]
pub(crate) struct Reliability {
    window: Window,
    rtt: RttEstimator,
    /// Frames that later acknowledgements show to be lost. Their bytes count as those of the window.
    lost: LostFrames,
    /// TxSequences that the header being processed acknowledges.
    acknowledged: Vec<u64>,
    /// TxSequences to acknowledge.
    acks: VecDeque<u64>,
    /// When they are sent alone.
    idle_ack: Option<Timestamp>,
    /// Sequences received within the last retransmission timeouts, oldest first.
    recent: VecDeque<(Timestamp, u64)>,
    recent_set: HashSet<u64>,
    /// Whether the principal of the face may take memory for one more packet.
    has_memory: bool,
}

impl Reliability {
    /// Numbers frames from `first_tx_sequence`, which should be random.
    pub(crate) fn new(first_tx_sequence: u64) -> Self {
        Self {
            window: Window::new(first_tx_sequence),
            rtt: RttEstimator::default(),
            lost: LostFrames::default(),
            acknowledged: Vec::new(),
            acks: VecDeque::new(),
            idle_ack: None,
            recent: VecDeque::new(),
            recent_set: HashSet::new(),
            has_memory: true,
        }
    }

    /// Bytes that the link keeps.
    fn memory(&self) -> usize {
        let Self { window, lost, acks, recent, .. } = self;
        let numbers = recent.len() * RECENT_LENGTH + acks.len() * size_of::<u64>();
        let frames = window.frames.len() + lost.frames.len();
        numbers + frames * size_of::<Option<Unacked>>() + window.bytes + window.spare_bytes
    }

    /// Charges what the link has taken since the last call, or gives back what it has freed. What one packet takes is
    /// charged afterwards, even if others have taken the memory meanwhile: they are owed then.
    pub(crate) fn settle(&mut self, account: &mut Account<'_>) {
        let (memory, held) = (self.memory(), account.held());
        if memory > held {
            account.force(memory - held);
        } else {
            account.give_back(held - memory);
        }
        self.has_memory = account.has_room(PACKET_MEMORY_MAX);
        if !self.has_memory && self.window.spare_bytes > 0 {
            account.give_back(self.window.drop_spare());
        }
    }

    /// Forgets all frames that were sent or received.
    pub(crate) fn forget(&mut self) {
        self.window.forget();
        (self.lost, self.acks, self.recent, self.recent_set) = Default::default();
    }

    /// Processes the header of a frame. False if the frame is a duplicate.
    pub(crate) fn receive(
        &mut self,
        now: Timestamp,
        lp: &LpPacket<'_>,
        counters: &FaceCounters,
    ) -> bool {
        for tx_sequence in lp.acks() {
            self.acknowledge(now, tx_sequence, counters);
        }
        // Only now: what one header acknowledges together has arrived, in whatever order.
        for tx_sequence in self.acknowledged.drain(..) {
            self.window.acknowledged_later(tx_sequence, &mut self.lost);
        }
        let (Some(tx_sequence), Some(_)) = (lp.tx_sequence(), lp.fragment()) else { return true };
        if self.acks.len() < ACKS_MAX {
            self.acks.push_back(tx_sequence);
        }
        self.idle_ack.get_or_insert(now.plus(IDLE_ACK_WAIT));
        lp.sequence().is_none_or(|sequence| self.is_new(now, sequence))
    }

    /// Sends a frame and keeps a copy of it. `header` has a Sequence.
    pub(crate) fn send(
        &mut self,
        now: Timestamp,
        header: &LpHeader<'_>,
        payload: &[u8],
        handle: Option<&PacketHandle>,
        frame_max: usize,
        sink: &mut impl FrameSink,
    ) -> Result<usize, LinkDropReason> {
        let length = header.encoded_len(payload.len()) + payload.len();
        let has_room = self.has_memory && self.window.has_room(length);
        let tx_sequence = has_room.then(|| self.window.next());
        let header = LpHeader { tx_sequence, ..*header };
        let sent = self.push(&header, payload, handle, frame_max, sink)?;
        if tx_sequence.is_some() {
            self.window.add(now, &header, payload);
        }
        Ok(sent)
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        if !self.lost.frames.is_empty() {
            return Some(Timestamp::ZERO);
        }
        let oldest = self.window.oldest_sent().map(|sent| sent.plus(self.rtt.timeout()));
        let forgets = self.recent.back().map(|&(came, _)| came.plus(self.kept()).plus_nanos(1));
        [oldest, self.idle_ack, forgets].into_iter().flatten().min()
    }

    /// Retransmits lost frames, and sends acknowledgements that could not be piggybacked.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Timestamp,
        frame_max: usize,
        sink: &mut impl FrameSink,
        counters: &FaceCounters,
    ) {
        let mut budget = TIMEOUTS_PER_CALL;
        while budget > 0
            && let Some(frame) = self.lost.frames.pop_front()
        {
            budget -= 1;
            // Its acknowledgement may have arrived since.
            let Some(frame) = frame.frame else { continue };
            self.window.bytes -= frame.bytes.len();
            self.send_again(now, frame, frame_max, sink, counters);
        }
        // Frames that are retransmitted here are not due again.
        while budget > 0
            && self.window.oldest_sent().is_some_and(|sent| sent.plus(self.rtt.timeout()) <= now)
        {
            budget -= 1;
            if let Some(frame) = self.window.take_oldest() {
                self.send_again(now, frame, frame_max, sink, counters);
            }
        }
        if self.idle_ack.is_some_and(|deadline| deadline <= now) {
            self.send_idle(frame_max, sink, counters);
        }
        if self.recent.back().is_some_and(|&(came, _)| came.plus(self.kept()) < now) {
            (self.recent, self.recent_set) = Default::default();
        }
    }

    fn send_again(
        &mut self,
        now: Timestamp,
        mut frame: Unacked,
        frame_max: usize,
        sink: &mut impl FrameSink,
        counters: &FaceCounters,
    ) {
        if frame.retransmissions == RETRANSMISSIONS_MAX {
            counters.dropped(LinkDropReason::RetransmissionsExhausted).increment();
            if frame.is_fragment {
                self.drop_message(frame.message);
            }
            return self.window.recycle(frame);
        }
        frame.retransmissions += 1;
        frame.later_acks = 0;
        let Ok(lp) = LpPacket::parse(&frame.bytes) else {
            debug_assert!(false, "it was written here");
            return;
        };
        let payload = lp.fragment().unwrap_or_default();
        let header = LpHeader { tx_sequence: Some(self.window.next()), ..header_of(&lp) };
        // The queue may be full; the frame is then due again after the timeout.
        if let Ok(length) = self.push(&header, payload, None, frame_max, sink) {
            count_frame(counters, length);
            counters.out_retransmissions.increment();
        }
        self.window.put_back(now, frame);
    }

    /// Writes a frame, with as many acknowledgements as it has room for.
    fn push(
        &mut self,
        header: &LpHeader<'_>,
        payload: &[u8],
        handle: Option<&PacketHandle>,
        frame_max: usize,
        sink: &mut impl FrameSink,
    ) -> Result<usize, LinkDropReason> {
        let bare = header.encoded_len(payload.len()) + payload.len();
        // The TLV lengths may take a few bytes more with more fields.
        let room = frame_max.min(MAX_PACKET_SIZE).saturating_sub(bare + 4) / ACK_LENGTH;
        let (acks, count) = self.first_acks(room);
        let header = LpHeader { acks: &acks[..count], ..*header };
        let length = if header.prefix_announcement.is_some() {
            let mut buffer = vec![0; header.encoded_len(payload.len())];
            push_frame(&header, payload, handle, &mut buffer, sink)?
        } else {
            push_frame(&header, payload, handle, &mut [0; HEADER_LENGTH_MAX], sink)?
        };
        self.forget_acks(count);
        Ok(length + payload.len())
    }

    /// Sends acknowledgements alone, until none is left.
    fn send_idle(&mut self, frame_max: usize, sink: &mut impl FrameSink, counters: &FaceCounters) {
        self.idle_ack = None;
        let room = (frame_max.saturating_sub(8) / ACK_LENGTH).max(1);
        while !self.acks.is_empty() {
            let (acks, count) = self.first_acks(room);
            let header = LpHeader { acks: &acks[..count], ..LpHeader::default() };
            let mut buffer = [0; HEADER_LENGTH_MAX];
            // If the queue is full, the peer will retransmit.
            if let Ok(length) = header.write_idle(&mut buffer)
                && sink.push_frame(&buffer[..length], &[], None).is_ok()
            {
                count_frame(counters, length);
            }
            self.forget_acks(count);
        }
    }

    fn first_acks(&self, room: usize) -> ([u64; ACKS_PER_FRAME], usize) {
        let mut acks = [0; ACKS_PER_FRAME];
        let count = room.min(ACKS_PER_FRAME).min(self.acks.len());
        for (place, ack) in acks.iter_mut().zip(self.acks.iter().take(count)) {
            *place = *ack;
        }
        (acks, count)
    }

    fn forget_acks(&mut self, count: usize) {
        self.acks.drain(..count);
        if self.acks.is_empty() {
            self.idle_ack = None;
        }
    }

    fn acknowledge(&mut self, now: Timestamp, tx_sequence: u64, counters: &FaceCounters) {
        let frame = match self.window.take(tx_sequence) {
            Some(frame) => {
                self.acknowledged.push(tx_sequence);
                frame
            }
            None => {
                let Some(frame) = self.lost.take(tx_sequence) else { return };
                self.window.bytes -= frame.bytes.len();
                frame
            }
        };
        counters.out_acknowledged.increment();
        if frame.retransmissions == 0 {
            self.rtt.add(now.since(frame.sent));
        }
        self.window.recycle(frame);
    }

    /// Drops the other fragments of a packet that is given up.
    fn drop_message(&mut self, message: u64) {
        self.window.remove_message(message);
        let frames = self.lost.frames.iter_mut().map(|lost| &mut lost.frame);
        for frame in frames.filter_map(|frame| frame.take_if(|frame| frame.message == message)) {
            self.window.bytes -= frame.bytes.len();
        }
    }

    /// The time for which sequence numbers are remembered: until the last retransmission of the peer, assuming a similar
    /// timeout.
    fn kept(&self) -> Duration {
        self.rtt.timeout() * (u32::from(RETRANSMISSIONS_MAX) + 1)
    }

    /// Remembers `sequence`. False if it is remembered already.
    fn is_new(&mut self, now: Timestamp, sequence: u64) -> bool {
        let kept = self.kept();
        let recent_max =
            if self.has_memory { RECENT_MAX } else { self.recent.len().min(RECENT_MAX) };
        while let Some(&(came, oldest)) = self.recent.front()
            && (came.plus(kept) < now || self.recent.len() >= recent_max)
        {
            self.recent.pop_front();
            self.recent_set.remove(&oldest);
        }
        let is_new = self.recent_set.insert(sequence);
        if is_new {
            self.recent.push_back((now, sequence));
        }
        is_new
    }
}

/// Writes the header into `buffer` and the frame into `sink`; returns the length of the header.
fn push_frame(
    header: &LpHeader<'_>,
    payload: &[u8],
    handle: Option<&PacketHandle>,
    buffer: &mut [u8],
    sink: &mut impl FrameSink,
) -> Result<usize, LinkDropReason> {
    let length = header.write_prefix(payload.len(), buffer).map_err(|_| LinkDropReason::OverMtu)?;
    sink.push_frame(&buffer[..length], payload, handle)?;
    Ok(length)
}

/// The fields of a frame that was written here, except those of reliability.
fn header_of<'a>(lp: &LpPacket<'a>) -> LpHeader<'a> {
    LpHeader {
        sequence: lp.sequence(),
        frag_index: lp.has_fragmentation().then(|| lp.frag_index()),
        frag_count: lp.has_fragmentation().then(|| lp.frag_count()),
        pit_token: lp.pit_token().unwrap_or_default(),
        nack: lp.nack(),
        incoming_face_id: lp.incoming_face_id(),
        next_hop_face_id: lp.next_hop_face_id(),
        cache_policy: lp.cache_policy(),
        congestion_mark: lp.congestion_mark(),
        acks: &[],
        tx_sequence: None,
        non_discovery: lp.non_discovery(),
        prefix_announcement: lp.prefix_announcement(),
    }
}

fn count_frame(counters: &FaceCounters, length: usize) {
    counters.out_frames.increment();
    counters.out_bytes.add(length as u64);
}

/// Bytes of the frames of one link: 30 ms of 1 Gbit/s.
const WINDOW_BYTES_MAX: usize = 4 << 20;
/// TxSequences from the oldest to the newest.
const WINDOW_SPAN_MAX: usize = 16_384;
/// Buffers kept for later frames.
const SPARE_BUFFERS_MAX: usize = 64;

/// A frame without acknowledgement.
#[derive(Debug)]
struct Unacked {
    /// The frame without Ack fields.
    bytes: Vec<u8>,
    /// Sequence less FragIndex, which the fragments of one packet share.
    message: u64,
    /// Whether the packet has other frames.
    is_fragment: bool,
    /// When it was sent the last time.
    sent: Timestamp,
    retransmissions: u8,
    /// Acknowledgements of later frames.
    later_acks: u8,
}

/// Frames that were lost and are to be sent again, by ascending TxSequence: each acknowledgement counts for all frames
/// before it, so that the earlier of two reaches the limit first.
#[derive(Debug, Default)]
struct LostFrames {
    frames: VecDeque<LostFrame>,
}

/// A frame that was lost; `None` if its acknowledgement has arrived since.
#[derive(Debug)]
struct LostFrame {
    tx_sequence: u64,
    frame: Option<Unacked>,
}

impl LostFrames {
    /// Removes a frame that was not lost, but only acknowledged late.
    fn take(&mut self, tx_sequence: u64) -> Option<Unacked> {
        let first = self.frames.front()?.tx_sequence;
        // TxSequences wrap.
        let distance = |other: u64| other.wrapping_sub(first);
        let sought = distance(tx_sequence);
        let place = self.frames.binary_search_by_key(&sought, |lost| distance(lost.tx_sequence));
        self.frames.get_mut(place.ok()?)?.frame.take()
    }
}

/// The frames between the oldest that is not acknowledged and the newest.
#[derive(Debug)]
struct Window {
    /// TxSequence of the first of `frames`.
    first: u64,
    /// The first one is always there, so that `sent` of it is the earliest.
    frames: VecDeque<Option<Unacked>>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
}

impl Window {
    fn new(first: u64) -> Self {
        Self { first, frames: VecDeque::new(), bytes: 0, spare: Vec::new(), spare_bytes: 0 }
    }

    /// Whether a frame of `length` bytes may be added.
    fn has_room(&self, length: usize) -> bool {
        self.frames.len() < WINDOW_SPAN_MAX && self.bytes + length <= WINDOW_BYTES_MAX
    }

    /// The next TxSequence.
    fn next(&self) -> u64 {
        self.first.wrapping_add(self.frames.len() as u64)
    }

    /// Keeps a copy of a frame that was sent as [`next`](Self::next).
    fn add(&mut self, now: Timestamp, header: &LpHeader<'_>, payload: &[u8]) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= bytes.capacity();
        bytes.clear();
        bytes.resize(header.encoded_len(payload.len()) + payload.len(), 0);
        let written = header.write(payload, &mut bytes);
        debug_assert!(written.is_ok_and(|length| length == bytes.len()), "it has been sent");
        let index = header.frag_index.unwrap_or(0);
        let message = header.sequence.unwrap_or(0).wrapping_sub(index);
        let is_fragment = header.frag_count.is_some_and(|count| count > 1);
        let (retransmissions, later_acks) = (0, 0);
        self.put_back(
            now,
            Unacked { bytes, message, is_fragment, sent: now, retransmissions, later_acks },
        );
    }

    /// Keeps a frame that was retransmitted as [`next`](Self::next).
    fn put_back(&mut self, now: Timestamp, mut frame: Unacked) {
        frame.sent = now;
        self.bytes += frame.bytes.len();
        self.frames.push_back(Some(frame));
    }

    /// Removes the frame `tx_sequence`, if it is there.
    fn take(&mut self, tx_sequence: u64) -> Option<Unacked> {
        let place = self.position(tx_sequence)?;
        let frame = self.frames.get_mut(place)?.take()?;
        self.bytes -= frame.bytes.len();
        self.advance();
        Some(frame)
    }

    fn take_oldest(&mut self) -> Option<Unacked> {
        self.take(self.first)
    }

    /// When the oldest frame was sent; no other was sent earlier.
    fn oldest_sent(&self) -> Option<Timestamp> {
        self.frames.front()?.as_ref().map(|frame| frame.sent)
    }

    /// Counts an acknowledgement for the frames before it, and moves those that it shows to be lost. As they leave the
    /// window, which begins with the oldest frame then, a frame is visited by at most [`LATER_ACKS_MAX`] acknowledgements.
    fn acknowledged_later(&mut self, tx_sequence: u64, lost: &mut LostFrames) {
        // The frame itself is gone, and with it perhaps the beginning of the window.
        let Some(count) = self.position(tx_sequence) else { return };
        let first = self.first;
        for (place, tx_sequence) in self.frames.iter_mut().take(count).zip(0..) {
            if let Some(frame) = place {
                frame.later_acks += 1;
                if frame.later_acks == LATER_ACKS_MAX {
                    let tx_sequence = first.wrapping_add(tx_sequence);
                    lost.frames.push_back(LostFrame { tx_sequence, frame: place.take() });
                }
            }
        }
        self.advance();
    }

    /// Removes all frames of a packet that is dropped.
    fn remove_message(&mut self, message: u64) {
        for place in &mut self.frames {
            if place.as_ref().is_some_and(|frame| frame.message == message)
                && let Some(frame) = place.take()
            {
                self.bytes -= frame.bytes.len();
            }
        }
        self.advance();
    }

    /// Keeps the buffer of a frame for a later one.
    fn recycle(&mut self, frame: Unacked) {
        if self.spare.len() < SPARE_BUFFERS_MAX {
            self.spare_bytes += frame.bytes.capacity();
            self.spare.push(frame.bytes);
        }
    }

    /// Frees the buffers for later frames; returns their bytes.
    fn drop_spare(&mut self) -> usize {
        self.spare = Vec::new();
        std::mem::take(&mut self.spare_bytes)
    }

    /// Forgets all frames, and continues their numbers.
    fn forget(&mut self) {
        *self = Self::new(self.next());
    }

    /// The position of a TxSequence that is not before the window.
    fn position(&self, tx_sequence: u64) -> Option<usize> {
        let place = usize::try_from(tx_sequence.wrapping_sub(self.first)).ok()?;
        (place <= self.frames.len()).then_some(place)
    }

    fn advance(&mut self) {
        while let Some(None) = self.frames.front() {
            self.frames.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

/// Retransmission timeout until the first measurement.
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// NFD's bounds.
const TIMEOUT_MIN: Duration = Duration::from_millis(200);
const TIMEOUT_MAX: Duration = Duration::from_mins(1);

/// Smoothed round-trip time and its variation, for the retransmission timeout (RFC 6298).
#[derive(Debug, Clone, Copy, Default)]
struct RttEstimator {
    smoothed: Option<Duration>,
    variation: Duration,
}

impl RttEstimator {
    /// Adds the round-trip time of a frame that was not retransmitted (Karn's algorithm).
    fn add(&mut self, sample: Duration) {
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(sample);
            self.variation = sample / 2;
            return;
        };
        self.variation = (self.variation * 3 + smoothed.abs_diff(sample)) / 4;
        self.smoothed = Some((smoothed * 7 + sample) / 8);
    }

    /// Time to wait for an acknowledgement.
    fn timeout(&self) -> Duration {
        self.smoothed.map_or(INITIAL_TIMEOUT, |smoothed| {
            (smoothed + self.variation * 4).clamp(TIMEOUT_MIN, TIMEOUT_MAX)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_follows_round_trip_time_within_bounds() {
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.timeout(), Duration::from_secs(1));
        rtt.add(Duration::from_millis(1));
        assert_eq!(rtt.timeout(), TIMEOUT_MIN);
        let mut rtt = RttEstimator::default();
        rtt.add(Duration::from_millis(400));
        // 400 + 4 * 200.
        assert_eq!(rtt.timeout(), Duration::from_millis(1200));
        rtt.add(Duration::from_millis(400));
        // 400 + 4 * 150.
        assert_eq!(rtt.timeout(), Duration::from_millis(1000));
        rtt.add(Duration::from_millis(800));
        // (400 * 7 + 800) / 8 + 4 * (150 * 3 + 400) / 4.
        assert_eq!(rtt.timeout(), Duration::from_millis(450 + 850));
        rtt.add(Duration::from_hours(1));
        assert_eq!(rtt.timeout(), TIMEOUT_MAX);
    }
}

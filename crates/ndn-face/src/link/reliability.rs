//! Link reliability (NDNLPv2, "Link Reliability").
//!
//! Every frame gets a TxSequence, and the peer acknowledges each. A frame counts as lost when its
//! acknowledgement does not come in time, or when three later ones were acknowledged; it is then
//! sent again under a new TxSequence. After three times its packet is given up. Acknowledgements
//! travel in the headers of frames that go the other way anyway, or alone after 5 ms.
//!
//! A state machine without I/O and clock, as the link service is. What it keeps is limited: a
//! frame for which there is no room goes out unprotected.

mod rtt;
mod window;

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashSet;
use ndn_packet::{LpHeader, LpPacket, MAX_PACKET_SIZE};
use ndn_ring::PacketHandle;
use ndn_table::Timestamp;

use crate::{FaceCounters, FrameSink, LinkDropReason};

use rtt::RttEstimator;
use window::{Unacked, Window};

/// A frame is sent again so often at most.
const RETRANSMISSIONS_MAX: u8 = 3;
/// A frame is lost after so many acknowledgements of later ones.
const LATER_ACKS_MAX: u8 = 3;
/// How long an acknowledgement waits for a frame to travel with.
const IDLE_ACK_WAIT: Duration = Duration::from_millis(5);
/// Acknowledgements in one frame.
const ACKS_PER_FRAME: usize = 64;
/// Acknowledgements that wait. What does not fit is not sent; the peer will send its frame again.
const ACKS_MAX: usize = 8192;
/// Sequences that are remembered to notice frames that come twice.
const RECENT_MAX: usize = 65_536;
/// Room for the longest header: 64 acknowledgements of 12 bytes, and all other fields.
const HEADER_LENGTH_MAX: usize = 160 + ACKS_PER_FRAME * ACK_LENGTH;
/// Bytes of an Ack field.
const ACK_LENGTH: usize = 12;

/// The state of one reliable link.
#[derive(Debug)]
pub(crate) struct Reliability {
    window: Window,
    rtt: RttEstimator,
    /// Frames to be sent again: lost, by later acknowledgements.
    lost: VecDeque<u64>,
    /// TxSequences to acknowledge.
    acks: VecDeque<u64>,
    /// When they go out alone.
    idle_ack: Option<Timestamp>,
    /// Sequences that came within the last retransmission timeouts, oldest first.
    recent: VecDeque<(Timestamp, u64)>,
    recent_set: HashSet<u64>,
}

impl Reliability {
    /// Numbers frames from `first_tx_sequence`, which should be random.
    pub(crate) fn new(first_tx_sequence: u64) -> Self {
        Self {
            window: Window::new(first_tx_sequence),
            rtt: RttEstimator::default(),
            lost: VecDeque::new(),
            acks: VecDeque::new(),
            idle_ack: None,
            recent: VecDeque::new(),
            recent_set: HashSet::new(),
        }
    }

    /// Takes what the header of a frame says. False if the frame has come before.
    pub(crate) fn receive(
        &mut self,
        now: Timestamp,
        lp: &LpPacket<'_>,
        counters: &FaceCounters,
    ) -> bool {
        for tx_sequence in lp.acks() {
            self.acknowledge(now, tx_sequence, counters);
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
        let tx_sequence = self.window.has_room(length).then(|| self.window.next());
        let header = LpHeader { tx_sequence, ..*header };
        let sent = self.push(&header, payload, handle, frame_max, sink)?;
        if tx_sequence.is_some() {
            self.window.add(now, &header, payload);
        }
        Ok(sent)
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        if !self.lost.is_empty() {
            return Some(Timestamp::ZERO);
        }
        let oldest = self.window.oldest_sent().map(|sent| sent.plus(self.rtt.timeout()));
        [oldest, self.idle_ack].into_iter().flatten().min()
    }

    /// Sends what is lost again, and acknowledgements that no frame came for.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Timestamp,
        frame_max: usize,
        sink: &mut impl FrameSink,
        counters: &FaceCounters,
    ) {
        while let Some(tx_sequence) = self.lost.pop_front() {
            if let Some(frame) = self.window.take(tx_sequence) {
                self.send_again(now, frame, frame_max, sink, counters);
            }
        }
        // Frames that are sent again now are not due again.
        while self.window.oldest_sent().is_some_and(|sent| sent.plus(self.rtt.timeout()) <= now) {
            if let Some(frame) = self.window.take_oldest() {
                self.send_again(now, frame, frame_max, sink, counters);
            }
        }
        if self.idle_ack.is_some_and(|deadline| deadline <= now) {
            self.send_idle(frame_max, sink, counters);
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
            self.window.remove_message(frame.message);
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
        // The queue may be full; the frame then waits for its next time.
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
        // The lengths in front may take a few bytes more with more fields.
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
            // If the queue is full, the peer will send its frames again.
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
        let Some(frame) = self.window.take(tx_sequence) else { return };
        counters.out_acknowledged.increment();
        if frame.retransmissions == 0 {
            self.rtt.add(now.since(frame.sent));
        }
        self.window.recycle(frame);
        let lost = &mut self.lost;
        self.window.for_earlier(tx_sequence, |earlier, frame| {
            frame.later_acks = frame.later_acks.saturating_add(1);
            if frame.later_acks == LATER_ACKS_MAX {
                lost.push_back(earlier);
            }
        });
    }

    /// Remembers `sequence`. False if it is remembered already.
    fn is_new(&mut self, now: Timestamp, sequence: u64) -> bool {
        // Until the peer has sent it for the last time, if its timeout is like ours.
        let kept = self.rtt.timeout() * (u32::from(RETRANSMISSIONS_MAX) + 1);
        while let Some(&(came, oldest)) = self.recent.front()
            && (came.plus(kept) < now || self.recent.len() >= RECENT_MAX)
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

/// Writes the header into `buffer` and the frame into `sink`; gives the length of the header.
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

/// The fields of a frame that was written here, but for those of its reliability.
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

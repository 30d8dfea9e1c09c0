//! Reassembly of fragmented packets (NDNLPv2, "Fragmentation and Reassembly").
//!
//! Peers are not trusted, so everything has a limit: fragments and bytes of a message, incomplete messages at a
//! time, the duration of a message, and the memory of all faces together, which is divided between principals.

use std::collections::VecDeque;
use std::time::Duration;

use ndn_forwarding::LpFields;
use ndn_packet::MAX_PACKET_SIZE;
use ndn_types::Timestamp;

use crate::counters::{FaceCounters, LinkDropReason};
use crate::memory::Account;
use crate::options::ReassemblyLimits;
use crate::source::Sender;

/// One fragment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fragment<'a> {
    /// The sender, on a link with several.
    pub(crate) sender: Option<Sender>,
    /// The PrefixAnnouncement in its header; empty for none.
    pub(crate) announcement: &'a [u8],
    /// Sequence less FragIndex: the number that the fragments of a message share.
    pub(crate) message: u64,
    pub(crate) index: usize,
    pub(crate) count: usize,
    pub(crate) payload: &'a [u8],
}

/// Position of one fragment in the buffer of its message; a missing one is `MISSING`.
#[derive(Debug, Clone, Copy)]
struct Piece {
    start: u16,
    length: u16,
}

const MISSING: Piece = Piece { start: 0, length: u16::MAX };
const _: () = assert!(MAX_PACKET_SIZE < u16::MAX as usize);

impl Piece {
    fn is_missing(self) -> bool {
        self.length == u16::MAX
    }
}

/// A message of which some fragments have arrived.
#[derive(Debug)]
struct PartialMessage {
    sender: Option<Sender>,
    message: u64,
    /// The PrefixAnnouncement of the first fragment.
    announcement: Vec<u8>,
    /// Fragments in the order of their arrival.
    buffer: Vec<u8>,
    pieces: Vec<Piece>,
    missing: usize,
    /// Fragments have arrived in the order of their indexes, so `buffer` is the packet.
    in_order: bool,
    /// Bytes charged to the memory of all faces.
    charged: usize,
    fields: LpFields,
    /// When it is dropped if no further fragment arrives.
    deadline: Timestamp,
    /// When it is dropped in any case.
    last_deadline: Timestamp,
}

/// Timeouts after which a message is dropped although fragments of it keep arriving.
const TIMEOUTS_MAX: u32 = 4;
/// Time for which an unused reassembler keeps its memory.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The incomplete messages of one face.
#[derive(Debug, Default)]
pub(crate) struct Reassembler {
    /// In the order of their first arrivals.
    partial: VecDeque<PartialMessage>,
    /// The last completed message, and room to put one in order.
    complete: Vec<u8>,
    /// A message to reuse, so that a steady flow allocates nothing.
    spare: Option<PartialMessage>,
    /// When the last fragment arrived.
    last_used: Timestamp,
}

impl Reassembler {
    /// Processes one fragment, and returns the packet if it was the last one missing. `fields` are
    /// those of the fragment; the packet gets those of its first fragment, and a congestion mark
    /// if any fragment had one.
    ///
    /// Payloads that are kept are charged to `memory` until the message ends.
    pub(crate) fn receive(
        &mut self,
        now: Timestamp,
        fragment: &Fragment<'_>,
        fields: &LpFields,
        limits: &ReassemblyLimits,
        memory: &mut Account<'_>,
        counters: &FaceCounters,
    ) -> Result<Option<(&[u8], LpFields)>, LinkDropReason> {
        self.last_used = now;
        let known = self.partial.iter().rposition(|one| one.is_of(fragment));
        let position = known.map_or_else(|| self.start(fragment, limits, memory, counters), Ok)?;
        // Of the others, the oldest go first.
        let length = fragment.payload.len() + fragment.announcement.len();
        let position = self.make_room(position, length, memory, counters);
        let message = &mut self.partial[position];
        if let Err(reason) = message.add(fragment, fields, now.plus(limits.timeout), memory) {
            let is_new = message.missing == message.pieces.len();
            if is_new || reason == LinkDropReason::ReassemblyTooLong {
                self.remove(position, memory);
            }
            return Err(reason);
        }
        if message.missing > 0 {
            return Ok(None);
        }
        let fields = message.fields;
        self.finish(position, memory);
        Ok(Some((&self.complete, fields)))
    }

    /// Copies a packet that was not fragmented, followed by `behind`.
    pub(crate) fn join(&mut self, now: Timestamp, packet: &[u8], behind: &[u8]) -> &[u8] {
        self.last_used = now;
        self.complete.clear();
        self.complete.extend_from_slice(packet);
        self.complete.extend_from_slice(behind);
        &self.complete
    }

    /// Drops the messages whose deadline has passed.
    pub(crate) fn expire(
        &mut self,
        now: Timestamp,
        memory: &mut Account<'_>,
        counters: &FaceCounters,
    ) {
        let mut position = 0;
        while position < self.partial.len() {
            if self.partial[position].deadline <= now {
                self.remove(position, memory);
                counters.dropped(LinkDropReason::ReassemblyTimeout).increment();
            } else {
                position += 1;
            }
        }
    }

    /// Drops all messages, at the end of the face.
    pub(crate) fn clear(&mut self, memory: &mut Account<'_>) {
        while !self.partial.is_empty() {
            self.remove(0, memory);
        }
    }

    /// When the first message expires, or, if there is none, when the reassembler can be freed.
    pub(crate) fn next_deadline(&self) -> Timestamp {
        let idle = || self.last_used.plus(IDLE_TIMEOUT);
        self.partial.iter().map(|message| message.deadline).min().unwrap_or_else(idle)
    }

    /// Adds a message without fragments.
    fn start(
        &mut self,
        fragment: &Fragment<'_>,
        limits: &ReassemblyLimits,
        memory: &mut Account<'_>,
        counters: &FaceCounters,
    ) -> Result<usize, LinkDropReason> {
        while self.partial.len() >= limits.messages_max.max(1) {
            self.evict_oldest(memory, counters);
        }
        let overhead = size_of::<PartialMessage>() + fragment.count * size_of::<Piece>();
        while !memory.take(overhead) {
            if self.partial.is_empty() {
                return Err(LinkDropReason::ReassemblyFull);
            }
            self.evict_oldest(memory, counters);
        }
        let mut message = PartialMessage::new(self.spare.take(), fragment);
        message.charged = overhead;
        message.last_deadline = self.last_used.plus(limits.timeout * TIMEOUTS_MAX);
        self.partial.push_back(message);
        Ok(self.partial.len() - 1)
    }

    /// Evicts messages older than that at `position` until `bytes` more fit into `memory`; returns its
    /// new position.
    fn make_room(
        &mut self,
        mut position: usize,
        bytes: usize,
        memory: &mut Account<'_>,
        counters: &FaceCounters,
    ) -> usize {
        while position > 0 && !memory.has_room(bytes) {
            self.evict_oldest(memory, counters);
            position -= 1;
        }
        position
    }

    /// Drops the oldest message; `false` if there is none.
    pub(crate) fn evict_oldest(
        &mut self,
        memory: &mut Account<'_>,
        counters: &FaceCounters,
    ) -> bool {
        if self.partial.is_empty() {
            return false;
        }
        self.remove(0, memory);
        counters.dropped(LinkDropReason::ReassemblyFull).increment();
        true
    }

    fn remove(&mut self, position: usize, memory: &mut Account<'_>) {
        if let Some(message) = self.partial.remove(position) {
            memory.give_back(message.charged);
            self.spare = Some(message);
        }
    }

    /// Moves the packet of the message at `position` to `complete`.
    fn finish(&mut self, position: usize, memory: &mut Account<'_>) {
        let message = &mut self.partial[position];
        if message.in_order {
            std::mem::swap(&mut self.complete, &mut message.buffer);
        } else {
            self.complete.clear();
            for piece in &message.pieces {
                let start = usize::from(piece.start);
                let bytes = &message.buffer[start..start + usize::from(piece.length)];
                self.complete.extend_from_slice(bytes);
            }
        }
        self.complete.extend_from_slice(&message.announcement);
        self.remove(position, memory);
    }
}

impl PartialMessage {
    fn new(spare: Option<Self>, fragment: &Fragment<'_>) -> Self {
        let (mut buffer, mut pieces, mut announcement) =
            spare.map_or_else(Default::default, |one| (one.buffer, one.pieces, one.announcement));
        buffer.clear();
        announcement.clear();
        pieces.clear();
        pieces.resize(fragment.count, MISSING);
        Self {
            sender: fragment.sender,
            message: fragment.message,
            announcement,
            buffer,
            pieces,
            missing: fragment.count,
            in_order: true,
            charged: 0,
            fields: LpFields::default(),
            deadline: Timestamp::MAX,
            last_deadline: Timestamp::MAX,
        }
    }

    /// Whether a fragment belongs to it.
    fn is_of(&self, fragment: &Fragment<'_>) -> bool {
        self.message == fragment.message && self.sender == fragment.sender
    }

    fn add(
        &mut self,
        fragment: &Fragment<'_>,
        fields: &LpFields,
        deadline: Timestamp,
        memory: &mut Account<'_>,
    ) -> Result<(), LinkDropReason> {
        if fragment.count != self.pieces.len() {
            return Err(LinkDropReason::FragmentMismatch);
        }
        let piece = &mut self.pieces[fragment.index];
        if !piece.is_missing() {
            return Err(LinkDropReason::DuplicateFragment);
        }
        let length = fragment.payload.len();
        if self.buffer.len() + length > MAX_PACKET_SIZE {
            return Err(LinkDropReason::ReassemblyTooLong);
        }
        let announcement = if fragment.index == 0 { fragment.announcement } else { &[] };
        if !memory.take(length + announcement.len()) {
            return Err(LinkDropReason::ReassemblyFull);
        }
        self.charged += length + announcement.len();
        self.announcement.extend_from_slice(announcement);
        self.deadline = deadline.min(self.last_deadline);
        // Both are at most MAX_PACKET_SIZE.
        piece.start = u16::try_from(self.buffer.len()).unwrap_or(0);
        piece.length = u16::try_from(length).unwrap_or(0);
        self.in_order &= fragment.index + self.missing == self.pieces.len();
        self.missing -= 1;
        self.buffer.extend_from_slice(fragment.payload);
        let mark = self.fields.congestion_mark.max(fields.congestion_mark);
        if fragment.index == 0 {
            self.fields = *fields;
        }
        self.fields.congestion_mark = mark;
        Ok(())
    }
}

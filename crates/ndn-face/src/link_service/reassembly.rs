//! Fragments back into packets (NDNLPv2, "Fragmentation and Reassembly").
//!
//! Every limit is small and fixed: a peer that sends fragments and never finishes costs the face
//! at most [`PARTIAL_MESSAGES_MAX`] messages of [`PACKET_LENGTH_MAX`] bytes. Buffers are used
//! again, so that nothing is allocated once they have grown.

use ndn_forwarding::LpFields;

use super::PACKET_LENGTH_MAX;
use crate::{FaceCounters, LinkDropReason};

/// Fragments in a message at most (as NFD).
pub const FRAGMENT_COUNT_MAX: usize = 400;
/// How long a partial message waits for its next fragment (as NFD).
pub const REASSEMBLY_TIMEOUT_NS: u64 = 500_000_000;
/// Partial messages of one face at most; the one that has waited longest makes room.
pub const PARTIAL_MESSAGES_MAX: usize = 64;

/// A received fragment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fragment<'a> {
    pub(super) sequence: u64,
    pub(super) index: u64,
    pub(super) count: u64,
    pub(super) payload: &'a [u8],
    pub(super) fields: LpFields,
}

/// A whole message.
#[derive(Debug)]
pub(super) struct Message<'a> {
    pub(super) payload: &'a [u8],
    /// Those of the first fragment.
    pub(super) fields: LpFields,
}

/// Where the bytes of a fragment lie in the partial message.
#[derive(Debug, Clone, Copy, Default)]
struct Piece {
    start: u32,
    length: u32,
    present: bool,
}

/// A message of which some fragments are there.
#[derive(Debug, Default)]
struct PartialMessage {
    /// Sequence of its first fragment.
    first_sequence: u64,
    deadline_ns: u64,
    fields: LpFields,
    missing: usize,
    /// One per fragment.
    pieces: Vec<Piece>,
    /// Payloads in the order of arrival.
    bytes: Vec<u8>,
}

/// The partial messages of one face.
#[derive(Debug, Default)]
pub struct Reassembler {
    partial: Vec<PartialMessage>,
    /// Ended messages, kept for their buffers.
    spare: Vec<PartialMessage>,
    whole: Vec<u8>,
}

impl Reassembler {
    /// Adds a fragment; returns the message if it was the last one missing.
    pub(super) fn add(
        &mut self,
        now_ns: u64,
        fragment: &Fragment<'_>,
        counters: &FaceCounters,
    ) -> Result<Option<Message<'_>>, LinkDropReason> {
        if fragment.count > FRAGMENT_COUNT_MAX as u64 {
            return Err(LinkDropReason::FragmentCount);
        }
        let (Ok(index), Ok(count)) =
            (usize::try_from(fragment.index), usize::try_from(fragment.count))
        else {
            return Err(LinkDropReason::FragmentCount);
        };
        if index >= count || fragment.payload.is_empty() {
            return Err(LinkDropReason::InvalidFragment);
        }
        let first_sequence = fragment.sequence.wrapping_sub(fragment.index);
        let position = self.find_or_insert(first_sequence, count, counters);
        let message = &mut self.partial[position];
        if message.pieces.len() != count {
            return Err(LinkDropReason::InvalidFragment);
        }
        if message.pieces[index].present {
            return Err(LinkDropReason::DuplicateFragment);
        }
        if message.bytes.len() + fragment.payload.len() > PACKET_LENGTH_MAX {
            self.recycle(position);
            return Err(LinkDropReason::MessageLength);
        }
        message.store(index, fragment);
        message.deadline_ns = now_ns.saturating_add(REASSEMBLY_TIMEOUT_NS);
        if message.missing > 0 {
            return Ok(None);
        }
        self.whole.clear();
        for piece in &message.pieces {
            let (start, length) = (piece.start as usize, piece.length as usize);
            self.whole.extend_from_slice(&message.bytes[start..start + length]);
        }
        let fields = message.fields;
        self.recycle(position);
        Ok(Some(Message { payload: &self.whole, fields }))
    }

    fn find_or_insert(
        &mut self,
        first_sequence: u64,
        count: usize,
        counters: &FaceCounters,
    ) -> usize {
        let known = |message: &PartialMessage| message.first_sequence == first_sequence;
        if let Some(position) = self.partial.iter().position(known) {
            return position;
        }
        if self.partial.len() == PARTIAL_MESSAGES_MAX {
            counters.count_drop(LinkDropReason::ReassemblyFull);
            let oldest = (0..self.partial.len()).min_by_key(|&at| self.partial[at].deadline_ns);
            self.recycle(oldest.unwrap_or(0));
        }
        let mut message = self.spare.pop().unwrap_or_default();
        message.first_sequence = first_sequence;
        message.fields = LpFields::default();
        message.missing = count;
        message.pieces.clear();
        message.pieces.resize(count, Piece::default());
        message.bytes.clear();
        self.partial.push(message);
        self.partial.len() - 1
    }

    fn recycle(&mut self, position: usize) {
        let message = self.partial.swap_remove(position);
        self.spare.push(message);
    }

    /// Partial messages now.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.partial.len()
    }

    /// When the first partial message will have waited too long.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.partial.iter().map(|message| message.deadline_ns).min()
    }

    /// Gives up what has waited too long.
    pub(super) fn expire(&mut self, now_ns: u64, counters: &FaceCounters) {
        let mut position = 0;
        while let Some(message) = self.partial.get(position) {
            if message.deadline_ns <= now_ns {
                counters.count_drop(LinkDropReason::ReassemblyTimeout);
                self.recycle(position);
            } else {
                position += 1;
            }
        }
    }
}

impl PartialMessage {
    fn store(&mut self, index: usize, fragment: &Fragment<'_>) {
        // Both fit: a message has at most PACKET_LENGTH_MAX bytes.
        let start = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        let length = u32::try_from(fragment.payload.len()).unwrap_or(u32::MAX);
        self.pieces[index] = Piece { start, length, present: true };
        self.bytes.extend_from_slice(fragment.payload);
        self.missing -= 1;
        if index == 0 {
            self.fields = fragment.fields;
        }
    }
}

//! Frames that wait for their acknowledgement, by TxSequence.

use std::collections::VecDeque;

use ndn_packet::LpHeader;
use ndn_table::Timestamp;

/// Bytes of the frames of one link: 30 ms of 1 Gbit/s.
const BYTES_MAX: usize = 4 << 20;
/// TxSequences from the oldest to the newest.
const SPAN_MAX: usize = 16_384;
/// Buffers that are kept for later frames.
const SPARE_MAX: usize = 64;

/// A frame that waits.
#[derive(Debug)]
pub(super) struct Unacked {
    /// The frame without Ack fields.
    pub(super) bytes: Vec<u8>,
    /// Sequence less FragIndex: what the fragments of one packet share.
    pub(super) message: u64,
    /// When it was sent the last time.
    pub(super) sent: Timestamp,
    pub(super) retransmissions: u8,
    /// Acknowledgements of later frames.
    pub(super) later_acks: u8,
}

/// The frames between the oldest that is not acknowledged and the newest.
#[derive(Debug)]
pub(super) struct Window {
    /// TxSequence of the first of `frames`.
    first: u64,
    /// The first one is always there, so that `sent` of it is the earliest.
    frames: VecDeque<Option<Unacked>>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
}

impl Window {
    pub(super) fn new(first: u64) -> Self {
        Self { first, frames: VecDeque::new(), bytes: 0, spare: Vec::new() }
    }

    /// Whether a frame of `length` bytes may be added.
    pub(super) fn has_room(&self, length: usize) -> bool {
        self.frames.len() < SPAN_MAX && self.bytes + length <= BYTES_MAX
    }

    /// The next TxSequence.
    pub(super) fn next(&self) -> u64 {
        self.first.wrapping_add(self.frames.len() as u64)
    }

    /// Keeps a copy of a frame that was sent as [`next`](Self::next).
    pub(super) fn add(&mut self, now: Timestamp, header: &LpHeader<'_>, payload: &[u8]) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.resize(header.encoded_len(payload.len()) + payload.len(), 0);
        let written = header.write(payload, &mut bytes);
        debug_assert!(written.is_ok_and(|length| length == bytes.len()), "it has been sent");
        let index = header.frag_index.unwrap_or(0);
        let message = header.sequence.unwrap_or(0).wrapping_sub(index);
        self.put_back(
            now,
            Unacked { bytes, message, sent: now, retransmissions: 0, later_acks: 0 },
        );
    }

    /// Takes a frame that was sent again as [`next`](Self::next).
    pub(super) fn put_back(&mut self, now: Timestamp, mut frame: Unacked) {
        frame.sent = now;
        self.bytes += frame.bytes.len();
        self.frames.push_back(Some(frame));
    }

    /// Removes the frame `tx_sequence`, if it is there.
    pub(super) fn take(&mut self, tx_sequence: u64) -> Option<Unacked> {
        let place = self.place(tx_sequence)?;
        let frame = self.frames.get_mut(place)?.take()?;
        self.bytes -= frame.bytes.len();
        self.advance();
        Some(frame)
    }

    pub(super) fn take_oldest(&mut self) -> Option<Unacked> {
        self.take(self.first)
    }

    /// When the oldest frame was sent; no other was sent earlier.
    pub(super) fn oldest_sent(&self) -> Option<Timestamp> {
        self.frames.front()?.as_ref().map(|frame| frame.sent)
    }

    /// Shows all frames that were sent before `tx_sequence`.
    pub(super) fn for_earlier(
        &mut self,
        tx_sequence: u64,
        mut visit: impl FnMut(u64, &mut Unacked),
    ) {
        // The frame itself is gone, and with it perhaps the beginning of the window.
        let Some(count) = self.place(tx_sequence) else { return };
        for (place, frame) in self.frames.iter_mut().take(count).enumerate() {
            if let Some(frame) = frame {
                visit(self.first.wrapping_add(place as u64), frame);
            }
        }
    }

    /// Removes all frames of a packet that is given up.
    pub(super) fn remove_message(&mut self, message: u64) {
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
    pub(super) fn recycle(&mut self, frame: Unacked) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(frame.bytes);
        }
    }

    /// The place of a TxSequence that is not before the window.
    fn place(&self, tx_sequence: u64) -> Option<usize> {
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

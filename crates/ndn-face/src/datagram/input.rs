//! Receiving from UDP sockets into pool blocks.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use ndn_ring::{BLOCK_SIZE, FillBlock, PacketPool};
use ndn_sys::clock::wall_clock;
use ndn_sys::udp::ReceiveBatch;
use ndn_table::FaceIndex;
use ndn_types::duration_ns;

use crate::datagram::Channel;

/// Messages per system call at most. Each may hold many datagrams.
const SLOTS: usize = 16;
/// A block with less room than this, or than messages have lately had, is replaced.
const ROOM_MIN: usize = 2048;

/// The message whose datagrams are being taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenMessage {
    pub(crate) face: FaceIndex,
    /// Who sent it, if the face hears several.
    pub(crate) sender: Option<SocketAddr>,
    /// Length of each datagram but the last.
    pub(crate) segment_length: usize,
}

/// What [`DatagramInput::open`] found.
#[derive(Debug)]
pub(crate) enum Opened {
    /// A message for a face, in the block of its slot, and how many nanoseconds it has waited, if
    /// the kernel says.
    Message(FaceIndex, Option<u64>),
    /// A message from a peer that has no face yet.
    Stranger(SocketAddr),
    /// A message that cannot be used; it is skipped.
    Nothing,
}

/// Longer than a message waits in a socket: the wall clock was set meanwhile.
const WAIT_MAX_NS: u64 = 1_000_000_000;

/// How many nanoseconds a message has waited at this time of the wall clock, if that can be true.
fn waited_ns(wall_ns: u64, received_at: Duration) -> Option<u64> {
    let waited_ns = wall_ns.checked_sub(u64::try_from(received_at.as_nanos()).ok()?)?;
    (waited_ns <= WAIT_MAX_NS).then_some(waited_ns)
}

/// What one `recvmmsg` brought, and the blocks it went to.
///
/// A message may be 64 KiB long (joined datagrams), but blocks are to be filled with more than
/// one short message. So each slot has two buffers: the rest of its block, and behind it a part of
/// `spill`. Only a message that needs both is copied, into a new block.
#[derive(Debug)]
pub(crate) struct DatagramInput {
    batch: ReceiveBatch,
    blocks: Vec<FillBlock>,
    spill: Vec<u8>,
    /// Messages received by the last call, and the next of them.
    count: usize,
    next: usize,
    open: Option<OpenMessage>,
    /// The stranger who sent message `next` has been reported.
    reported: bool,
    /// About the longest message of late.
    recent_length: usize,
    /// Slots to offer to the next call: few while traffic is thin.
    slots: usize,
    /// The last call filled all slots that it was offered.
    was_full: bool,
    /// Datagrams that were taken for the current event, and so many are enough.
    taken: usize,
    enough: usize,
    /// The wall clock after the last call, nanoseconds, if it brought time stamps.
    wall_ns: Option<u64>,
}

impl DatagramInput {
    pub(crate) fn new() -> Self {
        Self {
            batch: ReceiveBatch::with_capacity(SLOTS),
            blocks: Vec::with_capacity(SLOTS),
            spill: Vec::new(),
            count: 0,
            next: 0,
            open: None,
            reported: false,
            recent_length: ROOM_MIN,
            slots: 2,
            was_full: false,
            taken: 0,
            enough: 0,
            wall_ns: None,
        }
    }

    /// Receives from the socket of `channel`; `Ok(false)` if there is no block to receive into.
    pub(crate) fn receive(&mut self, channel: &Channel, pool: &PacketPool) -> io::Result<bool> {
        debug_assert!(self.is_done());
        self.count = 0;
        self.next = 0;
        self.prepare_blocks(pool);
        let slots = self.slots.min(self.blocks.len());
        if slots == 0 {
            return Ok(false);
        }
        if self.spill.is_empty() {
            // Zeroed lazily by the kernel: only what is spilled into takes memory.
            self.spill = vec![0; SLOTS * BLOCK_SIZE];
        }
        let buffers = self
            .blocks
            .iter_mut()
            .zip(self.spill.chunks_mut(BLOCK_SIZE))
            .map(|(block, spill)| [block.spare_mut(), spill])
            .take(slots);
        channel.counters.receive_calls.increment();
        self.count = self.batch.receive(channel.socket.as_fd(), buffers)?;
        self.wall_ns = None;
        self.was_full = self.count == slots;
        self.slots = if self.was_full { SLOTS.min(slots * 2) } else { 2.max(slots - 1) };
        Ok(true)
    }

    /// Says that an event has come for the socket that is read next, and how many datagrams to take
    /// for it at least, if there are so many.
    pub(crate) fn begin_event(&mut self, enough: usize) {
        (self.taken, self.enough) = (0, enough);
    }

    /// Whether the last call may have left something.
    pub(crate) fn has_more(&self) -> bool {
        self.was_full
    }

    /// Whether to read again for the same event: frames of one length become more, and the runs in
    /// which they leave longer, the more of them are read before anything is written.
    pub(crate) fn reads_on(&self) -> bool {
        self.was_full && self.taken < self.enough
    }

    fn prepare_blocks(&mut self, pool: &PacketPool) {
        let room = self.recent_length.max(ROOM_MIN);
        for slot in 0..self.slots {
            let used_up = match self.blocks.get(slot) {
                Some(block) if block.remaining() >= room => continue,
                Some(_) => true,
                None => false,
            };
            let Some(block) = pool.allocate_block() else { return self.blocks.truncate(slot) };
            if used_up {
                pool.finish(std::mem::replace(&mut self.blocks[slot], block));
            } else {
                self.blocks.push(block);
            }
        }
    }

    /// Datagrams that were taken for the current event.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// How many messages the kernel had dropped at this socket before the next one, modulo 2^32, if it
    /// says.
    #[inline]
    pub(crate) fn kernel_count(&self) -> Option<u32> {
        self.batch.message(self.next).dropped
    }

    /// Whether everything that was received has been taken.
    pub(crate) fn is_done(&self) -> bool {
        self.next == self.count
    }

    /// The message being taken, if there is one, and the block it lies in.
    pub(crate) fn current(&mut self) -> Option<(OpenMessage, &mut FillBlock)> {
        Some((self.open?, &mut self.blocks[self.next]))
    }

    /// Ends the current message; what is left of it is skipped.
    pub(crate) fn close(&mut self) {
        if self.open.take().is_some() {
            let block = &mut self.blocks[self.next];
            block.skip(block.filled().len());
        }
        self.next += 1;
        self.reported = false;
    }

    /// Looks at the next message. After [`Opened::Stranger`] the caller may make a face and open
    /// again; a message that has no face then is skipped.
    pub(crate) fn open(&mut self, channel: &Channel, pool: &PacketPool) -> Opened {
        let message = self.batch.message(self.next);
        let Some(face) = channel.face_of(message.peer) else {
            let stranger = message.peer.filter(|_| channel.accepts && !self.reported);
            if let Some(peer) = stranger {
                self.reported = true;
                return Opened::Stranger(peer);
            }
            channel.counters.no_face.increment();
            self.close();
            return Opened::Nothing;
        };
        self.recent_length =
            message.length.max(self.recent_length - self.recent_length / 16).max(ROOM_MIN);
        if message.truncated || !self.commit(message.length, pool) {
            // A message is cut only if it is longer than any that UDP can carry.
            self.close();
            return Opened::Nothing;
        }
        let segment_length = message.segment_length.unwrap_or(message.length).max(1);
        self.taken += message.length.div_ceil(segment_length);
        // A connected socket hears one peer, so there it makes no difference.
        let sender = message.peer.filter(|_| channel.owner.is_some());
        self.open = Some(OpenMessage { face, sender, segment_length });
        Opened::Message(face, message.received_at.and_then(|at| self.waited_ns(at)))
    }

    /// How long a message has waited until it was read. One reading of the clock for each call.
    #[cold]
    fn waited_ns(&mut self, received_at: Duration) -> Option<u64> {
        let wall_clock = || duration_ns(wall_clock());
        waited_ns(*self.wall_ns.get_or_insert_with(wall_clock), received_at)
    }

    /// Makes a received message part of its block, or moves it to a new one if it did not fit.
    fn commit(&mut self, length: usize, pool: &PacketPool) -> bool {
        let block = &mut self.blocks[self.next];
        let room = block.remaining();
        if length <= room {
            block.commit(length);
            return true;
        }
        let Some(mut fresh) = pool.allocate_block() else { return false };
        let spill = &self.spill[self.next * BLOCK_SIZE..][..length - room];
        let (front, back) = fresh.spare_mut()[..length].split_at_mut(room);
        front.copy_from_slice(&block.spare_mut()[..room]);
        back.copy_from_slice(spill);
        fresh.commit(length);
        pool.finish(std::mem::replace(block, fresh));
        true
    }

    /// Returns all blocks.
    pub(crate) fn release(&mut self, pool: &PacketPool) {
        self.blocks.drain(..).for_each(|block| pool.finish(block));
        (self.count, self.next, self.open) = (0, 0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_wall_clock_is_not_taken_for_a_wait() {
        let at = |millis: u64| Duration::from_millis(1_700_000_000_000 + millis);
        let wait = |from, to| {
            let wall_ns = u64::try_from(at(to).as_nanos()).unwrap_or(u64::MAX);
            waited_ns(wall_ns, at(from))
        };
        assert_eq!(wait(5, 5), Some(0));
        assert_eq!(wait(0, 30), Some(30_000_000));
        assert_eq!(wait(0, 1000), Some(WAIT_MAX_NS));
        assert_eq!(wait(0, 1001), None, "forwards");
        assert_eq!(wait(1, 0), None, "backwards");
    }
}

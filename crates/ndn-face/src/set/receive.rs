//! From the sockets to the shard.

use std::net::SocketAddr;

use ndn_forwarding::{LpFields, RxFace};
use ndn_ring::{FillBlock, PacketPool};
use ndn_sys::poll::Event;
use ndn_table::{FaceIndex, Timestamp};

use crate::LinkDropReason;
use crate::datagram::ChannelId;
use crate::ether::PortId;
use crate::face::{Connection, Face, Transport};
use crate::leaning::Leaning;
use crate::link::{Received, Sender};
use crate::set::{CHANNEL_TOKEN, FOREIGN_TOKEN, FaceSet, face_in, port_of};
use crate::tap::Direction;

/// Where received packets go: a burst, and what parses packets into it.
pub trait RxSink {
    /// Whether there is no room for another packet.
    fn is_full(&self) -> bool;

    /// Takes the network packet in the first `length` bytes of what is filled in `block`, and the
    /// PrefixAnnouncement that makes the end of them if `fields` say so. It may
    /// change them, and consumes them by [`carve`](FillBlock::carve) or
    /// [`skip`](FillBlock::skip); what it leaves is skipped.
    fn receive(&mut self, face: &RxFace, block: &mut FillBlock, length: usize, fields: &LpFields);

    /// As [`receive`](Self::receive), for a packet of which it is known how long it has waited.
    fn receive_late(
        &mut self,
        face: &RxFace,
        block: &mut FillBlock,
        length: usize,
        fields: &LpFields,
        waited: Waited,
    ) {
        let _ = waited;
        self.receive(face, block, length, fields);
    }

    /// Takes the frame in the first `length` bytes of what is filled in `block`, of a face that
    /// another worker has (see [`FaceSet::add_foreign_peer`]), and consumes them. The face hears several if there is
    /// a `sender`. False if there is no use for it; it is dropped then.
    fn receive_foreign(
        &mut self,
        face: FaceIndex,
        sender: Option<Sender>,
        block: &mut FillBlock,
        length: usize,
    ) -> bool {
        let _ = (face, sender, block, length);
        false
    }
}

/// In which socket a packet has waited, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waited {
    /// The socket.
    pub channel: ChannelId,
    /// When the kernel got the packet.
    pub since: Timestamp,
}

/// How far the handling of an event has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Everything is taken that was read. What the descriptor still holds brings another event.
    Done,
    /// The sink is full. Make room, then [`resume`](FaceSet::resume).
    SinkFull,
    /// A peer without face has sent to a channel that accepts: call
    /// [`add_datagram`](FaceSet::add_datagram), or do not, then [`resume`](FaceSet::resume).
    /// Without a face its message is dropped.
    NewPeer {
        /// The socket.
        channel: ChannelId,
        /// Its address.
        local: SocketAddr,
        /// The sender.
        peer: SocketAddr,
    },
    /// A station without face has sent to a port that accepts: call
    /// [`add_station`](FaceSet::add_station), or do not, then [`resume`](FaceSet::resume). Without a
    /// face its frame is dropped.
    NewStation {
        /// The network device.
        port: PortId,
        /// The sender.
        peer: [u8; 6],
    },
    /// Somebody has sent to the group of a port whose queues several workers have, and this one knows of no face of
    /// the group: call [`add_foreign_station`](FaceSet::add_foreign_station), or do not, then
    /// [`resume`](FaceSet::resume). Without a face the frame is dropped.
    GroupHeard {
        /// The network device.
        port: PortId,
    },
    /// The pool has no free block, so nothing could be read; the event will come again. Release
    /// packets, or wait a little.
    NoBlock,
}

/// Bytes that were read and are not taken yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pending {
    /// In the stream block, for a face.
    Stream(FaceIndex),
    /// In the datagram input, from a channel.
    Datagrams(ChannelId),
    /// In the ring of a network device.
    Port(PortId),
    /// In the rings of a memif face.
    Memif(FaceIndex),
    /// In the queue of an internal face.
    Internal(FaceIndex),
}

/// What an event of a UDP socket brought; nothing for any other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heard {
    /// Datagrams for faces.
    pub datagrams: usize,
    /// Messages that the kernel had dropped before those because nobody read them in time, and had not
    /// told of. A message may be several datagrams that the kernel has joined.
    pub drops: u64,
}

/// Where a frame comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub(super) face: FaceIndex,
    /// The sender, if the face hears several.
    pub(super) sender: Option<Sender>,
}

impl From<FaceIndex> for Origin {
    fn from(face: FaceIndex) -> Self {
        Self { face, sender: None }
    }
}

impl FaceSet {
    /// Handles one event of the poller: reads once, and gives the packets to `sink`.
    ///
    /// What was pending before must have been resumed until [`Progress::Done`].
    pub fn handle_event(
        &mut self,
        now: Timestamp,
        event: &Event,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        debug_assert!(self.pending.is_none(), "the last event is not finished");
        debug_assert!(event.token < FOREIGN_TOKEN, "not an event of a face");
        self.waited = None;
        self.has_more = false;
        self.emptied = None;
        self.heard = Heard::default();
        let Ok(number) = u32::try_from(event.token & (CHANNEL_TOKEN - 1)) else {
            return Progress::Done;
        };
        if event.token & CHANNEL_TOKEN != 0 {
            if let Some(port) = port_of(number) {
                return self.handle_port_event(now, port, event, pool, sink);
            }
            let channel = ChannelId(number);
            if event.writable && self.waits_writable(channel) {
                self.flush_channel(channel, pool);
            }
            return match event.readable {
                true => self.read_channel(now, channel, pool, sink),
                false => Progress::Done,
            };
        }
        let index = FaceIndex::from_bits(number);
        let Some(face) = face_in(&mut self.faces, index) else { return Progress::Done };
        match &mut face.transport {
            Transport::Stream(stream) if matches!(stream.connection, Connection::Down { .. }) => {
                self.handle_attempt(now, index);
                Progress::Done
            }
            Transport::Stream(stream) => {
                if event.writable && stream.output.as_ref().is_some_and(|one| one.is_blocked()) {
                    self.flush_face(now, index, pool);
                }
                if event.readable {
                    self.read_stream(now, index, pool, sink)
                } else {
                    Progress::Done
                }
            }
            Transport::Internal(_) => self.handle_internal_event(now, index, pool, sink),
            Transport::Memif(_) => self.handle_memif_event(now, index, event, pool, sink),
            Transport::Datagram { .. } | Transport::Ether { .. } => Progress::Done,
        }
    }

    /// Goes on after [`Progress::SinkFull`], or after somebody was heard for whom there is no face. Without anything
    /// pending it is [`Progress::Done`].
    pub fn resume(
        &mut self,
        now: Timestamp,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> Progress {
        match self.pending {
            None => Progress::Done,
            Some(Pending::Stream(index)) => self.take_stream(now, index, pool, sink),
            Some(Pending::Datagrams(channel)) => self.take_datagrams(now, channel, pool, sink),
            Some(Pending::Port(port)) => self.take_port_frames(now, port, pool, sink),
            Some(Pending::Memif(index)) => self.take_memif(now, index, pool, sink),
            Some(Pending::Internal(index)) => self.take_internal(now, index, pool, sink),
        }
    }

    /// Whether something that was read has not been taken yet: [`resume`](Self::resume) has to come
    /// before the next event or frame.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether the last read of an event did not find the end of what there was.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// The UDP socket that the last event led to, if nothing waits in it any more.
    #[must_use]
    #[inline]
    pub fn emptied(&self) -> Option<ChannelId> {
        self.emptied
    }

    /// After how many datagrams an event of a UDP socket is done from now on, although there may be
    /// more: those that one call brings are taken in any case.
    pub fn set_datagrams_per_event(&mut self, datagrams: usize) {
        self.datagrams_per_event = datagrams;
    }

    /// What the last event brought, if it was one of a UDP socket.
    #[must_use]
    #[inline]
    pub fn heard(&self) -> Heard {
        self.heard
    }

    /// Whether what an event speaks of has mostly brought Data and Nacks of late, and no Interests.
    #[must_use]
    pub fn is_upstream(&mut self, token: u64) -> bool {
        self.leaning(token).is_some_and(|leaning| leaning.is_upstream())
    }

    /// What an event speaks of has brought a Data or Nack, or an Interest.
    pub fn note_brought(&mut self, token: u64, is_answer: bool) {
        if let Some(leaning) = self.leaning(token) {
            leaning.note(is_answer);
        }
    }

    fn leaning(&mut self, token: u64) -> Option<&mut Leaning> {
        let number = u32::try_from(token & (CHANNEL_TOKEN - 1)).ok()?;
        if token & CHANNEL_TOKEN != 0 {
            if let Some(port) = port_of(number) {
                return Some(&mut self.port_mut(port)?.leaning);
            }
            return Some(&mut self.channel_mut(ChannelId(number))?.leaning);
        }
        let face = face_in(&mut self.faces, FaceIndex::from_bits(number))?;
        // One that is being connected has nothing to read.
        (!face.is_down()).then_some(&mut face.leaning)
    }

    fn waits_writable(&mut self, channel: ChannelId) -> bool {
        self.channel_mut(channel).is_some_and(|channel| channel.waits_writable)
    }

    /// Gives the frame in the first `length` bytes of what is filled in `block` to its face, and
    /// the packet that comes of it to `sink`. The frame is consumed. `false` if there is no such
    /// face any more.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        now: Timestamp,
        origin: Origin,
        block: &mut FillBlock,
        length: usize,
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) -> bool {
        let Origin { face: index, sender } = origin;
        let Some(Face { rx, link, .. }) = face_in(&mut self.faces, index) else {
            return sink.receive_foreign(index, sender, block, length);
        };
        let end = block.carved_offset() + length;
        let frame = &block.filled()[..length];
        if let Some(tap) = &mut self.tap {
            tap.frame(now, index, Direction::In, &[], frame);
        }
        let mut is_packet = false;
        match link.receive_from(now, sender, frame, &mut self.reassembly_budget) {
            Ok(Received::Packet { offset, fields }) => {
                is_packet = true;
                block.skip(offset);
                match self.waited {
                    None => sink.receive(rx, block, length - offset, &fields),
                    Some(waited) => {
                        sink.receive_late(rx, block, length - offset, &fields, waited);
                    }
                }
            }
            Ok(Received::Reassembled { packet, fields }) => {
                if let Some(copy) = block_with_room(&mut self.copy_block, packet.len(), pool) {
                    copy.spare_mut()[..packet.len()].copy_from_slice(packet);
                    copy.commit(packet.len());
                    let end = copy.carved_offset() + packet.len();
                    sink.receive(rx, copy, packet.len(), &fields);
                    copy.skip(end.saturating_sub(copy.carved_offset()));
                } else {
                    link.counters().dropped(LinkDropReason::NoBuffer).increment();
                }
            }
            Ok(Received::Nothing) | Err(_) => {}
        }
        block.skip(end.saturating_sub(block.carved_offset()));
        if !is_packet || link.is_reliable() {
            // A fragment may have started a timer, and so has a frame to acknowledge.
            self.arm(index);
        }
        true
    }
}

/// The block in `place`, replaced by a fresh one if it has less than `room` bytes to spare.
pub(super) fn block_with_room<'a>(
    place: &'a mut Option<FillBlock>,
    room: usize,
    pool: &PacketPool,
) -> Option<&'a mut FillBlock> {
    if place.as_ref().is_none_or(|block| block.remaining() < room) {
        let fresh = pool.allocate_block()?;
        if let Some(used_up) = place.replace(fresh) {
            pool.finish(used_up);
        }
    }
    place.as_mut()
}

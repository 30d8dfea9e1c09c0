//! Where received packets go, and how a read ends.

use ndn_forwarding::{LpFields, RxFace};
use ndn_ring::FillBlock;
use ndn_table::FaceIndex;
use ndn_types::Timestamp;

use crate::source::{ChannelId, Sender};

/// Where received packets go: a burst, and the parser that fills it.
pub trait RxSink {
    /// Whether there is no room for another packet.
    fn is_full(&self) -> bool;

    /// Takes the network packet in the first `length` bytes of the filled part of `block`. If `fields` say so, the
    /// last bytes of it are a PrefixAnnouncement. The sink may change the bytes, and consumes them by
    /// [`carve`](FillBlock::carve) or [`skip`](FillBlock::skip); the caller skips what it leaves.
    fn receive(&mut self, face: &RxFace, block: &mut FillBlock, length: usize, fields: &LpFields);

    /// As [`receive`](Self::receive), for a packet whose time in the socket's queue is known.
    fn receive_delayed(
        &mut self,
        face: &RxFace,
        block: &mut FillBlock,
        length: usize,
        fields: &LpFields,
        delay: SocketDelay,
    ) {
        let _ = delay;
        self.receive(face, block, length, fields);
    }

    /// Takes a frame of a face of another worker (see [`FaceSet::add_remote_peer`](crate::FaceSet::add_remote_peer)):
    /// the first `length` bytes of the filled part of `block`, which it consumes. `sender` is given if the face has
    /// several. False if the sink does not take it; it is dropped then.
    fn receive_remote(
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

/// The socket that a packet was queued in, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketDelay {
    /// The socket.
    pub channel: ChannelId,
    /// Number of sockets opened until this one: another socket may have its number after it.
    pub opened: u32,
    /// When the kernel received the packet.
    pub since: Timestamp,
}

/// Progress of the handling of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<P> {
    /// Everything that was read is taken. If the descriptor holds more, another event follows.
    Done,
    /// The sink is full. Make room, then [`resume`](crate::FaceSet::resume).
    SinkFull,
    /// A peer without a face of this worker has sent to a shared descriptor: make a face for it
    /// ([`on_demand`](crate::FaceSet::on_demand)), enter that of another worker
    /// ([`add_remote_peer`](crate::FaceSet::add_remote_peer)) or neither, then [`resume`](crate::FaceSet::resume).
    /// Without a face the frame is dropped.
    NewPeer(P),
    /// The pool has no free block, so nothing could be read; the event will come again. Release packets, or wait.
    NoBlock,
}

impl<P> Progress<P> {
    /// Whether there are bytes that were read and not taken.
    #[inline]
    pub(crate) fn is_suspended(&self) -> bool {
        match self {
            Self::Done | Self::NoBlock => false,
            Self::SinkFull | Self::NewPeer(_) => true,
        }
    }

    /// The same progress, with the peer in other words.
    #[inline]
    pub(crate) fn map<Q>(self, peer: impl FnOnce(P) -> Q) -> Progress<Q> {
        match self {
            Self::Done => Progress::Done,
            Self::SinkFull => Progress::SinkFull,
            Self::NewPeer(unknown) => Progress::NewPeer(peer(unknown)),
            Self::NoBlock => Progress::NoBlock,
        }
    }
}

/// Datagrams and drops of an event of a UDP socket; zeros for any other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// Datagrams for faces.
    pub datagrams: usize,
    /// Messages that the kernel dropped before those because the socket's queue was full, and that were not reported
    /// before. A message may be several datagrams that the kernel has joined (GRO).
    pub drops: u64,
}

/// Result of the last event.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadReport {
    /// The last read did not find the end of its queue.
    pub has_more: bool,
    /// The UDP socket of the event, if its queue is empty now.
    pub drained: Option<ChannelId>,
    /// Datagrams and drops, if the event was one of a UDP socket.
    pub counts: ReadCounts,
    /// Frames that the event has brought, also those without a packet or a face.
    pub frames: usize,
}

/// A frame that was read: its length, its sender and its delay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedFrame {
    /// Bytes of the frame.
    pub(crate) length: usize,
    /// Its sender, if the face has several.
    pub(crate) sender: Option<Sender>,
    pub(crate) delay: Option<SocketDelay>,
}

impl ReceivedFrame {
    /// A frame of a face that has one sender.
    pub(crate) fn of(length: usize) -> Self {
        Self { length, sender: None, delay: None }
    }
}

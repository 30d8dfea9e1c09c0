//! The messages in the rings.

use std::mem::offset_of;
use std::ops::Range;

use ndn_face::Sender;
use ndn_forwarding::{PacketKind, PitToken, ShardMessage, TxKind, TxPacket, TxSink};
use ndn_ring::{FillBlock, PacketHandle, PacketPool, prefetch_slice};
use ndn_table::FaceIndex;
use ndn_types::Timestamp;

use crate::overload::QueueVerdict;

/// A slot of a ring, on two cache lines.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Queued {
    pub(crate) message: Message,
    /// Time of sending: the beginning of the sender's round.
    pub(crate) since: Timestamp,
}

const _: () = assert!(size_of::<Queued>() == 128);

/// A message from one worker to another.
#[derive(Debug)]
pub enum Message {
    /// For the shard.
    Shard(ShardMessage),
    /// For a face.
    RemoteTx(RemoteTx),
    /// Received by another socket or queue than those of the face's worker.
    RemoteFrame(RemoteFrame),
    /// Already taken out of its slot.
    Taken,
}

/// A packet that leaves by a face of another worker.
// The handle comes first, as in `CrossShardPacket`: `Message::prefetch` reads both at one offset.
#[derive(Debug)]
#[repr(C)]
pub struct RemoteTx {
    /// The packet; none once it was sent.
    pub(crate) handle: Option<PacketHandle>,
    pub(crate) face: FaceIndex,
    pub(crate) kind: TxKind,
    pub(crate) pit_token: PitToken,
    pub(crate) congestion_mark: u64,
    pub(crate) incoming_face_id: Option<u64>,
    pub(crate) non_discovery: bool,
    /// Bytes of a PrefixAnnouncement behind the packet.
    pub(crate) announcement_length: u16,
}

const _: () = assert!(offset_of!(RemoteTx, handle) == 0);

impl RemoteTx {
    /// The message for a packet that lies in the buffer of `handle`, with this token and this length of its announcement.
    #[inline(always)]
    pub(crate) fn new(
        face: FaceIndex,
        packet: &TxPacket<'_>,
        handle: PacketHandle,
        pit_token: PitToken,
        announcement_length: u16,
    ) -> Self {
        Self {
            handle: Some(handle),
            face,
            kind: packet.kind,
            pit_token,
            congestion_mark: packet.congestion_mark,
            incoming_face_id: packet.incoming_face_id,
            non_discovery: packet.non_discovery,
            announcement_length,
        }
    }

    /// Sends the packet on its face, and releases it.
    #[inline(always)]
    pub fn send(&mut self, pool: &PacketPool, sink: &mut impl TxSink) {
        // Taken before, so that nothing is tested again after the call.
        let Some(handle) = self.handle.take() else { return };
        sink.send(self.face, &self.packet(&handle, pool));
        pool.release(handle);
    }

    /// The packet, whose bytes are those of `handle`.
    #[inline(always)]
    fn packet<'a>(&'a self, handle: &'a PacketHandle, pool: &'a PacketPool) -> TxPacket<'a> {
        let packet = TxPacket {
            kind: self.kind,
            wire: pool.bytes(handle),
            handle: Some(handle),
            pit_token: self.pit_token.as_bytes(),
            congestion_mark: self.congestion_mark,
            incoming_face_id: self.incoming_face_id,
            non_discovery: self.non_discovery,
            prefix_announcement: &[],
        };
        if self.announcement_length > 0 {
            return with_announcement(&packet, usize::from(self.announcement_length));
        }
        packet
    }
}

/// A packet whose bytes end with a PrefixAnnouncement of this length.
#[cold]
fn with_announcement<'a>(packet: &TxPacket<'a>, length: usize) -> TxPacket<'a> {
    let (wire, prefix_announcement) =
        packet.wire.split_at(packet.wire.len().saturating_sub(length));
    TxPacket { wire, handle: None, prefix_announcement, ..*packet }
}

/// First byte of an Interest.
pub(crate) const TYPE_INTEREST: u8 = 5;

/// A frame as it was received.
#[derive(Debug)]
pub struct RemoteFrame {
    pub(crate) face: FaceIndex,
    /// The sender, if the face receives from several.
    pub(crate) sender: Option<Sender>,
    /// The kind of its ring.
    kind: PacketKind,
    pub(crate) handle: PacketHandle,
}

impl RemoteFrame {
    /// Carves the first `length` bytes out of the filled part of `block`.
    pub(crate) fn carve(
        face: FaceIndex,
        sender: Option<Sender>,
        block: &mut FillBlock,
        length: usize,
    ) -> Self {
        // A link packet is not parsed yet: it may contain a Data.
        let is_interest = length > 0 && block.filled().first() == Some(&TYPE_INTEREST);
        let kind = if is_interest { PacketKind::Interest } else { PacketKind::Data };
        Self { face, sender, kind, handle: block.carve(length) }
    }
}

/// The ring of a packet that leaves.
pub(crate) fn kind_of(packet: TxKind) -> PacketKind {
    match packet {
        TxKind::Interest => PacketKind::Interest,
        TxKind::Data => PacketKind::Data,
        TxKind::Nack(_) => PacketKind::Nack,
    }
}

/// Bytes of a packet that are prefetched; the hardware prefetches the rest of a longer one while it is copied.
const FETCHED_BYTES: usize = 1024;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Lines of a short packet, and of one that is not long.
const SHORT_LINES: usize = 2;
const MEDIUM_LINES: usize = 8;

/// Prefetches a packet without loops. What follows it in its block is mostly the next one.
#[inline(always)]
fn prefetch_packet(handle: Option<&PacketHandle>) {
    let Some(handle) = handle else { return };
    let wire = handle.bytes();
    let prefetch = |lines: Range<usize>| lines.for_each(|line| prefetch_slice(wire, line * LINE));
    prefetch(0..SHORT_LINES);
    if wire.len() > SHORT_LINES * LINE {
        prefetch(SHORT_LINES..MEDIUM_LINES);
        if wire.len() > MEDIUM_LINES * LINE {
            prefetch(MEDIUM_LINES..FETCHED_BYTES / LINE);
        }
    }
}

impl Message {
    /// Prefetches the packet from the cache of the worker that has received it.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        // The frequent messages in this order: each takes one comparison, and both handles are at the same place.
        let handle = if let Self::Shard(ShardMessage::Packet(packet)) = self {
            packet.handle()
        } else if let Self::RemoteTx(outgoing) = self {
            outgoing.handle.as_ref()
        } else {
            None
        };
        prefetch_packet(handle);
    }

    /// The kind of its ring.
    pub fn kind(&self) -> PacketKind {
        match self {
            Self::Shard(message) => message.kind(),
            Self::RemoteTx(outgoing) => kind_of(outgoing.kind),
            Self::RemoteFrame(frame) => frame.kind,
            Self::Taken => PacketKind::Data,
        }
    }

    /// Applies the queue-management verdict to an Interest, as far as possible, and returns what was applied: an
    /// Interest that another shard has forwarded already is marked at most; a probe of Content Stores and a frame
    /// that is not parsed pass. The caller drops the message on [`QueueVerdict::Drop`].
    pub(crate) fn apply(&mut self, verdict: QueueVerdict) -> QueueVerdict {
        match (self, verdict) {
            (_, QueueVerdict::Pass) => QueueVerdict::Pass,
            (Self::Shard(ShardMessage::Packet(packet)), QueueVerdict::Nack) => {
                packet.refuse();
                QueueVerdict::Nack
            }
            (Self::Shard(ShardMessage::Packet(_)), QueueVerdict::Drop) => QueueVerdict::Drop,
            (Self::Shard(ShardMessage::Packet(packet)), QueueVerdict::Mark) => {
                packet.mark_congestion();
                QueueVerdict::Mark
            }
            (Self::RemoteTx(outgoing), _) => {
                outgoing.congestion_mark = outgoing.congestion_mark.max(1);
                QueueVerdict::Mark
            }
            (Self::Shard(_) | Self::RemoteFrame(_) | Self::Taken, _) => QueueVerdict::Pass,
        }
    }

    /// The face that a received packet arrived on; none for other messages.
    pub(crate) fn received_on(&self) -> Option<FaceIndex> {
        match self {
            Self::Shard(ShardMessage::Packet(packet)) => Some(packet.face()),
            Self::Shard(_) | Self::RemoteTx(_) | Self::RemoteFrame(_) | Self::Taken => None,
        }
    }

    /// Releases its packet.
    pub fn release(self, pool: &PacketPool) {
        match self {
            Self::Shard(message) => message.release(pool),
            Self::RemoteTx(RemoteTx { handle, .. }) => {
                handle.into_iter().for_each(|handle| pool.release(handle));
            }
            Self::RemoteFrame(frame) => pool.release(frame.handle),
            Self::Taken => {}
        }
    }
}

//! Outgoing packets.

use ndn_packet::NackReason;
use ndn_ring::PacketHandle;
use ndn_table::FaceIndex;

/// The kind of an outgoing packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TxKind {
    /// An Interest.
    Interest,
    /// A Data.
    Data,
    /// A Nack; the wire bytes are those of the Interest inside.
    Nack(NackReason),
}

/// A packet that leaves. In the pipelines, one for several faces; what differs between the faces (PIT token,
/// IncomingFaceId) is filled in for each.
#[derive(Debug, Clone, Copy)]
pub struct TxPacket<'a> {
    /// Kind of packet.
    pub kind: TxKind,
    /// The network packet, without an LP header. Valid during the call only.
    pub wire: &'a [u8],
    /// The pool buffer of the same bytes, if any: a sink may retain it instead of copying.
    pub handle: Option<&'a PacketHandle>,
    /// PIT token to send; empty for none.
    pub pit_token: &'a [u8],
    /// Congestion mark to send; 0 for none.
    pub congestion_mark: u64,
    /// IncomingFaceId to send, only to a face with local fields enabled.
    pub incoming_face_id: Option<u64>,
    /// Whether to send NonDiscovery with an Interest.
    pub non_discovery: bool,
    /// PrefixAnnouncement to send with a Data (a Data TLV); empty for none.
    pub prefix_announcement: &'a [u8],
}

impl<'a> TxPacket<'a> {
    /// A packet without link fields.
    #[inline]
    pub(crate) const fn new(
        kind: TxKind,
        wire: &'a [u8],
        handle: Option<&'a PacketHandle>,
    ) -> Self {
        Self {
            kind,
            wire,
            handle,
            pit_token: &[],
            congestion_mark: 0,
            incoming_face_id: None,
            non_discovery: false,
            prefix_announcement: &[],
        }
    }
}

/// Sink for the outgoing packets of a shard: the faces of a worker.
pub trait TxSink {
    /// Sends `packet` on `face`, or counts and drops it. Must not block.
    fn send(&mut self, face: FaceIndex, packet: &TxPacket<'_>);
}

//! Records the packets that a shard sends.

use ndn_forwarding::{TxKind, TxPacket, TxSink};
use ndn_packet::NackReason;
use ndn_table::FaceIndex;

use crate::model::Face;

/// A packet sent by a shard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    pub face: Face,
    pub kind: SentKind,
    pub wire: Vec<u8>,
    pub token: Vec<u8>,
    pub mark: u64,
    pub incoming_face: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SentKind {
    Interest,
    Data,
    Nack(u64),
}

/// A sink that records packets.
#[derive(Debug, Default)]
pub struct Recorder(pub Vec<Sent>, pub Vec<LinkFields>);

/// Other header fields of a sent packet: NonDiscovery and PrefixAnnouncement.
pub type LinkFields = (Face, bool, Vec<u8>);

impl TxSink for Recorder {
    fn send(&mut self, face: FaceIndex, packet: &TxPacket<'_>) {
        let fields = (packet.non_discovery, packet.prefix_announcement.to_vec());
        self.1.push((face.slot(), fields.0, fields.1));
        self.0.push(Sent {
            face: face.slot(),
            kind: match packet.kind {
                TxKind::Interest => SentKind::Interest,
                TxKind::Data => SentKind::Data,
                TxKind::Nack(NackReason(reason)) => SentKind::Nack(reason),
            },
            wire: packet.wire.to_vec(),
            token: packet.pit_token.to_vec(),
            mark: packet.congestion_mark,
            incoming_face: packet.incoming_face_id,
        });
    }
}

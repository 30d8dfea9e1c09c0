//! Faces of other workers, where the peer of one reaches a socket of this one.
//!
//! With a UDP socket per worker, the kernel spreads peers over the sockets, and does not ask who
//! has the face of a peer.

use std::net::SocketAddr;

use ndn_ring::PacketPool;
use ndn_table::{FaceIndex, Timestamp};

use crate::LinkDropReason;
use crate::datagram::ChannelId;
use crate::set::receive::{RxSink, block_with_room};
use crate::set::{FaceSet, face_in};

impl FaceSet {
    /// Gives what `peer` sends to a shared socket to [`RxSink::receive_foreign`], since another
    /// worker has its face. False if there is no such socket, or `peer` has a face on it.
    pub fn add_foreign_peer(
        &mut self,
        channel: ChannelId,
        peer: SocketAddr,
        face: FaceIndex,
    ) -> bool {
        let Some(shared) = self.channel_mut(channel) else { return false };
        if shared.owner.is_some() || shared.peers.contains_key(&peer) {
            return false;
        }
        shared.peers.insert(peer, face);
        true
    }

    /// Takes [`add_foreign_peer`](Self::add_foreign_peer) back: the face is gone.
    pub fn remove_foreign_peer(&mut self, channel: ChannelId, peer: SocketAddr, face: FaceIndex) {
        if let Some(shared) = self.channel_mut(channel)
            && shared.peers.get(&peer) == Some(&face)
        {
            shared.peers.remove(&peer);
        }
    }

    /// Takes a frame that another worker received for a face of this one. `sink` has room for one
    /// packet.
    pub fn receive_frame(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        frame: &[u8],
        pool: &PacketPool,
        sink: &mut impl RxSink,
    ) {
        debug_assert!(self.pending.is_none(), "the last event is not finished");
        let Some(face) = face_in(&mut self.faces, index) else { return };
        let counters = face.link.counters();
        counters.last_received_ns.set(now.as_nanos());
        if block_with_room(&mut self.stream_block, frame.len(), pool).is_none() {
            counters.dropped(LinkDropReason::NoBuffer).increment();
            return;
        }
        let Some(mut block) = self.stream_block.take() else { return };
        block.spare_mut()[..frame.len()].copy_from_slice(frame);
        block.commit(frame.len());
        self.deliver(now, index.into(), &mut block, frame.len(), pool, sink);
        self.stream_block = Some(block);
    }
}

//! Faces of other workers, where the peer of one reaches a socket of this one.
//!
//! With a UDP socket per worker, the kernel spreads peers over the sockets, and does not ask who
//! has the face of a peer. The queues of a network device are dealt over the workers likewise.

use std::net::SocketAddr;

use ndn_ring::PacketPool;
use ndn_table::{FaceIndex, Timestamp};

use crate::LinkDropReason;
use crate::datagram::ChannelId;
use crate::ether::PortId;
use crate::link::Sender;
use crate::set::receive::{Origin, RxSink, block_with_room};
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

    /// Gives what a station sends to the queues of a network device, or what anybody sends to the group of the
    /// device (without `mac`), to [`RxSink::receive_foreign`], since another worker has the face. False if there is
    /// no such device, or the face is on it.
    pub fn add_foreign_station(
        &mut self,
        port: PortId,
        mac: Option<[u8; 6]>,
        face: FaceIndex,
    ) -> bool {
        let Self { ports, faces, .. } = self;
        let Some(port) = ports.get_mut(port.0 as usize).and_then(Option::as_deref_mut) else {
            return false;
        };
        let known = match mac {
            Some(mac) => port.stations.get(&mac).copied(),
            None => port.group,
        };
        if known.is_some_and(|known| face_in(faces, known).is_some()) {
            return false;
        }
        match mac {
            Some(mac) => _ = port.stations.insert(mac, face),
            None => port.group = Some(face),
        }
        true
    }

    /// Takes [`add_foreign_station`](Self::add_foreign_station) back: the face is gone.
    pub fn remove_foreign_station(&mut self, port: PortId, mac: Option<[u8; 6]>, face: FaceIndex) {
        let Some(port) = self.port_mut(port) else { return };
        match mac {
            Some(mac) if port.stations.get(&mac) == Some(&face) => _ = port.stations.remove(&mac),
            None if port.group == Some(face) => port.group = None,
            Some(_) | None => {}
        }
    }

    /// Takes a frame that another worker received for a face of this one, from `sender` if the face hears several.
    /// `sink` has room for one packet.
    pub fn receive_frame(
        &mut self,
        now: Timestamp,
        index: FaceIndex,
        sender: Option<Sender>,
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
        self.deliver(now, Origin { face: index, sender }, &mut block, frame.len(), pool, sink);
        self.stream_block = Some(block);
    }
}

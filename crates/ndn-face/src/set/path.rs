//! Datagrams past the kernel.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ndn_ring::{BLOCK_SIZE, FillBlock, PacketPool};
use ndn_sys::packet::{Datagram, DatagramFault};
use ndn_table::FaceIndex;

use crate::LinkDropReason;
use crate::datagram::{Channel, ChannelId, DatagramPath, shared_channel};
use crate::ether::{HostAddresses, Port, PortId, PortSocket};
use crate::face::Transport;
use crate::set::read_port::Next;
use crate::set::receive::block_with_room;
use crate::set::{FaceSet, face_in};

impl FaceSet {
    /// Has the datagrams of a UDP face that shares a socket go out by a network device from now on, or by the
    /// socket. They do so by the socket, too, while the device is down or another one, or does not take datagrams.
    /// False if nothing goes by the device: there is no such face or path, or the device has no queue here that takes
    /// datagrams.
    pub fn set_path(&mut self, index: FaceIndex, path: Option<DatagramPath>) -> bool {
        let Some(face) = face_in(&mut self.faces, index) else { return false };
        if !matches!(face.transport, Transport::Datagram { peer: Some(_), .. }) {
            return false;
        }
        let port = path.and_then(|path| self.ports.get(path.port.0 as usize)?.as_deref());
        let is_sender = port.and_then(|port| port.socket.as_ref());
        let is_sender = is_sender.is_some_and(PortSocket::takes_datagrams);
        match (&mut face.path, path) {
            (Some(place), Some(path)) => **place = path,
            (place, path) => *place = path.map(Box::new),
        }
        is_sender
    }
}

impl FaceSet {
    /// This host has these addresses: nobody's datagrams past the kernel are from them.
    pub fn set_host_addresses(&mut self, addresses: Arc<[IpAddr]>) {
        self.host_addresses = HostAddresses::new(addresses);
    }
}

/// Lists a device for the next flush.
#[inline]
pub(super) fn list_port(
    ports: &mut [Option<Box<Port>>],
    unflushed: &mut Vec<PortId>,
    used: Option<PortId>,
) {
    let Some(id) = used else { return };
    let port = ports.get_mut(id.0 as usize).and_then(Option::as_deref_mut);
    if let Some(port) = port
        && !port.listed
    {
        port.listed = true;
        unflushed.push(id);
    }
}

/// The sockets that a device's datagrams would have come to.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedChannels<'c> {
    pub(super) channels: &'c [Option<Box<Channel>>],
    pub(super) shared: &'c [ChannelId],
    pub(super) host: &'c HostAddresses,
}

impl SharedChannels<'_> {
    /// What is to be done with a datagram that a device has brought: its content is copied to the end of a block of
    /// `place`. A stranger is told of once (`was_told`).
    pub(super) fn take(
        self,
        found: Result<Datagram<'_>, DatagramFault>,
        place: &mut Option<FillBlock>,
        pool: &PacketPool,
        is_full: bool,
        was_told: bool,
    ) -> Next {
        let Ok(Datagram { source, destination, payload }) = found else { return Next::Damaged };
        // RFC 1812, section 5.3.7: the kernel drops them, too.
        if self.host.contains(source.ip()) {
            return Next::OwnSource;
        }
        let Some((id, channel)) = shared_channel(self.channels, self.shared, destination) else {
            return Next::Skip;
        };
        let Some(face) = channel.face_of(Some(source)) else {
            let is_news = channel.accepts && !was_told;
            let peer: SocketAddr = source;
            return if is_news { Next::NewPeer(id, channel.local, peer) } else { Next::Skip };
        };
        let length = payload.len();
        if length > BLOCK_SIZE {
            return Next::Bad(face, LinkDropReason::Truncated);
        }
        // As from a socket: nothing in it is nothing.
        if length == 0 {
            return Next::Skip;
        }
        if is_full {
            return Next::SinkFull;
        }
        let Some(block) = block_with_room(place, length, pool) else { return Next::NoBlock };
        block.spare_mut()[..length].copy_from_slice(payload);
        block.commit(length);
        Next::Taken(face.into(), length)
    }
}

//! Datagrams past the kernel: by which network device a UDP face sends, and which socket a datagram that a device
//! has brought would have come to.

use std::net::SocketAddr;

use ndn_ring::{PacketHandle, PacketPool};
use ndn_sys::packet::{DatagramHeaders, LinkAddress};
use ndn_table::FaceIndex;

use crate::LinkDropReason;
use crate::datagram::{Channel, ChannelId, DatagramQueue, Destination, Frame, Target};
use crate::ether::{Port, PortId};
use crate::headers::with_joined;

/// How the datagrams of a UDP face reach its peer without the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramPath {
    /// The network device, and the kernel's number of it: the path is that of no other.
    pub port: PortId,
    /// That number.
    pub interface: u32,
    /// The neighbour that they go to: the peer, or a router.
    pub mac: [u8; 6],
    /// Our address and port.
    pub source: SocketAddr,
    /// Longest payload of a datagram, bytes; the kernel cuts longer ones into fragments.
    pub payload_max: usize,
}

/// The queue of a network device, for datagrams of one face.
#[derive(Debug)]
pub(crate) struct PortQueue<'a> {
    pub(crate) queue: &'a mut DatagramQueue,
    path: &'a DatagramPath,
    headers: DatagramHeaders,
}

impl<'a> PortQueue<'a> {
    /// That of `path`, if its device takes datagrams now.
    #[inline]
    pub(crate) fn find(
        ports: &'a mut [Option<Box<Port>>],
        path: Option<&'a DatagramPath>,
        peer: Option<SocketAddr>,
    ) -> Option<Self> {
        let (path, peer) = path.zip(peer)?;
        let port = ports.get_mut(path.port.0 as usize)?.as_deref_mut()?;
        let socket = port.socket.as_ref()?;
        let is_usable =
            port.is_up && socket.interface() == path.interface && socket.takes_datagrams();
        let headers = DatagramHeaders { source: path.source, peer };
        is_usable.then_some(Self { queue: &mut port.queue, path, headers })
    }

    #[inline]
    pub(crate) fn port(&self) -> PortId {
        self.path.port
    }

    /// Whether a datagram of this length goes this way.
    #[inline]
    pub(crate) fn takes(&self, length: usize) -> bool {
        length <= self.path.payload_max
    }

    /// Adds a datagram.
    pub(crate) fn push(
        &mut self,
        face: FaceIndex,
        header: &[u8],
        payload: &[u8],
        handle: Option<&PacketHandle>,
        pool: &PacketPool,
        bytes_max: usize,
    ) -> Result<(), LinkDropReason> {
        let mut written = [0; DatagramHeaders::LENGTH_MAX];
        let length = self.headers.write([header, payload], &mut written);
        let length = length.ok_or(LinkDropReason::OverMtu)?;
        let DatagramPath { interface, mac, .. } = *self.path;
        let address = LinkAddress { interface, protocol: self.headers.protocol(), mac };
        let to = Destination { face, target: Target::Link(address) };
        with_joined(&written[..length], header, |headers| {
            let first_length = headers.len() + payload.len();
            let frame = Frame { header: headers, payload, handle, first_length };
            self.queue.push(to, &frame, pool, bytes_max)
        })
    }
}

/// The socket of many peers that the kernel would have given a datagram to that was sent to this address: one that is
/// bound to it, or else to all.
#[inline]
pub(crate) fn shared_channel<'c>(
    channels: &'c [Option<Box<Channel>>],
    shared: &[ChannelId],
    to: SocketAddr,
) -> Option<(ChannelId, &'c Channel)> {
    let mut to_all = None;
    for &id in shared {
        let Some(channel) = channels.get(id.0 as usize).and_then(Option::as_deref) else {
            continue;
        };
        if channel.local == to {
            return Some((id, channel));
        }
        let local = channel.local;
        let is_to_all = local.port() == to.port() && local.is_ipv4() == to.is_ipv4();
        if is_to_all && local.ip().is_unspecified() {
            to_all = Some((id, channel));
        }
    }
    to_all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use ndn_sys::udp::{UdpOptions, UdpSocket};

    use super::*;

    #[test]
    fn a_datagram_belongs_to_the_socket_that_is_bound_closest() {
        let open = |local: &str| {
            let socket = UdpSocket::new(&UdpOptions::bound_to("127.0.0.1:0".parse().unwrap()));
            // Only what it is said to be bound to is looked at.
            Some(Box::new(Channel::new(socket.unwrap(), local.parse().unwrap(), None, true)))
        };
        let locals = ["0.0.0.0:6363", "192.0.2.1:6363", "[2001:db8::1]:6363", "0.0.0.0:7000"];
        let mut channels: Vec<_> = locals.into_iter().map(open).collect();
        channels.push(None);
        let shared = [0, 1, 2, 3, 4].map(ChannelId);
        let found = |to: &str| {
            shared_channel(&channels, &shared, to.parse().unwrap()).map(|(id, _)| id.number())
        };
        assert_eq!(found("192.0.2.1:6363"), Some(1));
        assert_eq!(found("192.0.2.2:6363"), Some(0));
        assert_eq!(found("192.0.2.1:7000"), Some(3));
        assert_eq!(found("192.0.2.1:6364"), None);
        assert_eq!(found("[2001:db8::1]:6363"), Some(2));
        assert_eq!(found("[2001:db8::2]:6363"), None);
        let none = shared_channel(&channels, &[], "192.0.2.1:6363".parse().unwrap());
        assert!(none.is_none(), "sockets of one peer are not shared");
    }
}

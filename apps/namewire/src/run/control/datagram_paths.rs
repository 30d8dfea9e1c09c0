//! UDP faces that send past the kernel, by interfaces that take UDP by AF_XDP.
//!
//! The kernel decides where datagrams go: its routes tell the interface and the next hop, its neighbours the hardware
//! address. A neighbour that it has not looked after for a while (stale) is left to it, as is one that it does not know:
//! a face sends by its socket then, which makes the kernel look, and past the kernel again once that has found the
//! neighbour. So nobody sends to a hardware address for long that is not there any more.

mod routes;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ndn_dataplane::Command;
use ndn_face::{DatagramPath, FaceUri, PortId};
use ndn_management::FaceDriver;
use ndn_sys::netlink::{LinkMonitor, RouteTable};
use ndn_sys::poll::{Interest, Poller};
use ndn_types::duration_ns;
use tracing::debug;

use self::routes::Routes;
use super::{Control, TOKEN_NEIGHBOURS, TOKEN_ROUTES};
use crate::run::faces::KnownFace;

/// How often to look, should nothing be told.
const LOOK: Duration = Duration::from_secs(1);
/// How soon to look again after something was told.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The header of UDP, and those of IP.
const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

/// Hardware addresses by interface and address.
type Neighbours = HashMap<(u32, IpAddr), [u8; 6]>;

/// Which UDP faces send past the kernel, and how.
#[derive(Debug, Default)]
pub(super) struct DatagramPaths {
    /// What the workers hold: forgotten when they have been told so, and not before.
    sent: HashMap<u64, DatagramPath>,
    /// The faces that send so: others have a socket of their own, or a worker without a queue of the interface.
    by_device: HashSet<u64>,
    /// Those whose workers are to say again whether they do.
    unsure: HashSet<u64>,
    routes: Routes,
    /// There are interfaces that send UDP.
    is_used: bool,
    next_look_ns: u64,
    last_look_ns: u64,
    /// What tells of neighbours, and of routes, once there are such interfaces.
    neighbour_monitor: Option<LinkMonitor>,
    route_monitor: Option<LinkMonitor>,
}

impl DatagramPaths {
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        self.is_used.then_some(self.next_look_ns)
    }

    /// What a face sends past the kernel by, if it does.
    pub(super) fn driver(&self, face_id: u64) -> Option<&'static str> {
        self.by_device.contains(&face_id).then(|| FaceDriver::Xdp.as_str())
    }

    /// Whether the worker of a face has it send past the kernel from now on.
    pub(super) fn note_set(&mut self, face_id: u64, by_device: bool) {
        if by_device {
            self.by_device.insert(face_id);
        } else {
            self.by_device.remove(&face_id);
        }
    }

    /// The queues of an interface were dealt again: the worker of a face may have got one, or have none any more.
    fn note_new_sockets(&mut self, port: PortId) {
        let on_it = self.sent.iter().filter(|(_, path)| path.port == port);
        self.unsure.extend(on_it.map(|(&face_id, _)| face_id));
        self.look_soon();
    }

    /// Notes the way of a face; true if its worker is to be told.
    fn set(&mut self, face_id: u64, path: Option<DatagramPath>) -> bool {
        let before = match path {
            Some(path) => self.sent.insert(face_id, path),
            None => self.sent.remove(&face_id),
        };
        self.unsure.remove(&face_id) || before != path
    }

    /// Looks soon: there is another face.
    pub(super) fn look_soon(&mut self) {
        self.next_look_ns = self.next_look_ns.min(self.last_look_ns + duration_ns(LOOK_AGAIN));
    }

    /// Neighbours have changed.
    pub(super) fn note_neighbours(&mut self) {
        if let Some(monitor) = &self.neighbour_monitor {
            monitor.reset();
        }
        self.look_soon();
    }

    /// Routes have changed.
    pub(super) fn note_routes(&mut self) {
        if let Some(monitor) = &self.route_monitor {
            monitor.reset();
        }
        self.routes.note_change();
        let soon_ns = self.last_look_ns + duration_ns(LOOK_AGAIN);
        self.next_look_ns = self.next_look_ns.min(self.routes.next_round_ns().max(soon_ns));
    }

    /// Hears of changes from now on; without, it looks now and then.
    fn listen(&mut self, poller: &Poller) {
        let added = |monitor: io::Result<LinkMonitor>, token| {
            let monitor = monitor.ok()?;
            poller.add(&monitor, token, Interest::Readable).ok()?;
            Some(monitor)
        };
        if self.neighbour_monitor.is_none() {
            self.neighbour_monitor = added(LinkMonitor::of_neighbours(), TOKEN_NEIGHBOURS);
            self.route_monitor = added(LinkMonitor::of_routes(), TOKEN_ROUTES);
        }
    }

    /// Nobody looks any more.
    fn stop_listening(&mut self, poller: &Poller) {
        let monitors = [self.neighbour_monitor.take(), self.route_monitor.take()];
        for monitor in monitors.into_iter().flatten() {
            // It was added when it was made.
            let removed = poller.remove(&monitor);
            debug_assert!(removed.is_ok(), "monitors are in the poller");
        }
    }

    /// The faces whose way is not known any more.
    fn forget_all(&mut self) -> Vec<u64> {
        self.unsure.clear();
        self.sent.drain().map(|(face_id, _)| face_id).collect()
    }

    fn path(
        &mut self,
        table: &mut RouteTable,
        ports: &[(u32, PortId, usize)],
        neighbours: &Neighbours,
        peer: SocketAddr,
        (own, port): (Option<IpAddr>, u16),
    ) -> Option<DatagramPath> {
        let scope = match peer {
            SocketAddr::V4(_) => None,
            SocketAddr::V6(peer) => Some(peer.scope_id()).filter(|scope| *scope != 0),
        };
        let ends = (peer.ip(), scope, own);
        let route = self.routes.find(ends, || table.find(peer.ip(), own, scope).ok())?;
        let interface = route.interface?;
        let &(_, device, mtu) = ports.iter().find(|(index, ..)| *index == interface)?;
        let next_hop = route.gateway.unwrap_or(peer.ip());
        let mac = *neighbours.get(&(interface, next_hop))?;
        let source = own.or(route.source)?;
        let known = route.mtu.and_then(|mtu| usize::try_from(mtu).ok());
        let header = if peer.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER };
        let payload_max = mtu.min(known.unwrap_or(mtu)).checked_sub(header + UDP_HEADER)?;
        let source = SocketAddr::new(source, port);
        Some(DatagramPath { port: device, interface, mac, source, payload_max })
    }
}

impl Control {
    /// Asks the kernel again, and tells the workers what has changed.
    pub(super) fn look_at_datagram_paths(&mut self, now_ns: u64) {
        let ports: Vec<_> = self.ethernet.datagram_ports().collect();
        let paths = &mut self.datagram_paths;
        for port in self.ethernet.take_new_sockets() {
            paths.note_new_sockets(port);
        }
        if ports.is_empty() {
            // Faces would not send by what is not there, but the workers would take up an old way with the next
            // socket on the same device.
            (paths.is_used, paths.next_look_ns, paths.routes) = (false, 0, Routes::default());
            paths.stop_listening(&self.poller);
            self.forget_datagram_paths();
            return;
        }
        if paths.is_used && now_ns < paths.next_look_ns {
            return;
        }
        paths.is_used = true;
        (paths.last_look_ns, paths.next_look_ns) = (now_ns, now_ns + duration_ns(LOOK));
        paths.listen(&self.poller);
        let asked = RouteTable::open().and_then(|mut table| Ok((table.neighbours()?, table)));
        let (neighbours, mut table) = match asked {
            Ok(asked) => asked,
            Err(error) => {
                debug!(%error, "the kernel does not tell of neighbours");
                return self.forget_datagram_paths();
            }
        };
        let neighbours: Neighbours =
            neighbours.iter().map(|one| ((one.interface, one.address), one.mac)).collect();
        let Self { datagram_paths: paths, faces, dataplane, config, .. } = self;
        let bound = &config.listeners.udp.addresses;
        paths.routes.begin(now_ns);
        paths.sent.retain(|face_id, _| faces.contains_key(face_id));
        paths.unsure.retain(|face_id| faces.contains_key(face_id));
        for (&face_id, face) in faces.iter() {
            let Some((peer, local)) = ends(face) else { continue };
            // A socket that is bound to no address sends from that which the route says at the time.
            let own = (Some(local.ip()).filter(|own| bound.contains(own)), local.port());
            let path = paths.path(&mut table, &ports, &neighbours, peer, own);
            if paths.set(face_id, path) {
                debug!(face_id, %peer, ?path, "the way of a face");
                dataplane.send(Command::SetPath { face_id, path });
            }
        }
        if paths.routes.end() {
            paths.next_look_ns = now_ns + duration_ns(LOOK_AGAIN);
        }
    }

    /// All faces send by their sockets from now on.
    fn forget_datagram_paths(&mut self) {
        for face_id in self.datagram_paths.forget_all() {
            debug!(face_id, "the way of a face is not known any more");
            self.dataplane.send(Command::SetPath { face_id, path: None });
        }
    }
}

/// Both ends of a face that may share a UDP socket: the data plane knows whether it does.
fn ends(face: &KnownFace) -> Option<(SocketAddr, SocketAddr)> {
    match (&face.remote, &face.local) {
        (FaceUri::Udp(peer), FaceUri::Udp(local)) if !peer.ip().is_multicast() => {
            Some((*peer, *local))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn whose_way_is_forgotten_is_told_once() {
        let mut paths = DatagramPaths::default();
        let path = DatagramPath {
            port: PortId(3),
            interface: 7,
            mac: [2, 0, 0, 0, 0, 1],
            source: "192.0.2.1:6363".parse().unwrap(),
            payload_max: 1472,
        };
        paths.sent = [(300, path), (301, path)].into();
        assert_eq!(paths.driver(300), None, "no worker has said so");
        paths.note_set(300, true);
        paths.note_set(301, false);
        assert_eq!((paths.driver(300), paths.driver(301)), (Some("xdp"), None));
        let mut forgotten = paths.forget_all();
        forgotten.sort_unstable();
        assert_eq!(forgotten, [300, 301]);
        paths.note_set(300, false);
        assert_eq!((paths.driver(300), paths.forget_all()), (None, Vec::new()));
    }

    #[test]
    fn workers_say_again_who_sends_by_sockets_that_are_new() {
        let mut paths = DatagramPaths::default();
        let path = |port| DatagramPath {
            port: PortId(port),
            interface: port,
            mac: [2, 0, 0, 0, 0, 1],
            source: "192.0.2.1:6363".parse().unwrap(),
            payload_max: 1472,
        };
        for (face_id, port) in [(300, 3), (301, 3), (302, 4)] {
            assert!(paths.set(face_id, Some(path(port))));
            assert!(!paths.set(face_id, Some(path(port))), "nothing has changed");
        }
        paths.note_new_sockets(PortId(3));
        assert!(paths.set(300, Some(path(3))));
        assert!(paths.set(301, None));
        assert!(!paths.set(302, Some(path(4))), "it is on another interface");
        assert!(!paths.set(300, Some(path(3))), "it was told");
        paths.note_new_sockets(PortId(3));
        assert_eq!(paths.forget_all().len(), 2);
        assert!(!paths.set(300, None), "it was told that there is none");
    }

    #[test]
    fn monitors_leave_the_poller_and_come_again() {
        let poller = Poller::new().unwrap();
        let mut paths = DatagramPaths::default();
        for _ in 0..2 {
            paths.listen(&poller);
            assert!(paths.neighbour_monitor.is_some() && paths.route_monitor.is_some());
            paths.stop_listening(&poller);
            assert!(paths.neighbour_monitor.is_none() && paths.route_monitor.is_none());
        }
    }
}

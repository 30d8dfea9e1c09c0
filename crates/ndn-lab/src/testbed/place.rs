//! Where the forwarders of a testbed run, and the addresses of their faces.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::Command;

use ndn_cache_sim::topology::Topology;
use ndn_model::random::{StreamId, TraceRandom};
use serde::{Deserialize, Serialize};

use super::links::socket;
use super::program::LOOPBACK;

/// Addresses of the nodes and links of a network.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Endpoints {
    /// By node: the address on which its forwarder listens.
    pub(crate) listen: Vec<SocketAddrV4>,
    /// By direction of links: the address to which the face of its first node leads.
    pub(crate) remotes: Vec<SocketAddrV4>,
}

/// Stream of the random numbers that are ports.
const PORTS: StreamId = StreamId(3);
/// First port that is tried. Those that the kernel gives to clients begin at 32768.
const PORT_MIN: u16 = 10_000;
const PORT_COUNT: u16 = 22_000;
/// Ports that are tried before there are too few.
const ATTEMPTS_MAX: usize = 20_000;

/// Addresses of a testbed.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// Those that the forwarders need.
    pub(crate) endpoints: Endpoints,
    /// By direction of links: the address from which its first node sends.
    pub(crate) locals: Vec<SocketAddrV4>,
    /// By direction of links: the socket of the emulator; empty if links are direct.
    pub(crate) sockets: Vec<UdpSocket>,
}

impl Addresses {
    /// The addresses of a network whose forwarders listen on these. The emulator, if there is one, has the address `emulator`
    /// for the links of a node.
    ///
    /// # Errors
    /// A socket of the emulator cannot be opened.
    pub(crate) fn new(
        topology: &Topology,
        listen: Vec<SocketAddrV4>,
        emulator: impl Fn(usize) -> Option<Ipv4Addr>,
    ) -> io::Result<Self> {
        let ends = ends(topology);
        let first = |direction: usize| listen[first_node(&ends, direction)];
        let locals: Vec<SocketAddrV4> = (0..topology.links).map(first).collect();
        let (mut sockets, mut remotes) = (Vec::new(), Vec::new());
        for direction in 0..topology.links {
            if let Some(address) = emulator(first_node(&ends, direction)) {
                let socket = socket(address, 0)?;
                remotes.push(SocketAddrV4::new(address, socket.local_addr()?.port()));
                sockets.push(socket);
            } else {
                remotes.push(locals[direction ^ 1]);
            }
        }
        Ok(Self { endpoints: Endpoints { listen, remotes }, locals, sockets })
    }
}

/// First and second node of each link; the directions of link `n` are `2 n` and `2 n + 1`.
pub(super) fn ends(topology: &Topology) -> Vec<(usize, usize)> {
    let mut ends = vec![(0, 0); topology.links / 2];
    for (node, hops) in topology.hops.iter().enumerate() {
        for hop in hops.iter().filter(|hop| hop.link.is_multiple_of(2)) {
            ends[hop.link / 2] = (node, hop.to);
        }
    }
    ends
}

/// First node of a direction.
pub(super) fn first_node(ends: &[(usize, usize)], direction: usize) -> usize {
    let (first, second) = ends[direction / 2];
    if direction.is_multiple_of(2) { first } else { second }
}

/// Addresses on the loopback interface, with ports that are free.
///
/// # Errors
/// There are too few free ports.
pub(super) fn on_loopback(
    topology: &Topology,
    is_emulated: bool,
    seed: u64,
) -> io::Result<Addresses> {
    let ports = free_ports(topology.nodes.len(), seed)?;
    let listen = ports.into_iter().map(|port| SocketAddrV4::new(LOOPBACK, port)).collect();
    Addresses::new(topology, listen, |_| is_emulated.then_some(LOOPBACK))
}

/// UDP ports of this machine that are free.
///
/// # Errors
/// There are too few.
pub(crate) fn free_ports(count: usize, seed: u64) -> io::Result<Vec<u16>> {
    let random = TraceRandom::new(seed, std::process::id());
    // Held until all are chosen, so that they differ.
    let (mut held, mut ports) = (Vec::new(), Vec::new());
    for attempt in 0..ATTEMPTS_MAX {
        if ports.len() == count {
            return Ok(ports);
        }
        let bits = random.draw(PORTS, attempt as u64).bits();
        let port = PORT_MIN + (bits % u64::from(PORT_COUNT)) as u16;
        if let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)) {
            held.push(socket);
            ports.push(port);
        }
    }
    Err(io::Error::other("too few free UDP ports"))
}

/// The command that starts a program in the namespace of a node, if there is one.
pub(super) fn wrapped(command: Command, namespace: Option<&str>) -> Command {
    let Some(namespace) = namespace else { return command };
    let mut outer = Command::new("ip");
    outer.args(["netns", "exec", namespace]).arg(command.get_program()).args(command.get_args());
    outer
}

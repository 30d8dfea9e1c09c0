//! Network namespaces of a testbed: one for each node, and one for the emulator of links, with veth pairs between them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use ndn_cache_sim::topology::Topology;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::links::socket;
use super::place::{Addresses, Endpoints, ends, first_node};
use crate::leftovers;
use crate::programs::find;

/// UDP port of all nodes and of the emulator.
const PORT: u16 = 6363;
/// Longest packet of the interfaces: one Data in a datagram needs no fragments of IP.
const MTU: u32 = 9216;
/// First of the addresses; each pair of interfaces has a network of four.
const NETWORK: u32 = u32::from_be_bytes([10, 64, 0, 0]);
/// Largest number of pairs of interfaces.
const PAIRS_MAX: usize = 1 << 16;
/// Capabilities that namespaces and interfaces need (capabilities(7)): `CAP_NET_ADMIN` and `CAP_SYS_ADMIN`.
const CAPABILITIES: u64 = 1 << 12 | 1 << 21;

/// Checks that this process may make namespaces.
///
/// # Errors
/// A program or a capability is missing.
pub(super) fn check(topology: &Topology) -> Result<(), String> {
    find("ip", std::path::Path::new("/"))?;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let own = line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    if own & CAPABILITIES != CAPABILITIES {
        return Err(
            "namespaces need root (CAP_NET_ADMIN and CAP_SYS_ADMIN); the kind 'processes' needs no rights".to_owned()
        );
    }
    match topology.links > PAIRS_MAX {
        true => {
            Err(format!("{} links; namespaces have at most {}", topology.links / 2, PAIRS_MAX / 2))
        }
        false => Ok(()),
    }
}

/// The namespaces of a run; removed when dropped.
#[derive(Debug)]
pub(crate) struct Namespaces {
    prefix: String,
}

impl Namespaces {
    /// Makes the namespaces, whose names begin with `prefix`, and the interfaces between them.
    ///
    /// # Errors
    /// `ip` fails.
    pub(super) fn make(
        prefix: &str,
        topology: &Topology,
        is_emulated: bool,
    ) -> io::Result<(Self, Addresses)> {
        // Nobody makes further ones while they are removed.
        let permission = leftovers::starting();
        let own = Self { prefix: prefix.to_owned() };
        let nodes: Vec<String> = (0..topology.nodes.len()).map(|node| own.node(node)).collect();
        let hub = own.hub();
        let all = nodes.iter().chain(is_emulated.then_some(&hub));
        let lines: String = all.map(|name| format!("netns add {name}\n")).collect();
        batch(None, &lines)?;
        let ends = ends(topology);
        let listen = vec![SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT); nodes.len()];
        let mut addresses = Addresses {
            endpoints: Endpoints { listen, remotes: Vec::new() },
            locals: Vec::new(),
            sockets: Vec::new(),
        };
        let mut pairs = String::new();
        let mut of_nodes = vec!["link set lo up\n".to_owned(); nodes.len()];
        let mut of_hub = String::new();
        for direction in 0..topology.links {
            let node = first_node(&ends, direction);
            // Direct links have one pair, whose ends are those of the two directions.
            let pair = if is_emulated { direction } else { direction / 2 };
            let is_second = !is_emulated && direction % 2 == 1;
            let (local, remote) = if is_second { (1, 2) } else { (2, 1) };
            let (local, remote) = (address(pair, local), address(pair, remote));
            let name = format!("n{direction}");
            of_nodes[node].push_str(&interface(&name, local));
            if is_emulated {
                of_hub.push_str(&interface(&format!("h{direction}"), remote));
                let (own, other) = (&nodes[node], &hub);
                pairs.push_str(&veth((&name, own), (&format!("h{direction}"), other)));
            } else if direction.is_multiple_of(2) {
                let other = &nodes[first_node(&ends, direction + 1)];
                pairs.push_str(&veth(
                    (&name, &nodes[node]),
                    (&format!("n{}", direction + 1), other),
                ));
            }
            addresses.locals.push(SocketAddrV4::new(local, PORT));
            addresses.endpoints.remotes.push(SocketAddrV4::new(remote, PORT));
        }
        batch(None, &pairs)?;
        for (name, lines) in nodes.iter().zip(&of_nodes) {
            batch(Some(name), lines)?;
        }
        if is_emulated {
            batch(Some(&hub), &of_hub)?;
            let places: Vec<Ipv4Addr> =
                addresses.endpoints.remotes.iter().map(|one| *one.ip()).collect();
            addresses.sockets = sockets_in(&hub, places)?;
        }
        drop(permission);
        Ok((own, addresses))
    }

    /// Name of the namespace of a node.
    pub(super) fn node(&self, node: usize) -> String {
        format!("{}-{node}", self.prefix)
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.prefix)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        let prefix = format!("{}-", self.prefix);
        leftovers::remove_namespaces(|name| name.starts_with(&prefix));
    }
}

/// An address of a pair of interfaces.
fn address(pair: usize, host: u32) -> Ipv4Addr {
    Ipv4Addr::from(NETWORK + 4 * pair as u32 + host)
}

/// Lines that give an interface an address.
fn interface(name: &str, address: Ipv4Addr) -> String {
    format!("addr add {address}/30 dev {name}\nlink set {name} mtu {MTU} up\n")
}

/// The line that makes a pair of interfaces, each in its namespace.
fn veth((name, namespace): (&str, &str), (other, its): (&str, &str)) -> String {
    format!("link add {name} netns {namespace} type veth peer name {other} netns {its}\n")
}

/// Performs commands of `ip` in a namespace.
fn batch(namespace: Option<&str>, lines: &str) -> io::Result<()> {
    let mut command = Command::new("ip");
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A program that ends early says why.
        let _ = input.write_all(lines.as_bytes());
    }
    let output = child.wait_with_output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(io::Error::other(format!("ip: {errors}")))
        }
    }
}

/// Sockets of the emulator at these addresses of a namespace. They stay there when the thread that opens them has ended.
fn sockets_in(namespace: &str, addresses: Vec<Ipv4Addr>) -> io::Result<Vec<UdpSocket>> {
    let file = File::open(format!("/run/netns/{namespace}"))?;
    let open = move || -> io::Result<Vec<UdpSocket>> {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        addresses.into_iter().map(|address| socket(address, PORT)).collect()
    };
    let thread = std::thread::Builder::new().name("sockets".to_owned()).spawn(open)?;
    thread.join().map_err(|_| io::Error::other("the thread of the sockets has ended"))?
}

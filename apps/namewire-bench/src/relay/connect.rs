//! Attaches the generator to a program.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use anyhow::Context;
use ndn_traffic::io::Endpoint;

use super::addresses::Addresses;
use super::attach;
use super::link::{Link, Side, mac_text};
use super::program::Program;
use super::transport::Transport;

/// Sockets of the consumers, and of the producer.
pub(super) type Sockets = (Vec<Endpoint>, Endpoint);

/// Connects consumers and producer over the transport of these addresses, and registers `prefixes` prefixes for the
/// producer.
///
/// # Errors
/// A socket cannot be created, or the program does not answer or refuses.
pub(super) fn connect(
    program: Program,
    addresses: &Addresses,
    prefixes: u32,
) -> anyhow::Result<Sockets> {
    match addresses.transport {
        Transport::Unix => connect_unix(program, addresses, prefixes),
        Transport::Tcp => connect_tcp(program, addresses),
        Transport::Udp | Transport::UdpVeth => connect_udp(program, addresses),
        Transport::Ether | Transport::Xdp => connect_frames(program, addresses),
        Transport::Memif => connect_memif(program, addresses),
    }
}

fn connect_unix(program: Program, addresses: &Addresses, prefixes: u32) -> anyhow::Result<Sockets> {
    let producer = UnixStream::connect(addresses.producer_socket(program))?;
    if !program.is_dumb() {
        attach::register_own_face(&producer, prefixes)?;
    }
    let consumers = addresses
        .consumer_ports
        .iter()
        .map(|_| Endpoint::stream(OwnedFd::from(UnixStream::connect(addresses.socket())?)))
        .collect::<Result<_, _>>()?;
    Ok((consumers, Endpoint::stream(OwnedFd::from(producer))?))
}

fn connect_tcp(program: Program, addresses: &Addresses) -> anyhow::Result<Sockets> {
    let address = addresses.program_address(Side::Consumer);
    let producer = if program.is_dumb() {
        let mut producer = address;
        producer.set_port(address.port() + 1);
        TcpStream::connect(producer)?
    } else {
        // Forwarders differ in whether a TCP connection may register prefixes; all can connect to the producer.
        let listener = TcpListener::bind(addresses.producer_address())?;
        let operator = UnixStream::connect(addresses.socket())?;
        let remote = format!("tcp4://{}", addresses.producer_address());
        attach::register_face(&operator, remote, None)?;
        listener.accept()?.0
    };
    let endpoint = |stream: TcpStream| {
        stream.set_nodelay(true)?;
        Endpoint::stream(OwnedFd::from(stream))
    };
    let consumers = addresses.consumer_ports.iter();
    let consumers = consumers.map(|_| endpoint(TcpStream::connect(address)?));
    Ok((consumers.collect::<Result<_, _>>()?, endpoint(producer)?))
}

fn connect_udp(program: Program, addresses: &Addresses) -> anyhow::Result<Sockets> {
    let remote = addresses.program_address(Side::Producer);
    let producer = Endpoint::connected_datagram(addresses.producer_address(), remote)?;
    let mut consumers = Vec::with_capacity(addresses.consumer_ports.len());
    for (offset, &port) in (1..).zip(&addresses.consumer_ports) {
        let mut remote = addresses.program_address(Side::Consumer);
        if program.is_dumb() {
            // The dumb relay has one connected socket per consumer, a forwarder one for all.
            remote.set_port(addresses.udp_port + offset);
        }
        let local = addresses.generator_address(Side::Consumer, port);
        consumers.push(Endpoint::connected_datagram(local, remote)?);
    }
    if !program.is_dumb() {
        let operator = UnixStream::connect(addresses.socket())?;
        let remote = format!("udp4://{}", addresses.producer_address());
        attach::register_face(&operator, remote, None)?;
    }
    Ok((consumers, producer))
}

fn connect_frames(program: Program, addresses: &Addresses) -> anyhow::Result<Sockets> {
    let link = addresses.link.as_ref().context("frames take devices")?;
    let open = |side| {
        let name = link.near_device(side);
        let links = ndn_sys::netlink::network_devices()?;
        let device = links.iter().find(|link| link.name == name).context("no device")?;
        anyhow::Ok(Endpoint::frames(device.index, link.mtu(), Link::far_mac(side))?)
    };
    let (consumer, producer) = (open(Side::Consumer)?, open(Side::Producer)?);
    if !program.is_dumb() {
        let operator = UnixStream::connect(addresses.socket())?;
        let uris = |side| {
            let remote = format!("ether://[{}]", mac_text(Link::near_mac(side)));
            (remote, Some(format!("dev://{}", Link::far_device(side))))
        };
        let (remote, local) = uris(Side::Consumer);
        attach::create_face(&operator, remote, local)?;
        let (remote, local) = uris(Side::Producer);
        attach::register_face(&operator, remote, local)?;
    }
    Ok((vec![consumer], producer))
}

fn connect_memif(program: Program, addresses: &Addresses) -> anyhow::Result<Sockets> {
    let open = |side| {
        let address = addresses.memif(program, side);
        Endpoint::memif(&address, 0, ndn_memif::Secret::default())
            .with_context(|| address.socket.display().to_string())
    };
    let (consumer, mut producer) = (open(Side::Consumer)?, open(Side::Producer)?);
    if !program.is_dumb() {
        attach::register_endpoint(&mut producer)?;
    }
    Ok((vec![consumer], producer))
}

//! UDP in IP, for who gets frames without the kernel's help (RFC 768, RFC 791, RFC 8200).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::packet::header::HEADER_LENGTH as ETHERNET_HEADER;

/// EtherTypes.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Lengths of headers: of IP without options, and of UDP.
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
/// The number of UDP, and where its checksum is.
const UDP: u8 = 17;
const AT_CHECKSUM: usize = 6;
/// How far datagrams go.
const HOP_LIMIT: u8 = 64;
/// The packet is no fragment: more of them follow, and the place of one.
const FRAGMENT: u16 = 0x3fff;
/// Routers are not to make fragments of it, for which it would need a number (RFC 6864).
const WHOLE: [u8; 2] = [0x40, 0];

/// A received datagram, in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'f> {
    /// Who sent it. An address that means something on a link only has the device's number.
    pub source: SocketAddr,
    /// To which address.
    pub destination: SocketAddr,
    /// What it carries.
    pub payload: &'f [u8],
}

/// Why a packet of IP is no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramFault {
    /// A length, or an address of the sender, that cannot be.
    Malformed,
    /// Not what was sent.
    Checksum,
}

/// Who receives datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramReader {
    /// The device, by the kernel's number.
    pub interface: u32,
    /// A checksum of the addresses and the length alone will do: the kernel of the other end has left the rest to a
    /// card.
    pub takes_unfinished: bool,
}

impl DatagramReader {
    /// The datagram in a frame, from its destination to its padding; nothing if that holds no IP.
    #[must_use]
    #[inline]
    pub fn read<'f>(&self, frame: &'f [u8]) -> Option<Result<Datagram<'f>, DatagramFault>> {
        let protocol = u16::from_be_bytes(*frame.get(12..)?.first_chunk()?);
        let packet = frame.get(ETHERNET_HEADER..)?;
        match protocol {
            IPV4 => Some(self.read_ipv4(packet).unwrap_or(Err(DatagramFault::Malformed))),
            IPV6 => Some(self.read_ipv6(packet).unwrap_or(Err(DatagramFault::Malformed))),
            _ => None,
        }
    }

    fn read_ipv4<'f>(&self, packet: &'f [u8]) -> Option<Result<Datagram<'f>, DatagramFault>> {
        let (header, rest) = packet.split_first_chunk::<IPV4_HEADER>()?;
        let [0x45, _, long, short, _, _, f1, f2, _, UDP, _, _, addresses @ ..] = *header else {
            return None;
        };
        if u16::from_be_bytes([f1, f2]) & FRAGMENT != 0 {
            return None;
        }
        if fold(sum(header)) != u16::MAX {
            return Some(Err(DatagramFault::Checksum));
        }
        let [a, b, c, d, e, f, g, h] = addresses;
        let (source, destination) = (Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h));
        let is_odd = source.is_unspecified() || source.is_multicast() || source.is_broadcast();
        if is_odd || source.is_loopback() {
            return None;
        }
        let length = usize::from(u16::from_be_bytes([long, short])).checked_sub(IPV4_HEADER)?;
        let (ports, payload, is_right) = self.read_udp(rest.get(..length)?, &addresses, true)?;
        Some(
            is_right
                .then(|| Datagram {
                    source: (source, ports[0]).into(),
                    destination: (destination, ports[1]).into(),
                    payload,
                })
                .ok_or(DatagramFault::Checksum),
        )
    }

    fn read_ipv6<'f>(&self, packet: &'f [u8]) -> Option<Result<Datagram<'f>, DatagramFault>> {
        let (header, rest) = packet.split_first_chunk::<IPV6_HEADER>()?;
        let [0x60..=0x6f, _, _, _, long, short, UDP, _, addresses @ ..] = *header else {
            return None;
        };
        let source = Ipv6Addr::from(*addresses.first_chunk::<16>()?);
        let destination = Ipv6Addr::from(*addresses.last_chunk::<16>()?);
        if source.is_unspecified() || source.is_multicast() || source.is_loopback() {
            return None;
        }
        let length = usize::from(u16::from_be_bytes([long, short]));
        let (ports, payload, is_right) = self.read_udp(rest.get(..length)?, &addresses, false)?;
        Some(
            is_right
                .then(|| Datagram {
                    source: self.on_link(source, ports[0]),
                    destination: self.on_link(destination, ports[1]),
                    payload,
                })
                .ok_or(DatagramFault::Checksum),
        )
    }

    fn on_link(&self, address: Ipv6Addr, port: u16) -> SocketAddr {
        let scope = if address.is_unicast_link_local() { self.interface } else { 0 };
        SocketAddrV6::new(address, port, 0, scope).into()
    }

    /// The ports, the payload, and whether the checksum is right.
    fn read_udp<'f>(
        &self,
        bytes: &'f [u8],
        addresses: &[u8],
        may_have_none: bool,
    ) -> Option<([u16; 2], &'f [u8], bool)> {
        let (&[s1, s2, d1, d2, l1, l2, c1, c2], _) = bytes.split_first_chunk::<UDP_HEADER>()?;
        let length = usize::from(u16::from_be_bytes([l1, l2]));
        let datagram = bytes.get(..length)?;
        let payload = datagram.get(UDP_HEADER..)?;
        let ports = [u16::from_be_bytes([s1, s2]), u16::from_be_bytes([d1, d2])];
        // Nobody can be answered at port 0.
        if ports[0] == 0 {
            return None;
        }
        let checksum = u16::from_ne_bytes([c1, c2]);
        let pseudo = pseudo_header(addresses, length);
        let is_right = if checksum == 0 {
            may_have_none
        } else {
            fold(pseudo + sum(datagram)) == u16::MAX
                || self.takes_unfinished && fold(pseudo) == checksum
        };
        Some((ports, payload, is_right))
    }
}

/// The headers of datagrams from one address to another of the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramHeaders {
    /// Our end.
    pub source: SocketAddr,
    /// The far end.
    pub peer: SocketAddr,
}

impl DatagramHeaders {
    /// The longest of them, bytes.
    pub const LENGTH_MAX: usize = IPV6_HEADER + UDP_HEADER;

    /// The EtherType of their frames.
    #[must_use]
    pub fn protocol(&self) -> u16 {
        if self.peer.is_ipv4() { IPV4 } else { IPV6 }
    }

    /// Their length, bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        if self.peer.is_ipv4() { IPV4_HEADER + UDP_HEADER } else { Self::LENGTH_MAX }
    }

    /// Writes those of a datagram whose payload is in two pieces, and tells their length; none if there is no such
    /// datagram, as it would be too long or its ends are of different kinds.
    #[must_use]
    pub fn write(&self, payload: [&[u8]; 2], to: &mut [u8; Self::LENGTH_MAX]) -> Option<usize> {
        let [first, second] = payload;
        let length = UDP_HEADER + first.len() + second.len();
        let udp_length = u16::try_from(length).ok()?;
        to.fill(0);
        let at_udp = match (self.source.ip(), self.peer.ip()) {
            (IpAddr::V4(source), IpAddr::V4(peer)) => {
                let whole = u16::try_from(IPV4_HEADER + length).ok()?;
                to[0] = 0x45;
                to[2..4].copy_from_slice(&whole.to_be_bytes());
                to[6..8].copy_from_slice(&WHOLE);
                (to[8], to[9]) = (HOP_LIMIT, UDP);
                to[12..16].copy_from_slice(&source.octets());
                to[16..20].copy_from_slice(&peer.octets());
                let checksum = !fold(sum(&to[..IPV4_HEADER]));
                to[10..12].copy_from_slice(&checksum.to_ne_bytes());
                IPV4_HEADER
            }
            (IpAddr::V6(source), IpAddr::V6(peer)) => {
                to[0] = 0x60;
                to[4..6].copy_from_slice(&udp_length.to_be_bytes());
                (to[6], to[7]) = (UDP, HOP_LIMIT);
                to[8..24].copy_from_slice(&source.octets());
                to[24..40].copy_from_slice(&peer.octets());
                IPV6_HEADER
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
        };
        // The addresses are the last thing in both headers.
        let addresses = if at_udp == IPV4_HEADER { 12..20 } else { 8..40 };
        let pseudo = pseudo_header(&to[addresses], length);
        let udp = &mut to[at_udp..at_udp + UDP_HEADER];
        udp[..2].copy_from_slice(&self.source.port().to_be_bytes());
        udp[2..4].copy_from_slice(&self.peer.port().to_be_bytes());
        udp[4..6].copy_from_slice(&udp_length.to_be_bytes());
        // What follows an odd number of bytes is summed up as if it had begun with the other one of a pair.
        let rest = match first.len() % 2 {
            0 => sum(second),
            _ => u64::from(fold(sum(second)).swap_bytes()),
        };
        let checksum = match !fold(pseudo + sum(udp) + sum(first) + rest) {
            // None at all.
            0 => u16::MAX,
            checksum => checksum,
        };
        udp[AT_CHECKSUM..].copy_from_slice(&checksum.to_ne_bytes());
        Some(at_udp + UDP_HEADER)
    }
}

/// What the checksum of UDP covers beside the datagram: both addresses, its number and length.
fn pseudo_header(addresses: &[u8], length: usize) -> u64 {
    // Lengths of datagrams have 16 bits.
    let length = u16::try_from(length).unwrap_or(u16::MAX);
    sum(addresses) + u64::from(u16::from(UDP).to_be()) + u64::from(length.to_be())
}

/// Sum of pairs of bytes, as numbers of this machine (RFC 1071). Less than 2^48 for any datagram.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let whole: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    whole + u64::from(u32::from_ne_bytes(last))
}

/// The sum in 16 bits, carries added.
fn fold(sum: u64) -> u16 {
    let mut sum = sum;
    while let Err(_more) = u16::try_from(sum) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;

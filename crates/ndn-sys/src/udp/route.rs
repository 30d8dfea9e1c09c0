//! The route to a peer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use socket2::{Protocol, Type};

use crate::socket::{local_address, new_socket, option};

/// The header of UDP, behind that of IP.
const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

/// The current route to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpRoute {
    /// The source address of datagrams, unless their socket is bound to another one.
    pub source: IpAddr,
    /// Longest payload of a datagram that needs no IP fragments: of the device, or of the path where it has been
    /// found to take less (RFC 1191, RFC 8201).
    pub payload_max: usize,
}

/// Finds the route to `peer`. Nothing is sent.
///
/// # Errors
/// If there is no route.
pub fn udp_route(peer: SocketAddr) -> io::Result<UdpRoute> {
    let any = match peer {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = new_socket(any, Type::DGRAM, Protocol::UDP)?;
    socket.connect(&peer.into())?;
    let is_ipv4 = peer.ip().to_canonical().is_ipv4();
    let (mtu, header) = match is_ipv4 {
        true => (option(socket.as_fd(), libc::IPPROTO_IP, libc::IP_MTU)?, IPV4_HEADER),
        false => (option(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_MTU)?, IPV6_HEADER),
    };
    let payload_max = usize::try_from(mtu).unwrap_or(0).saturating_sub(header + UDP_HEADER);
    Ok(UdpRoute { source: local_address(socket.as_fd())?.ip(), payload_max })
}

/// Whether an error of [`udp_route`] says only that this process or system is short of something, and nothing of
/// the peer.
#[must_use]
pub fn is_shortage(error: &io::Error) -> bool {
    let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS];
    error.raw_os_error().is_some_and(|number| shortages.contains(&number))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn route_to_this_host_leads_to_the_loopback_interface() {
        let route = udp_route("127.0.0.1:6363".parse().unwrap()).unwrap();
        assert_eq!(route.source, IpAddr::from([127, 0, 0, 1]));
        // It may have been given another MTU, but none that carries no packets.
        assert!((500..=65_508).contains(&route.payload_max), "{route:?}");
        if let Ok(route) = udp_route("[::1]:6363".parse().unwrap()) {
            assert_eq!(route.source, IpAddr::V6(Ipv6Addr::LOCALHOST));
            assert!(route.payload_max >= 1232, "{route:?}");
        }
    }

    #[test]
    fn shortage_is_distinguished_from_an_unreachable_peer() {
        let broadcast = udp_route("255.255.255.255:6363".parse().unwrap()).unwrap_err();
        assert!(!is_shortage(&broadcast), "{broadcast}");
        assert!(is_shortage(&io::Error::from_raw_os_error(libc::EMFILE)));
    }
}

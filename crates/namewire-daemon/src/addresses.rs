//! Local and remote addresses of faces, from the kernel.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use ndn_sys::interface;
use ndn_sys::udp::{UdpRoute, is_shortage, udp_route};
use ndn_types::{FaceUri, ZONE_IS_MISSING};

/// Reasons why a face URI has no usable address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAddress {
    /// The scheme belongs to another kind of face.
    #[error("Unsupported protocol")]
    OtherKind,
    /// The zone of a link-local address is missing.
    #[error("{ZONE_IS_MISSING}")]
    NoZone,
    /// The network interface does not exist now.
    #[error("there is no network interface {0}")]
    NoInterface(String),
}

/// Returns the address of a canonical UDP or TCP URI, with the interface index of its zone.
///
/// # Errors
/// The URI has no usable address.
pub(super) fn far_end(uri: &FaceUri) -> Result<SocketAddr, NoAddress> {
    let address = uri.socket_address().ok_or(NoAddress::OtherKind)?;
    if uri.lacks_zone() {
        return Err(NoAddress::NoZone);
    }
    let Some(zone) = uri.zone() else { return Ok(address) };
    let index = interface::index_of(zone).ok_or_else(|| NoAddress::NoInterface(zone.to_owned()))?;
    Ok(on_link(address.ip(), address.port(), index))
}

/// Returns a socket address, with the interface index if the address is link-local.
pub(super) fn on_link(ip: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => {
            SocketAddrV6::new(ip, port, 0, interface).into()
        }
        IpAddr::V4(_) | IpAddr::V6(_) => SocketAddr::new(ip, port),
    }
}

/// Returns the route to a UDP peer, if the kernel can report it.
///
/// # Errors
/// There is no route.
pub(super) fn way_to(peer: SocketAddr) -> io::Result<Option<UdpRoute>> {
    match udp_route(peer) {
        Ok(route) => Ok(Some(route)),
        // A shortage of resources says nothing about the route.
        Err(error) if is_shortage(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the local URI to display: for an unbound UDP socket, the source address that the kernel currently selects
/// for the peer.
pub(super) fn near_end(remote: &FaceUri, local: &FaceUri) -> FaceUri {
    if remote.is_udp()
        && local.is_udp()
        && let (Some(peer), Some(own)) = (remote.socket_address(), local.socket_address())
        && own.ip().is_unspecified()
        && let Ok(route) = udp_route(peer)
    {
        let interface = match peer {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(peer) => peer.scope_id(),
        };
        return FaceUri::udp(on_link(route.source, own.port(), interface));
    }
    local.clone()
}

/// Returns the URI with the interface name instead of its index in the zone, as NFD displays it.
pub(super) fn named(uri: &FaceUri) -> FaceUri {
    uri.clone().with_named_zone(interface::name_of)
}

/// Returns the text of a system error without its number.
pub(super) fn words(error: &io::Error) -> String {
    crate::config::text::without_numbers(&error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Result<SocketAddr, NoAddress> {
        far_end(&FaceUri::parse(text).unwrap())
    }

    #[test]
    fn zone_resolves_to_its_interface_index() {
        let lo = interface::index_of("lo").unwrap();
        let on_lo = SocketAddrV6::new("fe80::1".parse().unwrap(), 6363, 0, lo);
        assert_eq!(address("udp6://[fe80::1%lo]:6363"), Ok(on_lo.into()));
        assert_eq!(address("udp6://[2001:db8::1]:7"), Ok("[2001:db8::1]:7".parse().unwrap()));
        assert_eq!(address("tcp4://192.0.2.1:7"), Ok("192.0.2.1:7".parse().unwrap()));
        assert_eq!(address("udp6://[fe80::1]:6363"), Err(NoAddress::NoZone));
        let none = Err(NoAddress::NoInterface("none9".to_owned()));
        assert_eq!(address("udp6://[fe80::1%none9]:6363"), none);
        assert_eq!(address("dev://eth0"), Err(NoAddress::OtherKind));
    }

    #[test]
    fn local_address_is_the_source_address_of_datagrams() {
        let udp = |text: &str| FaceUri::udp(text.parse().unwrap());
        let (peer, any) = (udp("127.0.0.1:9"), udp("0.0.0.0:6363"));
        assert_eq!(near_end(&peer, &any), udp("127.0.0.1:6363"));
        for own in [udp("127.0.0.5:6363"), FaceUri::null()] {
            assert_eq!(near_end(&peer, &own), own, "it is known");
        }
        // The kernel rejects broadcast, or has no route.
        let nowhere = udp("255.255.255.255:9");
        assert_eq!(near_end(&nowhere, &any), any);
        assert!(way_to("255.255.255.255:9".parse().unwrap()).is_err());
        assert!(way_to("127.0.0.1:9".parse().unwrap()).unwrap().is_some());
    }

    #[test]
    fn error_text_has_no_number() {
        let refused = std::net::TcpStream::connect("127.0.0.1:0").unwrap_err();
        assert!(refused.to_string().contains("os error"), "{refused}");
        assert!(
            !words(&refused).contains("os error")
                && refused.to_string().starts_with(&words(&refused))
        );
        assert_eq!(words(&io::Error::other("no room")), "no room");
    }
}

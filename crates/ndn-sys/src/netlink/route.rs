//! Where packets to an address go, and the hardware addresses of neighbours.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netlink::message::{Message, Request, attributes, read_u16, read_u32};
use crate::netlink::socket::{FLAG_DUMP, FLAG_REQUEST, NetlinkSocket};

const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
/// `struct rtmsg`: family, lengths of both addresses, ..., type, flags.
const ROUTE_LENGTH: usize = 12;
const AT_KIND: usize = 7;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_VIA: u16 = 18;
/// What packets are wrapped into on their way (MPLS, a tunnel, segments to go by), and how.
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTAX_MTU: u16 = 2;
/// `RTN_UNICAST`: to another host.
const UNICAST: u8 = 1;

const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
/// `struct ndmsg`: family, padding, interface, state, flags, type.
const NEIGHBOUR_LENGTH: usize = 12;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// `NUD_REACHABLE`, `NUD_DELAY`, `NUD_PROBE`, `NUD_NOARP` and `NUD_PERMANENT`. Not `NUD_STALE`: the kernel looks
/// whether such a neighbour is still there once it is sent something.
const IN_USE: u16 = 0x02 | 0x08 | 0x10 | 0x40 | 0x80;

const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;
const _: () = assert!(libc::AF_INET == FAMILY_V4 as i32 && libc::AF_INET6 == FAMILY_V6 as i32);

/// The way to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The device that packets leave by; none if they do not go to another host, or if the kernel wraps them into
    /// something that only it knows.
    pub interface: Option<u32>,
    /// The router that they go to; none if the address is on the link.
    pub gateway: Option<IpAddr>,
    /// The address that they come from, unless another one is chosen.
    pub source: Option<IpAddr>,
    /// The longest of them, if it is known to be other than that of the device, bytes.
    pub mtu: Option<u32>,
}

impl Route {
    fn of(message: &Message<'_>) -> Option<Self> {
        if message.kind != RTM_NEWROUTE {
            return None;
        }
        let mut route = Self { interface: None, gateway: None, source: None, mtu: None };
        if message.payload.get(AT_KIND) != Some(&UNICAST) {
            return Some(route);
        }
        let mut is_wrapped = false;
        for (kind, value) in attributes(message.payload.get(ROUTE_LENGTH..).unwrap_or_default()) {
            match kind {
                RTA_ENCAP_TYPE | RTA_ENCAP => is_wrapped = true,
                RTA_OIF => route.interface = read_u32(value, 0),
                RTA_GATEWAY => route.gateway = address(value),
                // A family, and an address of that.
                RTA_VIA => route.gateway = value.get(2..).and_then(address),
                RTA_PREFSRC => route.source = address(value),
                RTA_METRICS => {
                    let mtu = attributes(value).find(|(kind, _)| *kind == RTAX_MTU);
                    route.mtu =
                        mtu.and_then(|(_, value)| read_u32(value, 0)).filter(|mtu| *mtu > 0);
                }
                _ => {}
            }
        }
        route.interface = route.interface.filter(|_| !is_wrapped);
        Some(route)
    }
}

/// A host on a link, whose hardware address the kernel knows and uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// The device, by the kernel's number.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub mac: [u8; 6],
}

impl Neighbour {
    fn of(message: &Message<'_>) -> Option<Self> {
        if message.kind != RTM_NEWNEIGH || read_u16(message.payload, 8)? & IN_USE == 0 {
            return None;
        }
        let interface = read_u32(message.payload, 4)?;
        let (mut found, mut mac) = (None, None);
        for (kind, value) in attributes(message.payload.get(NEIGHBOUR_LENGTH..)?) {
            match kind {
                NDA_DST => found = address(value),
                NDA_LLADDR => mac = value.try_into().ok(),
                _ => {}
            }
        }
        Some(Self { interface, address: found?, mac: mac? })
    }
}

fn address(value: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(value) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    Some(Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?).into())
}

/// What the kernel is asked for ways by.
#[derive(Debug)]
pub struct RouteTable {
    socket: NetlinkSocket,
}

impl RouteTable {
    /// Opens it.
    ///
    /// # Errors
    /// Those of netlink sockets.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: NetlinkSocket::new(libc::NETLINK_ROUTE)? })
    }

    /// The way that a packet takes to `to`, from an address of this host or whichever suits, by a device or any.
    ///
    /// # Errors
    /// That there is none.
    pub fn find(
        &mut self,
        to: IpAddr,
        from: Option<IpAddr>,
        interface: Option<u32>,
    ) -> io::Result<Route> {
        let request = || {
            let (family, bits) = if to.is_ipv4() { (FAMILY_V4, 32) } else { (FAMILY_V6, 128) };
            let mut fixed = [0; ROUTE_LENGTH];
            (fixed[0], fixed[1]) = (family, bits);
            fixed[2] = if from.is_some() { bits } else { 0 };
            let mut request = Request::new(RTM_GETROUTE, FLAG_REQUEST, &fixed);
            for (kind, address) in [(RTA_DST, Some(to)), (RTA_SRC, from)] {
                request = match address {
                    Some(IpAddr::V4(address)) => request.attribute(kind, &address.octets()),
                    Some(IpAddr::V6(address)) => request.attribute(kind, &address.octets()),
                    None => request,
                };
            }
            match interface {
                Some(interface) => request.attribute(RTA_OIF, &interface.to_ne_bytes()),
                None => request,
            }
        };
        let found = self.socket.call(request, Route::of)?;
        found.first().copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The neighbours that are in use, on all devices.
    ///
    /// # Errors
    /// Those of netlink sockets.
    pub fn neighbours(&mut self) -> io::Result<Vec<Neighbour>> {
        let list = || Request::new(RTM_GETNEIGH, FLAG_REQUEST | FLAG_DUMP, &[0; NEIGHBOUR_LENGTH]);
        self.socket.call(list, Neighbour::of)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::netlink::message::messages;

    fn route(kind: u8) -> Vec<u8> {
        let mut fixed = [0; ROUTE_LENGTH];
        (fixed[0], fixed[AT_KIND]) = (FAMILY_V4, kind);
        let metrics = Request::new(0, 0, &[]).attribute(RTAX_MTU, &1400_u32.to_ne_bytes());
        Request::new(RTM_NEWROUTE, 0, &fixed)
            .attribute(RTA_OIF, &5_u32.to_ne_bytes())
            .attribute(RTA_GATEWAY, &[192, 0, 2, 254])
            .attribute(RTA_PREFSRC, &[192, 0, 2, 1])
            .attribute(RTA_METRICS, &metrics.finish(0)[16..])
            .finish(1)
    }

    fn neighbour(state: u16, mac: &[u8]) -> Vec<u8> {
        let mut fixed = [0; NEIGHBOUR_LENGTH];
        fixed[0] = FAMILY_V6;
        fixed[4..8].copy_from_slice(&5_u32.to_ne_bytes());
        fixed[8..10].copy_from_slice(&state.to_ne_bytes());
        let address: Ipv6Addr = "fe80::7".parse().unwrap();
        Request::new(RTM_NEWNEIGH, 2, &fixed)
            .attribute(NDA_DST, &address.octets())
            .attribute(NDA_LLADDR, mac)
            .finish(1)
    }

    fn read<T>(bytes: &[u8], of: impl Fn(&Message<'_>) -> Option<T>) -> Option<T> {
        messages(bytes).next().and_then(|message| of(&message))
    }

    #[test]
    fn a_route_is_read_from_its_message() {
        let expected = Route {
            interface: Some(5),
            gateway: Some([192, 0, 2, 254].into()),
            source: Some([192, 0, 2, 1].into()),
            mtu: Some(1400),
        };
        assert_eq!(read(&route(UNICAST), Route::of), Some(expected));
        let nowhere = Route { interface: None, gateway: None, source: None, mtu: None };
        assert_eq!(read(&route(2), Route::of), Some(nowhere), "to this host");
    }

    #[test]
    fn what_the_kernel_wraps_leaves_by_no_device_as_it_is() {
        let mut fixed = [0; ROUTE_LENGTH];
        (fixed[0], fixed[AT_KIND]) = (FAMILY_V4, UNICAST);
        let written = |before: Option<u16>, behind: Option<u16>| {
            let mut request = Request::new(RTM_NEWROUTE, 0, &fixed);
            for (kind, value) in [
                (before, &[1, 0][..]),
                (Some(RTA_OIF), &5_u32.to_ne_bytes()),
                (behind, &[8, 0, 1, 0, 0, 0, 0x41, 1]),
            ] {
                let Some(kind) = kind else { continue };
                request = request.attribute(kind, value);
            }
            read(&request.finish(1), Route::of).unwrap().interface
        };
        assert_eq!(written(None, None), Some(5));
        assert_eq!(written(Some(RTA_ENCAP_TYPE), None), None);
        assert_eq!(written(None, Some(RTA_ENCAP)), None);
        assert_eq!(written(Some(RTA_ENCAP_TYPE), Some(RTA_ENCAP)), None);
    }

    #[test]
    fn only_neighbours_in_use_are_told() {
        let mac = [2, 0, 0, 0, 0, 7];
        for state in [0x02, 0x08, 0x10, 0x40, 0x80] {
            let found = read(&neighbour(state, &mac), Neighbour::of).unwrap();
            assert_eq!((found.interface, found.mac), (5, mac));
            assert_eq!(found.address.to_string(), "fe80::7");
        }
        for state in [0, 0x01, 0x04, 0x20] {
            assert_eq!(read(&neighbour(state, &mac), Neighbour::of), None, "{state:#x}");
        }
        assert_eq!(read(&neighbour(2, &[]), Neighbour::of), None, "a link without such");
    }

    #[test]
    fn no_length_of_a_message_is_trusted() {
        for whole in [route(UNICAST), neighbour(2, &[2, 0, 0, 0, 0, 7])] {
            for at in 0..whole.len() {
                for value in [0, 1, 3, 5, 0x7f, 0xff] {
                    let mut changed = whole.clone();
                    changed[at] = value;
                    // Whatever comes of it, it comes without a panic.
                    let _ = (read(&changed, Route::of), read(&changed, Neighbour::of));
                }
            }
        }
    }

    #[test]
    fn this_host_is_no_other_one() {
        let mut table = RouteTable::open().unwrap();
        let route = table.find([127, 0, 0, 1].into(), None, None).unwrap();
        assert_eq!(route.interface, None);
        let from = Some([127, 0, 0, 1].into());
        assert!(table.find([127, 0, 0, 1].into(), from, Some(1)).is_ok());
        assert!(table.neighbours().unwrap().len() <= 1 << 20);
    }
}

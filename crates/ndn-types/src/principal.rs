//! Principals: the processes, neighbours and addresses between which scarce resources are shared.
//!
//! A limit per face is no limit for a host: one address may own a thousand faces. Tables and buffers are therefore
//! charged to the principal of a face, and divided between principals.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The principal of a face: charged for the resources that the face's packets take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PrincipalKey {
    /// Management: the internal face.
    Management,
    /// A process on this host. The kernel has named its user and process.
    LocalApplication {
        /// User ID.
        uid: u32,
        /// Process ID; 0 if it is not known.
        pid: u32,
    },
    /// Users with 65,536 consecutive user IDs, the number that one user has in containers by default.
    UserRange {
        /// The first user ID.
        first: u32,
    },
    /// A face that the configuration or an operator made, by FaceId.
    Neighbour {
        /// FaceId of the management protocol.
        face_id: u64,
    },
    /// An on-demand peer, by its address.
    Remote(RemoteAddress),
}

/// Number of user IDs of a [`PrincipalKey::UserRange`]: of the subordinate ones that a user gets by default (login.defs(5),
/// `SUB_UID_COUNT`).
const USER_RANGE: u32 = 65_536;

/// The address of an on-demand peer, as far as a host cannot choose it freely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RemoteAddress {
    /// IPv4 address, also one that is mapped into IPv6.
    V4(Ipv4Addr),
    /// IPv6 network of 64 bits: a host has all addresses of its network.
    V6 {
        /// The first 64 bits.
        network: u64,
        /// Interface of a link-local address, 0 for others.
        zone: u32,
    },
    /// IPv6 network of 48 bits, for the networks of a site that has many of them.
    V6Site(u64),
    /// Ethernet address.
    Station([u8; 6]),
    /// Peers whose address is not known, and peers beyond the number that a table distinguishes.
    Other,
}

/// The class of a principal. Each class but the last has a reserve of every scarce resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PrincipalClass {
    /// Management.
    Management,
    /// Applications on this host.
    Local,
    /// Faces that the configuration or an operator made.
    Neighbour,
    /// On-demand peers.
    Remote,
}

impl PrincipalClass {
    /// All classes, in the order of [`index`](Self::index).
    pub const ALL: [Self; 4] = [Self::Management, Self::Local, Self::Neighbour, Self::Remote];
    /// Number of classes.
    pub const COUNT: usize = Self::ALL.len();

    /// Position in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Name in output and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Management => "management",
            Self::Local => "local",
            Self::Neighbour => "neighbour",
            Self::Remote => "remote",
        }
    }
}

impl fmt::Display for PrincipalClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl PrincipalKey {
    /// The principal for what cannot be charged to another.
    pub const OTHER: Self = Self::Remote(RemoteAddress::Other);

    /// An on-demand peer at this socket address. This host has all of 127.0.0.0/8, which counts as 127.0.0.1.
    #[must_use]
    pub fn remote(peer: SocketAddr) -> Self {
        let address = match peer.ip().to_canonical() {
            IpAddr::V4(address) if address.is_loopback() => RemoteAddress::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V4(address) => RemoteAddress::V4(address),
            IpAddr::V6(address) => {
                let zone = match peer {
                    SocketAddr::V6(peer) if address.is_unicast_link_local() => peer.scope_id(),
                    SocketAddr::V4(_) | SocketAddr::V6(_) => 0,
                };
                RemoteAddress::V6 { network: network_of(address), zone }
            }
        };
        Self::Remote(address)
    }

    /// An on-demand station with this Ethernet address.
    #[must_use]
    pub const fn station(address: [u8; 6]) -> Self {
        Self::Remote(RemoteAddress::Station(address))
    }

    /// The principal of a face that an operator made persistent or permanent: a remote peer is a neighbour from then on.
    #[must_use]
    pub const fn kept_by_operator(self, face_id: u64) -> Self {
        match self {
            Self::Remote(_) => Self::Neighbour { face_id },
            Self::Management
            | Self::LocalApplication { .. }
            | Self::UserRange { .. }
            | Self::Neighbour { .. } => self,
        }
    }

    /// The principal of what outlives the process that asked for it: its user.
    #[must_use]
    pub const fn without_process(self) -> Self {
        match self {
            Self::LocalApplication { uid, .. } => Self::LocalApplication { uid, pid: 0 },
            Self::Management
            | Self::UserRange { .. }
            | Self::Neighbour { .. }
            | Self::Remote(_) => self,
        }
    }

    /// Its class.
    #[must_use]
    pub const fn class(self) -> PrincipalClass {
        match self {
            Self::Management => PrincipalClass::Management,
            Self::LocalApplication { .. } | Self::UserRange { .. } => PrincipalClass::Local,
            Self::Neighbour { .. } => PrincipalClass::Neighbour,
            Self::Remote(_) => PrincipalClass::Remote,
        }
    }

    /// The principal of which this one is a part that can be multiplied at will: the network of 48 bits around a network
    /// of 64 bits that is not link-local, the user of a process, and the range of a user whose ID may be a subordinate one
    /// of another (subuid(5)). A group may have a group itself. `None` for other principals.
    #[must_use]
    pub const fn group(self) -> Option<Self> {
        match self {
            Self::Remote(RemoteAddress::V6 { network, zone: 0 }) => {
                Some(Self::Remote(RemoteAddress::V6Site(network >> 16 << 16)))
            }
            Self::LocalApplication { uid, pid: 1.. } => {
                Some(Self::LocalApplication { uid, pid: 0 })
            }
            Self::LocalApplication { uid: uid @ USER_RANGE.., pid: 0 } => {
                Some(Self::UserRange { first: uid / USER_RANGE * USER_RANGE })
            }
            Self::Management
            | Self::LocalApplication { .. }
            | Self::UserRange { .. }
            | Self::Neighbour { .. }
            | Self::Remote(_) => None,
        }
    }

    /// Whether it is `other` or a part of it.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        self == other || self.group().is_some_and(|group| group.is_within(other))
    }

    /// The principal with which it shares what is divided without regard to its parts: its outermost
    /// [group](Self::group), or itself.
    #[must_use]
    pub const fn account(self) -> Self {
        let mut account = self;
        while let Some(group) = account.group() {
            account = group;
        }
        account
    }
}

fn network_of(address: Ipv6Addr) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = address.octets();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

impl fmt::Display for PrincipalKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Management => formatter.write_str("management"),
            Self::LocalApplication { uid, pid: 0 } => write!(formatter, "user {uid}"),
            Self::LocalApplication { uid, pid } => write!(formatter, "user {uid} process {pid}"),
            Self::UserRange { first } => {
                write!(formatter, "users {first} to {}", first.saturating_add(USER_RANGE - 1))
            }
            Self::Neighbour { face_id } => write!(formatter, "face {face_id}"),
            Self::Remote(address) => address.fmt(formatter),
        }
    }
}

impl fmt::Display for RemoteAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = |network: u64| Ipv6Addr::from_bits(u128::from(network) << 64);
        match self {
            Self::V4(address) => address.fmt(formatter),
            Self::V6 { network, zone: 0 } => write!(formatter, "{}/64", address(*network)),
            Self::V6 { network, zone } => write!(formatter, "{}%{zone}/64", address(*network)),
            Self::V6Site(network) => write!(formatter, "{}/48", address(*network)),
            Self::Station([a, b, c, d, e, f]) => {
                write!(formatter, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
            }
            Self::Other => formatter.write_str("other peers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(address: &str) -> PrincipalKey {
        PrincipalKey::remote(address.parse().unwrap())
    }

    #[test]
    fn ports_of_one_address_are_one_principal() {
        assert_eq!(remote("192.0.2.1:1"), remote("192.0.2.1:2"));
        assert_ne!(remote("192.0.2.1:1"), remote("192.0.2.2:1"));
        assert_eq!(remote("192.0.2.1:1"), remote("[::ffff:192.0.2.1]:1"), "a mapped address");
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_principal() {
        assert_eq!(remote("[2001:db8::1]:1"), remote("[2001:db8::ffff:2]:9"));
        assert_ne!(remote("[2001:db8::1]:1"), remote("[2001:db8:0:1::1]:1"));
        assert_ne!(remote("[fe80::1%2]:1"), remote("[fe80::1%3]:1"), "two links");
        assert_eq!(remote("[2001:db8::1%2]:1"), remote("[2001:db8::1%3]:1"));
    }

    #[test]
    fn loopback_addresses_are_one_principal() {
        assert_eq!(remote("127.0.0.1:1"), remote("127.255.255.254:2"));
        assert_eq!(remote("127.0.0.1:1"), remote("[::ffff:127.7.0.1]:1"), "a mapped address");
        assert_ne!(remote("127.0.0.1:1"), remote("128.0.0.1:1"));
        assert_eq!(remote("127.3.2.1:1").to_string(), "127.0.0.1");
    }

    #[test]
    fn networks_of_one_site_have_the_same_site() {
        assert_eq!(remote("[2001:db8:7:1::]:1").group(), remote("[2001:db8:7:2::]:1").group());
        assert_ne!(remote("[2001:db8:7:1::]:1").group(), remote("[2001:db8:8:1::]:1").group());
        assert_eq!(remote("[fe80::1%2]:1").group(), None);
        assert_eq!(remote("192.0.2.1:1").group(), None);
    }

    #[test]
    fn users_with_subordinate_ids_are_parts_of_a_range() {
        let process = |uid| PrincipalKey::LocalApplication { uid, pid: 7 };
        let user = |uid| process(uid).without_process();
        assert_eq!(process(65_535).group(), Some(user(65_535)));
        assert_eq!(user(65_535).group(), None);
        let range = PrincipalKey::UserRange { first: 65_536 };
        for uid in [65_536, 100_000, 131_071] {
            assert_eq!((process(uid).group(), user(uid).group()), (Some(user(uid)), Some(range)));
            assert_eq!((process(uid).account(), user(uid).account()), (range, range));
            assert!(process(uid).is_within(range) && !process(uid).is_within(user(1000)));
        }
        assert_eq!(user(u32::MAX).group(), Some(PrincipalKey::UserRange { first: 0xFFFF_0000 }));
        assert!(!user(131_072).is_within(range));
        assert_eq!((range.group(), range.class()), (None, PrincipalClass::Local));
    }

    #[test]
    fn processes_of_a_user_have_one_account() {
        let process = |uid, pid| PrincipalKey::LocalApplication { uid, pid }.account();
        assert_eq!(process(1, 7), process(1, 0));
        assert_ne!(process(1, 7), process(2, 7));
        assert_eq!(remote("192.0.2.1:1").account(), remote("192.0.2.1:1"));
    }

    #[test]
    fn principals_are_printed_as_process_user_or_address() {
        let application = PrincipalKey::LocalApplication { uid: 1000, pid: 77 };
        for (key, text) in [
            (PrincipalKey::Management, "management"),
            (application, "user 1000 process 77"),
            (PrincipalKey::LocalApplication { uid: 0, pid: 0 }, "user 0"),
            (PrincipalKey::UserRange { first: 131_072 }, "users 131072 to 196607"),
            (PrincipalKey::Neighbour { face_id: 262 }, "face 262"),
            (remote("192.0.2.1:6363"), "192.0.2.1"),
            (remote("[2001:db8:7:1::5]:6363"), "2001:db8:7:1::/64"),
            (remote("[fe80::1%2]:6363"), "fe80::%2/64"),
            (remote("[2001:db8:7:1::5]:6363").group().unwrap(), "2001:db8:7::/48"),
            (PrincipalKey::station([2, 0, 0, 0, 0, 0xAB]), "02:00:00:00:00:ab"),
            (PrincipalKey::OTHER, "other peers"),
        ] {
            assert_eq!(key.to_string(), text);
        }
    }

    #[test]
    fn classes_are_in_the_order_of_their_indices() {
        for (index, class) in PrincipalClass::ALL.into_iter().enumerate() {
            assert_eq!(class.index(), index);
        }
        assert_eq!(PrincipalKey::OTHER.class(), PrincipalClass::Remote);
        assert_eq!(PrincipalKey::Management.class(), PrincipalClass::Management);
    }
}

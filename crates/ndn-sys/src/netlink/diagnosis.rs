//! The user behind a TCP connection within this host, by `SOCK_DIAG_BY_FAMILY`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use crate::netlink::message::{Message, Request, read_u32};
use crate::netlink::socket::{FLAG_REQUEST, NetlinkSocket};
use crate::stream::tcp_addresses;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `AF_INET`, `AF_INET6` and `IPPROTO_TCP`, which take one byte here.
const FAMILY_IPV4: u8 = 2;
const FAMILY_IPV6: u8 = 10;
const PROTOCOL_TCP: u8 = 6;
/// `INET_DIAG_NOCOOKIE`: any socket with these addresses.
const NO_COOKIE: u32 = u32::MAX;
/// `TCP_ESTABLISHED` and `TCP_LISTEN`, behind the family in a reply.
const STATE_ESTABLISHED: u8 = 1;
const STATE_LISTEN: u8 = 10;
const REPLY_STATE_AT: usize = 1;
/// `struct inet_diag_sockid` in a reply: behind family, state, timer and retransmissions.
const REPLY_ID_AT: usize = 4;
/// The two ports and the two addresses, which are its beginning.
const ENDS_LENGTH: usize = 36;
/// `idiag_uid` and `idiag_inode` of `struct inet_diag_msg`.
const REPLY_UID_AT: usize = 64;
const REPLY_INODE_AT: usize = 68;

/// The user who owns the peer's socket of a TCP connection between two sockets of this host. `None` if the kernel does
/// not name one: the peer is on another host, or has closed its socket. The kernel reports closed sockets as root's,
/// which is why the inode is checked. A connection that the peer has not accepted yet has no inode either: its user is
/// the one of the listening socket, without which it would not exist.
///
/// # Errors
/// Those of netlink sockets; for example the kernel lacks `CONFIG_INET_DIAG`, or the process may not use it.
pub fn user_of_tcp_peer(connection: BorrowedFd<'_>) -> io::Result<Option<u32>> {
    let (own, peer) = tcp_addresses(connection)?;
    // As the peer sees it: its own end is the source.
    let ends = [peer, own].map(canonical);
    match find_socket(&ends, |message| owner(message, &ends))? {
        Some(Owner::User(user)) => Ok(Some(user)),
        Some(Owner::NotAccepted) => {
            let nowhere: IpAddr = if ends[0].is_ipv4() {
                Ipv4Addr::UNSPECIFIED.into()
            } else {
                Ipv6Addr::UNSPECIFIED.into()
            };
            let port = ends[0].port();
            find_socket(&[ends[0], SocketAddr::new(nowhere, 0)], |message| listener(message, port))
        }
        None => Ok(None),
    }
}

/// Asks the kernel for the socket with these ends, its own first.
fn find_socket<T>(
    ends: &[SocketAddr; 2],
    read: impl Fn(&Message<'_>) -> Option<T>,
) -> io::Result<Option<T>> {
    let family = if ends[0].is_ipv4() { FAMILY_IPV4 } else { FAMILY_IPV6 };
    let request = || {
        // Family, protocol, extensions and padding; states; ends; interface; cookie.
        let mut fixed = vec![family, PROTOCOL_TCP, 0, 0];
        fixed.extend_from_slice(&u32::MAX.to_ne_bytes());
        fixed.extend_from_slice(&written(ends));
        for number in [0, NO_COOKIE, NO_COOKIE] {
            fixed.extend_from_slice(&number.to_ne_bytes());
        }
        Request::new(SOCK_DIAG_BY_FAMILY, FLAG_REQUEST, &fixed)
    };
    let found =
        NetlinkSocket::new(libc::NETLINK_SOCK_DIAG)?.call(request, |message| Some(read(message)));
    match found {
        Ok(answers) => Ok(answers.into_iter().flatten().next()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// An IPv4 address that is mapped to IPv6 as the address that it is.
fn canonical(end: SocketAddr) -> SocketAddr {
    SocketAddr::new(end.ip().to_canonical(), end.port())
}

/// Ports and addresses of a connection in network byte order. An IPv4 address takes the first four of sixteen bytes.
fn written(ends: &[SocketAddr; 2]) -> [u8; ENDS_LENGTH] {
    let mut bytes = [0; ENDS_LENGTH];
    for (index, end) in ends.iter().enumerate() {
        bytes[2 * index..][..2].copy_from_slice(&end.port().to_be_bytes());
        let address = &mut bytes[4 + 16 * index..][..16];
        match end.ip() {
            IpAddr::V4(ip) => address[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => address.copy_from_slice(&ip.octets()),
        }
    }
    bytes
}

/// The ends of a socket in a reply. An IPv6 socket may be connected to a mapped IPv4 address.
fn read_ends(payload: &[u8]) -> Option<[SocketAddr; 2]> {
    let bytes: &[u8; ENDS_LENGTH] =
        payload.get(REPLY_ID_AT..REPLY_ID_AT + ENDS_LENGTH)?.try_into().ok()?;
    let is_ipv4 = *payload.first()? == FAMILY_IPV4;
    let end = |index: usize| {
        let port = u16::from_be_bytes([bytes[2 * index], bytes[2 * index + 1]]);
        let mut address = [0; 16];
        address.copy_from_slice(&bytes[4 + 16 * index..][..16]);
        let [a, b, c, d, ..] = address;
        let ip = if is_ipv4 { IpAddr::from([a, b, c, d]) } else { IpAddr::from(address) };
        canonical(SocketAddr::new(ip, port))
    };
    Some([end(0), end(1)])
}

/// The owner of a connected socket.
#[derive(Debug, PartialEq, Eq)]
enum Owner {
    User(u32),
    /// It waits in the queue of a listening socket.
    NotAccepted,
}

/// The owner in a reply. Without a connected socket the kernel may report a listener of the same port.
fn owner(message: &Message<'_>, ends: &[SocketAddr; 2]) -> Option<Owner> {
    let payload = message.payload;
    if message.kind != SOCK_DIAG_BY_FAMILY || read_ends(payload)? != *ends {
        return None;
    }
    if read_u32(payload, REPLY_INODE_AT)? != 0 {
        return read_u32(payload, REPLY_UID_AT).map(Owner::User);
    }
    (*payload.get(REPLY_STATE_AT)? == STATE_ESTABLISHED).then_some(Owner::NotAccepted)
}

/// The owner of the listening socket of this port in a reply.
fn listener(message: &Message<'_>, port: u16) -> Option<u32> {
    let payload = message.payload;
    let is_it = message.kind == SOCK_DIAG_BY_FAMILY
        && *payload.get(REPLY_STATE_AT)? == STATE_LISTEN
        && read_ends(payload)?[0].port() == port
        && read_u32(payload, REPLY_INODE_AT)? != 0;
    is_it.then(|| read_u32(payload, REPLY_UID_AT)).flatten()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::net::{Ipv6Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    fn own_uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn owner_of_peer_is_this_user_until_peer_closes() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A host without IPv6 has only the first.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (far, _) = listener.accept().unwrap();
            assert_eq!(user_of_tcp_peer(far.as_fd()).unwrap(), Some(own_uid()), "{address}");
            assert_eq!(user_of_tcp_peer(near.as_fd()).unwrap(), Some(own_uid()), "{address}");
            drop(near);
            // The kernel reports the closed socket as root's.
            assert_eq!(user_of_tcp_peer(far.as_fd()).unwrap(), None, "{address}");
        }
    }

    #[test]
    fn connection_that_is_not_accepted_yet_has_the_user_of_the_listener() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let to = if address == "127.0.0.1:0" { "127.0.0.1" } else { "::1" };
            let near = TcpStream::connect((to, port)).unwrap();
            assert_eq!(user_of_tcp_peer(near.as_fd()).unwrap(), Some(own_uid()), "{address}");
            drop(listener);
            assert!(!matches!(user_of_tcp_peer(near.as_fd()), Ok(Some(_))), "{address}");
        }
    }

    #[test]
    fn peer_with_mapped_address_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mapped: Ipv6Addr = "::ffff:127.0.0.1".parse().unwrap();
        let Ok(_near) = TcpStream::connect((mapped, port)) else { return };
        let (far, _) = listener.accept().unwrap();
        assert_eq!(user_of_tcp_peer(far.as_fd()).unwrap(), Some(own_uid()));
    }

    #[test]
    fn reply_about_another_socket_or_a_closed_one_names_nobody() {
        let ends = ["127.0.0.1:7", "127.0.0.1:9"].map(|end| end.parse().unwrap());
        let mut payload = [0; 72];
        payload[0] = FAMILY_IPV4;
        payload[REPLY_ID_AT..][..ENDS_LENGTH].copy_from_slice(&written(&ends));
        payload[REPLY_UID_AT..][..4].copy_from_slice(&1000_u32.to_ne_bytes());
        let owner = |payload: &[u8]| {
            let kind = SOCK_DIAG_BY_FAMILY;
            owner(&Message { kind, flags: 0, sequence: 1, payload }, &ends)
        };
        assert_eq!(owner(&payload), None, "no inode");
        payload[REPLY_STATE_AT] = STATE_ESTABLISHED;
        assert_eq!(owner(&payload), Some(Owner::NotAccepted));
        payload[REPLY_INODE_AT] = 1;
        assert_eq!(owner(&payload), Some(Owner::User(1000)));
        assert_eq!(owner(&payload[..70]), None);
        // A listener has no destination.
        payload[REPLY_ID_AT + 2] = 7;
        assert_eq!(owner(&payload), None);
    }
}

//! The ends of a face as management shows them.
//!
//! Texts are parsed and brought into canonical form where commands are: in `ndn-management`. Here
//! is only what a transport can be, so that every value is canonical.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// One end of a face (NFD wiki, "FaceUri").
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FaceUri {
    /// `unix://path`: the socket that a Unix stream face was accepted on or connects to.
    Unix(PathBuf),
    /// `fd://n`: the far end of an accepted Unix stream.
    Descriptor(i32),
    /// `tcp4://` or `tcp6://`.
    Tcp(SocketAddr),
    /// `udp4://` or `udp6://`.
    Udp(SocketAddr),
    /// `udp4+dev://` or `udp6+dev://`: the near end of a UDP face that is bound to an interface.
    UdpDevice {
        /// The version of its addresses is 4.
        is_ipv4: bool,
        /// The interface.
        interface: String,
        /// The port.
        port: u16,
    },
    /// `ether://`: a station or a group behind a network device.
    Ethernet([u8; 6]),
    /// `dev://`: a network device of this host.
    Device(Arc<str>),
    /// `ws://`: the near end of a WebSocket, or where they are accepted.
    WebSocket(SocketAddr),
    /// `wsclient://`: the far end of a WebSocket.
    WebSocketClient(SocketAddr),
    /// `memif://`: an interface behind a Unix socket.
    Memif(ndn_memif::Address),
    /// `quic://`: an end of a WebTransport session, or where they are accepted.
    Quic(SocketAddr),
    /// `https://`: the far end of a WebTransport session that was opened here.
    WebTransport(Arc<str>),
    /// `internal://`: management and other parts of the forwarder.
    Internal,
    /// `contentstore://`: the face that packets of the content store seem to come from.
    ContentStore,
    /// `null://`: nobody.
    Null,
}

impl fmt::Display for FaceUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(formatter, "unix://{}", path.display()),
            Self::Descriptor(descriptor) => write!(formatter, "fd://{descriptor}"),
            Self::Tcp(address) => write_address(formatter, "tcp", *address),
            Self::Udp(address) => write_address(formatter, "udp", *address),
            Self::UdpDevice { is_ipv4, interface, port } => {
                let version = if *is_ipv4 { 4 } else { 6 };
                write!(formatter, "udp{version}+dev://{interface}:{port}")
            }
            Self::Ethernet([a, b, c, d, e, f]) => {
                write!(formatter, "ether://[{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}]")
            }
            Self::Device(name) => write!(formatter, "dev://{name}"),
            Self::WebSocket(address) => write!(formatter, "ws://{}", Zoned(*address)),
            Self::WebSocketClient(address) => {
                write!(formatter, "wsclient://{}", Zoned(*address))
            }
            Self::Memif(address) => address.fmt(formatter),
            Self::Quic(address) => write!(formatter, "quic://{}", Zoned(*address)),
            Self::WebTransport(url) => formatter.write_str(url),
            Self::Internal => formatter.write_str("internal://"),
            Self::ContentStore => formatter.write_str("contentstore://"),
            Self::Null => formatter.write_str("null://"),
        }
    }
}

/// An address whose zone is shown as NFD shows it: by the name of the interface, or by its number if there is no
/// such interface any more.
struct Zoned(SocketAddr);

impl fmt::Display for Zoned {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SocketAddr::V6(address) if address.scope_id() != 0 => {
                let (ip, port, zone) = (address.ip(), address.port(), address.scope_id());
                match ndn_sys::interface::name_of(zone) {
                    Some(name) => write!(formatter, "[{ip}%{name}]:{port}"),
                    None => write!(formatter, "[{ip}%{zone}]:{port}"),
                }
            }
            address @ (SocketAddr::V4(_) | SocketAddr::V6(_)) => address.fmt(formatter),
        }
    }
}

/// The scheme names the version of the address.
fn write_address(
    formatter: &mut fmt::Formatter<'_>,
    scheme: &str,
    address: SocketAddr,
) -> fmt::Result {
    let version = if address.is_ipv4() { 4 } else { 6 };
    write!(formatter, "{scheme}{version}://{}", Zoned(address))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV6;

    use super::*;

    #[test]
    fn addresses_are_canonical() {
        for text in ["udp4://192.0.2.1:6363", "tcp4://127.0.0.1:1", "udp6://[2001:db8::1]:56363"] {
            let parsed = ndn_management::FaceUri::parse(text).unwrap();
            assert!(parsed.is_canonical());
            let address = parsed.socket_address().unwrap();
            let uri = match parsed.scheme() {
                "tcp4" | "tcp6" => FaceUri::Tcp(address),
                _ => FaceUri::Udp(address),
            };
            assert_eq!(uri.to_string(), text);
        }
    }

    #[test]
    fn zones_are_named() {
        let lo = ndn_sys::interface::index_of("lo").unwrap();
        let at = |zone| SocketAddrV6::new("fe80::1".parse().unwrap(), 6363, 0, zone).into();
        assert_eq!(FaceUri::Udp(at(lo)).to_string(), "udp6://[fe80::1%lo]:6363");
        assert_eq!(FaceUri::Tcp(at(lo)).to_string(), "tcp6://[fe80::1%lo]:6363");
        assert_eq!(FaceUri::WebSocketClient(at(lo)).to_string(), "wsclient://[fe80::1%lo]:6363");
        let gone = u32::try_from(i32::MAX).unwrap();
        assert_eq!(FaceUri::Udp(at(gone)).to_string(), format!("udp6://[fe80::1%{gone}]:6363"));
    }

    #[test]
    fn others_are_as_nfd_shows_them() {
        assert_eq!(
            FaceUri::Unix("/run/nfd/nfd.sock".into()).to_string(),
            "unix:///run/nfd/nfd.sock"
        );
        assert_eq!(FaceUri::Descriptor(21).to_string(), "fd://21");
        let address = "[::1]:9696".parse().unwrap();
        assert_eq!(FaceUri::WebSocket(address).to_string(), "ws://[::1]:9696");
        assert_eq!(FaceUri::WebSocketClient(address).to_string(), "wsclient://[::1]:9696");
        assert_eq!(FaceUri::Quic(address).to_string(), "quic://[::1]:9696");
        let bound = |is_ipv4| FaceUri::UdpDevice { is_ipv4, interface: "eth0".into(), port: 6363 };
        assert_eq!(bound(true).to_string(), "udp4+dev://eth0:6363");
        assert_eq!(bound(false).to_string(), "udp6+dev://eth0:6363");
        let mac = FaceUri::Ethernet([8, 0, 0x27, 0xab, 0xcd, 0xef]).to_string();
        assert_eq!(mac, "ether://[08:00:27:ab:cd:ef]");
        let device = FaceUri::Device("eth1".into()).to_string();
        assert_eq!(device, "dev://eth1");
        for text in [mac, device] {
            assert!(ndn_management::FaceUri::parse(&text).unwrap().is_canonical(), "{text}");
        }
        assert_eq!(FaceUri::Internal.to_string(), "internal://");
        assert_eq!(FaceUri::ContentStore.to_string(), "contentstore://");
        assert_eq!(FaceUri::Null.to_string(), "null://");
    }
}

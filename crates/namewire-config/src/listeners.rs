//! Settings of the sockets to listen on.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::{InterfaceRule, Origin};

/// Where applications and neighbours connect.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Listeners {
    /// The Unix stream socket of local applications.
    pub unix: UnixListener,
    /// The TCP listener.
    pub tcp: TcpListener,
    /// The UDP listener.
    pub udp: UdpListener,
    /// The memif listener, for local applications that bring shared memory.
    pub memif: super::MemifListener,
    /// The WebSocket listener, for browsers.
    pub websocket: WebSocketListener,
    /// The WebTransport listener, for browsers, too.
    pub webtransport: super::WebTransportListener,
    /// UDP groups on network interfaces.
    pub multicast: Multicast,
    /// Ethernet faces on network interfaces.
    pub ethernet: super::Ethernet,
    /// Ethernet faces on ports of DPDK.
    pub dpdk: super::Dpdk,
}

/// Settings of the Unix stream listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixListener {
    /// Whether to listen at all.
    pub enabled: bool,
    /// The socket path; none takes [`super::default_socket_path`].
    pub path: Option<PathBuf>,
    /// Permission bits of the socket file.
    pub mode: u32,
}

impl Listeners {
    /// Where memif clients connect.
    #[must_use]
    pub fn memif_path(&self) -> PathBuf {
        let unix = || self.unix.path.clone().unwrap_or_else(super::default_socket_path);
        self.memif.path.clone().unwrap_or_else(|| unix().with_file_name("memif.sock"))
    }
}

/// Settings of the TCP listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpListener {
    /// Whether to listen at all.
    pub enabled: bool,
    /// Addresses to bind. Of the default pair, a family which the kernel lacks is left out.
    pub addresses: Vec<IpAddr>,
    /// The port.
    pub port: u16,
    /// Whether a connection from a loopback address counts as a local application.
    pub loopback_is_local: bool,
}

/// Settings of the WebSocket listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketListener {
    /// Whether to listen at all.
    pub enabled: bool,
    /// Addresses to bind. Of the default pair, a family which the kernel lacks is left out.
    pub addresses: Vec<IpAddr>,
    /// The port.
    pub port: u16,
    /// Whether a connection from a loopback address counts as a local application, if a program has
    /// made it, or a page of this host or of one of `local_origins`.
    pub loopback_is_local: bool,
    /// Whose pages may connect; pages of others are turned away with status 403. None lets every page
    /// connect. Programs, which send no Origin, may always.
    pub origins: Option<Vec<Origin>>,
    /// Whose pages are local applications if the browser runs on this host, besides those that this
    /// host serves itself (http or https at localhost or a loopback address).
    pub local_origins: Vec<Origin>,
}

/// Settings of the UDP listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpListener {
    /// Whether to listen at all.
    pub enabled: bool,
    /// Addresses to bind. Of the default pair, a family which the kernel lacks is left out.
    pub addresses: Vec<IpAddr>,
    /// The port.
    pub port: u16,
}

/// UDP multicast faces: one per network interface and version of IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// Whether there are any.
    pub enabled: bool,
    /// The groups. The version of each is also a choice: none of it, no faces of it.
    pub groups: Vec<SocketAddr>,
    /// Whether not everybody on a link hears everybody else.
    pub ad_hoc: bool,
    /// On which interfaces.
    pub interfaces: Vec<InterfaceRule>,
    /// And on which of those not.
    pub except: Vec<InterfaceRule>,
}

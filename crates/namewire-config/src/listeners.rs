//! Sockets on which the forwarder accepts faces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::declaration::RestartReason::{ControlSocket, UdpSockets, WebTransportThread};
use crate::declaration::{live, restart, settings, table};
use crate::ethernet::{Dpdk, Ethernet};
use crate::file_mode::FileMode;
use crate::interfaces::InterfaceRule;
use crate::local_users::LocalUsers;
use crate::memif::MemifListener;
use crate::origin::Origin;
use crate::state_directory::is_started_by_root;

/// UDP and TCP port of NDN forwarders.
pub(crate) const NDN_PORT: u16 = 6363;
/// TCP port of NDN over WebSocket.
pub(crate) const WEBSOCKET_PORT: u16 = 9696;
/// The UDP port of NDN's multicast groups.
pub const MULTICAST_PORT: u16 = 56363;
/// The path of the Unix socket of a forwarder that root starts.
pub const SYSTEM_SOCKET_PATH: &str = "/run/nfd/nfd.sock";
/// Maximum number of WebTransport sessions.
const SESSIONS_MAX: usize = 65_536;

settings! {
    /// Sockets on which local applications and neighbours connect.
    pub struct Listeners {
        /// The Unix stream socket of local applications.
        unix: UnixListener = UnixListener::default() => table(),
        /// The memif listener, for local applications that share memory.
        memif: MemifListener = MemifListener::default() => table(),
        /// The TCP listener.
        tcp: TcpListener = TcpListener::default() => table(),
        /// The WebSocket listener, for browsers.
        websocket: WebSocketListener = WebSocketListener::default() => table(),
        /// The WebTransport listener, for browsers and gateways.
        webtransport: WebTransportListener = WebTransportListener::default() => table(),
        /// The UDP listener.
        udp: UdpListener = UdpListener::default() => table(),
        /// UDP multicast faces on network interfaces.
        multicast: Multicast = Multicast::default() => table(),
        /// Ethernet faces on network interfaces.
        ethernet: Ethernet = Ethernet::default() => table(),
        /// Ethernet faces on ports of DPDK.
        dpdk: Dpdk = Dpdk::default() => table(),
    }
}

settings! {
    /// The Unix stream socket of local applications.
    pub struct UnixListener {
        /// Whether the forwarder listens on the Unix socket.
        enabled: bool = true => live(),
        /// Path of the socket. The default is /run/nfd/nfd.sock for root, otherwise
        /// $XDG_RUNTIME_DIR/nfd/nfd.sock. A missing directory is created. A socket that a terminated
        /// forwarder left behind is replaced.
        path: Option<PathBuf> = None => restart(ControlSocket).example("\"/run/nfd/nfd.sock\""),
        /// Permission bits of the socket, in octal. `"0666"` allows every local user to connect.
        mode: FileMode = FileMode(0o666) => live(),
    }
}

settings! {
    /// The TCP listener.
    pub struct TcpListener {
        /// Whether the forwarder listens on TCP.
        enabled: bool = true => live(),
        /// Local addresses to listen on. `0.0.0.0` stands for all IPv4 addresses, `::` for all IPv6
        /// addresses. If one of the two default addresses has a family that the kernel lacks, it is ignored.
        addresses: Vec<IpAddr> = every_address() => live().checked(not_empty),
        /// TCP port.
        port: u16 = NDN_PORT => live().within(1..=u16::MAX),
        /// Whether connections from loopback addresses of `local_users` are local faces. Applications on
        /// local faces can register prefixes. If not, these connections are treated as those of other hosts.
        loopback_is_local: bool = true => live(),
        /// Users whose programs have local faces if they connect from a loopback address, by name or number,
        /// such as `["alice", "1001"]`, in addition to root and the user of the forwarder. The kernel names the
        /// user of a connection (sock_diag(7)). By default, these are the users who may connect to the Unix
        /// socket: all users that the kernel names if the permission bits of `[listeners.unix]` allow others to
        /// write, otherwise root and the user of the forwarder. `"any"` accepts every connection from a loopback
        /// address, as NFD does; those whose users the kernel does not name have the limits of one remote peer. The
        /// users must exist, also if this listener is off: connections that the forwarder makes follow the same rule.
        local_users: Option<LocalUsers> = None => live().example("[\"alice\"]"),
    }
}

settings! {
    /// The WebSocket listener, for browsers. It is off by default because every page that a browser
    /// on this host displays can connect. A page has a local face only if this host served it (its
    /// Origin is http or https at localhost or a loopback address) or `local_origins` lists its Origin.
    /// Other pages, pages in files included, can fetch Data but not manage the forwarder. Programs send
    /// no Origin: `loopback_is_local` decides for them.
    pub struct WebSocketListener {
        /// Whether the forwarder listens for WebSocket connections.
        enabled: bool = false => live(),
        /// Local addresses to listen on, as in `[listeners.tcp]`.
        addresses: Vec<IpAddr> = every_address() => live().checked(not_empty),
        /// TCP port.
        port: u16 = WEBSOCKET_PORT => live().within(1..=u16::MAX),
        /// Whether connections from loopback addresses are local faces, as in `[listeners.tcp]`, whose
        /// `local_users` apply. Of pages in browsers this holds only for those of this host and of
        /// `local_origins`.
        loopback_is_local: bool = true => live(),
        /// Origins whose pages can connect, in addition to pages of this host, such as
        /// `["https://app.example.com"]`. Pages of other origins are rejected with status 403. An empty
        /// list allows programs and pages of this host only. By default, every page can connect.
        origins: Option<Vec<Origin>> = None => live().example("[]"),
        /// Origins whose pages have local faces if the browser runs on this host, in addition to pages of
        /// this host: these pages can register prefixes and manage the forwarder. They can connect even if
        /// `origins` does not list them.
        local_origins: Vec<Origin> = Vec::new() => live(),
    }
}

settings! {
    /// The WebTransport listener (HTTP/3), for browsers and gateways, at `https://HOST:PORT/ndn`. Its
    /// faces are never local.
    pub struct WebTransportListener {
        /// Whether the forwarder listens for WebTransport sessions.
        enabled: bool = false => restart(WebTransportThread),
        /// Local addresses to listen on, as in `[listeners.tcp]`.
        addresses: Vec<IpAddr> = every_address() => restart(WebTransportThread).checked(not_empty),
        /// UDP port.
        port: u16 = ndn_webtransport::PORT => restart(WebTransportThread).within(1..=u16::MAX),
        /// PEM file with the certificate and the chain of certificates up to its authority. By default,
        /// the forwarder creates and renews self-signed certificates; `namewire webtransport` shows their
        /// hashes, which pages need to connect.
        certificate: Option<PathBuf> = None =>
            restart(WebTransportThread).example("\"/etc/namewire/certificate.pem\""),
        /// PEM file with the private key of `certificate`.
        key: Option<PathBuf> = None => restart(WebTransportThread).example("\"/etc/namewire/key.pem\""),
        /// Directory in which self-signed certificates and their keys are stored, so that they survive a
        /// restart. The default is $STATE_DIRECTORY (set by systemd), otherwise /var/lib/namewire for root,
        /// otherwise $XDG_STATE_HOME/namewire or ~/.local/state/namewire. A missing directory is created and
        /// belongs to `privileges.user`. An existing directory must belong to that user already
        /// (`chown -R USER DIRECTORY`); otherwise nothing is stored, a warning is logged, and every
        /// start creates another certificate.
        state_directory: Option<PathBuf> = None => restart(WebTransportThread).example("\"/var/lib/namewire\""),
        /// Origins whose pages can connect, as in `[listeners.websocket]`.
        origins: Option<Vec<Origin>> = None => restart(WebTransportThread).example("[]"),
        /// Maximum number of accepted sessions at one time, which addresses share.
        sessions: usize = 4096 => restart(WebTransportThread).within(1..=SESSIONS_MAX),
        /// Time without a packet from the peer after which a session is closed. Keep-alive packets are sent
        /// three times in this time. It applies to sessions that this forwarder opens, too.
        idle_timeout: Duration = Duration::from_secs(15) =>
            restart(WebTransportThread).within(Duration::from_secs(5)..=Duration::from_secs(3600)),
    }
}

settings! {
    /// The UDP listener. UDP faces are never local, not even from loopback addresses.
    pub struct UdpListener {
        /// Whether the forwarder listens on UDP.
        enabled: bool = true => restart(UdpSockets),
        /// Local addresses to listen on, as in `[listeners.tcp]`.
        addresses: Vec<IpAddr> = every_address() => restart(UdpSockets).checked(not_empty),
        /// UDP port.
        port: u16 = NDN_PORT => restart(UdpSockets).within(1..=u16::MAX),
    }
}

settings! {
    /// UDP multicast faces: one for each network interface that supports multicast and each group whose
    /// IP version the interface has.
    pub struct Multicast {
        /// Whether there are multicast faces.
        enabled: bool = false => live(),
        /// Multicast groups with their ports. Without an IPv6 group there are no IPv6 multicast faces, and
        /// likewise for IPv4.
        groups: Vec<SocketAddr> = groups() => live().checked(check_groups),
        /// Link type of the faces: ad-hoc (true) if not all stations of a link receive each other's packets,
        /// as on a wireless link, otherwise multi-access.
        ad_hoc: bool = false => live(),
        /// Network interfaces with multicast faces.
        interfaces: Vec<InterfaceRule> = vec![InterfaceRule::Any] => live(),
        /// Network interfaces that `interfaces` matches, but that have no multicast faces.
        except: Vec<InterfaceRule> = Vec::new() => live(),
    }
}

fn every_address() -> Vec<IpAddr> {
    vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]
}

/// The groups of NFD.
fn groups() -> Vec<SocketAddr> {
    let ipv4 = Ipv4Addr::new(224, 0, 23, 170);
    let ipv6 = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x1234);
    vec![(ipv4, MULTICAST_PORT).into(), (ipv6, MULTICAST_PORT).into()]
}

#[expect(clippy::ptr_arg, reason = "a check takes a reference to the value of the setting")]
fn not_empty<T>(list: &Vec<T>) -> Result<(), String> {
    match list.is_empty() {
        true => Err("the list is empty; `enabled = false` turns a listener off".to_owned()),
        false => Ok(()),
    }
}

fn check_groups(groups: &Vec<SocketAddr>) -> Result<(), String> {
    match groups.iter().find(|group| !group.ip().is_multicast() || group.port() == 0) {
        Some(other) => Err(format!("{other} is not a multicast group")),
        None => not_empty(groups),
    }
}

/// The path of the Unix socket if the configuration has none: `/run/nfd/nfd.sock` for root, otherwise
/// `$XDG_RUNTIME_DIR/nfd/nfd.sock`, and `/run/nfd/nfd.sock` without that variable.
pub fn default_socket_path() -> PathBuf {
    let system = PathBuf::from(SYSTEM_SOCKET_PATH);
    if is_started_by_root() {
        return system;
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty()) {
        Some(directory) => Path::new(&directory).join("nfd").join("nfd.sock"),
        None => system,
    }
}

impl UnixListener {
    /// The path of the socket.
    #[must_use]
    pub fn path_or_default(&self) -> PathBuf {
        self.path.clone().unwrap_or_else(default_socket_path)
    }
}

impl Listeners {
    /// The path of the memif socket.
    #[must_use]
    pub fn memif_path(&self) -> PathBuf {
        let default = || self.unix.path_or_default().with_file_name("memif.sock");
        self.memif.path.clone().unwrap_or_else(default)
    }

    /// Whether any listener is enabled.
    pub(crate) fn any(&self) -> bool {
        self.unix.enabled
            || self.tcp.enabled
            || self.udp.enabled
            || self.websocket.enabled
            || self.memif.enabled
            || self.webtransport.enabled
            || self.ethernet.enabled
            || !self.dpdk.ports.is_empty()
    }
}

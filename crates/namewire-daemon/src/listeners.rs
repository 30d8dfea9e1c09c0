//! Listening sockets.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use ndn_sys::interface::{Interface, interfaces};
use ndn_sys::stream::Listener;
use ndn_sys::udp::{PeerSpread, UdpOptions, UdpSocket};
use ndn_types::FaceUri;

use super::addresses::named;
use super::directory::{self, Access, OwnFile};
use super::local_peers::{LocalPeers, PeerIdentity};
use super::websocket::Admission;
use super::webtransport;
use crate::config::{self, Config, FaceDefaults};
use crate::text::transport_uri;

/// Default socket paths of other client libraries (ndn-cxx, python-ndn, NDNts, ndn-js).
const WELL_KNOWN_SOCKETS: [&str; 2] = ["/run/nfd/nfd.sock", "/var/run/nfd/nfd.sock"];

/// A listening stream socket and the kind of its faces.
#[derive(Debug)]
pub(super) struct StreamListener {
    /// The socket.
    pub(super) socket: Listener,
    /// Its path or address.
    pub(super) local: Arc<LocalEnd>,
}

/// Local address of a stream listener.
#[derive(Debug, Clone)]
pub(super) enum LocalEnd {
    /// A Unix socket.
    Unix(PathBuf),
    /// A Unix socket for memif handshakes.
    Memif(PathBuf),
    /// A TCP address.
    Tcp {
        /// The address.
        address: SocketAddr,
        /// Which peers may use `/localhost`.
        local: Arc<LocalPeers>,
    },
    /// A TCP address for WebSocket connections.
    WebSocket {
        /// The address.
        address: SocketAddr,
        /// Which pages may connect and which are local.
        admission: Admission,
        /// Which peers may use `/localhost`.
        local: Arc<LocalPeers>,
    },
}

impl LocalEnd {
    /// Returns what the peer of a connection is. For a browser, the origin of the page matters too.
    pub(super) fn identify(
        &self,
        connection: BorrowedFd<'_>,
        peer: Option<SocketAddr>,
    ) -> PeerIdentity {
        match (self, peer) {
            (Self::Tcp { local, .. } | Self::WebSocket { local, .. }, Some(peer)) => {
                local.identify(connection, peer)
            }
            (Self::Tcp { .. } | Self::WebSocket { .. }, None) => PeerIdentity::unknown(),
            (Self::Unix(_) | Self::Memif(_), _) => PeerIdentity::application(connection),
        }
    }
}

/// Addresses at which this forwarder listens.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnAddresses {
    pub(super) tcp: Vec<SocketAddr>,
    pub(super) udp: Vec<SocketAddr>,
    /// Of WebTransport.
    pub(super) sessions: Vec<SocketAddr>,
}

impl OwnAddresses {
    /// Returns whether this forwarder listens at the address of a UDP, TCP or WebTransport URI.
    pub(super) fn include(&self, scheme: &str, address: SocketAddr) -> bool {
        let own = match scheme {
            "https" => &self.sessions,
            _ if scheme.starts_with("udp") => &self.udp,
            _ if scheme.starts_with("tcp") => &self.tcp,
            _ => return false,
        };
        let is_here = || {
            let ip = address.ip();
            let has_it = |one: &Interface| one.addresses.contains(&ip);
            ip.is_loopback() || interfaces().is_ok_and(|all| all.iter().any(has_it))
        };
        own.iter()
            .filter(|own| own.port() == address.port() && own.is_ipv4() == address.is_ipv4())
            .any(|own| own.ip() == address.ip() || own.ip().is_unspecified() && is_here())
    }
}

/// All listening sockets.
#[derive(Debug)]
pub(super) struct Listeners {
    /// Streams.
    pub(super) streams: Vec<StreamListener>,
    /// One set per worker.
    udp: Vec<Vec<(UdpSocket, bool)>>,
    /// Sockets for WebTransport; the service takes them.
    pub(super) webtransport: webtransport::Opened,
    /// Addresses of the sockets.
    pub(super) addresses: OwnAddresses,
    /// Which peers of TCP connections may use `/localhost`.
    pub(super) local_peers: Arc<LocalPeers>,
    /// Files and directories created for sockets.
    pub(super) own_files: Vec<OwnFile>,
}

impl Listeners {
    /// Opens the configured sockets. `spread` seeds the selection of the worker that receives from a UDP peer.
    pub(super) fn open(config: &Config, worker_count: usize, spread: u64) -> anyhow::Result<Self> {
        let Config { listeners: config, faces, bound_faces, .. } = config;
        let udp = (0..worker_count.max(1)).map(|_| Vec::new()).collect();
        let mut listeners = Self {
            streams: Vec::new(),
            udp,
            webtransport: webtransport::Opened::default(),
            addresses: OwnAddresses::default(),
            local_peers: Arc::new(LocalPeers::Nobody),
            own_files: Vec::new(),
        };
        if config.unix.enabled {
            let path = config.unix.path.clone().unwrap_or_else(config::default_socket_path);
            let made = make_directory(&path);
            let made =
                made.with_context(|| format!("no place for the Unix socket{}", advice(&path)));
            listeners.own_files.extend(made?);
            let socket = open_unix(&path, config.unix.mode.0)?;
            let own = socket.file_identity();
            let own = own.map(|identity| OwnFile { path: path.clone(), identity, opened: None });
            listeners.own_files.extend(own);
            let local = Arc::new(LocalEnd::Unix(path));
            listeners.streams.push(StreamListener { socket, local });
        }
        listeners.open_memif(config)?;
        // The directory of the Unix socket exists now.
        listeners.local_peers = Arc::new(LocalPeers::new(config, config.tcp.loopback_is_local)?);
        if config.tcp.enabled {
            let open = |address| Listener::tcp(address);
            for socket in open_all("TCP", &config.tcp.addresses, config.tcp.port, open)? {
                let address = socket.local_address()?;
                let local = Arc::clone(&listeners.local_peers);
                let local = Arc::new(LocalEnd::Tcp { address, local });
                listeners.addresses.tcp.push(address);
                listeners.streams.push(StreamListener { socket, local });
            }
        }
        if config.websocket.enabled {
            let (own, open) = (&config.websocket, |address| Listener::tcp(address));
            let peers = Arc::new(LocalPeers::new(config, own.loopback_is_local)?);
            for socket in open_all("WebSocket", &own.addresses, own.port, open)? {
                let address = socket.local_address()?;
                let admission = Admission {
                    origins: own.origins.clone(),
                    local_origins: own.local_origins.clone(),
                };
                let local = Arc::clone(&peers);
                let local = Arc::new(LocalEnd::WebSocket { address, admission, local });
                listeners.streams.push(StreamListener { socket, local });
            }
        }
        if config.udp.enabled {
            let shares = worker_count > 1 || !bound_faces.is_empty();
            let open =
                |address| open_shared_udp(address, faces, worker_count.max(1), shares, spread);
            for sockets in open_all("UDP", &config.udp.addresses, config.udp.port, open)? {
                listeners.addresses.udp.push(sockets[0].local_address()?);
                for (set, socket) in listeners.udp.iter_mut().zip(sockets) {
                    set.push((socket, true));
                }
            }
        }
        if config.webtransport.enabled {
            let own = &config.webtransport;
            let sockets =
                open_all("WebTransport", &own.addresses, own.port, ndn_webtransport::bind)?;
            let addresses = sockets.iter().map(std::net::UdpSocket::local_addr);
            listeners.addresses.sessions = addresses.collect::<io::Result<_>>()?;
            let identity = webtransport::identity(own)?;
            let kept_in =
                webtransport::kept_in(own, sockets.first()).filter(|_| identity.is_none());
            listeners
                .own_files
                .extend(kept_in.as_deref().and_then(webtransport::make_state_directory));
            listeners.webtransport = webtransport::Opened { sockets, identity, kept_in };
        }
        Ok(listeners)
    }

    fn open_memif(&mut self, config: &config::Listeners) -> anyhow::Result<()> {
        const ADVICE: &str = "choose another `path` in [listeners.memif]";
        if !config.memif.enabled {
            return Ok(());
        }
        let path = config.memif_path();
        let made = make_directory(&path);
        let made = made.with_context(|| format!("no place for the memif socket; {ADVICE}"));
        self.own_files.extend(made?);
        let socket = Listener::unix_messages(&path, config.memif.mode.0).map_err(|error| {
            let shown = path.display();
            if error.kind() == io::ErrorKind::AddrInUse {
                anyhow::anyhow!("another program listens on {shown}; stop it, or {ADVICE}")
            } else if error.kind() == io::ErrorKind::AlreadyExists {
                anyhow::anyhow!("{shown} exists and is not a socket; {ADVICE}")
            } else {
                anyhow::anyhow!("cannot listen on {shown} for memif: {error}; {ADVICE}")
            }
        })?;
        let own = socket.file_identity().map(|identity| OwnFile {
            path: path.clone(),
            identity,
            opened: None,
        });
        self.own_files.extend(own);
        let local = Arc::new(LocalEnd::Memif(absolute(&path)));
        self.streams.push(StreamListener { socket, local });
        Ok(())
    }

    /// The UDP sockets of all workers, until [`take_udp`](Self::take_udp).
    pub(super) fn udp(&self) -> impl Iterator<Item = &UdpSocket> {
        self.udp.iter().flatten().map(|(socket, _)| socket)
    }

    /// Moves the UDP sockets of each worker to the data plane.
    pub(super) fn take_udp(&mut self) -> Vec<Vec<(UdpSocket, bool)>> {
        std::mem::take(&mut self.udp)
    }

    /// Returns the listening addresses as text, with instructions for applications and operators. Web pages need the
    /// hashes of WebTransport's certificates.
    pub(super) fn announcement(&self, config: &Config, certificate_hashes: &[String]) -> String {
        let control = config.control_socket_path();
        let control = control.filter(|path| Some(path) != usual_control_socket(config).as_ref());
        let config = &config.listeners;
        let mut text = String::new();
        for line in self.local_uris() {
            let _ = writeln!(text, "listening on {}", transport_uri(&line));
        }
        if config.ethernet.enabled {
            let _ = writeln!(
                text,
                "Ethernet faces: on {} (`namewire status` lists those that exist)",
                config.ethernet.describe_interfaces()
            );
        }
        if text.is_empty() {
            text.push_str("listening on nothing: every listener is switched off\n");
        }
        let unix = self.streams.iter().find_map(|listener| match &*listener.local {
            LocalEnd::Unix(path) => Some(path),
            LocalEnd::Memif(_) | LocalEnd::Tcp { .. } | LocalEnd::WebSocket { .. } => None,
        });
        if let Some(path) = unix
            && !is_well_known(path)
        {
            let _ = writeln!(
                text,
                "applications find it with: export NDN_CLIENT_TRANSPORT=unix://{}",
                absolute(path).display()
            );
        } else if unix.is_none() && config.tcp.enabled {
            let _ = writeln!(
                text,
                "applications find it with: export NDN_CLIENT_TRANSPORT=tcp4://127.0.0.1:{}",
                config.tcp.port
            );
        }
        for hash in certificate_hashes {
            let port = config.webtransport.port;
            let _ = writeln!(
                text,
                "pages open WebTransport at https://HOST:{port}{} with the certificate hash sha256 {hash}",
                ndn_webtransport::PATH
            );
        }
        if let Some(path) = control {
            let _ = writeln!(
                text,
                "`namewire log`, `capture`, `workers` and such find it with: --control {}",
                absolute(&path).display()
            );
        }
        text
    }

    /// Local URIs of all listeners, for `faces/channels`.
    pub(super) fn local_uris(&self) -> Vec<String> {
        let streams = self.streams.iter().map(|listener| match &*listener.local {
            LocalEnd::Unix(path) => format!("unix://{}", path.display()),
            LocalEnd::Memif(path) => format!("memif://{}", path.display()),
            LocalEnd::Tcp { address, .. } => named(&FaceUri::tcp(*address)).to_string(),
            LocalEnd::WebSocket { address, .. } => named(&FaceUri::websocket(*address)).to_string(),
        });
        let OwnAddresses { udp, sessions, .. } = &self.addresses;
        let udp = udp.iter().map(|address| named(&FaceUri::udp(*address)).to_string());
        let sessions = sessions.iter();
        let sessions = sessions.map(|address| named(&FaceUri::quic(*address)).to_string());
        streams.chain(udp).chain(sessions).collect()
    }
}

/// Default path of the control socket for commands that only know the path of the application socket.
fn usual_control_socket(config: &Config) -> Option<PathBuf> {
    let mut usual = Config::default();
    usual.listeners.unix.path = config.socket_path();
    usual.control_socket_path()
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn is_well_known(path: &Path) -> bool {
    WELL_KNOWN_SOCKETS.iter().any(|known| Path::new(known) == path)
}

/// Creates the directory of a socket if it is missing; returns it if it was created.
fn make_directory(path: &Path) -> anyhow::Result<Option<OwnFile>> {
    directory::make_parent(path, Access::Enter)
}

fn open_unix(path: &Path, mode: u32) -> anyhow::Result<Listener> {
    let socket = Listener::unix(path, mode).map_err(|error| {
        let shown = path.display();
        if error.kind() == io::ErrorKind::AddrInUse {
            anyhow::anyhow!(
                "another forwarder listens on {shown}; stop it, or choose another path with --socket"
            )
        } else if error.kind() == io::ErrorKind::AlreadyExists {
            anyhow::anyhow!("{shown} exists and is not a socket")
        } else {
            anyhow::anyhow!("cannot listen on {shown}: {error}{}", advice(path))
        }
    })?;
    Ok(socket)
}

/// Advice for a Unix socket that cannot be opened.
fn advice(path: &Path) -> &'static str {
    let is_of_root = Path::new(config::SYSTEM_SOCKET_PATH) == path;
    match is_of_root && !rustix::process::geteuid().is_root() {
        true => {
            "; this is the socket of root's forwarder, used because XDG_RUNTIME_DIR is not set: set it \
             to a directory of yours, or choose a path with --socket"
        }
        false => "; choose another path with --socket",
    }
}

/// Opens one socket per address. If both address families are configured by default, an unsupported family is
/// skipped.
fn open_all<T>(
    kind: &str,
    addresses: &[IpAddr],
    port: u16,
    open: impl Fn(SocketAddr) -> io::Result<T>,
) -> anyhow::Result<Vec<T>> {
    let may_lack_one = addresses.len() > 1 && addresses.iter().all(IpAddr::is_unspecified);
    let mut sockets = Vec::new();
    for &address in addresses {
        let address = SocketAddr::new(address, port);
        match open(address) {
            Ok(socket) => sockets.push(socket),
            Err(error) if may_lack_one && lacks_family(&error) => {
                tracing::info!(%address, "{kind}: this kind of address is not available");
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && kind.starts_with("Web") => {
                bail!(
                    "{kind} port {port} is in use on {}; choose another in [listeners.{}]",
                    address.ip(),
                    kind.to_lowercase()
                )
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => bail!(
                "{kind} port {port} is in use on {}; choose another with --port, or switch {kind} \
                 off with --no-{}",
                address.ip(),
                kind.to_lowercase()
            ),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && port < 1024 => bail!(
                "cannot listen on {kind} {address}: ports below 1024 need root or the capability \
                 CAP_NET_BIND_SERVICE; the port of NDN is 6363 (--port 6363)"
            ),
            Err(error) => bail!("cannot listen on {kind} {address}: {error}"),
        }
    }
    if sockets.is_empty() && !addresses.is_empty() {
        bail!("no kind of address is available for {kind}");
    }
    Ok(sockets)
}

fn lacks_family(error: &io::Error) -> bool {
    const ADDRESS_FAMILY_NOT_SUPPORTED: i32 = 97;
    error.raw_os_error() == Some(ADDRESS_FAMILY_NOT_SUPPORTED)
        || error.kind() == io::ErrorKind::AddrNotAvailable
}

/// Opens a socket on `address` per worker; the kernel distributes peers over them.
///
/// The first socket is bound without port sharing, so that a port in use is detected: sockets that share a port may
/// belong to several programs of one user.
fn open_shared_udp(
    address: SocketAddr,
    faces: &FaceDefaults,
    count: usize,
    shares: bool,
    spread: u64,
) -> io::Result<Vec<UdpSocket>> {
    let options = udp_options(address, faces);
    if shares {
        drop(UdpSocket::new(&options)?);
    }
    let options = UdpOptions { reuse_port: shares, ..options };
    let sockets: Vec<UdpSocket> =
        (0..count).map(|_| UdpSocket::new(&options)).collect::<io::Result<_>>()?;
    if shares && let Err(error) = PeerSpread::new(spread, count).attach(&sockets) {
        tracing::debug!(%address, %error, "UDP peers are spread as the kernel does it by itself");
    }
    Ok(sockets)
}

pub(super) fn udp_options(address: SocketAddr, faces: &FaceDefaults) -> UdpOptions {
    let mut options = UdpOptions::bound_to(address);
    let size = |size: config::ByteSize| usize::try_from(size.0).unwrap_or(usize::MAX);
    if let Some(bytes) = faces.receive_buffer {
        options.receive_buffer = size(bytes);
    }
    if let Some(bytes) = faces.send_buffer {
        options.send_buffer = size(bytes);
    }
    options
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn own_addresses_are_recognized_in_every_form() {
        let mut own = OwnAddresses::default();
        let is_own = |own: &OwnAddresses, scheme, address: &str| {
            own.include(scheme, address.parse().unwrap())
        };
        assert!(!is_own(&own, "udp4", "127.0.0.1:6363"));
        own.udp = vec!["0.0.0.0:6363".parse().unwrap()];
        assert!(is_own(&own, "udp4", "127.0.0.1:6363"));
        assert!(is_own(&own, "udp4", "127.0.0.2:6363"));
        for other in ["127.0.0.1:6364", "192.0.2.1:6363", "[::1]:6363"] {
            assert!(!is_own(&own, "udp4", other), "{other}");
        }
        assert!(!is_own(&own, "tcp4", "127.0.0.1:6363"), "that is TCP");
        assert!(!is_own(&own, "https", "127.0.0.1:6363"), "that is WebTransport");
        own.sessions = vec!["0.0.0.0:6367".parse().unwrap()];
        assert!(is_own(&own, "https", "127.0.0.1:6367"));
        own.udp = vec!["192.0.2.7:6363".parse().unwrap()];
        assert!(is_own(&own, "udp4", "192.0.2.7:6363"));
        assert!(!is_own(&own, "udp4", "127.0.0.1:6363"));
    }
}

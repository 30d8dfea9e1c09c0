//! Stream listeners (Unix, memif, TCP and WebSocket), which a reload can open, close and change.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{anyhow, bail};
use ndn_sys::stream::{Listener, set_socket_mode};
use ndn_types::FaceUri;
use tracing::{error, info};

use super::addresses::named;
use super::directory::{self, Access, OwnFile};
use super::local_peers::{LocalPeers, PeerIdentity};
use super::websocket::Admission;
use crate::config;

/// A listening stream socket and the kind of its faces.
#[derive(Debug)]
pub(super) struct StreamListener {
    /// The socket.
    pub(super) socket: Listener,
    /// Its path or address.
    pub(super) local: Arc<LocalEnd>,
    /// Permission bits of its file.
    mode: Option<u32>,
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

    /// The URI, for `faces/channels`.
    pub(super) fn uri(&self) -> String {
        match self {
            Self::Unix(path) => format!("unix://{}", path.display()),
            Self::Memif(path) => format!("memif://{}", path.display()),
            Self::Tcp { address, .. } => named(&FaceUri::tcp(*address)).to_string(),
            Self::WebSocket { address, .. } => named(&FaceUri::websocket(*address)).to_string(),
        }
    }

    /// Whether both are of one kind and have one path or address.
    fn is_at(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unix(path), Self::Unix(other)) | (Self::Memif(path), Self::Memif(other)) => {
                path == other
            }
            (Self::Tcp { address, .. }, Self::Tcp { address: other, .. })
            | (Self::WebSocket { address, .. }, Self::WebSocket { address: other, .. }) => {
                address == other
            }
            (
                Self::Unix(_) | Self::Memif(_) | Self::Tcp { .. } | Self::WebSocket { .. },
                Self::Unix(_) | Self::Memif(_) | Self::Tcp { .. } | Self::WebSocket { .. },
            ) => false,
        }
    }

    const fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp { address, .. } | Self::WebSocket { address, .. } => Some(*address),
            Self::Unix(_) | Self::Memif(_) => None,
        }
    }
}

/// Whether the kernel refuses to bind a TCP socket to one address while another listens on the other.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port()
        && one.is_ipv4() == other.is_ipv4()
        && (is_any || one.ip() == other.ip())
}

/// A listener of a configuration. One that is open already has no socket here.
#[derive(Debug)]
struct RequestedListener {
    local: Arc<LocalEnd>,
    mode: Option<u32>,
    opened: Option<Listener>,
}

/// The open stream listeners.
#[derive(Debug)]
pub(super) struct Streams {
    /// By number. A number is not used again.
    listeners: BTreeMap<u64, StreamListener>,
    next_number: u64,
    /// Which peers of TCP connections may use `/localhost`.
    pub(super) local_peers: Arc<LocalPeers>,
}

/// A change of the listeners, whose sockets are open, and which is not in force.
#[derive(Debug)]
pub(super) struct StreamChange {
    requested: Vec<RequestedListener>,
    local_peers: Arc<LocalPeers>,
    /// Addresses of listeners that were closed because the new ones overlap with them.
    closed: Vec<Arc<LocalEnd>>,
}

impl Streams {
    /// Opens the configured listeners. Adds the files and directories that it creates to `own_files`.
    ///
    /// # Errors
    /// A socket cannot be opened; the error names the address or path and the setting.
    pub(super) fn open(
        config: &config::Listeners,
        own_files: &mut Vec<OwnFile>,
    ) -> anyhow::Result<Self> {
        let mut streams = Self {
            listeners: BTreeMap::new(),
            next_number: 0,
            local_peers: Arc::new(LocalPeers::Nobody),
        };
        let (requested, local_peers) = streams.open_requested(config, own_files, |_| false)?;
        streams.commit(StreamChange { requested, local_peers, closed: Vec::new() });
        Ok(streams)
    }

    /// The listeners with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &StreamListener)> {
        self.listeners.iter().map(|(number, listener)| (*number, listener))
    }

    pub(super) fn get(&self, number: u64) -> Option<&StreamListener> {
        self.listeners.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut StreamListener> {
        self.listeners.get_mut(&number)
    }

    /// Addresses of TCP listeners.
    pub(super) fn tcp_addresses(&self) -> Vec<SocketAddr> {
        let address = |listener: &StreamListener| match &*listener.local {
            LocalEnd::Tcp { address, .. } => Some(*address),
            LocalEnd::Unix(_) | LocalEnd::Memif(_) | LocalEnd::WebSocket { .. } => None,
        };
        self.listeners.values().filter_map(address).collect()
    }

    /// Opens the listeners of a configuration that are not open. Listeners on other addresses of the same port are closed
    /// before, as the kernel requires, unless they are configured.
    ///
    /// # Errors
    /// A socket cannot be opened; the listeners are as before.
    pub(super) fn prepare(&mut self, config: &config::Listeners) -> anyhow::Result<StreamChange> {
        let closed = self.close_overlapping(config);
        // Directories that the running forwarder creates belong to its user.
        match self.open_requested(config, &mut Vec::new(), |_| false) {
            Ok((requested, local_peers)) => Ok(StreamChange { requested, local_peers, closed }),
            Err(error) => {
                self.reopen(closed);
                Err(error)
            }
        }
    }

    /// Opens the listeners of a configuration that are not open, and closes them again. Nothing of this forwarder is closed.
    /// Addresses where a listener of this forwarder leaves are not opened: a further program there is found by the reload only.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub(super) fn check(&self, config: &config::Listeners) -> anyhow::Result<()> {
        let leaving = self.overlapping(config).into_iter();
        let leaving = leaving.filter_map(|number| self.get(number)?.local.tcp_address());
        let leaving: Vec<SocketAddr> = leaving.collect();
        let mut made = Vec::new();
        let is_leaving = |address| leaving.iter().any(|own| overlap(*own, address));
        let opened = self.open_requested(config, &mut made, is_leaving).map(drop);
        // The files of sockets are gone. A directory that holds anything stays.
        made.iter().for_each(|own: &OwnFile| drop(std::fs::remove_dir(&own.path)));
        opened
    }

    /// Abandons a change.
    pub(super) fn abandon(&mut self, change: StreamChange) {
        let StreamChange { requested, closed, .. } = change;
        drop(requested);
        self.reopen(closed);
    }

    /// Puts a change into force: closes the listeners that are not configured any more. Connections stay.
    pub(super) fn commit(&mut self, change: StreamChange) {
        let StreamChange { requested, local_peers, closed } = change;
        self.local_peers = local_peers;
        let is_requested =
            |local: &LocalEnd| requested.iter().any(|requested| requested.local.is_at(local));
        let gone = self.listeners.extract_if(.., |_, listener| !is_requested(&listener.local));
        let gone = gone.map(|(_, listener)| listener.local).chain(closed);
        gone.for_each(|local| info!("no longer listening on {}", local.uri()));
        for RequestedListener { local, mode, opened } in requested {
            match opened {
                Some(socket) => {
                    self.insert(StreamListener { socket, local, mode });
                }
                None => self.update(local, mode),
            }
        }
    }

    /// Gives a listener that stays the settings of the configuration.
    fn update(&mut self, local: Arc<LocalEnd>, mode: Option<u32>) {
        let mut open = self.listeners.values_mut();
        let Some(listener) = open.find(|listener| listener.local.is_at(&local)) else { return };
        if let (Some(path), Some(bits)) = (listener.socket.path(), mode)
            && listener.mode != mode
            && let Err(error) = set_socket_mode(path, bits)
        {
            error!(%error, path = %path.display(), "the permission bits of the socket stay");
        }
        (listener.local, listener.mode) = (local, mode);
    }

    fn insert(&mut self, listener: StreamListener) {
        self.listeners.insert(self.next_number, listener);
        self.next_number += 1;
    }

    fn is_open(&self, local: &LocalEnd) -> bool {
        self.listeners.values().any(|listener| listener.local.is_at(local))
    }

    /// The TCP and WebSocket listeners that are not configured, and in the way of configured ones.
    fn overlapping(&self, config: &config::Listeners) -> Vec<u64> {
        let nobody = Arc::new(LocalPeers::Nobody);
        let requested: Vec<LocalEnd> =
            tcp_ends(config, &nobody).chain(websocket_ends(config, &nobody)).collect();
        let added: Vec<_> = requested.iter().filter(|local| !self.is_open(local)).collect();
        let is_in_the_way = |listener: &StreamListener| {
            let is_added_there = |added: &&LocalEnd| {
                let addresses = added.tcp_address().zip(listener.local.tcp_address());
                addresses.is_some_and(|(one, other)| overlap(one, other))
            };
            !requested.iter().any(|requested| requested.is_at(&listener.local))
                && added.iter().any(is_added_there)
        };
        let open = self.listeners.iter().filter(|(_, listener)| is_in_the_way(listener));
        open.map(|(number, _)| *number).collect()
    }

    fn close_overlapping(&mut self, config: &config::Listeners) -> Vec<Arc<LocalEnd>> {
        let closed = self.overlapping(config).into_iter();
        let closed = closed.filter_map(|number| self.listeners.remove(&number));
        closed.map(|listener| listener.local).collect()
    }

    fn reopen(&mut self, closed: Vec<Arc<LocalEnd>>) {
        for local in closed {
            let Some(address) = local.tcp_address() else { continue };
            match Listener::tcp(address) {
                Ok(socket) => self.insert(StreamListener { socket, local, mode: None }),
                Err(error) => error!(%error, "no longer listening on {}", local.uri()),
            }
        }
    }

    /// The listeners of a configuration, with the sockets of those that are not open. TCP addresses that `is_passed_over`
    /// are not opened.
    fn open_requested(
        &self,
        config: &config::Listeners,
        own_files: &mut Vec<OwnFile>,
        is_passed_over: impl Fn(SocketAddr) -> bool,
    ) -> anyhow::Result<(Vec<RequestedListener>, Arc<LocalPeers>)> {
        let mut requested = Vec::new();
        if config.unix.enabled {
            let path = config.unix.path_or_default();
            let (local, mode) = (LocalEnd::Unix(path.clone()), config.unix.mode.0);
            let open = |own_files: &mut Vec<OwnFile>| {
                let made = directory::make_parent(&path, Access::Enter);
                let made = made.map_err(|error| {
                    anyhow!("no place for the Unix socket: {error:#}{}", advice(&path))
                })?;
                own_files.extend(made);
                open_unix(&path, mode)
            };
            requested.push(self.open_file(local, mode, own_files, open)?);
        }
        if config.memif.enabled {
            let path = config.memif_path();
            let (local, mode) = (LocalEnd::Memif(absolute(&path)), config.memif.mode.0);
            let open = |own_files: &mut Vec<OwnFile>| open_memif(&path, mode, own_files);
            requested.push(self.open_file(local, mode, own_files, open)?);
        }
        // The directory of the Unix socket exists now.
        let peers = |is_local: bool| LocalPeers::new(config, is_local).map(Arc::new);
        let local_peers = peers(config.tcp.loopback_is_local)?;
        requested.extend(self.open_tcp("TCP", tcp_ends(config, &local_peers), &is_passed_over)?);
        if config.websocket.enabled {
            let peers = peers(config.websocket.loopback_is_local)?;
            let ends = websocket_ends(config, &peers);
            requested.extend(self.open_tcp("WebSocket", ends, &is_passed_over)?);
        }
        Ok((requested, local_peers))
    }

    /// A listener with a file. `open` adds the directory that it creates to `own_files`, even if it fails afterwards.
    fn open_file(
        &self,
        local: LocalEnd,
        mode: u32,
        own_files: &mut Vec<OwnFile>,
        open: impl FnOnce(&mut Vec<OwnFile>) -> anyhow::Result<Listener>,
    ) -> anyhow::Result<RequestedListener> {
        let opened = match self.is_open(&local) {
            true => None,
            false => {
                let socket = open(own_files)?;
                let path = socket.path().map(Path::to_owned);
                let file = path.zip(socket.file_identity());
                own_files.extend(file.map(|(path, identity)| OwnFile {
                    path,
                    identity,
                    opened: None,
                }));
                Some(socket)
            }
        };
        Ok(RequestedListener { local: Arc::new(local), mode: Some(mode), opened })
    }

    /// The listeners of TCP or WebSocket.
    fn open_tcp(
        &self,
        kind: &str,
        ends: impl Iterator<Item = LocalEnd>,
        is_passed_over: impl Fn(SocketAddr) -> bool,
    ) -> anyhow::Result<Vec<RequestedListener>> {
        let ends: Vec<LocalEnd> = ends.collect();
        let addresses: Vec<IpAddr> =
            ends.iter().filter_map(LocalEnd::tcp_address).map(|address| address.ip()).collect();
        let port = ends.iter().find_map(LocalEnd::tcp_address).map_or(0, |address| address.port());
        let open = |address: SocketAddr| {
            let end = ends.iter().find(|end| end.tcp_address() == Some(address));
            match end.is_some_and(|end| self.is_open(end)) || is_passed_over(address) {
                true => Ok((address, None)),
                false => Listener::tcp(address).map(|socket| (address, Some(socket))),
            }
        };
        let opened = open_all(kind, &addresses, port, open)?;
        let requested = opened.into_iter().filter_map(|(address, opened)| {
            let mut end = ends.iter().find(|end| end.tcp_address() == Some(address))?.clone();
            if let (
                LocalEnd::Tcp { address, .. } | LocalEnd::WebSocket { address, .. },
                Some(own),
            ) = (&mut end, &opened)
            {
                *address = own.local_address().ok()?;
            }
            Some(RequestedListener { local: Arc::new(end), mode: None, opened })
        });
        Ok(requested.collect())
    }
}

/// The configured ends of the TCP listener.
fn tcp_ends(config: &config::Listeners, local: &Arc<LocalPeers>) -> impl Iterator<Item = LocalEnd> {
    let own = &config.tcp;
    let addresses = own.addresses.iter().filter(|_| own.enabled);
    addresses.map(|address| LocalEnd::Tcp {
        address: SocketAddr::new(*address, own.port),
        local: Arc::clone(local),
    })
}

/// The configured ends of the WebSocket listener.
fn websocket_ends(
    config: &config::Listeners,
    local: &Arc<LocalPeers>,
) -> impl Iterator<Item = LocalEnd> {
    let own = &config.websocket;
    let addresses = own.addresses.iter().filter(|_| own.enabled);
    addresses.map(|address| LocalEnd::WebSocket {
        address: SocketAddr::new(*address, own.port),
        admission: Admission {
            origins: own.origins.clone(),
            local_origins: own.local_origins.clone(),
        },
        local: Arc::clone(local),
    })
}

fn open_memif(path: &Path, mode: u32, own_files: &mut Vec<OwnFile>) -> anyhow::Result<Listener> {
    const ADVICE: &str = "choose another `path` in [listeners.memif]";
    let made = directory::make_parent(path, Access::Enter);
    own_files.extend(
        made.map_err(|error| anyhow!("no place for the memif socket: {error:#}; {ADVICE}"))?,
    );
    Listener::unix_messages(path, mode).map_err(|error| {
        let shown = path.display();
        if error.kind() == io::ErrorKind::AddrInUse {
            anyhow!("another program listens on {shown}; stop it, or {ADVICE}")
        } else if error.kind() == io::ErrorKind::AlreadyExists {
            anyhow!("{shown} exists and is not a socket; {ADVICE}")
        } else {
            anyhow!("cannot listen on {shown} for memif: {error}; {ADVICE}")
        }
    })
}

pub(super) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
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
fn advice(path: &Path) -> String {
    let (is_default, user) = (config::default_socket_path() == path, rustix::process::geteuid());
    match is_default && Path::new(config::SYSTEM_SOCKET_PATH) == path && !user.is_root() {
        true => {
            let directory = PathBuf::from(format!("/run/user/{}", user.as_raw()));
            advice_without_directory(&directory, user.as_raw())
        }
        false => "; choose another path with --socket".to_owned(),
    }
}

/// Advice for a user without XDG_RUNTIME_DIR, whose usual directory of sockets may not exist.
fn advice_without_directory(usual: &Path, user: u32) -> String {
    let is_there =
        std::fs::metadata(usual).is_ok_and(|found| found.is_dir() && found.uid() == user);
    let usual = usual.display();
    let other = "use --socket PATH, below a directory of yours, and `export NDN_CLIENT_TRANSPORT=unix://PATH`";
    match is_there {
        true => format!(
            "; XDG_RUNTIME_DIR is not set: run `export XDG_RUNTIME_DIR={usual}`, or {other}"
        ),
        false => format!("; XDG_RUNTIME_DIR is not set, and there is no {usual}: {other}"),
    }
}

/// Opens one socket per address. If both address families are configured by default, an unsupported family is
/// skipped.
pub(super) fn open_all<T>(
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
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && port < 1024 => {
                let advice = match kind.starts_with("Web") {
                    true => format!("choose another in [listeners.{}]", kind.to_lowercase()),
                    false => "the port of NDN is 6363 (--port 6363)".to_owned(),
                };
                bail!(
                    "cannot listen on {kind} {address}: ports below 1024 need root or the capability \
                     CAP_NET_BIND_SERVICE; {advice}"
                )
            }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn advice_names_a_directory_of_sockets_only_if_the_user_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().as_raw();
        let advice = |path: &Path, user| advice_without_directory(path, user);
        let export = format!("`export XDG_RUNTIME_DIR={}`", directory.path().display());
        assert!(advice(directory.path(), user).contains(&export));
        for (path, user) in [(directory.path(), user + 1), (&directory.path().join("none"), user)] {
            let advice = advice(path, user);
            assert!(!advice.contains("export XDG_RUNTIME_DIR"), "{advice}");
            assert!(advice.contains("use --socket PATH, below a directory of yours"), "{advice}");
        }
    }
}

//! Listening sockets.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ndn_sys::interface::{Interface, interfaces};
use ndn_sys::udp::{PeerSpread, UdpOptions, UdpSocket};
use ndn_types::FaceUri;

use super::addresses::named;
use super::directory::OwnFile;
use super::streams::{LocalEnd, Streams, absolute, open_all};
use super::webtransport;
use crate::config::text::transport_uri;
use crate::config::{self, Config, FaceDefaults};

/// Default socket paths of other client libraries (ndn-cxx, python-ndn, NDNts, ndn-js).
const WELL_KNOWN_SOCKETS: [&str; 2] = ["/run/nfd/nfd.sock", "/var/run/nfd/nfd.sock"];

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
    pub(super) streams: Streams,
    /// One set per worker.
    udp: Vec<Vec<(UdpSocket, bool)>>,
    /// Sockets for WebTransport; the service takes them.
    pub(super) webtransport: webtransport::Opened,
    /// Addresses of the sockets.
    pub(super) addresses: OwnAddresses,
    /// Files and directories created for sockets.
    pub(super) own_files: Vec<OwnFile>,
}

impl Listeners {
    /// Opens the configured sockets. `spread` seeds the selection of the worker that receives from a UDP peer.
    pub(super) fn open(config: &Config, worker_count: usize, spread: u64) -> anyhow::Result<Self> {
        let Config { listeners: config, faces, bound_faces, .. } = config;
        let mut own_files = Vec::new();
        let streams = Streams::open(config, &mut own_files)?;
        let addresses = OwnAddresses { tcp: streams.tcp_addresses(), ..OwnAddresses::default() };
        let mut listeners = Self {
            streams,
            udp: (0..worker_count.max(1)).map(|_| Vec::new()).collect(),
            webtransport: webtransport::Opened::default(),
            addresses,
            own_files,
        };
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
        let unix = self.streams.iter().find_map(|(_, listener)| match &*listener.local {
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
        let streams = self.streams.iter().map(|(_, listener)| listener.local.uri());
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

fn is_well_known(path: &Path) -> bool {
    WELL_KNOWN_SOCKETS.iter().any(|known| Path::new(known) == path)
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

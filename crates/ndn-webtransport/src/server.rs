//! The listener: handshakes, who may connect, sessions.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use wtransport::endpoint::{IncomingSessionFuture, SessionRequest};
use wtransport::quinn::{self, Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime};

use crate::certificate::Identity;
use crate::counters::Counters;
use crate::path::PathMtu;
use crate::session::{Session, Timeouts, transport_config};

/// The path that clients ask for, as with other forwarders.
pub const PATH: &str = "/ndn";
/// Handshakes under way at one time.
const HANDSHAKES_MAX: usize = 256;
/// And of one peer that is not this host.
const HANDSHAKES_PER_PEER_MAX: usize = 16;
/// Handshakes beyond which peers must prove their address.
const UNPROVEN_MAX: usize = 32;
/// Timeout of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Receive buffer of the socket, as far as the system allows.
const SOCKET_BUFFER: usize = 4 * 1024 * 1024;

/// Says whether a page of this origin, or a client that names none, may connect.
pub type Admits = Box<dyn Fn(Option<&str>) -> bool + Send + Sync>;

/// Who may connect, and how many.
pub struct Rules {
    /// Sessions and handshakes at one time.
    pub sessions_max: usize,
    /// Idle timeout of a peer.
    pub idle_timeout: Duration,
    /// Whether a page of this origin, or a client that names none, may connect.
    pub admits: Admits,
}

impl fmt::Debug for Rules {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sessions_max, idle_timeout, admits: _ } = self;
        let mut shown = formatter.debug_struct("Rules");
        shown.field("sessions_max", sessions_max).field("idle_timeout", idle_timeout);
        shown.finish_non_exhaustive()
    }
}

/// A session that somebody has opened.
#[derive(Debug)]
pub struct Accepted {
    /// A connected, non-blocking stream; frames go by it one behind the other, each of at most `mtu`
    /// bytes. The session ends with it, and it with the session.
    pub stream: OwnedFd,
    /// The peer.
    pub remote: SocketAddr,
    /// The own address that it has connected to.
    pub local: SocketAddr,
    /// Longest frame.
    pub mtu: PathMtu,
    /// Origin of the page that opened it, if the peer is a browser.
    pub origin: Option<String>,
}

/// State shared by all tasks of the listeners.
pub(crate) struct Server {
    rules: Rules,
    pub(crate) counters: Arc<Counters>,
    places: Arc<Mutex<Places>>,
    timeouts: Timeouts,
    on_accepted: Box<dyn Fn(Accepted) + Send + Sync>,
}

/// Current sessions.
#[derive(Debug, Default)]
struct Places {
    taken: usize,
    handshakes: usize,
    handshakes_of: HashMap<IpAddr, usize>,
}

/// A socket to listen on. One for IPv6 takes IPv6 only.
///
/// # Errors
/// Those of the system.
pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // As much as the kernel allows: sessions share it.
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

impl Server {
    pub(crate) fn new(
        rules: Rules,
        counters: Arc<Counters>,
        timeouts: Timeouts,
        on_accepted: Box<dyn Fn(Accepted) + Send + Sync>,
    ) -> Self {
        Self { rules, counters, places: Arc::default(), timeouts, on_accepted }
    }

    /// The configuration of connections with this certificate.
    pub(crate) fn config(&self, identity: &Identity) -> io::Result<ServerConfig> {
        let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(identity.config().clone());
        let crypto = crypto.map_err(io::Error::other)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::new(transport_config(self.rules.idle_timeout)));
        config.max_incoming(HANDSHAKES_MAX);
        Ok(config)
    }

    /// An endpoint on this socket; a runtime has to be entered.
    pub(crate) fn endpoint(socket: UdpSocket, config: ServerConfig) -> io::Result<Endpoint> {
        let runtime = Arc::new(TokioRuntime);
        Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime)
    }

    /// Takes connections until the endpoint is closed.
    pub(crate) async fn listen(self: Arc<Self>, endpoint: Endpoint) {
        while let Some(incoming) = endpoint.accept().await {
            let peer = incoming.remote_address();
            let Some(place) = Place::take(&self.places, self.rules.sessions_max, peer.ip()) else {
                self.counters.refused_full.increment();
                incoming.refuse();
                continue;
            };
            if place.is_crowded() && !incoming.remote_address_validated() && incoming.may_retry() {
                self.counters.retried.increment();
                let _ = incoming.retry();
                continue;
            }
            let bound = endpoint.local_addr().unwrap_or(peer);
            tokio::spawn(Arc::clone(&self).serve(incoming, bound, place));
        }
    }

    async fn serve(self: Arc<Self>, incoming: Incoming, bound: SocketAddr, mut place: Place) {
        let peer = incoming.remote_address();
        let local = SocketAddr::new(incoming.local_ip().unwrap_or(bound.ip()), bound.port());
        let greeted = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.greet(incoming, local)).await;
        place.end_handshake();
        let (session, origin) = match greeted {
            Ok(Ok(greeted)) => greeted,
            Ok(Err(reason)) => {
                tracing::debug!(%peer, reason, "no WebTransport session");
                return;
            }
            Err(_) => {
                self.counters.failed.increment();
                tracing::debug!(%peer, "a WebTransport handshake takes too long");
                return;
            }
        };
        let (near, far) = match stream_pair() {
            Ok(pair) => pair,
            Err(error) => {
                self.counters.failed.increment();
                tracing::warn!(%error, "a WebTransport session was closed");
                return;
            }
        };
        self.counters.accepted.increment();
        let (remote, mtu) = (session.remote, session.mtu.clone());
        (self.on_accepted)(Accepted { stream: far, remote, local, mtu, origin });
        let (reader, writer) = near.into_split();
        let end = session.carry(reader, writer, &self.counters, self.timeouts).await;
        self.counters.ended.increment();
        tracing::debug!(%peer, %end, "a WebTransport session has ended");
    }

    /// Waits for the request of a connection, and answers it.
    async fn greet(
        &self,
        incoming: Incoming,
        local: SocketAddr,
    ) -> Result<(Session, Option<String>), String> {
        let request = IncomingSessionFuture::with_quic_incoming(incoming).await;
        let request = request.map_err(|error| {
            self.counters.failed.increment();
            error.to_string()
        })?;
        if request.path().split('?').next() != Some(PATH) {
            self.counters.refused_path.increment();
            let reason = format!("it asks for {:?}", request.path());
            request.not_found().await;
            return Err(reason);
        }
        let origin = request.origin().map(str::to_owned);
        if !(self.rules.admits)(origin.as_deref()) {
            self.counters.refused_origin.increment();
            request.forbidden().await;
            return Err(format!("pages of {origin:?} may not connect"));
        }
        self.accept(request, local).await.map(|session| (session, origin))
    }

    async fn accept(&self, request: SessionRequest, local: SocketAddr) -> Result<Session, String> {
        let connection = request.accept().await.map_err(|error| {
            self.counters.failed.increment();
            error.to_string()
        })?;
        Session::new(connection, local).map_err(|_connection| {
            self.counters.refused_datagrams.increment();
            "the peer takes no datagrams that are long enough".to_owned()
        })
    }
}

/// Two ends of a stream: one for a task, one for the face.
pub(crate) fn stream_pair() -> io::Result<(tokio::net::UnixStream, OwnedFd)> {
    let (near, far) = ndn_sys::stream::unix_pair()?;
    let near = std::os::unix::net::UnixStream::from(near);
    near.set_nonblocking(true)?;
    Ok((tokio::net::UnixStream::from_std(near)?, far))
}

/// One of the places for connections. It is free again when this is dropped.
#[derive(Debug)]
struct Place {
    places: Arc<Mutex<Places>>,
    peer: IpAddr,
    shakes_hands: bool,
}

impl Place {
    fn take(places: &Arc<Mutex<Places>>, sessions_max: usize, peer: IpAddr) -> Option<Self> {
        let peer = peer_key(peer);
        let mut all = places.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = all.handshakes_of.get(&peer).copied().unwrap_or(0);
        let is_free = all.taken < sessions_max
            && all.handshakes < HANDSHAKES_MAX
            && (of_peer < HANDSHAKES_PER_PEER_MAX || peer.is_loopback());
        if !is_free {
            return None;
        }
        all.taken += 1;
        all.handshakes += 1;
        all.handshakes_of.insert(peer, of_peer + 1);
        Some(Self { places: Arc::clone(places), peer, shakes_hands: true })
    }

    fn is_crowded(&self) -> bool {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).handshakes > UNPROVEN_MAX
    }

    fn end_handshake(&mut self) {
        if !std::mem::take(&mut self.shakes_hands) {
            return;
        }
        let mut all = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        all.handshakes -= 1;
        if let Some(of_peer) = all.handshakes_of.get_mut(&self.peer) {
            *of_peer -= 1;
            if *of_peer == 0 {
                all.handshakes_of.remove(&self.peer);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.end_handshake();
        self.places.lock().unwrap_or_else(PoisonError::into_inner).taken -= 1;
    }
}

/// The key by which connections count as those of one peer: an IPv4 address, or a /64 of IPv6.
fn peer_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64))
        }
        other @ (IpAddr::V4(_) | IpAddr::V6(_)) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_of_an_ended_session_is_free_again() {
        let places = Arc::default();
        let peer = |n: u32| IpAddr::from((0x0a00_0000 + n).to_be_bytes());
        let mut taken: Vec<Place> = (0..HANDSHAKES_PER_PEER_MAX)
            .map(|_| Place::take(&places, 100, peer(1)).unwrap())
            .collect();
        assert!(Place::take(&places, 100, peer(1)).is_none());
        taken.extend((2..=85).map(|n| Place::take(&places, 100, peer(n)).unwrap()));
        assert!(Place::take(&places, 100, peer(90)).is_none(), "all are taken");
        assert!(taken[0].is_crowded());
        taken[0].end_handshake();
        taken[0].end_handshake();
        assert!(Place::take(&places, 100, peer(1)).is_none(), "a session has its place, too");
        taken.pop();
        let again = Place::take(&places, 100, peer(1)).unwrap();
        taken.clear();
        drop(again);
        let places = places.lock().unwrap();
        assert_eq!((places.taken, places.handshakes, places.handshakes_of.len()), (0, 0, 0));
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one_peer() {
        let places = Arc::default();
        let address = |n: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, n, 0, 0, 1]);
        let taken: Vec<_> = (0..16).map(|n| Place::take(&places, 100, address(n))).collect();
        assert!(taken.iter().all(Option::is_some));
        assert!(Place::take(&places, 100, address(99)).is_none());
        let loopback = IpAddr::V6(Ipv6Addr::LOCALHOST);
        let taken: Vec<_> = (0..50).map(|_| Place::take(&places, 100, loopback)).collect();
        assert!(taken.iter().all(Option::is_some), "this host is not limited");
    }
}

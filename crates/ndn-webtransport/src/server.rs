//! The listener: handshakes, who may connect, sessions.

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ndn_types::{LedgerReport, NoRoom, PrincipalKey, Reserves, SharedPlaces};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::Notify;
use wtransport::endpoint::{IncomingSessionFuture, SessionRequest};
use wtransport::quinn::{self, Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime};

use crate::PATH;
use crate::certificate::Identity;
use crate::counters::Counters;
use crate::path::PathMtu;
use crate::session::{Session, Timeouts, transport_config};

/// Handshakes under way at one time, which peers share.
const HANDSHAKES_MAX: usize = 256;
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
    /// Sessions at one time, which peers share.
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

ndn_types::resource! {
    /// Handshakes, which peers share.
    pub struct HandshakePlaces = "webtransport_handshakes";
}

ndn_types::resource! {
    /// Accepted sessions, which peers share.
    pub struct SessionPlaces = "webtransport_sessions";
}

/// Current handshakes and sessions; each ends when it is notified. A peer is charged by its address, as its face.
#[derive(Debug)]
pub(crate) struct Places {
    handshakes: SharedPlaces<HandshakePlaces, Arc<Notify>>,
    sessions: SharedPlaces<SessionPlaces, Arc<Notify>>,
    last_number: u64,
}

impl Places {
    /// Room for this number of sessions.
    pub(crate) fn new(sessions_max: usize) -> Arc<Mutex<Self>> {
        // All peers are remote: nobody needs a reserve.
        let handshakes = SharedPlaces::new(HANDSHAKES_MAX, Reserves::NONE);
        let sessions = SharedPlaces::new(sessions_max, Reserves::NONE);
        Arc::new(Mutex::new(Self { handshakes, sessions, last_number: 0 }))
    }

    /// The handshakes and sessions that peers hold.
    pub(crate) fn reports(&self) -> (LedgerReport<1>, LedgerReport<1>) {
        (self.handshakes.report(), self.sessions.report())
    }
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
        let places = Places::new(rules.sessions_max);
        Self { rules, counters, places, timeouts, on_accepted }
    }

    /// The handshakes and sessions.
    pub(crate) fn places(&self) -> &Arc<Mutex<Places>> {
        &self.places
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
            // Before it takes the place of another, a peer proves its address.
            if lock(&self.places).handshakes.len() >= UNPROVEN_MAX
                && !incoming.remote_address_validated()
                && incoming.may_retry()
            {
                self.counters.retried.increment();
                let _ = incoming.retry();
                continue;
            }
            let Ok(place) = Place::take_handshake(&self.places, PrincipalKey::remote(peer)) else {
                self.counters.refused_full.increment();
                incoming.refuse();
                continue;
            };
            let bound = endpoint.local_addr().unwrap_or(peer);
            tokio::spawn(Arc::clone(&self).serve(incoming, bound, place));
        }
    }

    async fn serve(self: Arc<Self>, incoming: Incoming, bound: SocketAddr, place: Place) {
        let peer = incoming.remote_address();
        let local = SocketAddr::new(incoming.local_ip().unwrap_or(bound.ip()), bound.port());
        let greeting = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.greet(incoming, local));
        let greeted = tokio::select! {
            greeted = greeting => greeted,
            () = place.end.notified() => {
                self.counters.refused_full.increment();
                tracing::debug!(%peer, "a WebTransport handshake ended: another peer has fewer");
                return;
            }
        };
        drop(place);
        let Greeted { session, origin, place } = match greeted {
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
        let carrying = session.carry(reader, writer, &self.counters, self.timeouts);
        tokio::select! {
            end = carrying => tracing::debug!(%peer, %end, "a WebTransport session has ended"),
            () = place.end.notified() => {
                tracing::debug!(%peer, "a WebTransport session ended: another peer has fewer");
            }
        }
        drop(place);
        self.counters.ended.increment();
    }

    /// Waits for the request of a connection, and answers it.
    async fn greet(&self, incoming: Incoming, local: SocketAddr) -> Result<Greeted, String> {
        let peer = PrincipalKey::remote(incoming.remote_address());
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
        let Ok(place) = Place::take_session(&self.places, peer) else {
            self.counters.refused_full.increment();
            request.too_many_requests().await;
            return Err("the peer has its share of the sessions".to_owned());
        };
        let session = self.accept(request, local).await?;
        Ok(Greeted { session, origin, place })
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

/// A session that is accepted.
struct Greeted {
    session: Session,
    /// Origin of the page that opened it.
    origin: Option<String>,
    place: Place,
}

/// Two ends of a stream: one for a task, one for the face.
pub(crate) fn stream_pair() -> io::Result<(tokio::net::UnixStream, OwnedFd)> {
    let (near, far) = ndn_sys::stream::unix_pair()?;
    let near = std::os::unix::net::UnixStream::from(near);
    near.set_nonblocking(true)?;
    Ok((tokio::net::UnixStream::from_std(near)?, far))
}

/// The place of a handshake or a session. It is free again when this is dropped.
#[derive(Debug)]
struct Place {
    places: Arc<Mutex<Places>>,
    number: u64,
    is_session: bool,
    /// Notified when a peer with fewer needs the place.
    end: Arc<Notify>,
}

impl Place {
    fn take_handshake(places: &Arc<Mutex<Places>>, peer: PrincipalKey) -> Result<Self, NoRoom> {
        Self::take(places, peer, false)
    }

    fn take_session(places: &Arc<Mutex<Places>>, peer: PrincipalKey) -> Result<Self, NoRoom> {
        Self::take(places, peer, true)
    }

    fn take(
        places: &Arc<Mutex<Places>>,
        peer: PrincipalKey,
        is_session: bool,
    ) -> Result<Self, NoRoom> {
        let end = Arc::new(Notify::new());
        let mut all = lock(places);
        all.last_number += 1;
        let number = all.last_number;
        let displaced = if is_session {
            let displaced = all.sessions.make_room(peer)?;
            all.sessions.insert(number, peer, Arc::clone(&end));
            displaced
        } else {
            let displaced = all.handshakes.make_room(peer)?;
            all.handshakes.insert(number, peer, Arc::clone(&end));
            displaced
        };
        displaced.inspect(|displaced| displaced.notify_one());
        Ok(Self { places: Arc::clone(places), number, is_session, end })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = lock(&self.places);
        // It was removed already if another peer took it.
        if self.is_session {
            all.sessions.remove(self.number);
        } else {
            all.handshakes.remove(self.number);
        }
    }
}

/// Locks the places. No code panics while it holds the lock.
fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> PrincipalKey {
        PrincipalKey::remote(([192, 0, 2, last], 6367).into())
    }

    fn is_ended(place: &Place) -> bool {
        let places = lock(&place.places);
        let is_own = |end: &Arc<Notify>| Arc::ptr_eq(end, &place.end);
        !if place.is_session {
            places.sessions.values().any(is_own)
        } else {
            places.handshakes.values().any(is_own)
        }
    }

    #[test]
    fn sessions_and_handshakes_of_few_peers_leave_some_to_others() {
        for take in [Place::take_handshake, Place::take_session] {
            let places = Places::new(HANDSHAKES_MAX);
            let few: Vec<Place> = (0..75)
                .flat_map(|_| 0..4)
                .filter_map(|last| take(&places, peer(last)).ok())
                .collect();
            assert_eq!(few.len(), HANDSHAKES_MAX);
            assert!(take(&places, peer(0)).is_err(), "it has its share");
            let other: Vec<Place> = (0..51).map(|_| take(&places, peer(9)).unwrap()).collect();
            assert!(take(&places, peer(9)).is_err());
            assert_eq!(few.iter().filter(|place| is_ended(place)).count(), 51);
            assert!(is_ended(&few[0]) && !is_ended(&few[255]), "the oldest give way");
            assert!(!other.iter().any(is_ended));
            drop((few, other));
            let (handshakes, sessions) = lock(&places).reports();
            assert!(handshakes.is_zero() && sessions.is_zero());
        }
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let places = Places::new(8);
        let take = |n: u16| {
            let address = std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 1, n, 0, 0, 1);
            Place::take_session(&places, PrincipalKey::remote((address, 6367).into()))
        };
        let taken: Vec<_> = (0..8).map(take).collect();
        assert!(taken.iter().all(Result::is_ok));
        assert!(take(99).is_err());
        assert!(Place::take_session(&places, peer(1)).is_ok());
    }
}

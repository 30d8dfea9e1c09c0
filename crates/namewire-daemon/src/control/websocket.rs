//! WebSocket handshakes.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ndn_sys::poll::Interest;
use ndn_types::{LedgerReport, Reserves, SharedPlaces, Timestamp};
use tracing::{debug, warn};

use super::commands::FaceCommands;
use super::service::{Cx, Deadline, Event, Reason, Service, ServiceName};
use super::tokens::{TOKEN_HANDSHAKES, TOKEN_MEMIF};
use crate::local_peers::PeerIdentity;
use crate::streams::LocalEnd;
use crate::websocket::{Client, Handshake, HandshakeProgress, Handshakes};

/// Maximum concurrent handshakes, which principals share.
const HANDSHAKES_MAX: usize = 256;
/// Handshake timeout.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection during its handshake.
#[derive(Debug)]
struct PendingHandshake {
    handshake: Handshake,
    peer: Option<SocketAddr>,
    /// Identity of the peer, unless a page of another origin connects.
    identity: PeerIdentity,
    /// The listener that accepted it.
    local: Arc<LocalEnd>,
    deadline: Timestamp,
}

/// Connections during the handshake.
#[derive(Debug)]
pub(super) struct WebSocketHandshakes {
    /// By token.
    pending: SharedPlaces<Handshakes, PendingHandshake>,
    next_token: u64,
}

impl WebSocketHandshakes {
    pub(super) fn new(reserves: Reserves) -> Self {
        let pending = SharedPlaces::new(HANDSHAKES_MAX, reserves);
        Self { pending, next_token: TOKEN_HANDSHAKES }
    }

    /// Handshakes that principals hold.
    pub(super) fn report(&self) -> LedgerReport<1> {
        self.pending.report()
    }

    /// Waits for the HTTP request of a connection. If all handshakes are taken, the oldest of the principal with the
    /// most gives way to one of a principal below its share.
    fn begin(
        &mut self,
        cx: &Cx<'_>,
        stream: OwnedFd,
        peer: Option<SocketAddr>,
        local: Arc<LocalEnd>,
    ) {
        let identity = local.identify(stream.as_fd(), peer);
        if self.pending.make_room(identity.principal).is_err() {
            debug!(?peer, "a WebSocket was closed: the peer has its share of the handshakes");
            return;
        }
        let token = self.next_token;
        if let Err(error) = cx.watch(&stream, token, Interest::Readable) {
            warn!(%error, "a WebSocket was closed");
            return;
        }
        self.next_token += 1;
        let (deadline, handshake) = (cx.after(TIMEOUT), Handshake::new(stream));
        let principal = identity.principal;
        let pending = PendingHandshake { handshake, peer, identity, local, deadline };
        self.pending.insert(token, principal, pending);
    }

    /// Continues the handshake of a connection that is readable.
    fn advance(&mut self, cx: &mut Cx<'_>, token: u64) {
        let Some(pending) = self.pending.remove(token) else { return };
        let PendingHandshake { handshake, peer, identity, local, deadline } = pending;
        let LocalEnd::WebSocket { admission, .. } = &*local else { return };
        match handshake.advance(admission) {
            HandshakeProgress::NotYet(handshake) => {
                let principal = identity.principal;
                let pending = PendingHandshake { handshake, peer, identity, local, deadline };
                self.pending.insert(token, principal, pending);
            }
            HandshakeProgress::Refused(reason) => {
                debug!(?peer, reason, "a WebSocket handshake has failed")
            }
            HandshakeProgress::Done(stream, client) => {
                if let Err(error) = cx.unwatch(&stream) {
                    warn!(%error, "a WebSocket was closed");
                    return;
                }
                let identity = match (client, peer) {
                    (Client::Own, _) => identity,
                    (Client::ForeignPage, Some(peer)) => PeerIdentity::remote(peer),
                    (Client::ForeignPage, None) => PeerIdentity::unknown(),
                };
                if cx.admits(identity.principal) {
                    cx.add_accepted(stream, peer, &local, &identity);
                }
            }
        }
    }
}

impl Service for WebSocketHandshakes {
    type Dataplane = dyn FaceCommands;
    const NAME: ServiceName = ServiceName::WebSocket;

    #[expect(clippy::wildcard_enum_match_arm, reason = "`Event::receivers` is exhaustive")]
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Event) -> Option<Event> {
        match event {
            Event::WebSocketClient { stream, peer, local } => self.begin(cx, stream, peer, local),
            Event::Ready(token @ TOKEN_HANDSHAKES..TOKEN_MEMIF) => self.advance(cx, token),
            other => return other.unhandled(),
        }
        None
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let deadlines = self.pending.values().map(|pending| pending.deadline);
        deadlines.min().map(|at| (at, Reason::WebSocketHandshake))
    }

    /// Closes connections whose handshake has timed out.
    fn handle_timeout(&mut self, cx: &mut Cx<'_>, _: Reason) {
        let now = cx.now().monotonic;
        drop(self.pending.remove_all(|pending| pending.deadline <= now));
    }
}

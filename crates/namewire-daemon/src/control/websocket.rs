//! WebSocket handshakes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ndn_dataplane::peer_key;
use ndn_forwarding::Scope;
use ndn_sys::poll::Interest;
use tracing::{debug, warn};

use super::service::{Cx, Reason, Service};
use crate::listeners::LocalEnd;
use crate::websocket::{Client, Handshake, HandshakeProgress};

/// First token of handshakes.
pub(super) const TOKEN_HANDSHAKES: u64 = 1 << 48;
/// Maximum concurrent handshakes; further clients are rejected.
const HANDSHAKES_MAX: usize = 256;
/// Maximum concurrent handshakes per remote peer.
const HANDSHAKES_PER_PEER_MAX: usize = 16;
/// Handshake timeout.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection during its handshake.
#[derive(Debug)]
struct PendingHandshake {
    handshake: Handshake,
    peer: Option<SocketAddr>,
    /// The listener that accepted it.
    local: Arc<LocalEnd>,
    deadline_ns: u64,
}

/// Connections during the handshake.
#[derive(Debug)]
pub(super) struct WebSocketHandshakes {
    /// By token.
    pending: BTreeMap<u64, PendingHandshake>,
    next_token: u64,
}

/// Events of handshakes.
#[derive(Debug)]
pub(super) enum WebSocketEvent {
    /// A listener has accepted a connection.
    Client { stream: OwnedFd, peer: Option<SocketAddr>, local: Arc<LocalEnd> },
    /// The connection with this token is readable.
    Ready(u64),
}

impl WebSocketHandshakes {
    pub(super) const fn new() -> Self {
        Self { pending: BTreeMap::new(), next_token: TOKEN_HANDSHAKES }
    }

    fn set_timer(&self, cx: &mut Cx) {
        let deadlines = self.pending.values().map(|pending| pending.deadline_ns);
        cx.timers.set(Reason::WebSocketHandshake, deadlines.min());
    }

    /// Waits for the HTTP request of a connection.
    fn begin(&mut self, cx: &Cx, stream: OwnedFd, peer: Option<SocketAddr>, local: Arc<LocalEnd>) {
        if self.pending.len() >= HANDSHAKES_MAX {
            warn!(limit = HANDSHAKES_MAX, "a WebSocket was closed: too many handshakes go on");
            return;
        }
        let of_peer = |pending: &&PendingHandshake| {
            let key = |peer: SocketAddr| peer_key(peer.ip());
            pending.peer.map(key) == peer.map(key)
        };
        let is_local = |peer: &SocketAddr| peer.ip().to_canonical().is_loopback();
        if peer.is_some_and(|peer| !is_local(&peer))
            && self.pending.values().filter(of_peer).count() >= HANDSHAKES_PER_PEER_MAX
        {
            debug!(?peer, "a WebSocket was closed: the peer has too many handshakes");
            return;
        }
        let token = self.next_token;
        if let Err(error) = cx.poller.add(&stream, token, Interest::Readable) {
            warn!(%error, "a WebSocket was closed");
            return;
        }
        self.next_token += 1;
        let (deadline_ns, handshake) = (cx.after(TIMEOUT), Handshake::new(stream));
        self.pending.insert(token, PendingHandshake { handshake, peer, local, deadline_ns });
    }

    /// Continues the handshake of a connection that is readable.
    fn advance(&mut self, cx: &mut Cx, token: u64) {
        let Some(pending) = self.pending.remove(&token) else { return };
        let PendingHandshake { handshake, peer, local, deadline_ns } = pending;
        let LocalEnd::WebSocket { admission, .. } = &*local else { return };
        match handshake.go_on(admission) {
            HandshakeProgress::NotYet(handshake) => {
                let pending = PendingHandshake { handshake, peer, local, deadline_ns };
                self.pending.insert(token, pending);
            }
            HandshakeProgress::Refused(reason) => {
                debug!(?peer, reason, "a WebSocket handshake has failed")
            }
            HandshakeProgress::Done(stream, client) => {
                if let Err(error) = cx.poller.remove(&stream) {
                    warn!(%error, "a WebSocket was closed");
                    return;
                }
                let scope = match client {
                    Client::Own => local.scope(stream.as_fd(), peer),
                    Client::ForeignPage => Scope::NonLocal,
                };
                if cx.admits_peer(peer, scope) {
                    cx.add_accepted(stream, peer, &local, scope);
                }
            }
        }
    }
}

impl Service for WebSocketHandshakes {
    type Event = WebSocketEvent;

    fn handle_event(&mut self, cx: &mut Cx, event: WebSocketEvent) {
        match event {
            WebSocketEvent::Client { stream, peer, local } => self.begin(cx, stream, peer, local),
            WebSocketEvent::Ready(token) => self.advance(cx, token),
        }
        self.set_timer(cx);
    }

    /// Closes connections whose handshake has timed out.
    fn handle_timeout(&mut self, cx: &mut Cx, _: Reason) {
        let now_ns = cx.now_ns();
        self.pending.retain(|_, pending| pending.deadline_ns > now_ns);
        self.set_timer(cx);
    }
}

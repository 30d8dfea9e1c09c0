//! WebSocket handshakes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use ndn_dataplane::{Command, peer_key};
use ndn_forwarding::Scope;
use ndn_management::Now;
use ndn_sys::poll::Interest;
use ndn_types::duration_ns;
use tracing::{debug, warn};

use super::Control;
use crate::faces;
use crate::listeners::LocalEnd;
use crate::websocket::{Client, Handshake, Shaken};

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
    /// Index of the listener that accepted it.
    listener: usize,
    deadline_ns: u64,
}

/// Connections during the handshake, by token.
#[derive(Debug)]
pub(super) struct Handshakes {
    pending: BTreeMap<u64, PendingHandshake>,
    next_token: u64,
}

impl Handshakes {
    /// Creates an empty set whose tokens start at `first_token`.
    pub(super) fn new(first_token: u64) -> Self {
        Self { pending: BTreeMap::new(), next_token: first_token }
    }

    /// Time of the next [`handle_timeout`](Self::handle_timeout).
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        self.pending.values().map(|pending| pending.deadline_ns).min()
    }

    /// Closes connections whose handshake has timed out.
    pub(super) fn handle_timeout(&mut self, now_ns: u64) {
        self.pending.retain(|_, pending| pending.deadline_ns > now_ns);
    }
}

impl Control {
    /// Waits for the HTTP request of a connection that listener `listener` has accepted.
    pub(super) fn begin_handshake(
        &mut self,
        now: Now,
        stream: OwnedFd,
        peer: Option<SocketAddr>,
        listener: usize,
    ) {
        if self.handshakes.pending.len() >= HANDSHAKES_MAX {
            warn!(limit = HANDSHAKES_MAX, "a WebSocket was closed: too many handshakes go on");
            return;
        }
        let of_peer = |pending: &&PendingHandshake| {
            let key = |peer: SocketAddr| peer_key(peer.ip());
            pending.peer.map(key) == peer.map(key)
        };
        let is_local = |peer: &SocketAddr| peer.ip().to_canonical().is_loopback();
        if peer.is_some_and(|peer| !is_local(&peer))
            && self.handshakes.pending.values().filter(of_peer).count() >= HANDSHAKES_PER_PEER_MAX
        {
            debug!(?peer, "a WebSocket was closed: the peer has too many handshakes");
            return;
        }
        let token = self.handshakes.next_token;
        if let Err(error) = self.poller.add(&stream, token, Interest::Readable) {
            warn!(%error, "a WebSocket was closed");
            return;
        }
        self.handshakes.next_token += 1;
        let timeout_ns = duration_ns(TIMEOUT);
        let deadline_ns = now.monotonic_ns.saturating_add(timeout_ns);
        let handshake = Handshake::new(stream);
        self.handshakes
            .pending
            .insert(token, PendingHandshake { handshake, peer, listener, deadline_ns });
    }

    /// Continues the handshake of a connection that is readable.
    pub(super) fn continue_handshake(&mut self, now: Now, token: u64) {
        let Some(pending) = self.handshakes.pending.remove(&token) else { return };
        let PendingHandshake { handshake, peer, listener, deadline_ns } = pending;
        let Some(listener_of) = self.listeners.streams.get(listener) else { return };
        let LocalEnd::WebSocket { admission, .. } = &listener_of.local else { return };
        match handshake.go_on(admission) {
            Shaken::NotYet(handshake) => {
                let pending = PendingHandshake { handshake, peer, listener, deadline_ns };
                self.handshakes.pending.insert(token, pending);
            }
            Shaken::Refused(reason) => debug!(?peer, reason, "a WebSocket handshake has failed"),
            Shaken::Done(stream, client) => {
                if let Err(error) = self.poller.remove(&stream) {
                    warn!(%error, "a WebSocket was closed");
                    return;
                }
                let scope = match client {
                    Client::Own => listener_of.local.scope(peer),
                    Client::ForeignPage => Scope::NonLocal,
                };
                let stranger = peer.filter(|_| scope == Scope::NonLocal);
                if let Some(peer) = stranger
                    && !self.strangers.has_room(peer.ip())
                {
                    return self.refused_peers.peer_refused(now, peer);
                }
                let face_id = self.dataplane.allocate_face_id();
                if let Some(peer) = stranger {
                    self.strangers.add(face_id, peer.ip());
                }
                let end = &listener_of.local;
                let face = faces::accepted(face_id, stream, peer, end, scope, &self.config);
                self.dataplane.send(Command::AddFace(Box::new(face)));
            }
        }
    }
}

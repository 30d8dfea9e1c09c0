//! WebSocket handshakes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ndn_sys::poll::Interest;
use ndn_types::{Capacity, LedgerReport, PrincipalIndex, RankedLedger, Reserves, Verdict};
use tracing::{debug, warn};

use super::commands::FaceCommands;
use super::service::{Cx, Deadline, Event, Reason, Service, deadline};
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
    holder: PrincipalIndex,
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
    ledger: RankedLedger<Handshakes, 1>,
}

impl WebSocketHandshakes {
    pub(super) fn new(reserves: Reserves) -> Self {
        let ledger = RankedLedger::new([Capacity::of(HANDSHAKES_MAX)], reserves);
        Self { pending: BTreeMap::new(), next_token: TOKEN_HANDSHAKES, ledger }
    }

    /// Handshakes that principals hold.
    pub(super) fn report(&self) -> LedgerReport<1> {
        self.ledger.report()
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
        let holder = self.ledger.attach(identity.principal);
        if !self.make_room(holder) {
            self.ledger.detach(holder);
            debug!(?peer, "a WebSocket was closed: the peer has its share of the handshakes");
            return;
        }
        let token = self.next_token;
        if let Err(error) = cx.watch(&stream, token, Interest::Readable) {
            self.ledger.detach(holder);
            warn!(%error, "a WebSocket was closed");
            return;
        }
        self.next_token += 1;
        self.ledger.charge(holder, Handshakes, 1);
        let (deadline_ns, handshake) = (cx.after(TIMEOUT), Handshake::new(stream));
        let pending = PendingHandshake { handshake, peer, identity, holder, local, deadline_ns };
        self.pending.insert(token, pending);
    }

    /// Whether there is room for a handshake of a principal, which may have to be made.
    fn make_room(&mut self, holder: PrincipalIndex) -> bool {
        match self.ledger.verdict(holder, Handshakes, 1) {
            Verdict::Room => true,
            Verdict::Refused => false,
            Verdict::Evict(limits) => {
                let Some(payer) = self.ledger.victim(Handshakes, limits) else { return false };
                // Tokens are in the order of arrival.
                let oldest = self.pending.iter().find(|(_, pending)| pending.holder == payer);
                let Some((&token, _)) = oldest else { return false };
                self.take(token).is_some()
            }
        }
    }

    /// Removes a handshake. Unless it is put back, it has ended.
    fn take(&mut self, token: u64) -> Option<PendingHandshake> {
        let pending = self.pending.remove(&token)?;
        self.ledger.release(pending.holder, Handshakes, 1);
        self.ledger.detach(pending.holder);
        Some(pending)
    }

    /// Continues the handshake of a connection that is readable.
    fn advance(&mut self, cx: &mut Cx<'_>, token: u64) {
        let Some(pending) = self.take(token) else { return };
        let PendingHandshake { handshake, peer, identity, local, deadline_ns, .. } = pending;
        let LocalEnd::WebSocket { admission, .. } = &*local else { return };
        match handshake.advance(admission) {
            HandshakeProgress::NotYet(handshake) => {
                let holder = self.ledger.attach(identity.principal);
                self.ledger.charge(holder, Handshakes, 1);
                let pending =
                    PendingHandshake { handshake, peer, identity, holder, local, deadline_ns };
                self.pending.insert(token, pending);
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

    #[expect(clippy::wildcard_enum_match_arm, reason = "other events concern other services")]
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Event) -> Option<Event> {
        match event {
            Event::WebSocketClient { stream, peer, local } => self.begin(cx, stream, peer, local),
            Event::Ready(token @ TOKEN_HANDSHAKES..TOKEN_MEMIF) => self.advance(cx, token),
            other => return Some(other),
        }
        None
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let deadlines = self.pending.values().map(|pending| pending.deadline_ns);
        deadlines.min().map(|at_ns| deadline(at_ns, Reason::WebSocketHandshake))
    }

    /// Closes connections whose handshake has timed out.
    fn handle_timeout(&mut self, cx: &mut Cx<'_>, _: Reason) {
        let now_ns = cx.now_ns();
        let due = self.pending.iter().filter(|(_, pending)| pending.deadline_ns <= now_ns);
        let due: Vec<u64> = due.map(|(token, _)| *token).collect();
        due.into_iter().for_each(|token| drop(self.take(token)));
    }
}

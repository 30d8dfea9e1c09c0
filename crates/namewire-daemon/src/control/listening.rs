//! Accepts connections: Unix and TCP become faces at once, WebSocket and memif clients after their handshakes. A reload
//! opens, closes and changes these listeners.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use ndn_sys::poll::Interest;
use ndn_sys::stream::{AcceptError, Accepted};
use ndn_types::Timestamp;
use tracing::{debug, error};

use super::commands::FaceCommands;
use super::service::{Cx, Deadline, Event, Reason, Service, ServiceName};
use super::tokens::{TOKEN_ATTEMPTS, TOKEN_LISTENERS};
use crate::config::Config;
use crate::listeners::Listeners;
use crate::streams::{LocalEnd, StreamChange};

/// Maximum connections accepted per listener and round.
const ACCEPTS_PER_ROUND: usize = 128;
/// Pause of a listener after the process ran out of descriptors or memory, and while workers are behind with their
/// commands.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Disconnect reason for memif clients at the face limit; workers send the same text.
const FULL: &str = ndn_dataplane::FACE_LIMIT_REACHED;

/// The listeners for streams.
#[derive(Debug)]
pub(crate) struct Listening {
    listeners: Listeners,
    /// Paused listeners, with the end of their pause.
    paused: BTreeMap<u64, Timestamp>,
    /// Listeners whose connections are accepted.
    watched: BTreeSet<u64>,
    /// The listening addresses have been announced.
    is_announced: bool,
}

impl Listening {
    pub(super) fn new(listeners: Listeners) -> Self {
        let (paused, watched) = (BTreeMap::new(), BTreeSet::new());
        Self { listeners, paused, watched, is_announced: false }
    }

    /// Announces the listening addresses once.
    pub(super) fn announce(
        &mut self,
        config: &Config,
        certificate_hashes: &[String],
        on_listening: &mut (dyn FnMut(&str) + Send),
    ) {
        if !std::mem::replace(&mut self.is_announced, true) {
            on_listening(&self.listeners.announcement(config, certificate_hashes));
        }
    }

    /// Returns whether the listening addresses have been announced.
    pub(super) const fn is_announced(&self) -> bool {
        self.is_announced
    }

    /// Opens the listeners that a configuration adds; see [`Streams::prepare`](crate::streams::Streams::prepare).
    pub(crate) fn prepare(&mut self, config: &Config) -> anyhow::Result<StreamChange> {
        self.listeners.streams.prepare(&config.listeners)
    }

    /// Opens the listeners that a configuration adds, and closes them again.
    pub(crate) fn check(&self, config: &Config) -> anyhow::Result<()> {
        self.listeners.streams.check(&config.listeners)
    }

    /// Abandons a change.
    pub(crate) fn abandon(&mut self, cx: &mut Cx<'_>, change: StreamChange) {
        self.listeners.streams.abandon(change);
        self.watch_new(cx);
    }

    /// Puts a change into force.
    pub(crate) fn commit(&mut self, cx: &mut Cx<'_>, change: StreamChange) {
        self.listeners.streams.commit(change);
        self.watch_new(cx);
        self.listeners.addresses.tcp = self.listeners.streams.tcp_addresses();
        cx.post(Event::ListenersChanged {
            addresses: self.listeners.addresses.clone(),
            local_peers: Arc::clone(&self.listeners.streams.local_peers),
            local_uris: self.listeners.local_uris(),
        });
    }

    /// Accepts connections of listeners that were opened, and forgets those that were closed.
    fn watch_new(&mut self, cx: &Cx<'_>) {
        let open: BTreeSet<u64> = self.listeners.streams.iter().map(|(number, _)| number).collect();
        self.watched.retain(|number| open.contains(number));
        self.paused.retain(|number, _| open.contains(number));
        open.difference(&self.watched.clone()).for_each(|number| self.watch(cx, *number));
    }

    fn watch(&mut self, cx: &Cx<'_>, number: u64) {
        let Some(listener) = self.listeners.streams.get(number) else { return };
        self.watched.insert(number);
        if let Err(error) = cx.watch(&listener.socket, TOKEN_LISTENERS + number, Interest::Readable)
        {
            error!(%error, local = ?listener.local, "no more connections are accepted");
        }
    }

    /// Accepts connections of a listener. While workers are behind, they wait in its backlog.
    fn accept(&mut self, cx: &mut Cx<'_>, number: u64) {
        if cx.dataplane().is_behind() {
            return self.pause(cx, number);
        }
        let Some(listener) = self.listeners.streams.get_mut(number) else { return };
        let mut is_exhausted = false;
        for _ in 0..ACCEPTS_PER_ROUND {
            match listener.socket.accept() {
                Ok(accepted) => admit(cx, accepted, &listener.local),
                Err(AcceptError::WouldBlock) => break,
                Err(AcceptError::DescriptorsExhausted) => {
                    let now = cx.now();
                    cx.log().full.no_descriptor(now);
                    is_exhausted = true;
                }
                Err(AcceptError::NoResources(error)) => {
                    let now = cx.now();
                    cx.log().full.no_memory(now, &error);
                    is_exhausted = true;
                    break;
                }
                Err(AcceptError::ConnectionLost(error)) => {
                    debug!(%error, "a connection was lost before it was accepted");
                }
                Err(AcceptError::Listener(error)) => {
                    error!(%error, local = ?listener.local, "no more connections are accepted");
                    // A failed listener would stay readable for ever.
                    let _ = cx.unwatch(&listener.socket);
                    return;
                }
            }
        }
        if is_exhausted {
            self.pause(cx, number);
        }
    }

    /// Stops to poll a listener for a while: it stays readable while connections wait, so polling it would spin.
    fn pause(&mut self, cx: &Cx<'_>, number: u64) {
        if let Some(listener) = self.listeners.streams.get(number)
            && cx.unwatch(&listener.socket).is_ok()
        {
            self.paused.insert(number, cx.after(ACCEPT_PAUSE));
        }
    }
}

impl Service for Listening {
    type Dataplane = dyn FaceCommands;
    const NAME: ServiceName = ServiceName::Listening;

    #[expect(clippy::wildcard_enum_match_arm, reason = "`Event::receivers` is exhaustive")]
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Event) -> Option<Event> {
        match event {
            // Connections wait in the backlog until then: the worker gets the route to management before the first
            // application.
            Event::ManagementReachable => {
                self.watch_new(cx);
                Some(event)
            }
            Event::Ready(token @ TOKEN_LISTENERS..TOKEN_ATTEMPTS) => {
                self.accept(cx, token - TOKEN_LISTENERS);
                None
            }
            other => other.unhandled(),
        }
    }

    fn next_deadline(&self) -> Option<Deadline> {
        self.paused.values().copied().min().map(|at| (at, Reason::Accept))
    }

    /// Resumes accepting on listeners whose pause is over.
    fn handle_timeout(&mut self, cx: &mut Cx<'_>, _: Reason) {
        let now = cx.now().monotonic;
        let resumed = self.paused.extract_if(.., |_, until| *until <= now);
        let resumed: Vec<u64> = resumed.map(|(number, _)| number).collect();
        resumed.into_iter().for_each(|number| self.watch(cx, number));
    }
}

/// Adds the face of an accepted connection, starts its handshake, or closes it.
fn admit(cx: &mut Cx<'_>, accepted: Accepted, local: &Arc<LocalEnd>) {
    let Accepted { stream, peer, .. } = accepted;
    if !cx.has_room() {
        if matches!(**local, LocalEnd::Memif(_)) {
            // A closed connection without a reason would look as if no forwarder were running.
            ndn_memif::send_disconnect(stream.as_fd(), FULL);
        }
        return;
    }
    if matches!(**local, LocalEnd::WebSocket { .. }) {
        return cx.post(Event::WebSocketClient { stream, peer, local: Arc::clone(local) });
    }
    let identity = local.identify(stream.as_fd(), peer);
    if !cx.admits(identity.principal) {
        if matches!(**local, LocalEnd::Memif(_)) {
            ndn_memif::send_disconnect(stream.as_fd(), FULL);
        }
        return;
    }
    match &**local {
        LocalEnd::Memif(socket) => {
            cx.post(Event::MemifClient { stream, socket: socket.clone() });
        }
        LocalEnd::Unix(_) | LocalEnd::Tcp { .. } | LocalEnd::WebSocket { .. } => {
            cx.add_accepted(stream, peer, local, &identity);
        }
    }
}

//! Accepts connections: Unix and TCP become faces at once, WebSocket and memif clients after their handshakes.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use ndn_sys::poll::Interest;
use ndn_sys::stream::{AcceptError, Accepted};
use tracing::{debug, error};

use super::commands::FaceCommands;
use super::service::{Cx, Deadline, Event, Reason, Service, deadline};
use super::tokens::{TOKEN_ATTEMPTS, TOKEN_LISTENERS};
use crate::config::Config;
use crate::listeners::{Listeners, LocalEnd};

/// Maximum connections accepted per listener and round.
const ACCEPTS_PER_ROUND: usize = 128;
/// Pause of a listener after the process ran out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Disconnect reason for memif clients at the face limit; workers send the same text.
const FULL: &str = ndn_dataplane::FACE_LIMIT_REACHED;

/// The listeners for streams.
#[derive(Debug)]
pub(super) struct Listening {
    listeners: Listeners,
    /// Paused listeners, with the end of their pause.
    paused: BTreeMap<usize, u64>,
    /// The listening addresses have been announced.
    is_announced: bool,
}

impl Listening {
    pub(super) fn new(listeners: Listeners) -> Self {
        Self { listeners, paused: BTreeMap::new(), is_announced: false }
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

    fn watch(&self, cx: &Cx<'_>, at: usize) {
        let listener = &self.listeners.streams[at];
        let token = TOKEN_LISTENERS + at as u64;
        if let Err(error) = cx.watch(&listener.socket, token, Interest::Readable) {
            error!(%error, local = ?listener.local, "no more connections are accepted");
        }
    }

    /// Accepts connections of a listener.
    fn accept(&mut self, cx: &mut Cx<'_>, token: u64) {
        let Ok(at) = usize::try_from(token - TOKEN_LISTENERS) else { return };
        let Some(listener) = self.listeners.streams.get_mut(at) else { return };
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
        // The listener stays readable while connections wait, so polling it at once would spin.
        if is_exhausted && cx.unwatch(&listener.socket).is_ok() {
            self.paused.insert(at, cx.after(ACCEPT_PAUSE));
        }
    }
}

impl Service for Listening {
    type Dataplane = dyn FaceCommands;

    #[expect(clippy::wildcard_enum_match_arm, reason = "other events concern other services")]
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Event) -> Option<Event> {
        match event {
            // Connections wait in the backlog until then: the worker gets the route to management before the first
            // application.
            Event::ManagementReachable => {
                (0..self.listeners.streams.len()).for_each(|at| self.watch(cx, at));
                Some(event)
            }
            Event::Ready(token @ TOKEN_LISTENERS..TOKEN_ATTEMPTS) => {
                self.accept(cx, token);
                None
            }
            other => Some(other),
        }
    }

    fn next_deadline(&self) -> Option<Deadline> {
        self.paused.values().copied().min().map(|at_ns| deadline(at_ns, Reason::Accept))
    }

    /// Resumes accepting on listeners whose pause is over.
    fn handle_timeout(&mut self, cx: &mut Cx<'_>, _: Reason) {
        let now_ns = cx.now_ns();
        let resumed = self.paused.extract_if(.., |_, until_ns| *until_ns <= now_ns);
        let resumed: Vec<usize> = resumed.map(|(at, _)| at).collect();
        resumed.into_iter().for_each(|at| self.watch(cx, at));
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

//! Faces of WebTransport sessions.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};

use anyhow::Context;
use ndn_management::status;
use ndn_sys::clock::Clock;
use ndn_sys::poll::Waker;
use ndn_types::{CounterValues as _, FaceUri, LedgerReport, PrincipalKey};
use ndn_webtransport::{Accepted, Connecting, Identity, Listen, PathMtu, Rules, Target};
use tracing::{debug, error};

use super::commands::FaceCommands;
use super::service::{Cx, Event, Service, ServiceName};
use super::tokens::TOKEN_SESSIONS;
use crate::config::Config;
use crate::faces::{self, FaceSpec};
use crate::websocket::Admission;
use crate::webtransport::{Opened, identity};
use namewire_control::WebTransportStatus;

/// Maximum number of accepted sessions that wait for the control thread; further ones are closed.
const ACCEPTED_MAX: usize = 256;

/// Events of sessions that have a face or were requested, from the thread of WebTransport: few for each of them.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a queue of them is short")]
enum SessionEvent {
    /// The path MTU of a session has changed.
    Path {
        /// FaceId of the session.
        face_id: u64,
        /// Maximum frame length.
        length: usize,
    },
    /// An attempt to open a session has ended.
    Connected {
        /// The peer.
        target: Target,
        /// The requested face.
        spec: FaceSpec,
        /// The result.
        result: Result<Accepted, String>,
    },
}

/// A face that follows the path MTU of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FollowedPath {
    /// Current frame length of the face.
    given: usize,
    /// Path MTU.
    found: usize,
}

/// The sessions, accepted and opened.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// Runs on a thread of its own, from the first session or the start of the listener.
    service: Option<ndn_webtransport::Service>,
    events: Receiver<SessionEvent>,
    sender: Sender<SessionEvent>,
    /// Sessions that peers have opened.
    accepted: Receiver<Accepted>,
    accepted_sender: SyncSender<Accepted>,
    waker: Arc<Waker>,
    /// Attempts to open sessions, by ticket.
    connecting: HashMap<u64, Connecting>,
    /// Faces whose frame length follows the path MTU.
    followed: HashMap<u64, FollowedPath>,
    /// Sockets to listen on, until the start.
    opened: Opened,
    /// Addresses of the sockets.
    addresses: Vec<SocketAddr>,
    /// Judges certificates.
    clock: Clock,
}

/// Sessions time out on the thread of WebTransport.
impl Service for Sessions {
    type Dataplane = dyn FaceCommands;
    const NAME: ServiceName = ServiceName::Sessions;

    #[expect(clippy::wildcard_enum_match_arm, reason = "`Event::receivers` is exhaustive")]
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Event) -> Option<Event> {
        match event {
            Event::ManagementReachable => self.start(cx.config()),
            Event::Ready(TOKEN_SESSIONS) => {
                self.take_events(cx);
                return None;
            }
            Event::CreateSession { remote, addresses, spec } => {
                self.open(cx, &remote, addresses, &spec);
                return None;
            }
            Event::Abandon { ticket } => drop(self.connecting.remove(&ticket)),
            Event::FaceAdded { ref record, .. } => self.resize(cx, record.properties.face_id),
            Event::FaceRefused(face_id) | Event::FaceClosed { face_id, .. } => {
                self.followed.remove(&face_id);
            }
            other => return other.unhandled(),
        }
        Some(event)
    }
}

impl Sessions {
    /// Sessions that can be accepted from `opened` once started.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub(super) fn new(
        opened: Opened,
        addresses: Vec<SocketAddr>,
        clock: Clock,
    ) -> std::io::Result<Self> {
        let (sender, events) = channel();
        let (accepted_sender, accepted) = sync_channel(ACCEPTED_MAX);
        let (waker, connecting) = (Arc::new(Waker::new()?), HashMap::new());
        let (service, followed) = (None, HashMap::new());
        Ok(Self {
            service,
            events,
            sender,
            accepted,
            accepted_sender,
            waker,
            connecting,
            followed,
            opened,
            addresses,
            clock,
        })
    }

    /// Readable after events.
    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Handles sessions that have opened, failed or changed.
    fn take_events(&mut self, cx: &mut Cx<'_>) {
        self.waker.reset();
        while let Ok(session) = self.accepted.try_recv() {
            self.accepted(cx, session);
        }
        while let Ok(event) = self.events.try_recv() {
            match event {
                SessionEvent::Path { face_id, length } => {
                    if let Some(followed) = self.followed.get_mut(&face_id) {
                        followed.found = length;
                    }
                    self.resize(cx, face_id);
                }
                SessionEvent::Connected { target, spec, result } => {
                    let is_requested =
                        spec.ticket.is_none_or(|one| self.connecting.remove(&one).is_some());
                    // Dropping a session that opened while its attempt was abandoned closes it.
                    if is_requested {
                        self.connected(cx, &target, &spec, result);
                    }
                }
            }
        }
    }

    /// The handshakes and the accepted sessions that peers hold, if there are listeners.
    pub(super) fn place_reports(&self) -> Option<(LedgerReport<1>, LedgerReport<1>)> {
        self.service.as_ref()?.place_reports()
    }

    /// Status for the control socket, if a listener or a session exists.
    pub(super) fn status(&self, config: &Config) -> WebTransportStatus {
        let Some(service) = &self.service else { return WebTransportStatus::default() };
        WebTransportStatus {
            addresses: self.addresses.iter().map(SocketAddr::to_string).collect(),
            certificate_hashes: service.hashes().iter().map(ToString::to_string).collect(),
            self_signed: config.listeners.webtransport.certificate.is_none(),
            counters: service.counters().values().named(),
        }
    }

    /// Reads the configured certificate files again, if any; they may have been renewed.
    ///
    /// # Errors
    /// The files cannot be used.
    pub(crate) fn read_certificate(&self, config: &Config) -> anyhow::Result<Option<Identity>> {
        let config = &config.listeners.webtransport;
        if self.service.is_some() && config.enabled { identity(config) } else { Ok(None) }
    }

    /// Replaces the certificate; `None` keeps the current one.
    pub(crate) fn use_certificate(&self, certificate: Option<Identity>) {
        if let (Some(service), Some(identity)) = (&self.service, certificate) {
            service.set_identity(identity);
        }
    }

    /// Starts to listen for sessions, if configured.
    fn start(&mut self, config: &Config) {
        let opened = std::mem::take(&mut self.opened);
        if !opened.sockets.is_empty()
            && let Err(error) = self.listen(config, opened)
        {
            error!("no WebTransport sessions can be accepted: {error:#}");
        }
    }

    fn listen(&mut self, config: &Config, opened: Opened) -> anyhow::Result<()> {
        let settings = &config.listeners.webtransport;
        let admission = Admission { origins: settings.origins.clone(), local_origins: Vec::new() };
        let admits = move |origin: Option<&str>| admission.client(origin.as_slice()).is_some();
        let (sender, waker) = (self.accepted_sender.clone(), Arc::clone(&self.waker));
        let listen = Listen {
            kept_in: opened.kept_in,
            sockets: opened.sockets,
            identity: opened.identity,
            clock: self.clock.clone(),
            rules: Rules {
                sessions_max: settings.sessions,
                idle_timeout: settings.idle_timeout,
                admits: Box::new(admits),
            },
            on_accepted: Box::new(move |session| {
                pass_on(&sender, session);
                waker.wake();
            }),
        };
        let service = ndn_webtransport::Service::start(Some(listen)).context("WebTransport")?;
        self.service = Some(service);
        Ok(())
    }

    /// Starts to open a session.
    ///
    /// # Errors
    /// No thread can be started.
    fn connect(
        &mut self,
        config: &Config,
        (target, addresses): (Target, Vec<SocketAddr>),
        spec: FaceSpec,
    ) -> std::io::Result<()> {
        let service = match &mut self.service {
            Some(service) => service,
            none => none.insert(ndn_webtransport::Service::start(None)?),
        };
        let (sender, waker) = (self.sender.clone(), Arc::clone(&self.waker));
        let reported = target.clone();
        let on_connected = Box::new(move |result| {
            let _ = sender.send(SessionEvent::Connected { target: reported, spec, result });
            waker.wake();
        });
        let idle_timeout = config.listeners.webtransport.idle_timeout;
        let connecting = service.connect(target, addresses, idle_timeout, on_connected);
        self.connecting.extend(spec.ticket.map(|ticket| (ticket, connecting)));
        Ok(())
    }

    /// Starts to report changes of a session's path MTU for a face that follows it; returns the current length.
    fn follow(&mut self, face_id: u64, mtu: &PathMtu) -> usize {
        let (sender, waker) = (self.sender.clone(), Arc::clone(&self.waker));
        mtu.notify(move |length| {
            let _ = sender.send(SessionEvent::Path { face_id, length });
            waker.wake();
        });
        // Later changes are reported as events.
        let length = mtu.value();
        self.followed.insert(face_id, FollowedPath { given: length, found: length });
        length
    }

    /// Creates a face, or closes the session by dropping its stream.
    fn accepted(&mut self, cx: &mut Cx<'_>, session: Accepted) {
        let peer = session.remote;
        if cx.dataplane().is_behind() || !cx.has_room() || !cx.admits(PrincipalKey::remote(peer)) {
            return;
        }
        let face_id = cx.dataplane().allocate_face_id();
        let mtu = self.follow(face_id, &session.mtu);
        let face = faces::accepted_session(face_id, session, mtu, cx.config());
        cx.add_face(face);
    }

    /// Sets the frame length of an existing face to the path MTU of its session.
    fn resize(&mut self, cx: &mut Cx<'_>, face_id: u64) {
        let Some(face) = cx.faces().get(face_id) else { return };
        let Some(followed) = self.followed.get_mut(&face_id) else { return };
        let FollowedPath { given, found } = *followed;
        if face.options.link.mtu != Some(given) {
            // An operator has set another MTU.
            self.followed.remove(&face_id);
            return;
        }
        if found != given {
            debug!(face_id, before = given, now = found, "MTU of a session's path changed");
            followed.given = found;
            cx.resize(face_id, found);
        }
    }

    /// Starts to open a session for a face.
    fn open(
        &mut self,
        cx: &mut Cx<'_>,
        remote: &FaceUri,
        addresses: Vec<SocketAddr>,
        spec: &FaceSpec,
    ) {
        let uri = remote.to_string();
        let begun = match uri.parse::<Target>() {
            Err(error) => Err(error.to_string()),
            Ok(target) => {
                let connecting = self.connect(cx.config(), (target, addresses), *spec);
                connecting.map_err(|error| error.to_string())
            }
        };
        if let Err(reason) = begun {
            failed(cx, &uri, spec, &reason);
        }
    }

    fn connected(
        &mut self,
        cx: &mut Cx<'_>,
        target: &Target,
        spec: &FaceSpec,
        result: Result<Accepted, String>,
    ) {
        match result {
            Ok(session) => {
                let face_id = cx.dataplane().allocate_face_id();
                // A configured or requested MTU stays.
                let mtu = match spec.options.mtu {
                    None => self.follow(face_id, &session.mtu),
                    Some(_) => session.mtu.value(),
                };
                let face = faces::opened_session(face_id, session, mtu, target, spec, cx.config());
                cx.add_face(face);
            }
            Err(reason) => failed(cx, &target.to_string(), spec, &reason),
        }
    }
}

/// Queues an accepted session. If the queue is full, or the forwarder stops, the session is dropped, which closes it.
fn pass_on<T>(sender: &SyncSender<T>, session: T) {
    if let Err(TrySendError::Full(_)) = sender.try_send(session) {
        debug!(waiting = ACCEPTED_MAX, "WebTransport session closed: too many wait for a face");
    }
}

fn failed(cx: &mut Cx<'_>, uri: &str, spec: &FaceSpec, reason: &str) {
    let text = format!("Cannot connect to {uri}: {reason}");
    cx.attempt_failed(&uri, spec, status::CONNECT_FAILED, text);
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn session_beyond_the_limit_of_waiting_sessions_is_closed() {
        let (sender, accepted) = sync_channel(ACCEPTED_MAX);
        (0..ACCEPTED_MAX).for_each(|_| pass_on(&sender, None));
        let (near, mut far) = UnixStream::pair().unwrap();
        pass_on(&sender, Some(near));
        assert_eq!(std::io::Read::read(&mut far, &mut [0]).unwrap(), 0, "its stream is closed");
        assert_eq!(accepted.try_iter().count(), ACCEPTED_MAX);
    }
}

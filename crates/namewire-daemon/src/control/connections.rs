//! Creates faces: for accepted connections, for `faces/create` and for configured faces.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use ndn_dataplane::{Command, Event};
use ndn_forwarding::Scope;
use ndn_management::{FaceCreationError, FaceSpecification, Now, status};
use ndn_sys::poll::Interest;
use ndn_sys::stream::{self, AcceptError};
use ndn_types::FaceUri;
use ndn_types::duration_ns;
use tracing::{debug, error, info, warn};

use super::{ACCEPT_PAUSE, Attempt, Control, TOKEN_LISTENERS};
use crate::addresses::{self, NoAddress, words};
use crate::ethernet::Context;
use crate::faces::{self, Wanted};
use crate::listeners::LocalEnd;
use crate::names::{self, Answer};
use namewire_control::FaceLimit;

/// Maximum connections accepted per listener and round.
const ACCEPTS_PER_ROUND: usize = 128;
/// Disconnect reason for memif clients at the face limit; workers send the same text.
const FULL: &str = ndn_dataplane::FACE_LIMIT_REACHED;
/// Connection timeout of `faces/create` (NFD answers 504 after 4 s).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

impl Control {
    /// Accepts connections of a listener.
    pub(super) fn accept(&mut self, now: Now, listener: u64) {
        let Ok(at) = usize::try_from(listener) else { return };
        let Some(listener) = self.listeners.streams.get_mut(at) else { return };
        let mut is_exhausted = false;
        let (mut shaking, mut sharing) = (Vec::new(), Vec::new());
        for _ in 0..ACCEPTS_PER_ROUND {
            match listener.socket.accept() {
                Ok(accepted) => {
                    let is_full = self.faces.len() >= self.config.limits.faces;
                    if is_full {
                        self.full.connection_refused(now, self.config.limits.faces);
                        if matches!(listener.local, LocalEnd::Memif(_)) {
                            // A closed connection without a reason would look as if no forwarder were running.
                            ndn_memif::send_disconnect(accepted.stream.as_fd(), FULL);
                        }
                        continue;
                    }
                    let scope = listener.local.scope(accepted.peer);
                    let stranger = accepted.peer.filter(|_| scope == Scope::NonLocal);
                    if let Some(peer) = stranger
                        && !self.strangers.has_room(peer.ip())
                    {
                        self.refused_peers.peer_refused(now, peer);
                        continue;
                    }
                    if matches!(listener.local, LocalEnd::WebSocket { .. }) {
                        shaking.push((accepted.stream, accepted.peer));
                        continue;
                    }
                    if matches!(listener.local, LocalEnd::Memif(_)) {
                        sharing.push(accepted.stream);
                        continue;
                    }
                    let face_id = self.dataplane.allocate_face_id();
                    if let Some(peer) = stranger {
                        self.strangers.add(face_id, peer.ip());
                    }
                    let face = faces::accepted(
                        face_id,
                        accepted.stream,
                        accepted.peer,
                        &listener.local,
                        scope,
                        &self.config,
                    );
                    self.dataplane.send(Command::AddFace(Box::new(face)));
                }
                Err(AcceptError::WouldBlock) => break,
                Err(AcceptError::DescriptorsExhausted) => {
                    self.full.no_descriptor(now);
                    is_exhausted = true;
                }
                Err(AcceptError::NoResources(error)) => {
                    self.full.no_memory(now, &error);
                    is_exhausted = true;
                    break;
                }
                Err(AcceptError::ConnectionLost(error)) => {
                    debug!(%error, "a connection was lost before it was accepted");
                }
                Err(AcceptError::Listener(error)) => {
                    error!(%error, local = ?listener.local, "no more connections are accepted");
                    // A failed listener would stay readable for ever.
                    let _ = self.poller.remove(&listener.socket);
                    return;
                }
            }
        }
        // The listener stays readable while connections wait, so polling it at once would spin.
        if is_exhausted && self.poller.remove(&listener.socket).is_ok() {
            let pause_ns = duration_ns(ACCEPT_PAUSE);
            self.paused.push((now.monotonic_ns + pause_ns, at));
        }
        for (stream, peer) in shaking {
            self.begin_handshake(now, stream, peer, at);
        }
        for stream in sharing {
            self.begin_memif(now, stream, at);
        }
    }

    /// Returns the number of faces and its limit.
    pub(super) fn face_limit(&self) -> FaceLimit {
        FaceLimit {
            faces: self.faces.len() as u64,
            faces_max: self.config.limits.faces as u64,
            refused: self.full.refused(),
        }
    }

    /// Resumes accepting on listeners whose pause is over.
    pub(super) fn resume_accepting(&mut self, now: Now) {
        let Self { paused, listeners, poller, .. } = self;
        paused.retain(|&(until_ns, at)| {
            if until_ns > now.monotonic_ns {
                return true;
            }
            let token = TOKEN_LISTENERS + at as u64;
            if let Err(error) =
                poller.add(&listeners.streams[at].socket, token, Interest::Readable)
            {
                error!(%error, local = ?listeners.streams[at].local, "no more connections are accepted");
            }
            false
        });
    }

    pub(super) fn start_accepting(&self) -> std::io::Result<()> {
        for (token, listener) in (TOKEN_LISTENERS..).zip(&self.listeners.streams) {
            self.poller.add(&listener.socket, token, Interest::Readable)?;
        }
        Ok(())
    }

    pub(super) fn create_specified(
        &mut self,
        now: Now,
        ticket: u64,
        specification: &FaceSpecification,
    ) {
        let wanted = Wanted {
            ticket: Some(ticket),
            persistency: specification.persistency,
            pit_tokens: ndn_forwarding::PitTokenPolicy::WhenSeen,
            options: specification.options,
        };
        self.create_face(now, &specification.remote, specification.local.as_ref(), wanted);
    }

    /// Creates a configured face; its remote URI may contain a host name.
    pub(super) fn make_face(
        &mut self,
        now: Now,
        remote: &FaceUri,
        local: Option<&FaceUri>,
        wanted: Wanted,
    ) {
        if !remote.has_host_name() {
            return self.create_face(now, remote, local, wanted);
        }
        if let Err(error) = self.names.look_up(remote, wanted) {
            let text = format!("{remote} cannot be looked up: {error}");
            self.not_connected(now, wanted.ticket, status::CONNECT_FAILED, &text);
        }
    }

    /// Continues to create faces whose host names have been resolved.
    pub(super) fn take_addresses(&mut self, now: Now) {
        for Answer { wanted, result } in self.names.take_answers() {
            let listening = &self.listeners.udp_addresses;
            match result.and_then(|ends| names::reachable(ends, listening)) {
                Ok(ends) => {
                    if let Some(remote) = self.names.first_of(ends, wanted) {
                        self.create_face(now, &remote, None, wanted);
                    }
                }
                Err(reason) => {
                    info!(reason, "a configured face has no far end so far");
                    self.not_connected(now, wanted.ticket, status::CONNECT_FAILED, &reason);
                }
            }
        }
    }

    /// Creates an Ethernet, memif, UDP, TCP or WebTransport face, or starts to connect it.
    pub(super) fn create_face(
        &mut self,
        now: Now,
        remote: &FaceUri,
        local: Option<&FaceUri>,
        wanted: Wanted,
    ) {
        if let Some(mac) = remote.ethernet_address().filter(|_| remote.scheme() == "ether") {
            return self.create_station(now, mac, local.map_or("", |local| local.host()), &wanted);
        }
        if remote.scheme() == "memif"
            && let Ok(address) = ndn_memif::Address::from_path(remote.path())
        {
            return self.create_memif(now, address, &wanted);
        }
        let address = addresses::far_end(remote);
        if address.as_ref().is_ok_and(|end| self.listeners.is_own(remote.scheme(), *end)) {
            // NFD also creates this face. Packets sent to it come back and are dropped as loops.
            warn!(%remote, "this forwarder listens there itself: the face leads nowhere else");
        }
        if remote.scheme() == "https" {
            return self.open_session(now, remote, &wanted);
        }
        let address = match address {
            Ok(address) => address,
            Err(why) => return self.no_address(now, remote, &wanted, &why),
        };
        if remote.scheme().starts_with("udp") {
            return self.create_datagram(now, address, &wanted);
        }
        let same_end = FaceUri::tcp(address);
        let existing = self.faces.iter().find(|(_, face)| face.remote == same_end);
        if let Some((&face_id, _)) = existing {
            self.handle_event(now, Event::FaceExists { ticket: wanted.ticket, face_id });
            return;
        }
        if !self.connecting.begin(&same_end, &wanted) {
            return;
        }
        let token = self.next_attempt;
        let started = stream::connect_tcp(address).and_then(|stream| {
            self.poller.add(&stream, token, Interest::Writable)?;
            Ok(stream)
        });
        match started {
            Ok(stream) => {
                self.next_attempt += 1;
                let timeout = duration_ns(CONNECT_TIMEOUT);
                let deadline_ns = now.monotonic_ns + timeout;
                let attempt = Attempt { stream, remote: address, wanted, deadline_ns };
                self.attempts.insert(token, attempt);
            }
            Err(error) => self.connect_failed(now, &wanted, address, &words(&error)),
        }
    }

    /// Handles a URI without a usable address; the condition may be temporary.
    fn no_address(&mut self, now: Now, remote: &FaceUri, wanted: &Wanted, why: &NoAddress) {
        info!(%remote, %why, "no face can be made");
        let is_command = wanted.ticket.is_some_and(|ticket| self.tickets.contains(ticket));
        let (code, text) = match why {
            NoAddress::OtherKind => (status::NOT_ACCEPTABLE, why.to_string()),
            // The text begins as NFD's does.
            NoAddress::NoZone | NoAddress::NoInterface(_) if is_command => {
                (status::BAD_REQUEST, format!("Non-canonical remote URI: {why}"))
            }
            NoAddress::NoZone | NoAddress::NoInterface(_) => (status::BAD_REQUEST, why.to_string()),
        };
        self.not_connected(now, wanted.ticket, code, &text);
    }

    /// Creates a UDP face if there is a route to the peer.
    fn create_datagram(&mut self, now: Now, peer: SocketAddr, wanted: &Wanted) {
        let route = match addresses::way_to(peer) {
            Ok(route) => route,
            Err(error) => {
                info!(%peer, %error, "there is no way to a UDP peer");
                let text = format!("Face creation failed: connect: {}", words(&error));
                return self.not_connected(now, wanted.ticket, status::CONNECT_FAILED, &text);
            }
        };
        let face_id = self.dataplane.allocate_face_id();
        let mut face = faces::datagram(face_id, peer, wanted, &self.config);
        let payload_max = route.map(|route| route.payload_max);
        if let Some(length) = self.path_mtu(face_id, peer, payload_max, wanted, now.monotonic_ns) {
            face.options.link.mtu = Some(length);
        }
        self.dataplane.send(Command::AddFace(Box::new(face)));
    }

    /// Creates a face for an Ethernet station behind a network interface.
    fn create_station(&mut self, now: Now, mac: [u8; 6], interface: &str, wanted: &Wanted) {
        let (config, dataplane) = (&self.config, &mut self.dataplane);
        let mut context = Context { now_ns: now.monotonic_ns, config, dataplane };
        match self.interfaces.ethernet.new_face(mac, interface, wanted, &mut context) {
            Ok(face) => self.dataplane.send(Command::AddFace(Box::new(face))),
            Err(reason) => {
                info!(interface, reason, "no face on an interface");
                let text = format!("Cannot create a face on {interface}: {reason}");
                self.not_connected(now, wanted.ticket, status::CONNECT_FAILED, &text);
            }
        }
    }

    /// Handles the end of a connection attempt.
    pub(super) fn end_attempt(&mut self, now: Now, token: u64) {
        let Some(attempt) = self.attempts.remove(&token) else { return };
        let Attempt { stream, remote, wanted, .. } = attempt;
        let ended = stream::take_error(stream.as_fd()).and_then(|()| self.poller.remove(&stream));
        if let Err(error) = ended {
            return self.connect_failed(now, &wanted, remote, &words(&error));
        }
        let face_id = self.dataplane.allocate_face_id();
        let face = faces::connected_tcp(face_id, stream, remote, &wanted, &self.config);
        self.dataplane.send(Command::AddFace(Box::new(face)));
    }

    pub(super) fn connect_failed(
        &mut self,
        now: Now,
        wanted: &Wanted,
        remote: SocketAddr,
        reason: &str,
    ) {
        info!(%remote, reason, "cannot connect");
        let text = format!("Connection failed: {reason}");
        self.not_connected(now, wanted.ticket, status::CONNECT_FAILED, &text);
    }

    pub(super) fn creation_failed(
        &mut self,
        now: Now,
        ticket: Option<u64>,
        code: u32,
        reason: &str,
    ) {
        if let Some(ticket) = self.take_ticket(ticket) {
            let reason = crate::text::without_numbers(reason);
            let failure = FaceCreationError { code, reason };
            self.state.face_creation_done(now, ticket, Err(failure));
        }
    }
}

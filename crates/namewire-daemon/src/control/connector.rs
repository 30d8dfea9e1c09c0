//! Creates faces for `faces/create` and for configured faces: looks up host names, connects TCP, and passes other
//! requests to the service of their transport.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use ndn_dataplane::Command;
use ndn_management::status;
use ndn_sys::poll::Interest;
use ndn_sys::stream;
use ndn_types::FaceUri;
use tracing::{info, warn};

use super::path_mtu;
use super::service::{Cx, FaceRequest, Message, Reason, Service};
use crate::addresses::{self, NoAddress, words};
use crate::faces::{self, FaceSpec};
use crate::listeners::OwnAddresses;
use crate::names::{self, Answer, HostNames};

/// First token of connection attempts.
pub(super) const TOKEN_ATTEMPTS: u64 = 1 << 32;
/// Connection timeout of `faces/create` (NFD answers 504 after 4 s).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// A TCP connection attempt.
#[derive(Debug)]
struct Attempt {
    stream: OwnedFd,
    remote: SocketAddr,
    spec: FaceSpec,
    deadline_ns: u64,
}

/// Faces being created.
#[derive(Debug)]
pub(super) struct Connector {
    /// TCP connections, by token.
    attempts: BTreeMap<u64, Attempt>,
    next_attempt: u64,
    shared: SharedAttempts,
    names: HostNames,
    own: OwnAddresses,
}

/// Events of the connector.
#[derive(Debug)]
pub(super) enum ConnectorEvent {
    /// Create a face.
    Create(Box<FaceRequest>),
    /// The face of this ticket is no longer requested.
    Cancel(u64),
    /// The connection attempt with this token has ended.
    Connected(u64),
    /// Host names have been resolved.
    Resolved,
    /// The requested face exists.
    FaceExists { ticket: Option<u64>, face_id: u64 },
    /// An attempt to create a face has failed.
    AttemptFailed { ticket: Option<u64>, code: u32, text: String },
}

impl Service for Connector {
    type Event = ConnectorEvent;

    fn handle_event(&mut self, cx: &mut Cx, event: ConnectorEvent) {
        match event {
            ConnectorEvent::Create(request) => {
                let FaceRequest { remote, local, spec } = *request;
                if !remote.has_host_name() {
                    return self.create(cx, &remote, local.as_ref(), &spec);
                }
                if let Err(error) = self.names.look_up(&remote, spec) {
                    let text = format!("{remote} cannot be looked up: {error}");
                    cx.attempt_failed(&spec, status::CONNECT_FAILED, text);
                }
            }
            ConnectorEvent::Cancel(ticket) => {
                let ticket = Some(ticket);
                let is_cancelled = |_: &u64, one: &mut Attempt| {
                    one.spec.ticket == ticket && !self.shared.is_shared(ticket)
                };
                for (_, attempt) in self.attempts.extract_if(.., is_cancelled) {
                    cx.attempt_failed(&attempt.spec, status::INTERNAL_ERROR, "given up");
                }
            }
            ConnectorEvent::Connected(token) => self.connected(cx, token),
            ConnectorEvent::Resolved => self.resolved(cx),
            ConnectorEvent::FaceExists { ticket, face_id } => {
                self.names.is_made(ticket);
                for FaceSpec { ticket, .. } in self.shared.end(ticket) {
                    cx.post(Message::FaceExists { ticket, face_id });
                }
            }
            ConnectorEvent::AttemptFailed { ticket, code, text } => {
                self.attempt_failed(cx, ticket, code, &text);
            }
        }
        self.set_timer(cx);
    }

    fn handle_timeout(&mut self, cx: &mut Cx, _: Reason) {
        let now_ns = cx.now_ns();
        for (_, late) in self.attempts.extract_if(.., |_, attempt| attempt.deadline_ns <= now_ns) {
            connect_failed(cx, &late.spec, late.remote, "Connection timed out");
        }
        self.set_timer(cx);
    }
}

impl Connector {
    /// A connector of a forwarder that listens at `own`.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub(super) fn new(own: OwnAddresses) -> std::io::Result<Self> {
        Ok(Self {
            attempts: BTreeMap::new(),
            next_attempt: TOKEN_ATTEMPTS,
            shared: SharedAttempts::default(),
            names: HostNames::new()?,
            own,
        })
    }

    /// Readable when host names have been resolved.
    pub(super) fn names(&self) -> &HostNames {
        &self.names
    }

    /// Returns whether further requests wait for the face of this ticket.
    pub(super) fn is_shared(&self, ticket: Option<u64>) -> bool {
        self.shared.is_shared(ticket)
    }

    fn set_timer(&self, cx: &mut Cx) {
        let deadlines = self.attempts.values().map(|attempt| attempt.deadline_ns);
        cx.timers.set(Reason::Connect, deadlines.min());
    }

    /// Continues to create faces whose host names have been resolved.
    fn resolved(&mut self, cx: &mut Cx) {
        for Answer { spec, result } in self.names.take_answers() {
            match result.and_then(|ends| names::reachable(ends, &self.own.udp)) {
                Ok(ends) => {
                    if let Some(remote) = self.names.first_of(ends, spec) {
                        self.create(cx, &remote, None, &spec);
                    }
                }
                Err(reason) => {
                    info!(reason, "a configured face has no far end so far");
                    cx.attempt_failed(&spec, status::CONNECT_FAILED, reason);
                }
            }
        }
    }

    /// Creates a face whose remote URI has no host name, or starts to connect it.
    fn create(&mut self, cx: &mut Cx, remote: &FaceUri, local: Option<&FaceUri>, spec: &FaceSpec) {
        if let Some(mac) = remote.ethernet_address().filter(|_| remote.scheme() == "ether") {
            let interface = local.map_or("", |local| local.host()).to_owned();
            return cx.post(Message::CreateStation { mac, interface, spec: *spec });
        }
        if remote.scheme() == "memif"
            && let Ok(address) = ndn_memif::Address::from_path(remote.path())
        {
            let remote = FaceUri::memif(&address.socket, address.id);
            if self.begin(cx, &remote, spec) {
                cx.post(Message::CreateMemif { address, spec: *spec });
            }
            return;
        }
        let address = addresses::far_end(remote);
        if address.as_ref().is_ok_and(|end| self.own.include(remote.scheme(), *end)) {
            // NFD also creates this face. Packets sent to it come back and are dropped as loops.
            warn!(%remote, "this forwarder listens there itself: the face leads nowhere else");
        }
        if remote.scheme() == "https" {
            if self.begin(cx, remote, spec) {
                cx.post(Message::CreateSession { remote: remote.clone(), spec: *spec });
            }
            return;
        }
        match address {
            Err(why) => no_address(cx, remote, spec, &why),
            Ok(address) if remote.scheme().starts_with("udp") => {
                create_datagram(cx, address, spec);
            }
            Ok(address) => self.connect(cx, address, spec),
        }
    }

    /// Returns whether a face for `remote` has to be connected: there is none, and no attempt is under way.
    fn begin(&mut self, cx: &mut Cx, remote: &FaceUri, spec: &FaceSpec) -> bool {
        if let Some(face_id) = cx.faces.with_remote(remote) {
            cx.post(Message::FaceExists { ticket: spec.ticket, face_id });
            return false;
        }
        self.shared.begin(remote, spec)
    }

    /// Starts to connect a TCP face.
    fn connect(&mut self, cx: &mut Cx, remote: SocketAddr, spec: &FaceSpec) {
        if !self.begin(cx, &FaceUri::tcp(remote), spec) {
            return;
        }
        let token = self.next_attempt;
        let started = stream::connect_tcp(remote).and_then(|stream| {
            cx.poller.add(&stream, token, Interest::Writable)?;
            Ok(stream)
        });
        match started {
            Ok(stream) => {
                self.next_attempt += 1;
                let deadline_ns = cx.after(CONNECT_TIMEOUT);
                let attempt = Attempt { stream, remote, spec: *spec, deadline_ns };
                self.attempts.insert(token, attempt);
            }
            Err(error) => connect_failed(cx, spec, remote, &words(&error)),
        }
    }

    /// Handles the end of a connection attempt.
    fn connected(&mut self, cx: &mut Cx, token: u64) {
        let Some(attempt) = self.attempts.remove(&token) else { return };
        let Attempt { stream, remote, spec, .. } = attempt;
        let ended = stream::take_error(stream.as_fd()).and_then(|()| cx.poller.remove(&stream));
        if let Err(error) = ended {
            return connect_failed(cx, &spec, remote, &words(&error));
        }
        let face_id = cx.dataplane.allocate_face_id();
        let identity = cx.local_peers.identify(stream.as_fd(), remote);
        if let Some(reason) = &identity.not_local {
            cx.faces.refused.not_local(cx.now, identity.principal, Some(remote), reason);
        }
        let face = faces::connected_tcp(face_id, stream, remote, &identity, &spec, &cx.config);
        cx.dataplane.send(Command::AddFace(Box::new(face)));
    }

    /// Reports a failed attempt to all requests that waited for it, after trying the other addresses of the host.
    fn attempt_failed(&mut self, cx: &mut Cx, ticket: Option<u64>, code: u32, text: &str) {
        let others = self.shared.end(ticket);
        for ticket in std::iter::once(ticket).chain(others.iter().map(|other| other.ticket)) {
            if let Some((remote, spec)) = self.names.next_of(ticket) {
                info!(%remote, "the next address of its host is tried");
                self.create(cx, &remote, None, &spec);
                continue;
            }
            cx.post(Message::FaceFailed { ticket, code, text: text.to_owned() });
        }
    }
}

fn connect_failed(cx: &mut Cx, spec: &FaceSpec, remote: SocketAddr, reason: &str) {
    info!(%remote, reason, "cannot connect");
    cx.attempt_failed(spec, status::CONNECT_FAILED, format!("Connection failed: {reason}"));
}

/// Handles a URI without a usable address; the condition may be temporary.
fn no_address(cx: &mut Cx, remote: &FaceUri, spec: &FaceSpec, why: &NoAddress) {
    info!(%remote, %why, "no face can be made");
    let (code, text) = match why {
        NoAddress::OtherKind => (status::NOT_ACCEPTABLE, why.to_string()),
        // The text begins as NFD's does.
        NoAddress::NoZone | NoAddress::NoInterface(_) if spec.is_command() => {
            (status::BAD_REQUEST, format!("Non-canonical remote URI: {why}"))
        }
        NoAddress::NoZone | NoAddress::NoInterface(_) => (status::BAD_REQUEST, why.to_string()),
    };
    cx.attempt_failed(spec, code, text);
}

/// Creates a UDP face if there is a route to the peer.
fn create_datagram(cx: &mut Cx, peer: SocketAddr, spec: &FaceSpec) {
    let route = match addresses::way_to(peer) {
        Ok(route) => route,
        Err(error) => {
            info!(%peer, %error, "there is no way to a UDP peer");
            let text = format!("Face creation failed: connect: {}", words(&error));
            return cx.attempt_failed(spec, status::CONNECT_FAILED, text);
        }
    };
    let face_id = cx.dataplane.allocate_face_id();
    let mut face = faces::datagram(face_id, peer, spec, &cx.config);
    let payload_max = route.map(|route| route.payload_max);
    if let Some(length) = path_mtu::frame_length(&cx.config, spec, payload_max) {
        face.options.link.mtu = Some(length);
        cx.post(Message::FollowPath { face_id, peer, length });
    }
    cx.dataplane.send(Command::AddFace(Box::new(face)));
}

/// An attempt to create a face, and the later requests for the same remote URI that wait for it.
#[derive(Debug)]
struct SharedAttempt {
    remote: FaceUri,
    /// Ticket of the first request.
    ticket: u64,
    others: Vec<FaceSpec>,
}

/// Attempts to create faces, by remote URI.
#[derive(Debug, Default)]
struct SharedAttempts(Vec<SharedAttempt>);

impl SharedAttempts {
    /// Returns true if the caller must create the face; otherwise an attempt is under way and `spec` waits for it.
    fn begin(&mut self, remote: &FaceUri, spec: &FaceSpec) -> bool {
        if let Some(first) = self.0.iter_mut().find(|first| first.remote == *remote) {
            first.others.push(*spec);
            return false;
        }
        let begun = |ticket| SharedAttempt { remote: remote.clone(), ticket, others: Vec::new() };
        self.0.extend(spec.ticket.map(begun));
        true
    }

    fn is_shared(&self, ticket: Option<u64>) -> bool {
        self.0.iter().any(|first| Some(first.ticket) == ticket && !first.others.is_empty())
    }

    /// Ends the attempt of this ticket and returns the further requests that waited for it.
    fn end(&mut self, ticket: Option<u64>) -> Vec<FaceSpec> {
        let first = self.0.iter().position(|first| Some(first.ticket) == ticket);
        first.map(|first| self.0.swap_remove(first).others).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use ndn_face::Persistency;
    use ndn_forwarding::PitTokenPolicy;

    use super::*;

    fn spec(ticket: u64) -> FaceSpec {
        FaceSpec {
            ticket: Some(ticket),
            persistency: Persistency::Persistent,
            keeper: None,
            pit_tokens: PitTokenPolicy::WhenSeen,
            options: ndn_management::request::FaceOptions::default(),
        }
    }

    #[test]
    fn concurrent_requests_for_one_remote_create_one_face() {
        let mut faces = SharedAttempts::default();
        let [here, there] =
            ["192.0.2.1:1", "192.0.2.2:1"].map(|address| FaceUri::tcp(address.parse().unwrap()));
        assert!(faces.begin(&here, &spec(1)));
        assert!(!faces.begin(&here, &spec(2)));
        assert!(faces.begin(&there, &spec(3)));
        assert!(!faces.begin(&here, &spec(4)));
        assert!(faces.is_shared(Some(1)) && !faces.is_shared(Some(3)));
        assert!(faces.end(Some(2)).is_empty(), "it is not the first");
        assert!(faces.end(None).is_empty());
        let others: Vec<_> = faces.end(Some(1)).iter().map(|other| other.ticket).collect();
        assert_eq!(others, [Some(2), Some(4)]);
        assert!(faces.begin(&here, &spec(5)), "the attempt is over");
        assert!(faces.end(Some(3)).is_empty());
    }
}

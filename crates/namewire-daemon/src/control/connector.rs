//! Creates faces for `faces/create` and for configured faces: looks up host names, connects TCP, and passes other
//! requests to the service of their transport.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ndn_management::status;
use ndn_sys::poll::Interest;
use ndn_sys::stream;
use ndn_types::{FaceUri, Reserves, Timestamp};
use tracing::{info, warn};

use super::commands::FaceCommands;
use super::path_mtu;
use super::service::{Cx, Deadline, Event, FaceRequest, Reason, Service, ServiceName};
use super::tokens::{TOKEN_ATTEMPTS, TOKEN_HANDSHAKES, TOKEN_NAMES};
use crate::addresses::{self, NoAddress, words};
use crate::faces::{self, FaceSpec};
use crate::listeners::OwnAddresses;
use crate::local_peers::LocalPeers;
use crate::names::{self, HostNames, LookupResult};

/// Connection timeout of `faces/create` (NFD answers 504 after 4 s).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// Time for which a request waits for the report of a face that exists; it may have closed.
const AWAITED_FACE_TIME_MAX: Duration = Duration::from_secs(1);

/// A request for a face that exists, but is not reported yet.
#[derive(Debug)]
struct AwaitedFace {
    ticket: Option<u64>,
    face_id: u64,
    deadline: Timestamp,
}

/// A TCP connection attempt.
#[derive(Debug)]
struct Attempt {
    stream: OwnedFd,
    remote: SocketAddr,
    spec: FaceSpec,
    deadline: Timestamp,
}

/// Faces being created.
#[derive(Debug)]
pub(super) struct Connector {
    /// TCP connections, by token.
    attempts: BTreeMap<u64, Attempt>,
    next_attempt: u64,
    shared: SharedAttempts,
    /// Each is a request that waits.
    awaited: Vec<AwaitedFace>,
    names: HostNames,
    own: OwnAddresses,
    /// Which peers of TCP connections may use `/localhost`.
    local_peers: Arc<LocalPeers>,
}

impl Service for Connector {
    type Dataplane = dyn FaceCommands;
    const NAME: ServiceName = ServiceName::Connector;

    #[expect(clippy::wildcard_enum_match_arm, reason = "`Event::receivers` is exhaustive")]
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Event) -> Option<Event> {
        match event {
            Event::Create(request) => {
                let FaceRequest { remote, local, spec } = *request;
                if remote.has_host_name() {
                    self.look_up(cx, &remote, &spec);
                } else {
                    self.create(cx, &remote, local.as_ref(), &spec);
                }
            }
            Event::ListenersChanged { addresses, local_peers, .. } => {
                (self.own, self.local_peers) = (addresses, local_peers);
            }
            Event::Cancel { ticket } => self.cancel(cx, ticket),
            Event::Ready(TOKEN_NAMES) => self.resolved(cx),
            Event::Ready(token @ TOKEN_ATTEMPTS..TOKEN_HANDSHAKES) => self.connected(cx, token),
            Event::FaceExists { ticket, face_id } => {
                self.end_shared(cx, ticket, face_id);
                return Some(event);
            }
            Event::FaceAwaited { ticket, face_id } => {
                let deadline = cx.after(AWAITED_FACE_TIME_MAX);
                self.awaited.push(AwaitedFace { ticket, face_id, deadline });
            }
            Event::FaceAdded { ticket, ref record, .. } => {
                let face_id = record.properties.face_id;
                self.end_shared(cx, ticket, face_id);
                for AwaitedFace { ticket, .. } in self.take_awaited(face_id) {
                    cx.post(Event::FaceExists { ticket, face_id });
                }
                return Some(event);
            }
            Event::FaceRefused(face_id) | Event::FaceClosed { face_id, .. } => {
                self.take_awaited(face_id).iter().for_each(|awaited| closed(cx, awaited));
                return Some(event);
            }
            Event::AttemptFailed { ticket, code, text } => {
                self.attempt_failed(cx, ticket, code, &text);
            }
            other => return other.unhandled(),
        }
        None
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let attempts = self.attempts.values().map(|attempt| attempt.deadline);
        let deadlines = attempts.chain(self.awaited.iter().map(|awaited| awaited.deadline));
        deadlines.min().map(|at| (at, Reason::Connect))
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>, _: Reason) {
        let now = cx.now().monotonic;
        for (_, late) in self.attempts.extract_if(.., |_, attempt| attempt.deadline <= now) {
            connect_failed(cx, &late.spec, late.remote, "Connection timed out");
        }
        for late in self.awaited.extract_if(.., |awaited| awaited.deadline <= now) {
            closed(cx, &late);
        }
    }
}

impl Connector {
    /// A connector of a forwarder that listens at `own`.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub(super) fn new(
        own: OwnAddresses,
        local_peers: Arc<LocalPeers>,
        reserves: Reserves,
    ) -> std::io::Result<Self> {
        Ok(Self {
            attempts: BTreeMap::new(),
            next_attempt: TOKEN_ATTEMPTS,
            shared: SharedAttempts::default(),
            awaited: Vec::new(),
            names: HostNames::new(reserves)?,
            own,
            local_peers,
        })
    }

    /// Readable when host names have been resolved.
    pub(super) fn names(&self) -> &HostNames {
        &self.names
    }

    /// Ends the wait of the requests for a face.
    fn take_awaited(&mut self, face_id: u64) -> Vec<AwaitedFace> {
        self.awaited.extract_if(.., |awaited| awaited.face_id == face_id).collect()
    }

    /// Stops to create the face of this ticket, unless other requests wait for it.
    fn cancel(&mut self, cx: &mut Cx<'_>, ticket: u64) {
        let cancelled = self.shared.cancel(ticket);
        match cancelled {
            Cancelled::IsShared => self.names.forget_others(ticket),
            Cancelled::Alone | Cancelled::Further => self.names.forget(Some(ticket)),
        }
        match cancelled {
            Cancelled::Alone => {
                self.attempts.retain(|_, attempt| attempt.spec.ticket != Some(ticket));
                self.awaited.retain(|awaited| awaited.ticket != Some(ticket));
                cx.post(Event::Abandon { ticket });
            }
            Cancelled::Further => {}
            Cancelled::IsShared => return,
        }
        let (code, text) = (status::INTERNAL_ERROR, "given up".to_owned());
        cx.post(Event::FaceFailed { ticket: Some(ticket), code, text });
    }

    /// Reports the face of this ticket to the requests that waited for it, too.
    fn end_shared(&mut self, cx: &mut Cx<'_>, ticket: Option<u64>, face_id: u64) {
        self.names.forget(ticket);
        for FaceSpec { ticket, .. } in self.shared.end(ticket) {
            cx.post(Event::FaceExists { ticket, face_id });
        }
    }

    /// Continues to create faces whose host names have been resolved.
    fn resolved(&mut self, cx: &mut Cx<'_>) {
        for LookupResult { remote, spec, result } in self.names.take_answers() {
            match result.and_then(|ends| names::reachable(ends, &self.own.udp)) {
                Ok(ends) if remote.scheme() == "https" => {
                    let addresses = ends.iter().filter_map(FaceUri::socket_address).collect();
                    cx.post(Event::CreateSession { remote, addresses, spec });
                }
                Ok(ends) => {
                    if let Some(remote) = self.names.first_of(ends, spec) {
                        self.create(cx, &remote, None, &spec);
                    }
                }
                Err(reason) => {
                    cx.attempt_failed(&remote, &spec, status::CONNECT_FAILED, reason);
                }
            }
        }
    }

    /// Starts to look up the host of a remote URI.
    fn look_up(&mut self, cx: &mut Cx<'_>, remote: &FaceUri, spec: &FaceSpec) {
        if let Err(error) = self.names.look_up(remote, *spec) {
            let text = format!("{remote} cannot be looked up: {error}");
            cx.attempt_failed(remote, spec, status::CONNECT_FAILED, text);
        }
    }

    /// Creates a face whose remote URI has no host name, or starts to connect it: the kinds of faces, by their schemes.
    fn create(
        &mut self,
        cx: &mut Cx<'_>,
        remote: &FaceUri,
        local: Option<&FaceUri>,
        spec: &FaceSpec,
    ) {
        match remote.scheme() {
            "ether" => create_station(cx, remote, local, spec),
            "memif" => self.connect_memif(cx, remote, spec),
            "https" => self.connect_session(cx, remote, spec),
            "udp" | "udp4" | "udp6" => self.create_datagram(cx, remote, spec),
            "tcp" | "tcp4" | "tcp6" => self.connect_tcp(cx, remote, spec),
            _ => no_address(cx, remote, spec, &NoAddress::OtherKind),
        }
    }

    /// Starts to connect a memif face.
    fn connect_memif(&mut self, cx: &mut Cx<'_>, remote: &FaceUri, spec: &FaceSpec) {
        let Ok(address) = ndn_memif::Address::from_path(remote.path()) else {
            return no_address(cx, remote, spec, &NoAddress::OtherKind);
        };
        let remote = FaceUri::memif(&address.socket, address.id);
        if self.begin(cx, &remote, spec) {
            cx.post(Event::CreateMemif { address, spec: *spec });
        }
    }

    /// Starts to open a WebTransport session.
    fn connect_session(&mut self, cx: &mut Cx<'_>, remote: &FaceUri, spec: &FaceSpec) {
        if let Ok(address) = addresses::far_end(remote) {
            self.warn_if_own(cx, remote, address, spec);
        }
        if self.begin(cx, remote, spec) {
            self.look_up(cx, remote, spec);
        }
    }

    /// The address of a UDP or TCP URI; reports the failure if there is none.
    fn address_of(&self, cx: &mut Cx<'_>, remote: &FaceUri, spec: &FaceSpec) -> Option<SocketAddr> {
        let address = addresses::far_end(remote);
        let address = address.map_err(|why| no_address(cx, remote, spec, &why)).ok()?;
        self.warn_if_own(cx, remote, address, spec);
        Some(address)
    }

    /// Logs that a face leads to a listener of this forwarder. NFD also creates this face. Packets sent to it come back and
    /// are dropped as loops.
    fn warn_if_own(&self, cx: &mut Cx<'_>, remote: &FaceUri, address: SocketAddr, spec: &FaceSpec) {
        if self.own.include(remote.scheme(), address)
            && let Some(unlogged) = cx.admits_line(spec)
        {
            warn!(%remote, unlogged, "face to a listener of this forwarder: its packets return and are dropped as loops");
        }
    }

    /// Returns whether a face for `remote` has to be connected: there is none, and no attempt is under way.
    fn begin(&mut self, cx: &mut Cx<'_>, remote: &FaceUri, spec: &FaceSpec) -> bool {
        if let Some(face_id) = cx.faces().with_remote(remote) {
            cx.post(Event::FaceExists { ticket: spec.ticket, face_id });
            return false;
        }
        self.shared.begin(remote, spec)
    }

    /// Creates a UDP face if there is a route to the peer.
    fn create_datagram(&self, cx: &mut Cx<'_>, remote: &FaceUri, spec: &FaceSpec) {
        let Some(peer) = self.address_of(cx, remote, spec) else { return };
        let route = match addresses::way_to(peer) {
            Ok(route) => route,
            Err(error) => {
                let text = format!("Face creation failed: connect: {}", words(&error));
                return cx.attempt_failed(&FaceUri::udp(peer), spec, status::CONNECT_FAILED, text);
            }
        };
        let face_id = cx.dataplane().allocate_face_id();
        let mut face = faces::datagram(face_id, peer, spec, cx.config());
        let payload_max = route.map(|route| route.payload_max);
        if let Some(length) = path_mtu::frame_length(cx.config(), spec, payload_max) {
            face.options.link.mtu = Some(length);
            cx.post(Event::FollowPath { face_id, peer, length });
        }
        cx.add_face(face);
    }

    /// Starts to connect a TCP face.
    fn connect_tcp(&mut self, cx: &mut Cx<'_>, remote: &FaceUri, spec: &FaceSpec) {
        let Some(remote) = self.address_of(cx, remote, spec) else { return };
        if !self.begin(cx, &FaceUri::tcp(remote), spec) {
            return;
        }
        let token = self.next_attempt;
        let started = stream::connect_tcp(remote).and_then(|stream| {
            cx.watch(&stream, token, Interest::Writable)?;
            Ok(stream)
        });
        match started {
            Ok(stream) => {
                self.next_attempt += 1;
                let deadline = cx.after(CONNECT_TIMEOUT);
                let attempt = Attempt { stream, remote, spec: *spec, deadline };
                self.attempts.insert(token, attempt);
            }
            Err(error) => connect_failed(cx, spec, remote, &words(&error)),
        }
    }

    /// Handles the end of a connection attempt.
    fn connected(&mut self, cx: &mut Cx<'_>, token: u64) {
        let Some(attempt) = self.attempts.remove(&token) else { return };
        let Attempt { stream, remote, spec, .. } = attempt;
        let ended = stream::take_error(stream.as_fd()).and_then(|()| cx.unwatch(&stream));
        if let Err(error) = ended {
            return connect_failed(cx, &spec, remote, &words(&error));
        }
        let face_id = cx.dataplane().allocate_face_id();
        let identity = self.local_peers.identify(stream.as_fd(), remote);
        if let Some(reason) = &identity.not_local {
            let now = cx.now();
            cx.log().refused.not_local(now, identity.principal, Some(remote), reason);
        }
        let face = faces::connected_tcp(face_id, stream, remote, &identity, &spec, cx.config());
        cx.add_face(face);
    }

    /// Reports a failed attempt to all requests that waited for it, after trying the other addresses of the host.
    fn attempt_failed(&mut self, cx: &mut Cx<'_>, ticket: Option<u64>, code: u32, text: &str) {
        let others = self.shared.end(ticket);
        for ticket in std::iter::once(ticket).chain(others.iter().map(|other| other.ticket)) {
            if let Some((remote, spec)) = self.names.next_of(ticket) {
                if let Some(unlogged) = cx.admits_line(&spec) {
                    info!(%remote, unlogged, "connection failed: trying the next address of the host");
                }
                self.create(cx, &remote, None, &spec);
                continue;
            }
            cx.post(Event::FaceFailed { ticket, code, text: text.to_owned() });
        }
    }
}

fn connect_failed(cx: &mut Cx<'_>, spec: &FaceSpec, remote: SocketAddr, reason: &str) {
    let text = format!("Connection failed: {reason}");
    cx.attempt_failed(&FaceUri::tcp(remote), spec, status::CONNECT_FAILED, text);
}

/// Handles a URI without a usable address; the condition may be temporary.
fn no_address(cx: &mut Cx<'_>, remote: &FaceUri, spec: &FaceSpec, why: &NoAddress) {
    let (code, text) = match why {
        NoAddress::OtherKind => (status::NOT_ACCEPTABLE, why.to_string()),
        // The text begins as NFD's does.
        NoAddress::NoZone | NoAddress::NoInterface(_) if spec.is_command() => {
            (status::BAD_REQUEST, format!("Non-canonical remote URI: {why}"))
        }
        NoAddress::NoZone | NoAddress::NoInterface(_) => (status::BAD_REQUEST, why.to_string()),
    };
    cx.attempt_failed(remote, spec, code, text);
}

/// Reports that a requested face existed, and has closed.
fn closed(cx: &mut Cx<'_>, awaited: &AwaitedFace) {
    let text = "the face that the peer had has closed".to_owned();
    cx.post(Event::AttemptFailed { ticket: awaited.ticket, code: status::INTERNAL_ERROR, text });
}

/// Creates the face of an Ethernet station, at the interface of the local URI.
fn create_station(cx: &mut Cx<'_>, remote: &FaceUri, local: Option<&FaceUri>, spec: &FaceSpec) {
    let Some(mac) = remote.ethernet_address() else {
        return no_address(cx, remote, spec, &NoAddress::OtherKind);
    };
    let interface = local.map_or("", |local| local.host()).to_owned();
    cx.post(Event::CreateStation { mac, interface, spec: *spec });
}

/// An attempt to create a face, and the later requests for the same remote URI that wait for it.
#[derive(Debug)]
struct SharedAttempt {
    remote: FaceUri,
    /// Ticket of the first request.
    ticket: u64,
    others: Vec<FaceSpec>,
}

/// Result of [`SharedAttempts::cancel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cancelled {
    /// No request waits for the attempt any more.
    Alone,
    /// The request waited for the attempt of another, which goes on.
    Further,
    /// Other requests wait for the attempt of this request, which goes on.
    IsShared,
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

    /// Removes the request of this ticket.
    fn cancel(&mut self, ticket: u64) -> Cancelled {
        let Some(at) = self.0.iter().position(|first| first.ticket == ticket) else {
            let is_it = |other: &mut FaceSpec| other.ticket == Some(ticket);
            let removed = self.0.iter_mut().flat_map(|first| first.others.extract_if(.., is_it));
            return if removed.count() > 0 { Cancelled::Further } else { Cancelled::Alone };
        };
        if !self.0[at].others.is_empty() {
            return Cancelled::IsShared;
        }
        // A later request for the same remote begins another attempt.
        self.0.swap_remove(at);
        Cancelled::Alone
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

    use ndn_forwarding::PitTokenPolicy;
    use ndn_types::Persistency;

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
        assert!(faces.end(Some(2)).is_empty(), "it is not the first");
        assert!(faces.end(None).is_empty());
        let others: Vec<_> = faces.end(Some(1)).iter().map(|other| other.ticket).collect();
        assert_eq!(others, [Some(2), Some(4)]);
        assert!(faces.begin(&here, &spec(5)), "the attempt is over");
        assert!(faces.end(Some(3)).is_empty());
    }

    #[test]
    fn cancelled_request_ends_only_an_attempt_that_no_other_request_waits_for() {
        let mut faces = SharedAttempts::default();
        let remote = FaceUri::tcp("192.0.2.1:1".parse().unwrap());
        assert!(faces.begin(&remote, &spec(1)));
        assert!(!faces.begin(&remote, &spec(2)) && !faces.begin(&remote, &spec(3)));
        assert_eq!(faces.cancel(2), Cancelled::Further);
        assert_eq!(faces.cancel(1), Cancelled::IsShared);
        let others: Vec<_> = faces.end(Some(1)).iter().map(|other| other.ticket).collect();
        assert_eq!(others, [Some(3)], "the cancelled one is not answered again");
        assert!(faces.begin(&remote, &spec(4)));
        assert_eq!(faces.cancel(4), Cancelled::Alone);
        assert!(faces.begin(&remote, &spec(5)), "it does not join the cancelled attempt");
        assert_eq!(faces.cancel(9), Cancelled::Alone, "an attempt that is not shared");
    }
}

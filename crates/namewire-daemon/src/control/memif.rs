//! Memif handshakes: clients of this forwarder, and servers that it connects to.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ndn_dataplane::NewFace;
use ndn_face::{FaceOptions, MemifClient, MemifConnection, MemifEnd};
use ndn_forwarding::{FaceProperties, PitTokenPolicy};
use ndn_management::status;
use ndn_memif::{
    Address, ClientHandshake, ClientOptions, Connection, HandshakeError, MemoryBudget, Progress,
    Refusal, Secret, ServerHandshake, ServerOptions,
};
use ndn_sys::poll::Interest;
use ndn_sys::seqpacket;
use ndn_types::{
    FaceUri, LedgerReport, Persistency, PrincipalKey, Reserves, Scope, SharedPlaces, Timestamp,
};
use tracing::{debug, info, warn};

use super::commands::FaceCommands;
use super::service::{Cx, Deadline, Event, Reason, Service, ServiceName};
use super::tokens::TOKEN_MEMIF;
use crate::config::{Config, MemifSecrecy};
use crate::faces::FaceSpec;
use crate::local_peers::PeerIdentity;
use crate::settings;
use namewire_control::{MemifRefusal, MemifStatus};

/// Maximum concurrent handshakes with clients, which users share. Starting one costs a client nothing.
const HANDSHAKES_MAX: usize = 64;
/// Maximum concurrent connections to servers that commands wait for, which users share with operators: each holds a socket,
/// and requesting one is cheap.
const ATTEMPTS_MAX: usize = 64;
/// Failure of a command whose principal has its share of the connections being made.
const TOO_MANY_ATTEMPTS: &str = "too many connections are being made";
/// Handshake timeout of a client.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Handshake timeout of a server for a requested face: equal to the TCP timeout of `faces/create`.
const SERVER_TIMEOUT: Duration = Duration::from_secs(4);

ndn_types::resource! {
    /// Handshakes with memif clients, which users share.
    pub(super) struct MemifHandshakes = "memif_handshakes";
}

ndn_types::resource! {
    /// Connections being made to memif servers, which users share with operators.
    pub(super) struct MemifAttempts = "memif_attempts";
}

/// A client during its handshake.
#[derive(Debug)]
struct Pending {
    handshake: ServerHandshake,
    /// Path of the listener that accepted it.
    socket: PathBuf,
    /// User id of the peer, from the kernel.
    user: u32,
    deadline: Timestamp,
}

/// A server during its handshake, for a requested face.
#[derive(Debug)]
struct Attempt {
    handshake: ClientHandshake,
    address: Address,
    options: ClientOptions,
    spec: FaceSpec,
    deadline: Timestamp,
}

/// Clients during the handshake, servers being connected to, and interfaces in use.
#[derive(Debug)]
pub(super) struct Memif {
    /// By token, as the attempts.
    pending: SharedPlaces<MemifHandshakes, Pending>,
    attempts: SharedPlaces<MemifAttempts, Attempt>,
    next_token: u64,
    /// Interface of each face.
    taken: BTreeMap<u64, Address>,
    /// Memory budget shared by all clients.
    memory: Arc<MemoryBudget>,
    /// Number of rejected clients, by reason.
    refused: BTreeMap<MemifRefusal, u64>,
    /// The clients that need a secret, as logged.
    secrecy: Option<MemifSecrecy>,
}

impl Service for Memif {
    type Dataplane = dyn FaceCommands;
    const NAME: ServiceName = ServiceName::Memif;

    #[expect(clippy::wildcard_enum_match_arm, reason = "`Event::receivers` is exhaustive")]
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Event) -> Option<Event> {
        match event {
            Event::MemifClient { stream, socket } => self.begin(cx, stream, socket),
            Event::CreateMemif { address, spec } => self.create(cx, address, &spec),
            Event::Ready(token) if token >= TOKEN_MEMIF => match self.attempts.remove(token) {
                Some(attempt) => self.advance_attempt(cx, token, attempt),
                None => self.advance_client(cx, token),
            },
            Event::Abandon { ticket } => {
                drop(self.attempts.remove_all(|attempt| attempt.spec.ticket == Some(ticket)));
                return Some(event);
            }
            Event::FaceRefused(face_id) | Event::FaceClosed { face_id, .. } => {
                self.taken.remove(&face_id);
                return Some(event);
            }
            Event::Reloaded => {
                if self.secrecy.as_ref().is_some_and(|had| *had != cx.config().memif_secrecy()) {
                    self.log_secrecy(cx.config());
                }
                return Some(event);
            }
            other => return other.unhandled(),
        }
        None
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let attempts = self.attempts.values().map(|attempt| attempt.deadline);
        let pending = self.pending.values().map(|pending| pending.deadline);
        pending.chain(attempts).min().map(|at| (at, Reason::Memif))
    }

    /// Drops attempts and clients that have timed out.
    fn handle_timeout(&mut self, cx: &mut Cx<'_>, _: Reason) {
        let now = cx.now().monotonic;
        for pending in self.pending.remove_all(|pending| pending.deadline <= now) {
            ndn_memif::send_disconnect(pending.handshake.as_fd(), "The handshake takes too long");
            *self.refused.entry(MemifRefusal::TooSlow).or_default() += 1;
        }
        for attempt in self.attempts.remove_all(|attempt| attempt.deadline <= now) {
            ndn_memif::send_disconnect(attempt.handshake.as_fd(), "The handshake takes too long");
            server_failed(cx, &attempt.address, &attempt.spec, "the server does not answer");
        }
    }
}

impl Memif {
    pub(super) fn new(config: &Config) -> Self {
        let memory = MemoryBudget::new(config.listeners.memif.memory.0);
        // Only users of this host and operators take these places: nobody needs a reserve.
        let pending = SharedPlaces::new(HANDSHAKES_MAX, Reserves::NONE);
        let attempts = SharedPlaces::new(ATTEMPTS_MAX, Reserves::NONE);
        let (taken, refused) = (BTreeMap::new(), BTreeMap::new());
        let (next_token, secrecy) = (TOKEN_MEMIF, None);
        Self { pending, attempts, next_token, taken, memory, refused, secrecy }
    }

    /// Logs whether clients need a secret, now and after each change of the settings.
    pub(super) fn log_secrecy(&mut self, config: &Config) {
        let secrecy = config.memif_secrecy();
        if config.listeners.memif.enabled {
            log_secrecy(config, &secrecy);
        }
        self.secrecy = Some(secrecy);
    }

    /// Status for `namewire memif`.
    pub(super) fn status(&self, config: &Config) -> MemifStatus {
        let refused = self.refused.iter();
        MemifStatus {
            is_listening: config.listeners.memif.enabled,
            clients: self.taken.len() as u64,
            memory_bytes: self.memory.used(),
            memory_bytes_max: self.memory.bytes_max(),
            refused: refused.map(|(reason, count)| (reason.name().to_owned(), *count)).collect(),
        }
    }

    /// The handshakes with clients, and the connections being made to servers, that principals hold.
    pub(super) fn reports(&self) -> (LedgerReport<1>, LedgerReport<1>) {
        (self.pending.report(), self.attempts.report())
    }

    fn count(&mut self, reason: MemifRefusal) {
        *self.refused.entry(reason).or_default() += 1;
    }

    /// Starts the handshake with a client.
    fn begin(&mut self, cx: &mut Cx<'_>, stream: OwnedFd, socket: PathBuf) {
        let user = match seqpacket::user_of_peer(stream.as_fd()) {
            Ok(user) => user,
            Err(error) => return debug!(%error, "a memif client was lost"),
        };
        let ended = match self.pending.make_room(principal_of(user)) {
            Ok(displaced) => displaced.map(|Pending { handshake, user, .. }| (handshake, user)),
            Err(_) => {
                self.turn_away(cx, stream.as_fd(), user);
                return;
            }
        };
        if let Some((handshake, user)) = ended {
            self.turn_away(cx, handshake.as_fd(), user);
        }
        let options = ServerOptions {
            buffer_length: buffer_length(cx.config()),
            chains: cx.config().listeners.memif.chains,
            memory: Some(Arc::clone(&self.memory)),
        };
        let token = self.next_token;
        let begun = ServerHandshake::new(stream, options).map_err(|error| error.to_string());
        let added = begun.and_then(|handshake| {
            let added = cx.watch(handshake.as_fd(), token, Interest::Readable);
            added.map(|()| handshake).map_err(|error| error.to_string())
        });
        match added {
            Err(error) => debug!(error, "a memif client was lost"),
            Ok(handshake) => {
                self.next_token += 1;
                let deadline = cx.after(TIMEOUT);
                let pending = Pending { handshake, socket, user, deadline };
                self.pending.insert(token, principal_of(user), pending);
            }
        }
    }

    /// Rejects a client whose user has its share of the handshakes.
    fn turn_away(&mut self, cx: &mut Cx<'_>, stream: BorrowedFd<'_>, user: u32) {
        let now = cx.now();
        cx.log().refused.memif_turned_away(now, user, HANDSHAKES_MAX);
        ndn_memif::send_disconnect(stream, "Too many clients connect at this moment");
        self.count(MemifRefusal::TooManyHandshakes);
    }

    /// Continues the handshake of a client.
    fn advance_client(&mut self, cx: &mut Cx<'_>, token: u64) {
        let Some(pending) = self.pending.remove(token) else { return };
        let Pending { handshake, socket, user, deadline } = pending;
        let interface = |id| Address { socket: socket.clone(), id: Some(id) };
        let is_taken = |id| {
            let connects = |other: &Pending| other.handshake.id() == Some(id);
            self.taken.values().any(|taken| *taken == interface(id))
                || self.pending.values().any(connects)
        };
        let admit = |id, output: &Secret| {
            let spec = cx.config().memif_secret(&interface(id));
            match spec.is_none() || spec == *output {
                // Only an authorized client learns whether the interface is in use.
                true if is_taken(id) => Err(Refusal::Taken),
                true => Ok(()),
                false if output.is_none() => Err(Refusal::SecretMissing),
                false => Err(Refusal::SecretWrong),
            }
        };
        match handshake.advance(admit) {
            Ok(Progress::Waiting(handshake)) => {
                let pending = Pending { handshake, socket, user, deadline };
                self.pending.insert(token, principal_of(user), pending);
            }
            Err(error) => self.client_failed(cx, &socket, &error),
            Ok(Progress::Done(link)) => {
                let remote = interface(link.id);
                self.add_client(cx, link, remote, &Address { socket, id: None });
            }
        }
    }

    /// Logs and counts a failed handshake.
    fn client_failed(&mut self, cx: &mut Cx<'_>, socket: &Path, error: &HandshakeError) {
        match error {
            HandshakeError::NotAdmitted { id, client, refusal } => {
                let interface = Address { socket: socket.to_owned(), id: Some(*id) };
                let client = format!("{client} for {interface}");
                let now = cx.now();
                cx.log().refused.memif_refused(now, &client, error);
                self.count(match refusal {
                    Refusal::SecretMissing => MemifRefusal::NoSecret,
                    Refusal::SecretWrong => MemifRefusal::WrongSecret,
                    Refusal::Taken => MemifRefusal::Taken,
                    Refusal::MemoryUsedUp => MemifRefusal::NoMemory,
                });
            }
            // The client closed the connection.
            HandshakeError::Closed | HandshakeError::Io(_) => {
                debug!(%error, "a memif handshake has ended");
            }
            HandshakeError::Refused(_) => {
                debug!(%error, "a memif handshake has ended");
                self.count(MemifRefusal::Left);
            }
            HandshakeError::Message(_)
            | HandshakeError::Protocol(_)
            | HandshakeError::Memory(_) => {
                let client = format!("client of {}", socket.display());
                let now = cx.now();
                cx.log().refused.memif_refused(now, &client, error);
                self.count(MemifRefusal::Misbehaved);
            }
        }
    }

    fn add_client(
        &mut self,
        cx: &mut Cx<'_>,
        link: Box<Connection>,
        remote: Address,
        local: &Address,
    ) {
        if let Err(error) = cx.unwatch(link.as_fd()) {
            warn!(%error, "a memif client was lost");
            return;
        }
        debug!(%remote, peer = %link.peer, interface = %link.interface, "a memif client has connected");
        let face_id = cx.dataplane().allocate_face_id();
        let properties = FaceProperties {
            // Some applications reject an Interest with a PIT token.
            pit_tokens: PitTokenPolicy::Never,
            principal: PeerIdentity::application(link.as_fd()).principal,
            ..FaceProperties::point_to_point(face_id, Scope::Local)
        };
        let options = options(cx.config(), properties, Persistency::OnDemand);
        cx.add_face(NewFace {
            ticket: None,
            transport: MemifEnd::Accepted(link).into(),
            options,
            remote: face_uri(&remote),
            local: face_uri(local),
        });
        self.taken.insert(face_id, remote);
    }

    /// Creates a face of a server's interface.
    fn create(&mut self, cx: &mut Cx<'_>, address: Address, spec: &FaceSpec) {
        if cx.config().is_own_memif(&address) {
            return server_failed(cx, &address, spec, "this forwarder listens there itself");
        }
        let is_command = spec.is_command();
        let requester = spec.keeper.unwrap_or(PrincipalKey::Management);
        if is_command {
            match self.attempts.make_room(requester) {
                Ok(None) => {}
                Ok(Some(Attempt { address, spec, .. })) => {
                    server_failed(cx, &address, &spec, TOO_MANY_ATTEMPTS);
                }
                Err(_) => return server_failed(cx, &address, spec, TOO_MANY_ATTEMPTS),
            }
        }
        let options = ClientOptions {
            id: address.id.unwrap_or(0),
            secret: cx.config().memif_secret(&address),
            buffer_length: buffer_length(cx.config()),
            chains: cx.config().listeners.memif.chains,
            ..ClientOptions::default()
        };
        let token = self.next_token;
        let begun = MemifClient::connect(address.clone(), options).and_then(|client| {
            if is_command {
                cx.watch(client.handshake.as_fd(), token, Interest::Readable)?;
            }
            Ok(client)
        });
        match begun {
            Err(error) => {
                server_failed(cx, &address, spec, &crate::addresses::words(&error));
            }
            // A command waits for the result of the handshake.
            Ok(client) if is_command => {
                let MemifClient { address, options, handshake } = client;
                let (spec, deadline) = (*spec, cx.after(SERVER_TIMEOUT));
                let attempt = Attempt { handshake, address, options, spec, deadline };
                self.attempts.insert(token, requester, attempt);
                self.next_token += 1;
            }
            // A configured face exists at once and is down until the server answers.
            Ok(client) => {
                let local = client.handshake.as_fd().as_raw_fd();
                add_server(cx, MemifEnd::Client(Box::new(client)), &address, local, spec);
            }
        }
    }

    /// Continues the handshake of an attempt that waits for a server.
    fn advance_attempt(&mut self, cx: &mut Cx<'_>, token: u64, attempt: Attempt) {
        let Attempt { handshake, address, options, spec, deadline } = attempt;
        match handshake.advance() {
            Ok(Progress::Waiting(handshake)) => {
                let requester = spec.keeper.unwrap_or(PrincipalKey::Management);
                let attempt = Attempt { handshake, address, options, spec, deadline };
                self.attempts.insert(token, requester, attempt);
            }
            Ok(Progress::Done(link)) => {
                // From now on a worker polls this socket.
                if let Err(error) = cx.unwatch(link.as_fd()) {
                    let reason = crate::addresses::words(&error);
                    return server_failed(cx, &address, &spec, &reason);
                }
                let local = link.as_fd().as_raw_fd();
                let connection = MemifConnection { address: address.clone(), options, link };
                let end = MemifEnd::Connected(Box::new(connection));
                add_server(cx, end, &address, local, &spec);
            }
            Err(error) => {
                let mut reason = crate::config::text::without_numbers(&error.to_string());
                if let HandshakeError::Refused(disconnect_message) = error
                    && disconnect_message.mentions_secret()
                {
                    reason +=
                        " (what this forwarder says is in [[memif_secrets]] of its configuration)";
                }
                server_failed(cx, &address, &spec, &reason);
            }
        }
    }
}

/// The configured length of buffers, in bytes.
fn buffer_length(config: &Config) -> Option<u32> {
    config.listeners.memif.dataroom.map(|size| u32::try_from(size.0).unwrap_or(u32::MAX))
}

fn log_secrecy(config: &Config, secrecy: &MemifSecrecy) {
    let socket = config.listeners.memif_path();
    let socket = socket.display();
    match secrecy {
        MemifSecrecy::All => info!(%socket, "memif clients need a secret"),
        MemifSecrecy::Of(interfaces) if interfaces.is_empty() => {
            info!(%socket, "memif clients need no secret");
        }
        MemifSecrecy::Of(interfaces) => {
            info!(%socket, ?interfaces, "memif clients of these interfaces need a secret, others none");
        }
    }
}

/// Face options: whole packets if the peer accepts them.
fn options(config: &Config, properties: FaceProperties, persistency: Persistency) -> FaceOptions {
    let mtu = ndn_packet::MAX_PACKET_SIZE;
    let link = settings::datagram_link(&config.faces, &config.limits);
    let options = FaceOptions::datagram(properties, persistency, mtu);
    let local_fields = properties.local_fields;
    let link = ndn_face::LinkOptions { mtu: Some(mtu), local_fields, ..link };
    FaceOptions { link, idle_timeout: None, ..options }
}

fn server_failed(cx: &mut Cx<'_>, address: &Address, spec: &FaceSpec, reason: &str) {
    let text = format!("Cannot connect to {address}: {reason}");
    cx.attempt_failed(address, spec, status::CONNECT_FAILED, text);
}

/// Adds the face of a server that is connected or will be.
fn add_server(cx: &mut Cx<'_>, end: MemifEnd, address: &Address, local: i32, spec: &FaceSpec) {
    let face_id = cx.dataplane().allocate_face_id();
    // The server is most likely another forwarder.
    let properties = spec.properties(face_id, Scope::NonLocal, None);
    let mut options = options(cx.config(), properties, spec.persistency);
    spec.apply(&mut options, cx.config(), None);
    cx.add_face(NewFace {
        ticket: spec.ticket,
        transport: end.into(),
        options,
        remote: face_uri(address),
        local: FaceUri::descriptor(local),
    });
}

/// The principal of a client's user.
const fn principal_of(uid: u32) -> PrincipalKey {
    PrincipalKey::LocalApplication { uid, pid: 0 }
}

/// Returns the face URI of an end of a memif connection.
fn face_uri(address: &Address) -> FaceUri {
    FaceUri::memif(&address.socket, address.id)
}

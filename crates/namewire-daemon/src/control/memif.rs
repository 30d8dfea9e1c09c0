//! Memif handshakes: clients of this forwarder, and servers that it connects to.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ndn_dataplane::{Command, NewFace, NewTransport};
use ndn_face::{FaceOptions, MemifClient, MemifConnection, MemifEnd, Persistency};
use ndn_forwarding::{FaceProperties, PitTokenPolicy, Scope};
use ndn_management::{Now, status};
use ndn_memif::{
    Address, ClientHandshake, ClientOptions, HandshakeError, Link, MemoryBudget, Progress, Refusal,
    Secret, ServerHandshake, ServerOptions,
};
use ndn_sys::poll::Interest;
use ndn_sys::seqpacket;
use ndn_types::FaceUri;
use ndn_types::duration_ns;
use tracing::{debug, info, warn};

use super::Control;
use crate::config::{Config, MemifSecrecy};
use crate::faces::{self, Wanted};
use crate::listeners::LocalEnd;
use crate::settings;
use namewire_control::MemifStatus;

/// First token of handshakes.
pub(super) const TOKEN_MEMIF: u64 = 1 << 49;
/// Maximum concurrent handshakes; further clients are rejected.
const HANDSHAKES_MAX: usize = 64;
/// Maximum concurrent handshakes per user: half, so that other users always find some. Starting one costs a client
/// nothing.
const HANDSHAKES_OF_USER_MAX: usize = HANDSHAKES_MAX / 2;
/// Maximum concurrent connections to servers that commands wait for: each holds a socket, and requesting one is
/// cheap.
const ATTEMPTS_MAX: usize = 64;
/// Handshake timeout of a client.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Handshake timeout of a server for a requested face: equal to the TCP timeout of `faces/create`.
const SERVER_TIMEOUT: Duration = Duration::from_secs(4);

/// A client during its handshake.
#[derive(Debug)]
struct Pending {
    handshake: ServerHandshake,
    /// Index of the listener that accepted it.
    listener: usize,
    /// User id of the peer, from the kernel.
    user: u32,
    deadline_ns: u64,
}

/// A server during its handshake, for a requested face.
#[derive(Debug)]
struct Attempt {
    handshake: ClientHandshake,
    address: Address,
    options: ClientOptions,
    wanted: Wanted,
    deadline_ns: u64,
}

/// Clients during the handshake, servers being connected to, and interfaces in use.
#[derive(Debug)]
pub(super) struct MemifClients {
    pending: BTreeMap<u64, Pending>,
    attempts: BTreeMap<u64, Attempt>,
    next: u64,
    /// Interface of each face.
    taken: BTreeMap<u64, Address>,
    /// Memory budget shared by all clients.
    memory: Arc<MemoryBudget>,
    /// Number of rejected clients, by reason.
    refused: BTreeMap<&'static str, u64>,
}

impl MemifClients {
    pub(super) fn new(config: &Config) -> Self {
        let memory = MemoryBudget::new(config.listeners.memif.memory.0);
        let (pending, attempts) = (BTreeMap::new(), BTreeMap::new());
        let (taken, refused) = (BTreeMap::new(), BTreeMap::new());
        Self { pending, attempts, next: 0, taken, memory, refused }
    }

    fn count(&mut self, reason: &'static str) {
        *self.refused.entry(reason).or_default() += 1;
    }

    /// Deadlines of the handshakes.
    pub(super) fn deadlines_ns(&self) -> impl Iterator<Item = u64> + '_ {
        let attempts = self.attempts.values().map(|attempt| attempt.deadline_ns);
        self.pending.values().map(|pending| pending.deadline_ns).chain(attempts)
    }

    /// Drops clients whose handshake has timed out.
    fn give_up_clients(&mut self, now: Now) {
        let is_late = |pending: &mut Pending| pending.deadline_ns <= now.monotonic_ns;
        let late = self.pending.extract_if(.., |_, pending| is_late(pending));
        let late: Vec<_> = late.map(|(_, pending)| pending.handshake).collect();
        for handshake in late {
            ndn_memif::send_disconnect(handshake.as_fd(), "The handshake takes too long");
            self.count("too_slow");
        }
    }

    /// Frees the interface of a face, if the face has one.
    pub(super) fn face_removed(&mut self, face_id: u64) {
        self.taken.remove(&face_id);
    }
}

impl Control {
    /// Starts the handshake with a client that listener `listener` has accepted.
    pub(super) fn begin_memif(&mut self, now: Now, stream: OwnedFd, listener: usize) {
        let user = match seqpacket::user_of_peer(stream.as_fd()) {
            Ok(user) => user,
            Err(error) => return debug!(%error, "a memif client was lost"),
        };
        if let Err(limit) = room_for(user, self.memif.pending.values().map(|other| other.user)) {
            self.refused_peers.memif_turned_away(now, user, limit);
            let reason = match limit {
                HANDSHAKES_MAX => "Too many clients connect at this moment",
                _ => "Too many clients of this user connect at this moment",
            };
            ndn_memif::send_disconnect(stream.as_fd(), reason);
            return self.memif.count("too_many_handshakes");
        }
        let options = ServerOptions {
            buffer_length: self.config.listeners.memif.dataroom,
            chains: self.config.listeners.memif.chains,
            memory: Some(Arc::clone(&self.memif.memory)),
        };
        let token = TOKEN_MEMIF + self.memif.next;
        let begun = ServerHandshake::new(stream, options).map_err(|error| error.to_string());
        let added = begun.and_then(|handshake| {
            let added = self.poller.add(handshake.as_fd(), token, Interest::Readable);
            added.map(|()| handshake).map_err(|error| error.to_string())
        });
        match added {
            Err(error) => debug!(error, "a memif client was lost"),
            Ok(handshake) => {
                self.memif.next += 1;
                let deadline_ns = deadline(now, TIMEOUT);
                let pending = Pending { handshake, listener, user, deadline_ns };
                self.memif.pending.insert(token, pending);
            }
        }
    }

    /// Continues the handshake of a client or server whose socket is readable.
    pub(super) fn continue_memif(&mut self, now: Now, token: u64) {
        if let Some(attempt) = self.memif.attempts.remove(&token) {
            return self.go_on_attaching(now, token, attempt);
        }
        let Some(pending) = self.memif.pending.remove(&token) else { return };
        let Pending { handshake, listener, user, deadline_ns } = pending;
        let Some(LocalEnd::Memif(socket)) =
            self.listeners.streams.get(listener).map(|listener| &listener.local)
        else {
            return;
        };
        let socket = socket.clone();
        let interface = |id| Address { socket: socket.clone(), id: Some(id) };
        let memif = &self.memif;
        let is_taken = |id| {
            let connects = |other: &Pending| other.handshake.id() == Some(id);
            memif.taken.values().any(|taken| *taken == interface(id))
                || memif.pending.values().any(connects)
        };
        let admit = |id, said: &Secret| {
            let wanted = self.config.memif_secret(&interface(id));
            match wanted.is_none() || wanted == *said {
                // Only an authorized client learns whether the interface is in use.
                true if is_taken(id) => Err(Refusal::Taken),
                true => Ok(()),
                false if said.is_none() => Err(Refusal::SecretMissing),
                false => Err(Refusal::SecretWrong),
            }
        };
        match handshake.advance(admit) {
            Ok(Progress::Waiting(handshake)) => {
                let pending = Pending { handshake, listener, user, deadline_ns };
                self.memif.pending.insert(token, pending);
            }
            Err(error) => self.memif_failed(now, &socket, &error),
            Ok(Progress::Done(link)) => {
                let remote = interface(link.id);
                self.add_memif_face(link, remote, Address { socket, id: None });
            }
        }
    }

    /// Logs and counts a failed handshake.
    fn memif_failed(&mut self, now: Now, socket: &Path, error: &HandshakeError) {
        match error {
            HandshakeError::NotAdmitted { id, client, refusal } => {
                let interface = Address { socket: socket.to_owned(), id: Some(*id) };
                let client = format!("{client} for {interface}");
                self.refused_peers.memif_refused(now, &client, error);
                self.memif.count(match refusal {
                    Refusal::SecretMissing => "no_secret",
                    Refusal::SecretWrong => "wrong_secret",
                    Refusal::Taken => "taken",
                    Refusal::MemoryUsedUp => "no_memory",
                });
            }
            // The client closed the connection.
            HandshakeError::Closed | HandshakeError::Io(_) => {
                debug!(%error, "a memif handshake has ended");
            }
            HandshakeError::Refused(_) => {
                debug!(%error, "a memif handshake has ended");
                self.memif.count("left");
            }
            HandshakeError::Message(_)
            | HandshakeError::Protocol(_)
            | HandshakeError::Memory(_) => {
                let client = format!("somebody at {}", socket.display());
                self.refused_peers.memif_refused(now, &client, error);
                self.memif.count("misbehaved");
            }
        }
    }

    /// Logs whether clients need a secret.
    pub(crate) fn log_memif_secrecy(&self) {
        if !self.config.listeners.memif.enabled {
            return;
        }
        let socket = self.config.listeners.memif_path();
        let socket = socket.display();
        match self.config.memif_secrecy() {
            MemifSecrecy::All => info!(%socket, "memif clients need a secret"),
            MemifSecrecy::Of(interfaces) if interfaces.is_empty() => {
                info!(%socket, "memif clients need no secret");
            }
            MemifSecrecy::Of(interfaces) => {
                info!(%socket, ?interfaces, "memif clients of these interfaces need a secret, others none");
            }
        }
    }

    /// Status for `namewire memif`.
    pub(super) fn memif_status(&self) -> MemifStatus {
        let refused = self.memif.refused.iter();
        MemifStatus {
            is_listening: self.config.listeners.memif.enabled,
            clients: self.memif.taken.len() as u64,
            memory_bytes: self.memif.memory.used(),
            memory_bytes_max: self.memif.memory.bytes_max(),
            refused: refused.map(|(reason, count)| ((*reason).to_owned(), *count)).collect(),
        }
    }

    fn add_memif_face(&mut self, link: Box<Link>, remote: Address, local: Address) {
        if let Err(error) = self.poller.remove(link.as_fd()) {
            warn!(%error, "a memif client was lost");
            return;
        }
        debug!(%remote, peer = %link.peer, interface = %link.interface, "a memif client has connected");
        let face_id = self.dataplane.allocate_face_id();
        let properties = FaceProperties {
            // Some applications reject an Interest with a PIT token.
            pit_tokens: PitTokenPolicy::Never,
            principal: faces::application(link.as_fd()),
            ..FaceProperties::point_to_point(face_id, Scope::Local)
        };
        let options = self.memif_options(properties, Persistency::OnDemand);
        self.memif.taken.insert(face_id, remote.clone());
        self.dataplane.send(Command::AddFace(Box::new(NewFace {
            ticket: None,
            transport: NewTransport::Memif(MemifEnd::Accepted(link)),
            options,
            remote: face_uri(&remote),
            local: face_uri(&local),
        })));
    }

    /// Face options: whole packets if the peer accepts them.
    fn memif_options(&self, properties: FaceProperties, persistency: Persistency) -> FaceOptions {
        let mtu = ndn_packet::MAX_PACKET_SIZE;
        let link = settings::datagram_link(&self.config.faces, &self.config.limits);
        let options = FaceOptions::datagram(properties, persistency, mtu);
        let local_fields = properties.local_fields;
        let link = ndn_face::LinkOptions { mtu: Some(mtu), local_fields, ..link };
        FaceOptions { link, idle_timeout: None, ..options }
    }

    /// Creates a face of a server's interface.
    pub(super) fn create_memif(&mut self, now: Now, address: Address, wanted: &Wanted) {
        let remote = face_uri(&address);
        let existing = self.faces.iter().find(|(_, face)| face.remote == remote).map(|(id, _)| *id);
        if let Some(face_id) = existing {
            let ticket = wanted.ticket;
            return self.handle_event(now, ndn_dataplane::Event::FaceExists { ticket, face_id });
        }
        if self.config.is_own_memif(&address) {
            let reason = "this forwarder listens there itself";
            return self.memif_server_failed(now, &address, wanted, reason);
        }
        if !self.connecting.begin(&remote, wanted) {
            return;
        }
        let is_command = wanted.ticket.is_some_and(|ticket| self.tickets.contains(ticket));
        if is_command && self.memif.attempts.len() >= ATTEMPTS_MAX {
            let text = format!("Cannot connect to {address}: too many connections are being made");
            return self.not_connected(now, wanted.ticket, status::CONNECT_FAILED, &text);
        }
        let options = ClientOptions {
            id: address.id.unwrap_or(0),
            secret: self.config.memif_secret(&address),
            buffer_length: self.config.listeners.memif.dataroom,
            chains: self.config.listeners.memif.chains,
            ..ClientOptions::default()
        };
        let begun = MemifClient::connect(address.clone(), options).and_then(|client| {
            if is_command {
                let token = TOKEN_MEMIF + self.memif.next;
                self.poller.add(client.handshake.as_fd(), token, Interest::Readable)?;
            }
            Ok(client)
        });
        match begun {
            Err(error) => {
                let reason = crate::addresses::words(&error);
                self.memif_server_failed(now, &address, wanted, &reason);
            }
            // A command waits for the result of the handshake.
            Ok(client) if is_command => {
                let MemifClient { address, options, handshake } = client;
                let (wanted, deadline_ns) = (*wanted, deadline(now, SERVER_TIMEOUT));
                let attempt = Attempt { handshake, address, options, wanted, deadline_ns };
                self.memif.attempts.insert(TOKEN_MEMIF + self.memif.next, attempt);
                self.memif.next += 1;
            }
            // A configured face exists at once and is down until the server answers.
            Ok(client) => {
                let local = client.handshake.as_fd().as_raw_fd();
                let end = MemifEnd::Client(Box::new(client));
                self.add_memif_server(end, address, local, wanted);
            }
        }
    }

    /// Continues the handshake of an attempt that waits for a server.
    fn go_on_attaching(&mut self, now: Now, token: u64, attempt: Attempt) {
        let Attempt { handshake, address, options, wanted, deadline_ns } = attempt;
        match handshake.advance() {
            Ok(Progress::Waiting(handshake)) => {
                let attempt = Attempt { handshake, address, options, wanted, deadline_ns };
                self.memif.attempts.insert(token, attempt);
            }
            Ok(Progress::Done(link)) => {
                // From now on a worker polls this socket.
                if let Err(error) = self.poller.remove(link.as_fd()) {
                    let reason = crate::addresses::words(&error);
                    return self.memif_server_failed(now, &address, &wanted, &reason);
                }
                let local = link.as_fd().as_raw_fd();
                let connection = MemifConnection { address: address.clone(), options, link };
                let end = MemifEnd::Connected(Box::new(connection));
                self.add_memif_server(end, address, local, &wanted);
            }
            Err(error) => {
                let mut reason = crate::text::without_numbers(&error.to_string());
                if let HandshakeError::Refused(farewell) = error
                    && farewell.mentions_secret()
                {
                    reason +=
                        " (what this forwarder says is in [[memif_secrets]] of its configuration)";
                }
                self.memif_server_failed(now, &address, &wanted, &reason);
            }
        }
    }

    /// Drops attempts and clients that have timed out.
    pub(super) fn handle_memif_timeouts(&mut self, now: Now) {
        self.memif.give_up_clients(now);
        let is_late = |attempt: &mut Attempt| attempt.deadline_ns <= now.monotonic_ns;
        let late = self.memif.attempts.extract_if(.., |_, attempt| is_late(attempt));
        for (_, attempt) in late.collect::<Vec<_>>() {
            ndn_memif::send_disconnect(attempt.handshake.as_fd(), "The handshake takes too long");
            let reason = "the server does not answer";
            self.memif_server_failed(now, &attempt.address, &attempt.wanted, reason);
        }
    }

    fn memif_server_failed(&mut self, now: Now, address: &Address, wanted: &Wanted, reason: &str) {
        info!(%address, reason, "cannot connect");
        let text = format!("Cannot connect to {address}: {reason}");
        self.not_connected(now, wanted.ticket, status::CONNECT_FAILED, &text);
    }

    /// Adds the face of a server that is connected or will be.
    fn add_memif_server(&mut self, end: MemifEnd, address: Address, local: i32, wanted: &Wanted) {
        let local = FaceUri::descriptor(local);
        let face_id = self.dataplane.allocate_face_id();
        // The server is most likely another forwarder.
        let properties = wanted.properties(face_id, Scope::NonLocal);
        let mut options = self.memif_options(properties, wanted.persistency);
        wanted.apply(&mut options);
        self.dataplane.send(Command::AddFace(Box::new(NewFace {
            ticket: wanted.ticket,
            transport: NewTransport::Memif(end),
            options,
            remote: face_uri(&address),
            local,
        })));
    }
}

fn deadline(now: Now, timeout: Duration) -> u64 {
    now.monotonic_ns.saturating_add(duration_ns(timeout))
}

/// Checks the handshake limits for one more handshake of `user`; returns the limit that is reached.
fn room_for(user: u32, others: impl ExactSizeIterator<Item = u32>) -> Result<(), usize> {
    if others.len() >= HANDSHAKES_MAX {
        return Err(HANDSHAKES_MAX);
    }
    match others.filter(|other| *other == user).count() < HANDSHAKES_OF_USER_MAX {
        true => Ok(()),
        false => Err(HANDSHAKES_OF_USER_MAX),
    }
}

/// Returns the face URI of an end of a memif connection.
fn face_uri(address: &Address) -> FaceUri {
    FaceUri::memif(&address.socket, address.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_per_user_are_limited() {
        let mut users = Vec::new();
        while room_for(1, users.iter().copied()).is_ok() {
            users.push(1);
        }
        assert_eq!(users.len(), HANDSHAKES_OF_USER_MAX);
        assert_eq!(room_for(1, users.iter().copied()), Err(HANDSHAKES_OF_USER_MAX));
        for user in [2, 3] {
            users.extend([user; HANDSHAKES_OF_USER_MAX / 2]);
        }
        assert_eq!(users.len(), HANDSHAKES_MAX);
        assert_eq!(room_for(4, users.iter().copied()), Err(HANDSHAKES_MAX));
        users.retain(|user| *user != 1);
        assert_eq!(room_for(1, users.iter().copied()), Ok(()));
    }
}

//! The common interface of the services of the control thread, and the state that they share.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ndn_dataplane::{Command, Dataplane, FaceDebt};
use ndn_management::{ControlState, Handled, Now};
use ndn_memif::Address;
use ndn_sys::clock::Clock;
use ndn_sys::poll::Poller;
use ndn_table::Timestamp;
use ndn_types::{FaceUri, PrincipalKey, duration_ns};

use super::face_table::FaceTable;
use crate::config::Config;
use crate::faces::{self, FaceSpec};
use crate::listeners::LocalEnd;
use crate::local_peers::{LocalPeers, PeerIdentity};

/// In place of the FaceId of Interests that arrive on the control socket; no face has it.
pub(crate) const CONTROL_SOCKET: u64 = 0;

/// Work of the control thread at a deadline. Work that is due at the same time is done in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Interests to management wait from the last round.
    Interests,
    /// A queue to the workers was full, or the workers do not use new tables yet.
    FullQueue,
    /// Routes or datasets expire, or commands time out.
    Management,
    /// A request over no face times out.
    LocalRequest,
    /// An attempt to connect times out.
    Connect,
    /// A WebSocket handshake times out.
    WebSocketHandshake,
    /// A memif handshake times out or is tried again.
    Memif,
    /// A listener accepts again.
    Accept,
    /// A configured face or a lost session is tried again.
    StaticFaces,
    /// Network interfaces are polled for multicast faces.
    Multicast,
    /// Network interfaces are polled for faces that are bound to them.
    BoundFaces,
    /// Network interfaces are polled for Ethernet faces.
    Ethernet,
    /// Quotas of faces are checked.
    Quotas,
    /// Path MTUs of UDP faces are polled.
    PathMtu,
    /// The load of the workers is balanced.
    Balance,
    /// Captures are polled.
    Captures,
    /// A worker has work.
    Worker,
}

/// The deadlines of all services.
#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeMap<Reason, Timestamp>);

impl Timers {
    /// Sets the deadline, or stops the timer.
    pub(crate) fn set(&mut self, reason: Reason, at_ns: Option<u64>) {
        match at_ns {
            Some(at_ns) => self.0.insert(reason, Timestamp::from_nanos(at_ns)),
            None => self.0.remove(&reason),
        };
    }

    /// Returns the deadline of a timer that runs.
    pub(crate) fn get(&self, reason: Reason) -> Option<Timestamp> {
        self.0.get(&reason).copied()
    }

    /// Returns the earliest deadline.
    pub(crate) fn next(&self) -> Option<(Timestamp, Reason)> {
        self.0.iter().map(|(reason, at)| (*at, *reason)).min()
    }

    /// Stops the timers that are due; returns them in order.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Vec<Reason> {
        let is_due = |_: &Reason, at: &mut Timestamp| at.as_nanos() <= now_ns;
        self.0.extract_if(.., is_due).map(|(reason, _)| reason).collect()
    }
}

/// A face to be created.
#[derive(Debug)]
pub(crate) struct FaceRequest {
    /// Remote URI, possibly with a host name.
    pub(crate) remote: FaceUri,
    /// The network interface of an Ethernet face.
    pub(crate) local: Option<FaceUri>,
    /// Specification.
    pub(crate) spec: FaceSpec,
}

/// A message of a service to others, delivered in order.
#[derive(Debug)]
pub(crate) enum Message {
    /// Create a face.
    Create(Box<FaceRequest>),
    /// Stop to connect the face of this ticket: its requester has given up.
    Cancel { ticket: u64 },
    /// Create a face for an Ethernet station.
    CreateStation { mac: [u8; 6], interface: String, spec: FaceSpec },
    /// Create a face of the interface of a memif server.
    CreateMemif { address: Address, spec: FaceSpec },
    /// Create a face of a WebTransport session.
    CreateSession { remote: FaceUri, spec: FaceSpec },
    /// The requested face exists.
    FaceExists { ticket: Option<u64>, face_id: u64 },
    /// An attempt to create a face has failed: status code and reason.
    AttemptFailed { ticket: Option<u64>, code: u32, text: String },
    /// The requested face was not created: status code and reason.
    FaceFailed { ticket: Option<u64>, code: u32, text: String },
    /// The frame length of a UDP face follows its path.
    FollowPath { face_id: u64, peer: SocketAddr, length: usize },
    /// A client connects to a WebSocket listener.
    WebSocketClient { stream: OwnedFd, peer: Option<SocketAddr>, local: Arc<LocalEnd> },
    /// A client connects to the memif listener at `socket`.
    MemifClient { stream: OwnedFd, socket: PathBuf },
    /// A management Interest of a face, or of the [control socket](CONTROL_SOCKET), was handled.
    Handled { face_id: u64, handled: Handled },
}

/// State that the services share.
#[derive(Debug)]
pub(crate) struct Cx {
    /// Time of this round.
    pub(crate) now: Now,
    /// Settings in force.
    pub(crate) config: Config,
    /// Clock for code that runs outside the control thread.
    pub(crate) clock: Clock,
    /// Descriptors of the control thread.
    pub(crate) poller: Poller,
    /// The workers.
    pub(crate) dataplane: Dataplane,
    /// Management.
    pub(crate) state: ControlState,
    /// Existing faces.
    pub(crate) faces: FaceTable,
    /// Which peers of TCP connections may use `/localhost`.
    pub(crate) local_peers: Arc<LocalPeers>,
    /// Deadlines.
    pub(crate) timers: Timers,
    /// Listening network interfaces, for `faces/channels`.
    pub(crate) ethernet_channels: Vec<String>,
    /// Messages not delivered yet.
    pub(crate) messages: VecDeque<Message>,
}

impl Cx {
    /// Monotonic time of this round, nanoseconds.
    pub(crate) const fn now_ns(&self) -> u64 {
        self.now.monotonic_ns
    }

    /// Returns the time `duration` after this round, nanoseconds.
    pub(crate) fn after(&self, duration: Duration) -> u64 {
        self.now_ns().saturating_add(duration_ns(duration))
    }

    /// Sends a message to other services.
    pub(crate) fn post(&mut self, message: Message) {
        self.messages.push_back(message);
    }

    /// Reports a failed attempt to create a face.
    pub(crate) fn attempt_failed(&mut self, spec: &FaceSpec, code: u32, text: impl Into<String>) {
        self.post(Message::AttemptFailed { ticket: spec.ticket, code, text: text.into() });
    }

    /// Limits the frames of a face to `length` bytes, and updates its record.
    pub(crate) fn resize(&mut self, face_id: u64, length: usize) {
        let Some(face) = self.faces.known.get_mut(&face_id) else { return };
        face.options.link.mtu = Some(length);
        self.state.face_resized(face_id, length as u64);
        let options = Box::new(face.options);
        self.dataplane.send(Command::UpdateFace { face_id, options });
    }

    /// Returns whether a principal may have another on-demand face; logs a refusal.
    pub(crate) fn admits(&mut self, principal: PrincipalKey) -> bool {
        let admits = self.dataplane.admits_face(principal);
        if !admits {
            self.faces.refused.principal_refused(self.now, principal);
        }
        admits
    }

    /// Closes faces of principals that have more than their share, while others need them: those that have received
    /// nothing for the longest time.
    pub(crate) fn settle_faces(&mut self) {
        for FaceDebt { principal, count, faces } in self.dataplane.face_debts() {
            for face_id in self.faces.least_recent(count, faces) {
                self.faces.refused.face_given_up(self.now, principal, face_id);
                self.dataplane.give_up_face(face_id);
            }
        }
    }

    /// Adds the face of an accepted connection whose principal is [admitted](Self::admits).
    pub(crate) fn add_accepted(
        &mut self,
        stream: OwnedFd,
        peer: Option<SocketAddr>,
        local: &LocalEnd,
        identity: &PeerIdentity,
    ) {
        let face_id = self.dataplane.allocate_face_id();
        if let Some(reason) = &identity.not_local {
            self.faces.refused.not_local(self.now, identity.principal, peer, reason);
        }
        let face = faces::accepted(face_id, stream, peer, local, identity, &self.config);
        self.dataplane.send(Command::AddFace(Box::new(face)));
    }
}

/// A part of the control thread with state and deadlines of its own. Its timers are in [`Cx::timers`].
pub(crate) trait Service {
    /// Type of its events.
    type Event;

    /// Handles an event.
    fn handle_event(&mut self, cx: &mut Cx, event: Self::Event);

    /// Performs the work of a timer that was due and has stopped.
    fn handle_timeout(&mut self, cx: &mut Cx, reason: Reason);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_timers_stop_and_the_earliest_deadline_is_next() {
        let mut timers = Timers::default();
        timers.set(Reason::Captures, Some(20));
        timers.set(Reason::Connect, Some(30));
        timers.set(Reason::Accept, Some(20));
        assert_eq!(timers.next(), Some((Timestamp::from_nanos(20), Reason::Accept)));
        assert_eq!(timers.take_due(19), []);
        assert_eq!(timers.take_due(20), [Reason::Accept, Reason::Captures]);
        assert_eq!(timers.next(), Some((Timestamp::from_nanos(30), Reason::Connect)));
        timers.set(Reason::Connect, None);
        assert_eq!((timers.next(), timers.get(Reason::Connect)), (None, None));
    }
}

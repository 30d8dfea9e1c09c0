//! The common interface of the services of the control thread.

use std::collections::BTreeMap;

use ndn_dataplane::{Command, Dataplane};
use ndn_management::{ControlState, Now};
use ndn_sys::clock::Clock;
use ndn_table::Timestamp;

use crate::config::Config;
use crate::faces::KnownFace;

/// Work of the control thread at a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Context of a service.
pub(crate) struct Cx<'a> {
    /// Time of this round.
    pub(crate) now: Now,
    /// Settings in force.
    pub(crate) config: &'a Config,
    /// Clock for code that runs outside the control thread.
    pub(crate) clock: &'a Clock,
    /// The workers.
    pub(crate) dataplane: &'a mut Dataplane,
    /// Management.
    pub(crate) state: &'a mut ControlState,
    /// Existing faces.
    pub(crate) faces: &'a mut BTreeMap<u64, KnownFace>,
}

impl Cx<'_> {
    /// Limits the frames of a face to `length` bytes, and updates its record.
    pub(crate) fn resize(&mut self, face_id: u64, length: usize) {
        let Some(face) = self.faces.get_mut(&face_id) else { return };
        face.options.link.mtu = Some(length);
        self.state.face_resized(face_id, length as u64);
        let options = Box::new(face.options);
        self.dataplane.send(Command::UpdateFace { face_id, options });
    }
}

/// A part of the control thread with state and deadlines of its own.
pub(crate) trait Service {
    /// Type of its events.
    type Event;

    /// Handles an event.
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Self::Event);

    /// Performs due work.
    fn handle_timeout(&mut self, cx: &mut Cx<'_>);

    /// Time and reason of the next [`handle_timeout`](Self::handle_timeout).
    fn next_deadline(&self, config: &Config) -> Option<(Timestamp, Reason)>;
}

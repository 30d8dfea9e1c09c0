//! What the services of the control thread have in common.

use std::collections::BTreeMap;

use ndn_dataplane::{Command, Dataplane};
use ndn_management::{ControlState, Now};
use ndn_sys::clock::Clock;
use ndn_table::Timestamp;

use crate::config::Config;
use crate::faces::KnownFace;

/// What the control thread has to do at a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Interests to management wait from the last round.
    Interests,
    /// A queue to the workers was full, or the workers do not use new tables yet.
    FullQueue,
    /// Routes and datasets expire, commands time out.
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
    /// The load of the workers is evened out.
    Balance,
    /// Captures are polled.
    Captures,
    /// A worker has something to do.
    Worker,
}

/// What a service works with beside its own state.
pub(crate) struct Cx<'a> {
    /// The time of this round.
    pub(crate) now: Now,
    /// The settings in force.
    pub(crate) config: &'a Config,
    /// For what runs outside of the control thread.
    pub(crate) clock: &'a Clock,
    /// The workers.
    pub(crate) dataplane: &'a mut Dataplane,
    /// Management.
    pub(crate) state: &'a mut ControlState,
    /// The faces that exist.
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
    /// What it is told.
    type Event;

    /// Takes an event.
    fn handle_event(&mut self, cx: &mut Cx<'_>, event: Self::Event);

    /// Does what is due.
    fn handle_timeout(&mut self, cx: &mut Cx<'_>);

    /// When [`handle_timeout`](Self::handle_timeout) has something to do, and what.
    fn next_deadline(&self, config: &Config) -> Option<(Timestamp, Reason)>;
}

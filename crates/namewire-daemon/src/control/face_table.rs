//! The existing faces, and the limits and logs of new ones.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use ndn_dataplane::{Command, Dataplane, FaceCreated, MemoryFaceOptions};
use ndn_face::{CloseReason, FaceCounters, FaceOptions, InternalEnd};
use ndn_table::FaceIndex;
use ndn_types::{FaceUri, Persistency, PrincipalClass, Scope, duration_ns};
use tracing::{debug, info};

use super::refusals::LineLimit;
use crate::addresses;

/// Receives the FaceId of an in-memory face.
pub(crate) type MemoryFaceAnswer = SyncSender<io::Result<u64>>;

/// State that the control thread keeps for an existing face.
#[derive(Debug)]
pub(crate) struct KnownFace {
    /// Its index in the worker.
    pub(crate) index: FaceIndex,
    /// Its options.
    pub(crate) options: FaceOptions,
    /// Its counters.
    pub(crate) counters: Arc<FaceCounters>,
    /// Remote URI.
    pub(crate) remote: FaceUri,
    /// Local URI.
    pub(crate) local: FaceUri,
    /// Set while it has no connection or its interface no link.
    lost: Option<Down>,
    /// Set while the kernel reports that packets do not reach its peer.
    doubted: Option<Down>,
    /// Whether it was down in the last notification about it.
    is_reported_down: bool,
    /// The face has a receiving socket of its own, or never needs one.
    is_separated: bool,
}

/// Reason why an existing face is down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Down {
    /// Reason, as text.
    pub(crate) reason: String,
    /// Start time.
    pub(crate) since_ns: u64,
}

impl KnownFace {
    /// State of a new face. `is_requested` is set if a service has requested it.
    fn new(face: &FaceCreated, is_requested: bool) -> Self {
        Self {
            index: face.index,
            options: face.options,
            counters: Arc::clone(&face.counters),
            remote: face.remote.clone(),
            local: face.local.clone(),
            lost: None,
            doubted: None,
            is_reported_down: false,
            // A requested face has its own socket from the start.
            is_separated: is_requested || !face.remote.is_udp(),
        }
    }

    /// Why the face is down, if it is.
    pub(crate) fn down(&self) -> Option<&Down> {
        self.lost.as_ref().or(self.doubted.as_ref())
    }

    /// The network interface of an Ethernet face.
    pub(crate) fn interface(&self) -> Option<&str> {
        (self.local.scheme() == "dev").then(|| self.local.host())
    }

    /// Milliseconds until the face closes if it stays idle.
    pub(crate) fn idle_left_ms(&self, now_ns: u64) -> Option<u64> {
        let timeout = self.options.idle_timeout?;
        let idle = now_ns.saturating_sub(self.counters.last_received_ns.value());
        let left = duration_ns(timeout).saturating_sub(idle);
        (self.options.persistency == Persistency::OnDemand).then_some(left / 1_000_000)
    }

    /// As [`LineLimit::admit`]; faces of operators and of this host have no limit.
    fn admit(&self, limit: &mut LineLimit, now_ns: u64) -> Option<Option<u64>> {
        let principal = self.options.properties.principal;
        match principal.class() {
            PrincipalClass::Remote => limit.admit(now_ns, principal),
            PrincipalClass::Management | PrincipalClass::Local | PrincipalClass::Neighbour => {
                Some(None)
            }
        }
    }

    /// Returns whether the face is permanent and has a session, which a worker cannot reopen.
    pub(super) fn needs_session(&self) -> bool {
        self.remote.scheme() == "https" && self.options.persistency == Persistency::Permanent
    }

    /// Returns whether the face belongs to a local application; such faces come and go often and are logged at a
    /// lower level.
    fn is_local(&self) -> bool {
        self.options.properties.scope == Scope::Local
    }
}

/// The existing faces.
#[derive(Debug, Default)]
pub(crate) struct FaceTable {
    /// By FaceId.
    known: BTreeMap<u64, KnownFace>,
    /// Limit of the lines about created and closed faces of remote peers.
    lines: LineLimit,
    /// Limit of the lines and notifications about those that go down or up.
    changes: LineLimit,
    /// Faces that have gone down or up beyond this limit.
    unreported: BTreeSet<u64>,
    /// In-memory faces being created.
    memory: BTreeMap<u64, MemoryFaceAnswer>,
}

impl FaceTable {
    /// Returns the FaceId of the face with this remote URI.
    pub(crate) fn with_remote(&self, remote: &FaceUri) -> Option<u64> {
        self.known.iter().find(|(_, face)| face.remote == *remote).map(|(face_id, _)| *face_id)
    }

    /// Returns a face.
    pub(crate) fn get(&self, face_id: u64) -> Option<&KnownFace> {
        self.known.get(&face_id)
    }

    /// Returns all faces, by FaceId.
    pub(crate) const fn all(&self) -> &BTreeMap<u64, KnownFace> {
        &self.known
    }

    /// Number of faces.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Changes the options of a face; returns the new options.
    pub(super) fn change(
        &mut self,
        face_id: u64,
        change: impl FnOnce(&mut FaceOptions),
    ) -> Option<FaceOptions> {
        let face = self.known.get_mut(&face_id)?;
        change(&mut face.options);
        Some(face.options)
    }

    /// Returns true if the face has no receiving socket of its own yet and needs one now.
    pub(super) fn begin_separation(&mut self, face_id: u64) -> bool {
        let face = self.known.get_mut(&face_id);
        face.is_some_and(|face| !std::mem::replace(&mut face.is_separated, true))
    }

    /// Of some faces that may be closed for those of others, the `count` ones that have received nothing for the longest
    /// time.
    pub(super) fn least_recent(&self, count: usize, faces: Vec<u64>) -> Vec<u64> {
        let giving_way = faces.into_iter().filter_map(|face_id| {
            // A face that was just made may not be known yet.
            let face = self.known.get(&face_id)?;
            let last_received_ns = face.counters.last_received_ns.value();
            face.options.gives_way().then_some((last_received_ns, face_id))
        });
        let mut giving_way: Vec<_> = giving_way.collect();
        giving_way.sort_unstable();
        giving_way.into_iter().take(count).map(|(_, face_id)| face_id).collect()
    }

    /// Adds a face.
    pub(super) fn face_added(
        &mut self,
        now_ns: u64,
        face_id: u64,
        face: &FaceCreated,
        is_requested: bool,
    ) {
        let known = KnownFace::new(face, is_requested);
        let [remote, local] = [&face.remote, &face.local].map(addresses::named);
        match self.admit_line(now_ns, &known) {
            Some(unlogged) => info!(face_id, %remote, %local, unlogged, "face created"),
            None => debug!(face_id, %remote, %local, "face created"),
        }
        self.known.insert(face_id, known);
        self.end_memory_face(face_id, Ok(()));
    }

    /// As [`LineLimit::admit`], for a line about a face that was created or closed.
    fn admit_line(&mut self, now_ns: u64, face: &KnownFace) -> Option<Option<u64>> {
        if face.is_local() { None } else { face.admit(&mut self.lines, now_ns) }
    }

    /// Handles a face that a worker did not create.
    pub(super) fn face_refused(&mut self, face_id: u64, error: &io::Error) {
        let refused = io::Error::new(error.kind(), error.to_string());
        self.end_memory_face(face_id, Err(refused));
    }

    /// Removes a face; `reason` is set if an operator did not destroy it.
    pub(super) fn face_closed(
        &mut self,
        now_ns: u64,
        face_id: u64,
        reason: Option<CloseReason>,
    ) -> Option<KnownFace> {
        let remote = self.remote_of(face_id);
        self.unreported.remove(&face_id);
        let face = self.known.remove(&face_id);
        let line = face.as_ref().map_or(Some(None), |face| self.admit_line(now_ns, face));
        match (reason, line) {
            (Some(reason), Some(unlogged)) => {
                info!(face_id, %remote, %reason, unlogged, "face closed");
            }
            (None, Some(unlogged)) => info!(face_id, %remote, unlogged, "face destroyed"),
            (Some(reason), None) => debug!(face_id, %remote, %reason, "face closed"),
            (None, None) => debug!(face_id, %remote, "face destroyed"),
        }
        face
    }

    /// Handles a face that has no connection, or still has none. Returns whether to report that it is down.
    pub(super) fn face_down(&mut self, now_ns: u64, face_id: u64, reason: CloseReason) -> bool {
        // A face can start down: a memif face waits for its server's answer.
        let begins = reason == CloseReason::Failed(io::ErrorKind::NotConnected);
        let is_doubt = matches!(reason, CloseReason::Unreachable(_));
        let reason = match begins {
            true => "it waits for its peer".to_owned(),
            false => reason.to_string(),
        };
        let remote = self.remote_of(face_id);
        // A face that was just destroyed is not known any more.
        let Some(face) = self.known.get_mut(&face_id) else { return false };
        let was_down = face.down().is_some();
        let state = if is_doubt { &mut face.doubted } else { &mut face.lost };
        let since_ns = state.as_ref().map_or(now_ns, |down| down.since_ns);
        let is_news = state.as_ref().is_none_or(|down| down.reason != reason);
        *state = Some(Down { reason: reason.clone(), since_ns });
        if begins {
            info!(face_id, %remote, "the face is not up yet: {reason}");
        } else if was_down {
            let line = if is_news { face.admit(&mut self.changes, now_ns) } else { None };
            match line {
                Some(unlogged) => {
                    info!(face_id, %remote, %reason, unlogged, "the face stays down");
                }
                None => debug!(face_id, %remote, %reason, "the face stays down"),
            }
        }
        !was_down && self.report_change(now_ns, face_id, None)
    }

    /// Handles a face that has a connection again, or whose peer has sent something (`is_reached`). Returns whether to
    /// report that it is up: each of these ends one reason why it was down.
    pub(super) fn face_up(&mut self, now_ns: u64, face_id: u64, is_reached: bool) -> bool {
        let remote = self.remote_of(face_id);
        let Some(face) = self.known.get_mut(&face_id) else { return false };
        let down = if is_reached { face.doubted.take() } else { face.lost.take() };
        if let Some(Down { reason, .. }) = face.down() {
            debug!(face_id, %remote, %reason, "the face stays down");
            return false;
        }
        self.report_change(now_ns, face_id, down)
    }

    /// Logs that a face is down or up, unless this was its last reported state. Returns whether it may be reported now;
    /// if not, [`take_unreported`](Self::take_unreported) reports it.
    fn report_change(&mut self, now_ns: u64, face_id: u64, ended: Option<Down>) -> bool {
        let remote = self.remote_of(face_id);
        let Some(face) = self.known.get_mut(&face_id) else { return false };
        let is_down = face.down().is_some();
        if face.is_reported_down == is_down {
            self.unreported.remove(&face_id);
            return false;
        }
        let Some(unlogged) = face.admit(&mut self.changes, now_ns) else {
            self.unreported.insert(face_id);
            return false;
        };
        self.unreported.remove(&face_id);
        face.is_reported_down = is_down;
        match (face.down(), ended) {
            (Some(Down { reason, .. }), _) => {
                info!(face_id, %remote, %reason, unlogged, "face down");
            }
            (None, Some(Down { reason, since_ns })) => {
                let down_ms = now_ns.saturating_sub(since_ns) / 1_000_000;
                info!(face_id, %remote, down_ms, was = %reason, unlogged, "face up");
            }
            (None, None) => info!(face_id, %remote, unlogged, "face up"),
        }
        true
    }

    /// The faces that have gone down or up beyond the limit and may be reported now, and whether they are up.
    pub(super) fn take_unreported(&mut self, now_ns: u64) -> Vec<(u64, bool)> {
        let mut reported = Vec::new();
        for face_id in std::mem::take(&mut self.unreported) {
            if self.report_change(now_ns, face_id, None) {
                let is_up = self.known.get(&face_id).is_some_and(|face| face.down().is_none());
                reported.push((face_id, is_up));
            }
        }
        reported
    }

    /// Whether [`take_unreported`](Self::take_unreported) may return something.
    pub(crate) fn has_unreported(&self) -> bool {
        !self.unreported.is_empty()
    }

    /// The remote URI of a face for the log; empty if it is not known.
    fn remote_of(&self, face_id: u64) -> String {
        let face = self.known.get(&face_id);
        face.map(|face| addresses::named(&face.remote).to_string()).unwrap_or_default()
    }

    /// Creates the in-memory face of one end of a pair; answers once management knows it.
    pub(super) fn add_memory_face(
        &mut self,
        dataplane: &mut Dataplane,
        options: &MemoryFaceOptions,
        end: InternalEnd,
        answer: MemoryFaceAnswer,
    ) {
        let face_id = dataplane.allocate_face_id();
        let face = options.new_face(None, face_id, end);
        self.memory.insert(face_id, answer);
        dataplane.send(Command::AddFace(Box::new(face)));
        dataplane.wake();
    }

    fn end_memory_face(&mut self, face_id: u64, result: io::Result<()>) {
        if let Some(answer) = self.memory.remove(&face_id) {
            // The requester may have gone.
            drop(answer.send(result.map(|()| face_id)));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use ndn_forwarding::FaceProperties;
    use ndn_types::PrincipalKey;

    use super::*;

    fn face(face_id: u64, principal: PrincipalKey) -> KnownFace {
        let own = FaceProperties::point_to_point(face_id, Scope::NonLocal);
        let properties = FaceProperties { principal, ..own };
        let created = FaceCreated {
            index: FaceIndex::new(1, 0),
            options: FaceOptions::datagram(properties, Persistency::OnDemand, 1400),
            remote: FaceUri::null(),
            local: FaceUri::null(),
            counters: Arc::default(),
        };
        KnownFace::new(&created, false)
    }

    #[test]
    fn face_without_a_link_and_in_doubt_is_up_once_both_have_ended() {
        let unreachable = CloseReason::Unreachable(io::ErrorKind::ConnectionRefused);
        for is_reached_first in [false, true] {
            let mut table = FaceTable::default();
            table.known.insert(300, face(300, PrincipalKey::Neighbour { face_id: 300 }));
            assert!(table.face_down(1, 300, unreachable));
            assert!(!table.face_down(2, 300, CloseReason::NoLink), "it was down before");
            assert_eq!(table.known[&300].down().unwrap().reason, CloseReason::NoLink.to_string());
            assert!(!table.face_up(3, 300, is_reached_first));
            let left = if is_reached_first { CloseReason::NoLink } else { unreachable };
            assert_eq!(table.known[&300].down().unwrap().reason, left.to_string());
            assert!(table.face_up(4, 300, !is_reached_first));
            assert_eq!(table.known[&300].down(), None);
        }
    }

    /// A peer that sends after each ICMP error changes the state of its face ten times a second.
    #[test]
    fn changes_of_faces_of_a_remote_peer_are_limited_and_the_last_one_is_reported() {
        let unreachable = CloseReason::Unreachable(io::ErrorKind::ConnectionRefused);
        let [hostile, other] =
            [1, 2].map(|last| PrincipalKey::remote(([192, 0, 2, last], 6363).into()));
        let mut table = FaceTable::default();
        for (face_id, principal) in (300..400).map(|face_id| (face_id, hostile)) {
            table.known.insert(face_id, face(face_id, principal));
        }
        table.known.insert(400, face(400, other));
        table.known.insert(401, face(401, PrincipalKey::Neighbour { face_id: 401 }));
        let down = |table: &mut FaceTable, face_id| table.face_down(1, face_id, unreachable);
        assert_eq!((300..400).filter(|face_id| down(&mut table, *face_id)).count(), 5);
        assert!(down(&mut table, 400) && down(&mut table, 401));
        // The first five are reported as down; the others are up again before that was reported.
        assert_eq!((300..400).filter(|face_id| table.face_up(1, *face_id, true)).count(), 0);
        assert_eq!(table.unreported.len(), 5);
        assert_eq!(table.take_unreported(1), []);
        let reported = table.take_unreported(1_000_000_001);
        assert_eq!(reported, [300, 301, 302, 303, 304].map(|face_id| (face_id, true)));
        assert!(!table.has_unreported());
    }

    #[test]
    fn lines_about_faces_of_remote_peers_are_limited_and_those_of_operators_are_not() {
        let mut table = FaceTable::default();
        let mut lines = |principal| {
            let mut admitted = 0;
            for face_id in 1000..1100 {
                let line = table.admit_line(1, &face(face_id, principal));
                admitted += usize::from(line.is_some());
            }
            admitted
        };
        let address = |last: u8| PrincipalKey::remote(([192, 0, 2, last], 6363).into());
        assert_eq!([1, 2, 3].map(|last| lines(address(last))), [5, 2, 0]);
        assert_eq!(lines(PrincipalKey::Neighbour { face_id: 300 }), 100);
    }
}

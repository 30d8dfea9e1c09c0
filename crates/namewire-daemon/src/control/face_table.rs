//! The existing faces, and the limits and logs of new ones.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use namewire_control::LocalProcess;
use ndn_dataplane::{Command, Dataplane, FaceCreated, MemoryFaceOptions};
use ndn_face::{CloseReason, FaceCounters, FaceOptions, FacePrincipals, InternalEnd};
use ndn_forwarding::FaceProperties;
use ndn_table::FaceIndex;
use ndn_types::{
    FaceUri, Persistency, PrincipalClass, PrincipalKey, Scope, Timestamp, duration_ms,
};
use tracing::{debug, info};

use super::refusals::LineLimit;
use super::unreported::Unreported;
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
    pub(crate) since: Timestamp,
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
    pub(crate) fn idle_left_ms(&self, now: Timestamp) -> Option<u64> {
        let timeout = self.options.idle_timeout?;
        let last_received = Timestamp::from_nanos(self.counters.last_received_ns.value());
        let left = timeout.saturating_sub(now - last_received);
        (self.options.persistency == Persistency::OnDemand).then(|| duration_ms(left))
    }

    /// The application of a local face. The caller adds its command, which the control thread does not wait for.
    pub(crate) fn process(&self) -> Option<LocalProcess> {
        if !self.is_local() {
            // A user may have asked for it, and is charged.
            return None;
        }
        match self.options.properties.principal {
            PrincipalKey::LocalApplication { uid, pid } => Some(LocalProcess {
                user_id: uid,
                process_id: (pid != 0).then_some(pid),
                command: None,
            }),
            PrincipalKey::Management
            | PrincipalKey::UserRange { .. }
            | PrincipalKey::Neighbour { .. }
            | PrincipalKey::Remote(_) => None,
        }
    }

    /// The principal that its lines and notifications are charged to; those about faces of operators have no limit.
    fn charged(&self) -> Option<PrincipalKey> {
        let principal = self.options.properties.principal;
        match principal.class() {
            PrincipalClass::Remote | PrincipalClass::Local => Some(principal.without_process()),
            PrincipalClass::Management | PrincipalClass::Neighbour => None,
        }
    }

    /// Returns whether the face is permanent and has a session, which a worker cannot reopen.
    pub(super) fn needs_session(&self) -> bool {
        self.remote.scheme() == "https" && self.options.persistency == Persistency::Permanent
    }

    /// As [`LineLimit::admit`]; faces of operators have no limit.
    fn admit(&self, limit: &mut LineLimit, now: Timestamp) -> Option<Option<u64>> {
        self.charged().map_or(Some(None), |principal| limit.admit(now, principal))
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
    unreported: Unreported,
    /// The principals of their packets, for the queue of the internal face.
    principals: Arc<FacePrincipals>,
    /// In-memory faces being created.
    memory: BTreeMap<u64, MemoryFaceAnswer>,
}

impl FaceTable {
    /// No faces yet, whose principals go to this object.
    pub(super) fn new(principals: Arc<FacePrincipals>) -> Self {
        Self { principals, ..Self::default() }
    }

    /// A face is created or changed: its packets are charged to this principal.
    pub(super) fn note_principal(&self, options: &FaceOptions) {
        let FaceProperties { face_id, principal, .. } = options.properties;
        self.principals.set(face_id, principal);
    }

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
        now: Timestamp,
        face_id: u64,
        face: &FaceCreated,
        is_requested: bool,
    ) {
        let known = KnownFace::new(face, is_requested);
        let [remote, local] = [&face.remote, &face.local].map(addresses::named);
        match self.admit_line(now, &known) {
            Some(unlogged) => info!(face_id, %remote, %local, unlogged, "face created"),
            None => debug!(face_id, %remote, %local, "face created"),
        }
        self.note_principal(&known.options);
        self.known.insert(face_id, known);
        self.end_memory_face(face_id, Ok(()));
    }

    /// As [`LineLimit::admit`], for a line about a face that was created or closed.
    fn admit_line(&mut self, now: Timestamp, face: &KnownFace) -> Option<Option<u64>> {
        if face.is_local() { None } else { face.admit(&mut self.lines, now) }
    }

    /// Handles a face that a worker did not create.
    pub(super) fn face_refused(&mut self, face_id: u64, error: &io::Error) {
        self.principals.remove(face_id);
        let refused = io::Error::new(error.kind(), error.to_string());
        self.end_memory_face(face_id, Err(refused));
    }

    /// A face was not made because its peer has one, so this FaceId belongs to no face.
    pub(super) fn face_unused(&self, face_id: u64) {
        self.principals.remove(face_id);
    }

    /// Removes a face; `reason` is set if an operator did not destroy it.
    pub(super) fn face_closed(
        &mut self,
        now: Timestamp,
        face_id: u64,
        reason: Option<CloseReason>,
    ) -> Option<KnownFace> {
        let remote = self.remote_of(face_id);
        self.unreported.remove(face_id);
        let face = self.known.remove(&face_id);
        self.principals.remove(face_id);
        let line = face.as_ref().map_or(Some(None), |face| self.admit_line(now, face));
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
    pub(super) fn face_down(&mut self, now: Timestamp, face_id: u64, reason: CloseReason) -> bool {
        let is_doubt = matches!(reason, CloseReason::Unreachable(_));
        // A face can start down: a memif face waits for its server's answer.
        let is_waiting = matches!(reason, CloseReason::Failed(io::ErrorKind::NotConnected));
        let reason =
            if is_waiting { "it waits for its peer".to_owned() } else { reason.to_string() };
        let remote = self.remote_of(face_id);
        // A face that was just destroyed is not known any more.
        let Some(face) = self.known.get_mut(&face_id) else { return false };
        let was_down = face.down().is_some();
        let state = if is_doubt { &mut face.doubted } else { &mut face.lost };
        let since = state.as_ref().map_or(now, |down| down.since);
        let is_news = state.as_ref().is_none_or(|down| down.reason != reason);
        *state = Some(Down { reason: reason.clone(), since });
        if was_down {
            let is_logged = is_news && !face.is_local();
            let line = if is_logged { face.admit(&mut self.changes, now) } else { None };
            match line {
                Some(unlogged) => {
                    info!(face_id, %remote, %reason, unlogged, "the face stays down");
                }
                None => debug!(face_id, %remote, %reason, "the face stays down"),
            }
        }
        !was_down && self.report_change(now, face_id, None)
    }

    /// Handles a face that has a connection again, or whose peer has sent something (`is_reached`). Returns whether to
    /// report that it is up: each of these ends one reason why it was down.
    pub(super) fn face_up(&mut self, now: Timestamp, face_id: u64, is_reached: bool) -> bool {
        let remote = self.remote_of(face_id);
        let Some(face) = self.known.get_mut(&face_id) else { return false };
        let down = if is_reached { face.doubted.take() } else { face.lost.take() };
        if let Some(Down { reason, .. }) = face.down() {
            debug!(face_id, %remote, %reason, "the face stays down");
            return false;
        }
        self.report_change(now, face_id, down)
    }

    /// Reports that a face is down or up, unless this was its last reported state: returns whether to do so now. If not,
    /// [`take_unreported`](Self::take_unreported) reports it. While a face waits for that, further ones do, too.
    fn report_change(&mut self, now: Timestamp, face_id: u64, ended: Option<Down>) -> bool {
        let Some(face) = self.known.get(&face_id) else { return false };
        if face.is_reported_down == face.down().is_some() {
            self.unreported.remove(face_id);
            return false;
        }
        if let Some(principal) = face.charged()
            && (!self.unreported.is_empty() || !self.changes.has_room(now, principal))
        {
            self.unreported.add(principal, face_id);
            return false;
        }
        let unlogged = face.admit(&mut self.changes, now).flatten();
        self.log_change(now, (face_id, unlogged), ended);
        true
    }

    /// Logs that a face is down or up, and the number of lines that were suppressed before.
    fn log_change(
        &mut self,
        now: Timestamp,
        (face_id, unlogged): (u64, Option<u64>),
        ended: Option<Down>,
    ) {
        let remote = self.remote_of(face_id);
        let Some(face) = self.known.get_mut(&face_id) else { return };
        face.is_reported_down = face.down().is_some();
        match (face.down(), ended) {
            // Faces of this host are logged at a lower level, as when they come and go.
            (Some(Down { reason, .. }), _) if face.is_local() => {
                debug!(face_id, %remote, %reason, unlogged, "face down");
            }
            (None, _) if face.is_local() => debug!(face_id, %remote, unlogged, "face up"),
            (Some(Down { reason, .. }), _) => {
                info!(face_id, %remote, %reason, unlogged, "face down");
            }
            (None, Some(Down { reason, since })) => {
                let down_ms = duration_ms(now - since);
                info!(face_id, %remote, down_ms, was = %reason, unlogged, "face up");
            }
            (None, None) => info!(face_id, %remote, unlogged, "face up"),
        }
    }

    /// The faces that have gone down or up beyond the limit and may be reported now, and whether they are up.
    pub(super) fn take_unreported(&mut self, now: Timestamp) -> Vec<(u64, bool)> {
        let Self { unreported, changes, .. } = self;
        let admits =
            |principal| changes.has_room(now, principal) && changes.admit(now, principal).is_some();
        let faces = unreported.take(admits);
        let mut reported = Vec::new();
        for face_id in faces {
            self.log_change(now, (face_id, None), None);
            let is_up = self.known.get(&face_id).is_some_and(|face| face.down().is_none());
            reported.push((face_id, is_up));
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

    /// A user asks for the same face again and again, by a host name or another spelling of the URI.
    #[test]
    fn face_that_is_not_made_leaves_no_principal() {
        let table = FaceTable::default();
        for face_id in 1000..2000 {
            let principal = PrincipalKey::LocalApplication { uid: 1000, pid: 0 };
            table.note_principal(&face(face_id, principal).options);
            table.face_unused(face_id);
        }
        let left = format!("{:?}", table.principals);
        assert!(left.contains("changes: {}"), "{left}");
    }

    #[test]
    fn face_of_an_application_has_its_process() {
        let user = |pid| face(300, PrincipalKey::LocalApplication { uid: 1000, pid });
        let application = |pid| {
            let mut face = user(pid);
            face.options.properties.scope = Scope::Local;
            face
        };
        let process = |process_id| LocalProcess { user_id: 1000, process_id, command: None };
        assert_eq!(application(77).process(), Some(process(Some(77))));
        assert_eq!(application(0).process(), Some(process(None)), "only the user is known");
        assert_eq!(user(0).process(), None, "a user has asked for it");
        assert_eq!(face(300, PrincipalKey::Neighbour { face_id: 300 }).process(), None);
    }

    #[test]
    fn face_without_a_link_and_in_doubt_is_up_once_both_have_ended() {
        let unreachable = CloseReason::Unreachable(io::ErrorKind::ConnectionRefused);
        for is_reached_first in [false, true] {
            let mut table = FaceTable::default();
            table.known.insert(300, face(300, PrincipalKey::Neighbour { face_id: 300 }));
            assert!(table.face_down(at(1), 300, unreachable));
            assert!(!table.face_down(at(2), 300, CloseReason::NoLink), "it was down before");
            assert_eq!(table.known[&300].down().unwrap().reason, CloseReason::NoLink.to_string());
            assert!(!table.face_up(at(3), 300, is_reached_first));
            let left = if is_reached_first { CloseReason::NoLink } else { unreachable };
            assert_eq!(table.known[&300].down().unwrap().reason, left.to_string());
            assert!(table.face_up(at(4), 300, !is_reached_first));
            assert_eq!(table.known[&300].down(), None);
        }
    }

    const fn at(tenths: u64) -> Timestamp {
        Timestamp::from_millis(tenths * 100)
    }

    /// Peers that send after each ICMP error change the state of their faces ten times a second.
    #[test]
    fn changes_of_faces_of_remote_peers_are_limited_and_the_last_one_is_reported() {
        let unreachable = CloseReason::Unreachable(io::ErrorKind::ConnectionRefused);
        let peer = |last: u8| PrincipalKey::remote(([192, 0, 2, last], 6363).into());
        let mut table = FaceTable::default();
        // Two hostile addresses with twenty faces each, and the face of another one, of the highest FaceId.
        for face_id in 300..340 {
            table.known.insert(face_id, face(face_id, peer(if face_id < 320 { 1 } else { 2 })));
        }
        table.known.insert(400, face(400, peer(3)));
        table.known.insert(401, face(401, PrincipalKey::Neighbour { face_id: 401 }));
        let flip =
            |table: &mut FaceTable, now: Timestamp, is_down: bool, face_id: u64| match is_down {
                true => table.face_down(now, face_id, unreachable),
                false => table.face_up(now, face_id, true),
            };
        let (mut of_other, mut reports, mut is_down) = (Vec::new(), 0, false);
        for tenth in 0..100_u64 {
            let now = at(10 + tenth);
            is_down = !is_down;
            let flipped = (300..340).filter(|face_id| flip(&mut table, now, is_down, *face_id));
            reports += flipped.count();
            if tenth % 20 == 5 {
                let other_is_down = tenth % 40 == 5;
                assert!(!flip(&mut table, now, other_is_down, 400), "others wait");
                assert!(flip(&mut table, now, other_is_down, 401), "it is an operator's");
            }
            if tenth % 10 == 9 {
                let taken = table.take_unreported(at(11 + tenth));
                reports += taken.len();
                of_other.extend(taken.into_iter().filter(|(face_id, _)| *face_id == 400));
            }
        }
        // Each change is reported with the next ones.
        let expected: Vec<(u64, bool)> =
            [false, true, false, true, false].map(|up| (400, up)).into();
        assert_eq!(of_other, expected);
        assert!((40..=77).contains(&reports), "{reports} in eleven seconds");
        for second in 20..40 {
            let reported = table.take_unreported(at(10 * second));
            assert!(reported.iter().all(|(_, is_up)| *is_up != is_down), "{reported:?}");
        }
        assert!(!table.has_unreported());
        assert!(table.known.values().all(|face| face.is_reported_down == face.down().is_some()));
    }

    #[test]
    fn changes_of_faces_of_this_host_are_limited_by_user() {
        let mut table = FaceTable::default();
        let user = |uid| PrincipalKey::LocalApplication { uid, pid: 0 };
        for face_id in 300..400 {
            table.known.insert(face_id, face(face_id, user(1000)));
        }
        table.known.insert(400, face(400, user(1001)));
        let down = |table: &mut FaceTable, face_id| {
            table.face_down(at(10), face_id, CloseReason::PeerClosed)
        };
        assert_eq!((300..400).filter(|face_id| down(&mut table, *face_id)).count(), 4);
        assert!(!down(&mut table, 400), "others wait");
        let reported = table.take_unreported(at(20));
        assert!(reported.contains(&(400, false)) && reported.len() < 10, "{reported:?}");
    }

    #[test]
    fn faces_of_operators_never_close_for_those_of_others() {
        let mut table = FaceTable::default();
        let user = PrincipalKey::LocalApplication { uid: 1000, pid: 0 };
        let peer = PrincipalKey::remote(([192, 0, 2, 1], 6363).into());
        let kinds = [
            (300, Persistency::OnDemand, None),
            (301, Persistency::Persistent, None),
            (302, Persistency::Persistent, Some(user)),
            (303, Persistency::Permanent, Some(user)),
        ];
        for (face_id, persistency, keeper) in kinds {
            let mut one = face(face_id, peer);
            (one.options.persistency, one.options.keeper) = (persistency, keeper);
            one.counters.last_received_ns.set(1000 - face_id);
            table.known.insert(face_id, one);
        }
        let all = vec![300, 301, 302, 303, 304];
        assert_eq!(table.least_recent(9, all.clone()), [303, 302, 300]);
        assert_eq!(table.least_recent(1, all), [303]);
    }

    #[test]
    fn lines_about_faces_of_remote_peers_are_limited_and_those_of_operators_are_not() {
        let mut table = FaceTable::default();
        let mut lines = |principal| {
            let mut admitted = 0;
            for face_id in 1000..1100 {
                let line = table.admit_line(at(1), &face(face_id, principal));
                admitted += usize::from(line.is_some());
            }
            admitted
        };
        let address = |last: u8| PrincipalKey::remote(([192, 0, 2, last], 6363).into());
        assert_eq!([1, 2, 3, 4].map(|last| lines(address(last))), [4, 2, 1, 0]);
        assert_eq!(lines(PrincipalKey::Neighbour { face_id: 300 }), 100);
    }
}

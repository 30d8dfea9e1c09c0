//! Routes that self-learning makes: announcements that came with Data, their end, and which
//! announcement goes with a Data that is sent on (NFD: `slAnnounce`, `slRenew`, `slFindAnn` of its RIB
//! manager).

use std::collections::BTreeMap;
use std::sync::Arc;

use ndn_packet::{Data, Name, NameRef};
use ndn_security::Certificate;
use ndn_security::trust::Validation;

use super::waiting::{FETCHES_MAX, PATIENCE_MS, Progress};
use super::{ControlState, RouteError};
use crate::announcement::{ANNOUNCEMENT_COST, PrefixAnnouncement};
use crate::rib::Route;
use crate::types::route_origin;
use crate::{Now, Rib};

/// How long a learnt route is kept at most; the next announcement renews it.
const LIFETIME_MS: u64 = 10 * 60 * 1000;
/// Bounds of the period that an announcement made here is good for.
const MADE_MS_MIN: u64 = 15 * 1000;
const MADE_MS_MAX: u64 = 60 * 60 * 1000;
/// Announcements that wait for a certificate.
const WAITING_MAX: usize = 64;
/// Announcements that are kept to be sent on, and their bytes: of all faces, and of one. Of the routes
/// beyond, announcements are made here.
const KEPT_MAX: Usage = Usage { count: 65_536, bytes: 32 << 20 };
const KEPT_PER_FACE_MAX: Usage = Usage { count: 8192, bytes: 4 << 20 };

/// What became of an announcement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Learning {
    /// There is a route for it.
    Learnt(Name),
    /// It waits for the certificate of its signer.
    Waiting,
    /// There is no route, and why.
    Refused(String),
}

/// An announcement that waits for a certificate.
#[derive(Debug)]
struct Waiting {
    wire: Vec<u8>,
    face_id: u64,
    progress: Progress,
    deadline_ns: u64,
}

/// An announcement to be sent on.
#[derive(Debug)]
struct Kept {
    wire: Box<[u8]>,
    holds_until_ns: u64,
}

/// How often those are looked for, at most, whose routes have ended: it takes a look at each.
const SWEEP_NS: u64 = 10_000_000_000;

/// How many announcements, and how long they are together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Usage {
    count: usize,
    bytes: usize,
}

impl Usage {
    fn has_room(self, length: usize, limit: Self) -> bool {
        self.count < limit.count && self.bytes + length <= limit.bytes
    }

    fn add(&mut self, length: usize) {
        self.count += 1;
        self.bytes += length;
    }

    fn remove(&mut self, length: usize) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(length);
    }
}

/// Announcements to be sent on, by prefix and face, within bounds.
#[derive(Debug, Default)]
struct KeptTable {
    entries: BTreeMap<(Name, u64), Kept>,
    total: Usage,
    /// Of each face that has any.
    faces: BTreeMap<u64, Usage>,
    next_sweep_ns: u64,
}

impl KeptTable {
    fn find(&self, prefix: &Name, face_id: u64) -> Option<&Kept> {
        self.entries.get(&(prefix.clone(), face_id))
    }

    /// Keeps an announcement in place of the one that there is, if there is room.
    fn insert(&mut self, now_ns: u64, rib: &Rib, prefix: &Name, face_id: u64, kept: Kept) {
        let length = kept.wire.len();
        self.remove(prefix, face_id);
        if !self.has_room(face_id, length) && now_ns >= self.next_sweep_ns {
            self.next_sweep_ns = now_ns.saturating_add(SWEEP_NS);
            self.drop_without_route(rib);
        }
        if self.has_room(face_id, length) {
            self.total.add(length);
            self.faces.entry(face_id).or_default().add(length);
            self.entries.insert((prefix.clone(), face_id), kept);
        }
    }

    fn has_room(&self, face_id: u64, length: usize) -> bool {
        let of_face = self.faces.get(&face_id).copied().unwrap_or_default();
        self.total.has_room(length, KEPT_MAX) && of_face.has_room(length, KEPT_PER_FACE_MAX)
    }

    fn remove(&mut self, prefix: &Name, face_id: u64) {
        let Some(kept) = self.entries.remove(&(prefix.clone(), face_id)) else { return };
        let length = kept.wire.len();
        self.total.remove(length);
        if let Some(of_face) = self.faces.get_mut(&face_id) {
            of_face.remove(length);
            if of_face.count == 0 {
                self.faces.remove(&face_id);
            }
        }
    }

    /// Drops the announcements whose routes have ended.
    fn drop_without_route(&mut self, rib: &Rib) {
        let origin = route_origin::PREFIX_ANNOUNCEMENT;
        let ended = |(prefix, face_id): &&(Name, u64)| {
            rib.find(prefix.as_ref(), *face_id, origin).is_none()
        };
        let ended: Vec<(Name, u64)> = self.entries.keys().filter(ended).cloned().collect();
        for (prefix, face_id) in ended {
            self.remove(&prefix, face_id);
        }
    }
}

/// What is kept for learnt routes, beside the routes.
#[derive(Debug, Default)]
pub(super) struct LearntRoutes {
    kept: KeptTable,
    waiting: Vec<Waiting>,
}

impl LearntRoutes {
    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        self.waiting.iter().map(|entry| entry.deadline_ns).min()
    }

    /// Whether an announcement waits for a certificate of this name.
    pub(super) fn awaits(&self, name: NameRef<'_>) -> bool {
        self.waiting.iter().any(|entry| entry.awaits(name))
    }
}

impl Waiting {
    fn awaits(&self, name: NameRef<'_>) -> bool {
        self.progress.asked.last().is_some_and(|asked| name.starts_with(asked.as_ref()))
    }
}

impl ControlState {
    /// Takes the announcement that came with the Data `name` on `face_id`, and makes its route if it
    /// is to be trusted. It has to announce a prefix of that name.
    pub fn learn_announcement(
        &mut self,
        now: Now,
        face_id: u64,
        name: NameRef<'_>,
        wire: &[u8],
    ) -> Learning {
        let announced = Data::parse(wire).ok().and_then(|data| {
            let announcement = PrefixAnnouncement::from_data(&data).ok()?;
            Some(announcement.prefix)
        });
        // What is none at all is told below.
        if let Some(prefix) = announced
            && !name.starts_with(prefix.as_ref())
        {
            let reason =
                format!("{prefix} is no prefix of the Data {} that it came with", name.to_uri());
            return Learning::Refused(reason);
        }
        self.judge_announcement(now, face_id, wire, Progress::default())
    }

    /// Ends the longest learnt route for `name` to a face; returns its prefix if there was one.
    pub fn forget_learnt(&mut self, face_id: u64, name: NameRef<'_>) -> Option<Name> {
        let origin = route_origin::PREFIX_ANNOUNCEMENT;
        let mut prefixes = (0..=name.len()).rev().map(|length| name.prefix(length));
        let prefix = prefixes.find(|prefix| self.rib.find(*prefix, face_id, origin).is_some())?;
        self.remove_route(prefix, face_id, origin);
        let prefix = prefix.to_name();
        self.learnt.kept.remove(&prefix, face_id);
        Some(prefix)
    }

    /// The announcement to send with a Data of this name: that of the longest prefix that has
    /// routes, which came with one of them, or is made here.
    pub fn find_announcement(&mut self, now: Now, name: NameRef<'_>) -> Option<Vec<u8>> {
        let mut prefixes = (0..=name.len()).rev().map(|length| name.prefix(length));
        let prefix = prefixes.find(|prefix| !self.rib.routes(*prefix).is_empty())?;
        let (routes, prefix) = (self.rib.routes(prefix), prefix.to_name());
        let mut kept = None;
        for route in routes.iter().filter(|r| r.origin == route_origin::PREFIX_ANNOUNCEMENT) {
            let found = self.learnt.kept.find(&prefix, route.face_id);
            if let Some(Kept { wire, holds_until_ns }) = found
                && *holds_until_ns > now.monotonic_ns
                && kept.is_none_or(|(_, expires)| expires < route.expires_at_ns)
            {
                kept = Some((wire, route.expires_at_ns));
            }
        }
        if let Some((wire, _)) = kept {
            return Some(wire.to_vec());
        }
        let left_ms = |expires_at_ns: Option<u64>| {
            expires_at_ns.map_or(u64::MAX, |at| at.saturating_sub(now.monotonic_ns) / 1_000_000)
        };
        let longest_ms = routes.iter().map(|route| left_ms(route.expires_at_ns)).max()?;
        let period_ms = longest_ms.clamp(MADE_MS_MIN, MADE_MS_MAX);
        let signer = &mut *self.collaborators.signer;
        PrefixAnnouncement::sign(&prefix, now.unix_us, period_ms, signer)
    }

    fn judge_announcement(
        &mut self,
        now: Now,
        face_id: u64,
        wire: &[u8],
        progress: Progress,
    ) -> Learning {
        let refused = |reason: &dyn ToString| Learning::Refused(reason.to_string());
        let data = match Data::parse(wire) {
            Ok(data) => data,
            Err(error) => return refused(&error),
        };
        let announcement = match PrefixAnnouncement::from_data(&data) {
            Ok(announcement) => announcement,
            Err(error) => return refused(&error),
        };
        let authorizer = &mut *self.collaborators.authorizer;
        match authorizer.authorize_announcement(now, &data, &progress.fetched) {
            Validation::Accepted => {}
            Validation::Refused(error) => return refused(&error),
            Validation::NeedsCertificate(name) => {
                return self.await_certificate(now, face_id, wire, name, progress);
            }
        }
        let Some(holds_until_ns) = announcement.expires_at_ns(now) else {
            return refused(&"it is not valid at this time");
        };
        let latest_ns = now.monotonic_ns.saturating_add(LIFETIME_MS * 1_000_000);
        let route = Route {
            face_id,
            origin: route_origin::PREFIX_ANNOUNCEMENT,
            cost: ANNOUNCEMENT_COST,
            flags: 0,
            expires_at_ns: Some(holds_until_ns.min(latest_ns)),
        };
        match self.add_route(announcement.prefix.as_ref(), route) {
            Ok(()) => {
                let prefix = announcement.prefix;
                let kept = Kept { wire: wire.into(), holds_until_ns };
                let now_ns = now.monotonic_ns;
                self.learnt.kept.insert(now_ns, &self.rib, &prefix, face_id, kept);
                Learning::Learnt(prefix)
            }
            Err(error @ (RouteError::NoFace(_) | RouteError::PrefixTooLong)) => refused(&error),
            Err(error @ (RouteError::RibFull(_) | RouteError::FibFull(_))) => refused(&error),
        }
    }

    fn await_certificate(
        &mut self,
        now: Now,
        face_id: u64,
        wire: &[u8],
        name: Name,
        mut progress: Progress,
    ) -> Learning {
        let is_futile = progress.asked.contains(&name) || progress.asked.len() == FETCHES_MAX;
        if is_futile || self.learnt.waiting.len() >= WAITING_MAX {
            return Learning::Refused(format!("certificate {name} cannot be had"));
        }
        if !self.learnt.waiting.iter().any(|entry| entry.progress.asked.last() == Some(&name)) {
            self.ask_for_certificate(&name, face_id);
        }
        progress.asked.push(name);
        let deadline_ns = now.monotonic_ns.saturating_add(PATIENCE_MS * 1_000_000);
        self.learnt.waiting.push(Waiting { wire: wire.to_vec(), face_id, progress, deadline_ns });
        Learning::Waiting
    }

    /// A certificate, or what came in its place, is there.
    pub(super) fn judge_announcements(
        &mut self,
        now: Now,
        name: NameRef<'_>,
        certificate: Option<&Arc<Certificate>>,
    ) {
        let all = std::mem::take(&mut self.learnt.waiting);
        let (due, waiting) = all.into_iter().partition(|entry: &Waiting| entry.awaits(name));
        self.learnt.waiting = waiting;
        for Waiting { wire, face_id, mut progress, .. } in due {
            if let Some(certificate) = certificate {
                progress.fetched.push(Arc::clone(certificate));
                self.judge_announcement(now, face_id, &wire, progress);
            }
        }
    }

    /// Forgets the announcements whose certificates did not come in time.
    pub(super) fn give_up_announcements(&mut self, now: Now) {
        self.learnt.waiting.retain(|entry| entry.deadline_ns > now.monotonic_ns);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use proptest::prelude::*;

    use super::*;
    use crate::testing::name;

    fn route(face_id: u64) -> Route {
        let origin = route_origin::PREFIX_ANNOUNCEMENT;
        Route { face_id, origin, cost: ANNOUNCEMENT_COST, flags: 0, expires_at_ns: None }
    }

    fn kept(length: usize) -> Kept {
        Kept { wire: vec![0; length].into(), holds_until_ns: 0 }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// What is counted is what there is, whatever happens.
        #[test]
        fn the_account_is_right(
            steps in proptest::collection::vec((0..6_u64, 0..4_u64, 0..9000_usize, 0..3_u8), 0..60),
        ) {
            let (mut table, mut rib) = (KeptTable::default(), Rib::new(1000));
            let mut oracle: BTreeMap<(Name, u64), usize> = BTreeMap::new();
            for (prefix, face_id, length, what) in steps {
                let mut uri = name("/p");
                uri.push_segment(prefix);
                match what {
                    0 => {
                        rib.register(uri.as_ref(), route(face_id)).unwrap();
                        table.insert(0, &rib, &uri, face_id, kept(length));
                        oracle.insert((uri, face_id), length);
                    }
                    1 => {
                        table.remove(&uri, face_id);
                        oracle.remove(&(uri, face_id));
                    }
                    _ => {
                        rib.unregister(uri.as_ref(), face_id, route_origin::PREFIX_ANNOUNCEMENT);
                        table.drop_without_route(&rib);
                        oracle.retain(|(prefix, face_id), _| {
                            let origin = route_origin::PREFIX_ANNOUNCEMENT;
                            rib.find(prefix.as_ref(), *face_id, origin).is_some()
                        });
                    }
                }
                let found: BTreeMap<_, _> =
                    table.entries.iter().map(|(key, kept)| (key.clone(), kept.wire.len())).collect();
                prop_assert_eq!(&found, &oracle);
                let total = Usage { count: oracle.len(), bytes: oracle.values().sum() };
                prop_assert_eq!(table.total, total);
                for face_id in 0..4 {
                    let own = oracle.iter().filter(|((_, face), _)| *face == face_id);
                    let lengths: Vec<usize> = own.map(|(_, length)| *length).collect();
                    let expected = Usage { count: lengths.len(), bytes: lengths.iter().sum() };
                    prop_assert_eq!(table.faces.get(&face_id).copied().unwrap_or_default(), expected);
                }
            }
        }
    }

    #[test]
    fn one_face_fills_its_own_share_and_all_faces_theirs() {
        let (mut table, mut rib) = (KeptTable::default(), Rib::new(100_000));
        let length = 8000;
        let per_face = KEPT_PER_FACE_MAX.bytes / length;
        for face_id in 300..320 {
            for number in 0..per_face as u64 + 10 {
                let mut uri = name("/p");
                uri.push_segment(number);
                rib.register(uri.as_ref(), route(face_id)).unwrap();
                table.insert(0, &rib, &uri, face_id, kept(length));
            }
            let of_face = table.faces.get(&face_id).copied().unwrap_or_default();
            assert!(of_face.bytes <= KEPT_PER_FACE_MAX.bytes);
            assert!(table.total.bytes <= KEPT_MAX.bytes && table.total.count <= KEPT_MAX.count);
        }
        assert_eq!(table.faces[&300].count, per_face);
        assert!(table.total.bytes + length > KEPT_MAX.bytes, "the room is used");
        // What has ended makes room.
        rib.remove_face(300, usize::MAX);
        table.insert(SWEEP_NS - 1, &rib, &name("/p"), 400, kept(length));
        assert!(table.find(&name("/p"), 400).is_none(), "it is not looked for all the time");
        table.insert(SWEEP_NS, &rib, &name("/p"), 400, kept(length));
        assert!(table.find(&name("/p"), 400).is_some() && !table.faces.contains_key(&300));
    }
}

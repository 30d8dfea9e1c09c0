//! Prefix announcements of self-learning, and those that are kept to be forwarded with Data (NFD: `slAnnounce`, `slRenew`,
//! `slFindAnn` of its RIB manager).

use std::collections::BTreeMap;

use ndn_packet::{Name, NameRef};

use crate::announcement::{ANNOUNCEMENT_COST, PrefixAnnouncement};
use crate::rib::{Rib, Route};
use crate::sign::DataSigner;
use crate::time::Now;
use crate::types::{route_flag, route_origin};

/// Maximum lifetime of a learnt route; the next announcement renews it.
const LIFETIME_MS: u64 = 10 * 60 * 1000;
/// Bounds of the validity of an announcement that is made here.
const MADE_MS_MIN: u64 = 15 * 1000;
const MADE_MS_MAX: u64 = 60 * 60 * 1000;
/// Maximum number and bytes of announcements that are kept to be forwarded, of all faces and of one. New announcements are
/// made for further routes.
const KEPT_MAX: Usage = Usage { count: 65_536, bytes: 32 << 20 };
const KEPT_PER_FACE_MAX: Usage = Usage { count: 8192, bytes: 4 << 20 };

/// The result of an announcement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Learning {
    /// Its prefix has a route.
    Learnt(Name),
    /// It waits for the certificate of its signer.
    Waiting,
    /// The learnt route of this prefix has ended, because the face refused an Interest.
    Forgotten(Name),
    /// It has no route, for this reason.
    Refused(String),
}

/// An announcement that is kept to be forwarded.
#[derive(Debug)]
struct Kept {
    wire: Box<[u8]>,
    valid_until_ns: u64,
}

/// Minimum time between two searches for announcements whose routes have ended.
const SWEEP_NS: u64 = 10_000_000_000;

/// A number of announcements and their bytes.
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

/// The kept announcements, by prefix and face.
#[derive(Debug, Default)]
struct KeptTable {
    entries: BTreeMap<(Name, u64), Kept>,
    total: Usage,
    /// By face.
    faces: BTreeMap<u64, Usage>,
    next_sweep_ns: u64,
}

impl KeptTable {
    fn find(&self, prefix: &Name, face_id: u64) -> Option<&Kept> {
        self.entries.get(&(prefix.clone(), face_id))
    }

    /// Keeps an announcement in place of its predecessor, if there is room.
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

/// The route of an announcement that is valid until `valid_until_ns`.
pub(super) fn learnt_route(now: Now, face_id: u64, valid_until_ns: u64) -> Route {
    let latest_ns = now.monotonic_ns.saturating_add(LIFETIME_MS * 1_000_000);
    Route {
        face_id,
        origin: route_origin::PREFIX_ANNOUNCEMENT,
        cost: ANNOUNCEMENT_COST,
        flags: route_flag::CHILD_INHERIT,
        expires_at_ns: Some(valid_until_ns.min(latest_ns)),
    }
}

/// The announcements behind learnt routes.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    kept: KeptTable,
}

impl Announcements {
    /// Keeps the announcement of a learnt route, to be forwarded with Data.
    pub(super) fn keep(
        &mut self,
        now: Now,
        rib: &Rib,
        (prefix, face_id): (&Name, u64),
        (wire, valid_until_ns): (&[u8], u64),
    ) {
        let kept = Kept { wire: wire.into(), valid_until_ns };
        self.kept.insert(now.monotonic_ns, rib, prefix, face_id, kept);
    }

    /// Drops the announcement of a route that has ended.
    pub(super) fn remove(&mut self, prefix: &Name, face_id: u64) {
        self.kept.remove(prefix, face_id);
    }

    /// The announcement to forward with a Data of this name: that of the longest prefix with routes, as it was received
    /// with one of them, or else a new one.
    pub(super) fn find(
        &self,
        now: Now,
        rib: &Rib,
        name: NameRef<'_>,
        signer: &mut dyn DataSigner,
    ) -> Option<Vec<u8>> {
        let mut prefixes = (0..=name.len()).rev().map(|length| name.prefix(length));
        let prefix = prefixes.find(|prefix| !rib.routes(*prefix).is_empty())?;
        let (routes, prefix) = (rib.routes(prefix), prefix.to_name());
        let mut latest = None;
        for route in routes.iter().filter(|r| r.origin == route_origin::PREFIX_ANNOUNCEMENT) {
            if let Some(Kept { wire, valid_until_ns }) = self.kept.find(&prefix, route.face_id)
                && *valid_until_ns > now.monotonic_ns
                && latest.is_none_or(|(_, expires)| expires < route.expires_at_ns)
            {
                latest = Some((wire, route.expires_at_ns));
            }
        }
        if let Some((wire, _)) = latest {
            return Some(wire.to_vec());
        }
        let left_ms = |expires_at_ns: Option<u64>| {
            expires_at_ns.map_or(u64::MAX, |at| at.saturating_sub(now.monotonic_ns) / 1_000_000)
        };
        let longest_ms = routes.iter().map(|route| left_ms(route.expires_at_ns)).max()?;
        let period_ms = longest_ms.clamp(MADE_MS_MIN, MADE_MS_MAX);
        PrefixAnnouncement::sign(&prefix, now.unix_us, period_ms, signer)
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
        Kept { wire: vec![0; length].into(), valid_until_ns: 0 }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn usage_counts_the_kept_announcements(
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
    fn kept_announcements_are_limited_per_face_and_in_total() {
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
        assert!(table.total.bytes + length > KEPT_MAX.bytes, "the limit is reached");
        // Ended routes make room.
        rib.remove_face(300, usize::MAX);
        table.insert(SWEEP_NS - 1, &rib, &name("/p"), 400, kept(length));
        assert!(table.find(&name("/p"), 400).is_none(), "the search is rate-limited");
        table.insert(SWEEP_NS, &rib, &name("/p"), 400, kept(length));
        assert!(table.find(&name("/p"), 400).is_some() && !table.faces.contains_key(&300));
    }
}

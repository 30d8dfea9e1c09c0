//! Prefix announcements of self-learning, and those that are kept to be forwarded with Data (NFD: `slAnnounce`, `slRenew`,
//! `slFindAnn` of its RIB manager).

use std::collections::BTreeMap;
use std::time::Duration;

use ndn_packet::{Name, NameRef};
use ndn_types::{
    Capacity, Ledger, LedgerReport, Now, PrincipalIndex, PrincipalKey, Reserves, Resources,
    Timestamp, duration_ms,
};

use crate::announcement::{ANNOUNCEMENT_COST, PrefixAnnouncement};
use crate::rib::{Rib, Route};
use crate::sign::DataSigner;
use crate::types::{route_flag, route_origin};

/// Maximum lifetime of a learnt route; the next announcement renews it.
const LIFETIME_MS: u64 = 10 * 60 * 1000;
/// Bounds of the validity of an announcement that is made here.
const MADE_MS_MIN: u64 = 15 * 1000;
const MADE_MS_MAX: u64 = 60 * 60 * 1000;
/// Maximum number and bytes of announcements that are kept to be forwarded, which principals share. New announcements are
/// made for further routes.
const KEPT_COUNT_MAX: usize = 65_536;
const KEPT_BYTES_MAX: usize = 32 << 20;

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
    valid_until: Timestamp,
    owner: PrincipalIndex,
}

impl Kept {
    fn bytes(&self) -> u32 {
        u32::try_from(self.wire.len()).unwrap_or(u32::MAX)
    }
}

/// Minimum time between two searches for announcements whose routes have ended.
const SWEEP_PERIOD: Duration = Duration::from_secs(10);

/// The resources that kept announcements take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptResource {
    /// Announcements.
    Count,
    /// Their bytes.
    Bytes,
}

impl KeptResource {
    /// Number of these.
    pub const COUNT: usize = 2;
}

impl Resources<{ Self::COUNT }> for KeptResource {
    const ALL: [Self; Self::COUNT] = [Self::Count, Self::Bytes];

    fn index(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Self::Count => "kept_announcements",
            Self::Bytes => "kept_announcement_bytes",
        }
    }
}

/// The kept announcements, by prefix and face. Each is charged to the principal of the face, which may hold as many as are
/// left for it: they are kept until their routes end.
#[derive(Debug)]
struct KeptTable {
    entries: BTreeMap<(Name, u64), Kept>,
    ledger: Ledger<KeptResource, { KeptResource::COUNT }>,
    next_sweep: Timestamp,
}

impl KeptTable {
    fn new(reserves: Reserves) -> Self {
        let capacities = [KEPT_COUNT_MAX, KEPT_BYTES_MAX].map(Capacity::of);
        let ledger = Ledger::new(capacities, reserves);
        Self { entries: BTreeMap::new(), ledger, next_sweep: Timestamp::ZERO }
    }

    fn find(&self, prefix: &Name, face_id: u64) -> Option<&Kept> {
        self.entries.get(&(prefix.clone(), face_id))
    }

    /// Keeps an announcement, valid until this time, in place of its predecessor, if there is room.
    fn insert(
        &mut self,
        (now, rib): (Timestamp, &Rib),
        (prefix, face_id): (&Name, u64),
        principal: PrincipalKey,
        (wire, valid_until): (&[u8], Timestamp),
    ) {
        self.remove(prefix, face_id);
        let owner = self.ledger.attach(principal);
        let kept = Kept { wire: wire.into(), valid_until, owner };
        if !self.has_room(&kept) && now >= self.next_sweep {
            self.next_sweep = now + SWEEP_PERIOD;
            self.drop_without_route(rib);
        }
        if self.has_room(&kept) {
            self.ledger.charge(owner, KeptResource::Count, 1);
            self.ledger.charge(owner, KeptResource::Bytes, kept.bytes());
            self.entries.insert((prefix.clone(), face_id), kept);
        } else {
            self.ledger.detach(owner);
        }
    }

    fn has_room(&self, kept: &Kept) -> bool {
        self.ledger.has_room_beside_others(kept.owner, KeptResource::Count, 1)
            && self.ledger.has_room_beside_others(kept.owner, KeptResource::Bytes, kept.bytes())
    }

    fn remove(&mut self, prefix: &Name, face_id: u64) {
        let Some(kept) = self.entries.remove(&(prefix.clone(), face_id)) else { return };
        self.ledger.release(kept.owner, KeptResource::Count, 1);
        self.ledger.release(kept.owner, KeptResource::Bytes, kept.bytes());
        self.ledger.detach(kept.owner);
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

/// The route of an announcement that is valid until `valid_until`.
pub(super) fn learnt_route(now: Now, face_id: u64, valid_until: Timestamp) -> Route {
    let latest = now.monotonic.plus_millis(LIFETIME_MS);
    Route {
        face_id,
        origin: route_origin::PREFIX_ANNOUNCEMENT,
        cost: ANNOUNCEMENT_COST,
        flags: route_flag::CHILD_INHERIT,
        expires_at: Some(valid_until.min(latest)),
    }
}

/// The announcements behind learnt routes.
#[derive(Debug)]
pub(super) struct Announcements {
    kept: KeptTable,
}

impl Announcements {
    pub(super) fn new(reserves: Reserves) -> Self {
        Self { kept: KeptTable::new(reserves) }
    }

    /// Returns what each principal holds.
    pub(super) fn report(&self) -> LedgerReport<{ KeptResource::COUNT }> {
        self.kept.ledger.report()
    }

    /// Keeps the announcement of a learnt route, valid until this time, to be forwarded with Data. It is charged to the
    /// principal of the face.
    pub(super) fn keep(
        &mut self,
        (now, rib): (Now, &Rib),
        route: (&Name, u64),
        principal: PrincipalKey,
        announcement: (&[u8], Timestamp),
    ) {
        self.kept.insert((now.monotonic, rib), route, principal, announcement);
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
            if let Some(Kept { wire, valid_until, .. }) = self.kept.find(&prefix, route.face_id)
                && *valid_until > now.monotonic
                && latest.is_none_or(|(_, expires)| expires < route.expires_at)
            {
                latest = Some((wire, route.expires_at));
            }
        }
        if let Some((wire, _)) = latest {
            return Some(wire.to_vec());
        }
        let left_ms = |expires_at: Option<Timestamp>| {
            expires_at.map_or(u64::MAX, |at| duration_ms(at - now.monotonic))
        };
        let longest_ms = routes.iter().map(|route| left_ms(route.expires_at)).max()?;
        let period_ms = longest_ms.clamp(MADE_MS_MIN, MADE_MS_MAX);
        PrefixAnnouncement::sign(&prefix, now.unix_us(), period_ms, signer)
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
        Route { face_id, origin, cost: ANNOUNCEMENT_COST, flags: 0, expires_at: None }
    }

    fn peer(face_id: u64) -> PrincipalKey {
        let last = u8::try_from(face_id / 4).unwrap();
        PrincipalKey::remote(([192, 0, 2, last], 6363).into())
    }

    fn insert(
        table: &mut KeptTable,
        at: (Timestamp, &Rib),
        (prefix, face_id): (&Name, u64),
        len: usize,
    ) {
        table.insert(at, (prefix, face_id), peer(face_id), (&vec![0; len], Timestamp::ZERO));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn charges_are_those_of_the_kept_announcements(
            steps in proptest::collection::vec((0..6_u64, 0..9_u64, 0..9000_usize, 0..3_u8), 0..60),
        ) {
            let (mut table, mut rib) = (KeptTable::new(Reserves::NONE), Rib::new(1000));
            let mut oracle: BTreeMap<(Name, u64), usize> = BTreeMap::new();
            for (prefix, face_id, length, what) in steps {
                let mut uri = name("/p");
                uri.push_segment(prefix);
                match what {
                    0 => {
                        rib.register(uri.as_ref(), route(face_id)).unwrap();
                        insert(&mut table, (Timestamp::ZERO, &rib), (&uri, face_id), length);
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
                let mut expected: BTreeMap<PrincipalKey, [u32; 2]> = BTreeMap::new();
                for ((_, face_id), length) in &oracle {
                    let [count, bytes] = expected.entry(peer(*face_id)).or_default();
                    *count += 1;
                    *bytes += u32::try_from(*length).unwrap();
                }
                let report = table.ledger.report();
                let charged = report.principals.iter().filter(|one| one.held[0] > 0);
                let charged: BTreeMap<_, _> = charged.map(|one| (one.key, one.held)).collect();
                prop_assert_eq!(charged, expected);
            }
        }
    }

    /// From four faces of one address, and from those of further addresses.
    #[test]
    fn announcements_of_some_addresses_leave_room_to_others() {
        let (mut table, mut rib) = (KeptTable::new(Reserves::NONE), Rib::new(100_000));
        let length = 8000;
        let mut fill = |table: &mut KeptTable, faces: std::ops::Range<u64>| {
            let before = table.entries.len();
            for (face_id, number) in faces.flat_map(|face| (0..1500).map(move |at| (face, at))) {
                let mut uri = name("/p");
                uri.push_segment(number);
                rib.register(uri.as_ref(), route(face_id)).unwrap();
                insert(table, (Timestamp::ZERO, &rib), (&uri, face_id), length);
            }
            table.entries.len() - before
        };
        let half = KEPT_BYTES_MAX / length / 2;
        assert_eq!(fill(&mut table, 0..4), half);
        assert!(fill(&mut table, 4..8).abs_diff(half / 2) <= 1);
        assert!(fill(&mut table, 8..12).abs_diff(half / 4) <= 1);
        // Ended routes make room.
        rib.remove_face(0, usize::MAX);
        let own = |table: &KeptTable| table.find(&name("/p"), 1).is_some();
        let due = Timestamp::ZERO + SWEEP_PERIOD;
        let early = Timestamp::from_nanos(due.as_nanos() - 1);
        insert(&mut table, (early, &rib), (&name("/p"), 1), length);
        assert!(!own(&table), "the search is rate-limited");
        insert(&mut table, (due, &rib), (&name("/p"), 1), length);
        assert!(own(&table));
    }
}

//! The number of faces on all workers, divided between principals.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ndn_types::{
    Capacity, LedgerReport, PrincipalClass, PrincipalIndex, PrincipalKey, RankedLedger, Reserves,
    ShareVerdict,
};

/// The part of all faces, as a divisor, that those which have to close may use until they have.
const SPARE_PART: usize = 16;

ndn_types::resource! {
    /// Faces, as a resource that principals share.
    pub struct Faces = "faces";
}

/// Limits of the number of faces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaceLimits {
    /// All faces.
    pub(crate) all: usize,
    /// Those of one remote principal.
    pub(crate) per_peer: usize,
    pub(crate) reserves: Reserves,
}

/// The faces of all workers, by principal.
///
/// A remote principal or an application may have more than its share while there is room. If there is none, one below
/// its share takes the place of a face from the principal that is above its share by most, which then has a
/// [debt](Self::debts).
#[derive(Debug)]
pub(crate) struct FaceShares {
    all: usize,
    per_peer: u32,
    /// Whether no remote principal would get a face, not even its first.
    is_full: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Faces that exist. Those that are not charged have to close.
    count: usize,
    ledger: RankedLedger<Faces, 1>,
    /// By FaceId, except for those that were given up.
    holders: HashMap<u64, PrincipalIndex>,
    /// The same by principal.
    by_holder: BTreeSet<(PrincipalIndex, u64)>,
    /// Number of faces that principals still have to give up.
    owed: BTreeMap<PrincipalIndex, usize>,
}

/// The faces that a principal has to give up, because others took their places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaceDebt {
    /// The principal, or the one that the ledger charges for several.
    pub principal: PrincipalKey,
    /// Their number.
    pub count: usize,
    /// FaceIds of all that it has.
    pub faces: Vec<u64>,
}

/// The limit that leaves no room for another face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaceRefusal {
    /// Limit of all faces.
    All,
    /// Limit of the faces of one remote principal.
    PerPeer,
    /// Share of the principal: others have the rest of all faces, or it is reserved for them.
    Share,
}

impl fmt::Display for FaceRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::All => "limits.faces reached",
            Self::PerPeer => "limits.faces_per_peer reached",
            Self::Share => "the peer has its share of limits.faces",
        })
    }
}

/// Where the place of another face comes from.
enum Admission {
    Free,
    From(PrincipalIndex),
    Refused(FaceRefusal),
}

impl FaceShares {
    /// No faces.
    pub(crate) fn new(limits: FaceLimits) -> Self {
        let all = limits.all;
        let shared = Capacity::of(all - all / SPARE_PART);
        let state = State {
            count: 0,
            ledger: RankedLedger::new([shared], limits.reserves),
            holders: HashMap::new(),
            by_holder: BTreeSet::new(),
            owed: BTreeMap::new(),
        };
        let per_peer = u32::try_from(limits.per_peer).unwrap_or(u32::MAX);
        let shares = Self { all, per_peer, is_full: false.into(), state: Mutex::new(state) };
        shares.note_change(&shares.lock());
        shares
    }

    /// Whether no remote principal would get a face, not even its first. Takes no lock.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    fn note_change(&self, state: &State) {
        let newcomer = PrincipalIndex::OTHER;
        let is_new = state.ledger.held(newcomer, Faces) == 0;
        let admission = self.admission(state, newcomer, PrincipalKey::OTHER);
        let is_full = is_new && matches!(admission, Admission::Refused(_));
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Counts a face; false if there is no room for it.
    pub(crate) fn take(&self, face_id: u64, key: PrincipalKey) -> bool {
        let mut state = self.lock();
        let principal = state.ledger.attach(key);
        match self.admission(&state, principal, key) {
            Admission::Free => {}
            Admission::From(victim) => {
                state.ledger.release(victim, Faces, 1);
                *state.owed.entry(victim).or_default() += 1;
            }
            Admission::Refused(_) => {
                state.ledger.detach(principal);
                return false;
            }
        }
        state.count += 1;
        state.insert(face_id, principal);
        self.note_change(&state);
        true
    }

    /// Why a principal could not have one more face, if so.
    pub(crate) fn refusal(&self, key: PrincipalKey) -> Option<FaceRefusal> {
        let mut state = self.lock();
        let principal = state.ledger.attach(key);
        let admission = self.admission(&state, principal, key);
        state.ledger.detach(principal);
        match admission {
            Admission::Free | Admission::From(_) => None,
            Admission::Refused(refusal) => Some(refusal),
        }
    }

    fn admission(&self, state: &State, principal: PrincipalIndex, key: PrincipalKey) -> Admission {
        let (ledger, class) = (&state.ledger, key.class());
        let is_at_limit =
            class == PrincipalClass::Remote && ledger.held(principal, Faces) >= self.per_peer;
        if state.count >= self.all {
            return Admission::Refused(FaceRefusal::All);
        }
        if is_at_limit {
            return Admission::Refused(FaceRefusal::PerPeer);
        }
        let is_spare = state.uncharged() < self.all / SPARE_PART;
        let victim = match ledger.verdict(principal, Faces, 1) {
            ShareVerdict::Room => return Admission::Free,
            ShareVerdict::Evict(limits) if is_spare => ledger.victim(Faces, limits),
            ShareVerdict::Evict(_) | ShareVerdict::Refused => None,
        };
        match (victim, class) {
            (Some(victim), _) => Admission::From(victim),
            (None, PrincipalClass::Management) => Admission::Free,
            (None, PrincipalClass::Local | PrincipalClass::Neighbour | PrincipalClass::Remote) => {
                Admission::Refused(FaceRefusal::Share)
            }
        }
    }

    /// Charges a face to another principal from now on.
    pub(crate) fn change_holder(&self, face_id: u64, key: PrincipalKey) {
        let mut state = self.lock();
        let principal = state.ledger.attach(key);
        if state.holders.get(&face_id).is_none_or(|holder| *holder == principal) {
            return state.ledger.detach(principal);
        }
        state.remove(face_id);
        state.insert(face_id, principal);
        self.note_change(&state);
    }

    /// Frees the place of a face that has closed.
    pub(crate) fn release(&self, face_id: u64) {
        let mut state = self.lock();
        state.count = state.count.saturating_sub(1);
        state.remove(face_id);
        self.note_change(&state);
    }

    /// A face has to close: it does not count for its principal any more.
    pub(crate) fn give_up(&self, face_id: u64) {
        let mut state = self.lock();
        state.remove(face_id);
        self.note_change(&state);
    }

    /// The principals that have to give up faces.
    pub(crate) fn debts(&self) -> Vec<FaceDebt> {
        let state = self.lock();
        let State { ledger, by_holder, owed, .. } = &*state;
        let debt = |(&principal, &count): (&PrincipalIndex, &usize)| {
            let of_principal = by_holder.range((principal, 0)..=(principal, u64::MAX));
            let faces = of_principal.map(|(_, face_id)| *face_id).collect();
            FaceDebt { principal: ledger.key(principal), count, faces }
        };
        owed.iter().map(debt).collect()
    }

    /// Faces that principals have.
    pub(crate) fn report(&self) -> LedgerReport<1> {
        self.lock().ledger.report()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Faces that have to close, and have not yet.
    fn uncharged(&self) -> usize {
        self.count.saturating_sub(self.ledger.used(Faces) as usize)
    }

    /// Charges a face to a principal that was attached for it.
    fn insert(&mut self, face_id: u64, principal: PrincipalIndex) {
        self.ledger.charge(principal, Faces, 1);
        self.holders.insert(face_id, principal);
        self.by_holder.insert((principal, face_id));
    }

    /// Takes a face from its principal: it pays what the principal owes, or gives its place back.
    fn remove(&mut self, face_id: u64) {
        let Some(principal) = self.holders.remove(&face_id) else { return };
        self.by_holder.remove(&(principal, face_id));
        match self.owed.get_mut(&principal) {
            Some(owed) => {
                *owed -= 1;
                if *owed == 0 {
                    self.owed.remove(&principal);
                }
            }
            None => self.ledger.release(principal, Faces, 1),
        }
        self.ledger.detach(principal);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn full_shares_admit_no_new_principal(
            all in 0..40_usize,
            operations in proptest::collection::vec((0..5_u8, 0..40_u64, 0..12_u8), 0..120),
        ) {
            let shares = shares(all, 5);
            let mut next_id = 100;
            for (operation, face_id, number) in operations {
                let key = match number {
                    0..8 => peer(number),
                    8 => PrincipalKey::Management,
                    9 => PrincipalKey::LocalApplication { uid: 1, pid: 1 },
                    _ => PrincipalKey::Neighbour { face_id: u64::from(number) },
                };
                let exists = shares.lock().holders.contains_key(&face_id);
                match operation {
                    0 if exists => shares.release(face_id),
                    1 if exists => shares.change_holder(face_id, key),
                    2 => settle(&shares),
                    _ if !exists => {
                        shares.take(face_id, key);
                    }
                    _ => {
                        next_id += 1;
                        shares.take(next_id, key);
                    }
                }
                prop_assert_eq!(shares.is_full(), shares.refusal(peer(200)).is_some());
                // Nor one that has faces.
                prop_assert!(!shares.is_full() || (0..8).all(|last| shares.refusal(peer(last)).is_some()));
            }
        }
    }

    fn peer(last: u8) -> PrincipalKey {
        PrincipalKey::remote(([192, 0, 2, last], 6363).into())
    }

    fn shares(all: usize, per_peer: usize) -> FaceShares {
        FaceShares::new(FaceLimits { all, per_peer, reserves: Reserves::default() })
    }

    /// Closes the faces that principals have to give up.
    fn settle(shares: &FaceShares) {
        for FaceDebt { count, faces, .. } in shares.debts() {
            assert!(count <= faces.len(), "{count} of {faces:?}");
            for face_id in &faces[..count] {
                shares.give_up(*face_id);
                shares.release(*face_id);
            }
        }
        assert_eq!(shares.lock().uncharged(), 0);
    }

    #[test]
    fn few_addresses_leave_faces_to_others() {
        let shares = shares(1600, 1000);
        let mut next_id = 0;
        let mut take = |peer| {
            next_id += 1;
            let is_taken = shares.take(next_id, peer);
            settle(&shares);
            is_taken
        };
        let held = |peer| {
            let report = shares.report();
            report.principals.iter().find(|one| one.key == peer).map_or(0, |one| one.held[0])
        };
        assert_eq!((0..1200).filter(|_| take(peer(1))).count(), 1000, "the limit of an address");
        assert_eq!((0..1000).filter(|_| take(peer(2))).count(), 517);
        // Half of 69 % of the faces without a sixteenth.
        assert_eq!((held(peer(1)), held(peer(2))), (518, 517));
        // A third address gets its share, for faces of the others.
        assert!((0..300).all(|_| take(peer(3))));
        assert_eq!([1, 2, 3].map(|last| held(peer(last))), [368, 367, 300]);
        // Applications and neighbours have room anyway.
        let process = PrincipalKey::LocalApplication { uid: 1, pid: 1 };
        assert!((0..100).all(|_| take(process)));
        assert_eq!([1, 2, 3].map(|last| held(peer(last))), [368, 367, 300]);
        assert!(take(PrincipalKey::Neighbour { face_id: 7000 }));
    }

    #[test]
    fn places_of_closed_faces_are_free_again() {
        let shares = shares(20, 2);
        assert!(shares.take(1, peer(1)) && shares.take(2, peer(1)) && !shares.take(3, peer(1)));
        assert_eq!(shares.refusal(peer(1)), Some(FaceRefusal::PerPeer));
        assert_eq!(shares.refusal(peer(2)), None);
        shares.give_up(1);
        shares.release(1);
        assert!(shares.take(3, peer(1)));
        for face_id in [2, 3] {
            shares.release(face_id);
        }
        assert!(shares.report().is_zero());
        assert_eq!(shares.lock().count, 0);
    }

    #[test]
    fn networks_of_one_site_give_up_faces_together() {
        let shares = shares(160, 160);
        let network = |number: u16| {
            let address = std::net::Ipv6Addr::new(0x2001, 0xdb8, 7, number, 0, 0, 0, 1);
            PrincipalKey::remote((address, 6363).into())
        };
        let mut next_id = 0;
        let mut take = |key| {
            next_id += 1;
            shares.take(next_id, key)
        };
        // 69 % of 150 places. 16 networks have one face each, the others share a principal.
        assert_eq!((0..200).filter(|number| take(network(*number))).count(), 104);
        let mut admitted = 0;
        for last in 0..20 {
            admitted += usize::from(take(peer(last)));
            settle(&shares);
            assert_eq!(shares.lock().count, 104);
        }
        assert_eq!(admitted, 20);
        assert!(take(PrincipalKey::LocalApplication { uid: 1, pid: 1 }));
        assert!(take(PrincipalKey::Neighbour { face_id: 7000 }));
    }

    #[test]
    fn reserves_are_free_while_no_face_has_closed_yet() {
        let shares = shares(160, 160);
        let mut next_id = 0;
        let mut take = |key| {
            next_id += 1;
            shares.take(next_id, key)
        };
        assert_eq!((0..200).filter(|_| take(peer(0))).count(), 104);
        // Nothing closes meanwhile: a sixteenth of the faces is for the others.
        let admitted = (1..=255).filter(|last| take(peer(*last))).count();
        assert_eq!((admitted, shares.lock().uncharged()), (10, 10));
        let application = |pid| PrincipalKey::LocalApplication { uid: 1, pid };
        assert!((0..15).all(|pid| take(application(pid))), "10 %");
        assert!((0..30).all(|face_id| take(PrincipalKey::Neighbour { face_id })), "20 %");
        assert!(shares.lock().count <= 160);
        settle(&shares);
        let held = |key| {
            let report = shares.report();
            report.principals.iter().find(|one| one.key == key).map_or(0, |one| one.held[0])
        };
        assert_eq!((held(peer(0)), held(peer(1))), (94, 1));
    }

    #[test]
    fn last_face_of_an_address_is_not_taken() {
        let shares = shares(160, 160);
        let mut next_id = 0;
        let mut take = |key| {
            next_id += 1;
            shares.take(next_id, key)
        };
        assert!(take(peer(0)));
        for last in 0..103 {
            assert!(take(peer(last)));
        }
        assert_eq!((103..=255).filter(|last| take(peer(*last))).count(), 1, "one address has two");
        settle(&shares);
        assert!(shares.report().principals.iter().all(|one| one.held[0] <= 1));
        assert_eq!(shares.report().resources[0].total, 104);
    }

    #[test]
    fn faces_of_operators_leave_the_reserves_of_others() {
        let shares = shares(160, 160);
        // 69 % of 150 places, and the reserve of neighbours.
        let made = (0..200).filter(|id| shares.take(*id, PrincipalKey::Neighbour { face_id: *id }));
        assert_eq!(made.count(), 104 + 30);
        let application = |pid| PrincipalKey::LocalApplication { uid: 1, pid };
        for pid in 0..15 {
            assert!(shares.take(1000 + u64::from(pid), application(pid)), "10 % for applications");
        }
        assert!(shares.take(2000, PrincipalKey::Management));
    }

    #[test]
    fn faces_that_a_user_keeps_give_way_to_others() {
        let shares = shares(160, 160);
        let user = PrincipalKey::LocalApplication { uid: 1, pid: 0 };
        assert_eq!((0..200).filter(|face_id| shares.take(*face_id, user)).count(), 104 + 15);
        let neighbour = |face_id| PrincipalKey::Neighbour { face_id };
        for number in 0..60 {
            assert!(shares.take(1000 + number, neighbour(number)), "neighbour {number}");
            settle(&shares);
        }
        assert!(shares.take(2000, peer(1)));
        settle(&shares);
        // A face that the user keeps from now on takes no place of others.
        shares.change_holder(2000, user);
        assert!(shares.take(2001, peer(1)));
    }

    #[test]
    fn faces_that_operators_keep_are_not_given_up() {
        let shares = shares(160, 160);
        for face_id in 0..104 {
            assert!(shares.take(face_id, peer(0)));
        }
        for face_id in 0..50 {
            shares.change_holder(face_id, PrincipalKey::Neighbour { face_id });
        }
        // The reserve of neighbours has 30 places; the others remain charged to what is open to all.
        let mut admitted = 0;
        for face_id in 1000..1100_u64 {
            let other = peer(u8::try_from(face_id - 999).unwrap());
            admitted += usize::from(shares.take(face_id, other));
            for FaceDebt { principal, count, faces } in shares.debts() {
                assert_eq!((principal, count), (peer(0), 1));
                assert!(faces.iter().all(|face_id| *face_id >= 50));
                shares.give_up(faces[0]);
                shares.release(faces[0]);
            }
        }
        // 30 places were free, and the address keeps one of its 54.
        assert_eq!(admitted, 30 + 53);
        for face_id in (0..104).chain(1000..1100) {
            let exists = shares.lock().holders.contains_key(&face_id);
            if exists {
                shares.release(face_id);
            }
        }
        assert!(shares.report().is_zero());
        assert_eq!(shares.lock().count, 0);
    }
}

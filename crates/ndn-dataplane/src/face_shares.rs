//! The number of faces on all workers, divided between principals.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ndn_types::{
    Capacity, LedgerReport, PrincipalClass, PrincipalIndex, PrincipalKey, RankedLedger, Reserves,
    Resources,
};

/// The part of all faces, as a divisor, that is kept for peers below their shares until faces of others have closed.
const SPARE_PART: usize = 16;

/// Faces, as a resource that principals share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faces;

impl Resources<1> for Faces {
    const ALL: [Self; 1] = [Self];

    fn index(self) -> usize {
        0
    }

    fn name(self) -> &'static str {
        "faces"
    }
}

/// What limits the number of faces.
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
/// its share gets a face, and another principal is in [`debtor`](Self::debtor).
#[derive(Debug)]
pub(crate) struct FaceShares {
    all: usize,
    per_peer: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Faces that exist.
    count: usize,
    ledger: RankedLedger<Faces, 1>,
    /// By FaceId, except for those that have to close.
    holders: HashMap<u64, PrincipalIndex>,
}

impl FaceShares {
    /// No faces.
    pub(crate) fn new(limits: FaceLimits) -> Self {
        let all = limits.all;
        let shared = Capacity::of(all - all / SPARE_PART);
        let ledger = RankedLedger::new([shared], limits.reserves);
        let state = State { count: 0, ledger, holders: HashMap::new() };
        let per_peer = u32::try_from(limits.per_peer).unwrap_or(u32::MAX);
        Self { all, per_peer, state: Mutex::new(state) }
    }

    /// Counts a face; false if there is no room for it.
    pub(crate) fn take(&self, face_id: u64, key: PrincipalKey) -> bool {
        let mut state = self.lock();
        if state.count >= self.all {
            return false;
        }
        let principal = state.ledger.attach(key);
        if !state.admits(principal, key, self.per_peer) {
            state.ledger.detach(principal);
            return false;
        }
        state.ledger.charge(principal, Faces, 1);
        state.count += 1;
        state.holders.insert(face_id, principal);
        true
    }

    /// Whether a principal could have one more face.
    pub(crate) fn admits(&self, key: PrincipalKey) -> bool {
        let mut state = self.lock();
        let principal = state.ledger.attach(key);
        let admits = state.count < self.all && state.admits(principal, key, self.per_peer);
        state.ledger.detach(principal);
        admits
    }

    /// Frees the place of a face that has closed.
    pub(crate) fn release(&self, face_id: u64) {
        let mut state = self.lock();
        state.count = state.count.saturating_sub(1);
        state.give_back(face_id);
    }

    /// A face has to close: it does not count for its principal any more.
    pub(crate) fn give_up(&self, face_id: u64) {
        self.lock().give_back(face_id);
    }

    /// The principal that has to give up a face, if one has.
    pub(crate) fn debtor(&self) -> Option<PrincipalKey> {
        let state = self.lock();
        state.ledger.debt(Faces).map(|debt| state.ledger.key(debt.principal))
    }

    /// What principals have.
    pub(crate) fn report(&self) -> LedgerReport<1> {
        self.lock().ledger.report()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn admits(&self, principal: PrincipalIndex, key: PrincipalKey, per_peer: u32) -> bool {
        let ledger = &self.ledger;
        let has_room = || ledger.is_open(Faces, 1) || ledger.may_take(principal, Faces, 1);
        match key.class() {
            // Operators decide about these.
            PrincipalClass::Management | PrincipalClass::Neighbour => true,
            PrincipalClass::Local => has_room(),
            PrincipalClass::Remote => ledger.held(principal, Faces) < per_peer && has_room(),
        }
    }

    fn give_back(&mut self, face_id: u64) {
        if let Some(principal) = self.holders.remove(&face_id) {
            self.ledger.release(principal, Faces, 1);
            self.ledger.detach(principal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> PrincipalKey {
        PrincipalKey::remote(([192, 0, 2, last], 6363).into())
    }

    fn shares(all: usize, per_peer: usize) -> FaceShares {
        FaceShares::new(FaceLimits { all, per_peer, reserves: Reserves::default() })
    }

    #[test]
    fn few_addresses_leave_faces_to_others() {
        let shares = shares(1600, 1000);
        // The faces of each address.
        let mut open = HashMap::<_, Vec<_>>::new();
        let mut next_id = 0;
        let mut take = |peer| {
            next_id += 1;
            if !shares.take(next_id, peer) {
                return false;
            }
            open.entry(peer).or_default().push(next_id);
            while let Some(debtor) = shares.debtor() {
                let face_id = open.get_mut(&debtor).and_then(Vec::pop).expect("it has a face");
                shares.give_up(face_id);
                shares.release(face_id);
            }
            true
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
        assert!(!shares.admits(peer(1)) && shares.admits(peer(2)));
        shares.give_up(1);
        shares.release(1);
        assert!(shares.take(3, peer(1)));
        for face_id in [2, 3] {
            shares.release(face_id);
        }
        assert!(shares.report().is_zero());
        assert_eq!(shares.lock().count, 0);
    }
}

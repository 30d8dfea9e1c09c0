//! The places of the queue between a worker and management, divided between the principals of the frames in it.
//!
//! Management divides its time and memory between principals, but it can only divide what it has received. The queue
//! before it is emptied in order, so that no frame gives way to another: a principal may have as many frames in it as there
//! are places left for its class ([`Ledger::has_room_beside_others`]).

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ndn_types::{Capacity, Ledger, PrincipalIndex, PrincipalKey, Reserves};

ndn_types::resource! {
    /// Places in the queue, which principals share.
    struct QueuedFrames = "management_frames";
}

/// The principals that the packets of faces are charged to, by FaceId: the control thread sets them, and the worker that
/// has the face of management uses them.
#[derive(Debug, Default)]
pub struct FacePrincipals {
    state: Mutex<State>,
    /// There are changes that the worker has not taken. It takes the lock only then.
    has_changes: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Changes that the worker has not taken; `None` for a face that is gone.
    changes: BTreeMap<u64, Option<PrincipalKey>>,
    /// Faces that the worker knows.
    taken: HashSet<u64>,
}

impl FacePrincipals {
    /// Adds a face, or changes its principal.
    pub fn set(&self, face_id: u64, principal: PrincipalKey) {
        self.lock().changes.insert(face_id, Some(principal));
        self.has_changes.store(true, Ordering::Release);
    }

    /// Removes a face that is gone. Faces that come and go before the worker takes the changes leave none.
    pub fn remove(&self, face_id: u64) {
        let mut state = self.lock();
        if state.taken.contains(&face_id) {
            state.changes.insert(face_id, None);
            self.has_changes.store(true, Ordering::Release);
        } else {
            state.changes.remove(&face_id);
        }
    }

    fn apply_to(&self, known: &mut HashMap<u64, PrincipalKey>) {
        if !self.has_changes.swap(false, Ordering::Acquire) {
            return;
        }
        let mut state = self.lock();
        for (face_id, principal) in std::mem::take(&mut state.changes) {
            match principal {
                Some(principal) => {
                    known.insert(face_id, principal);
                    state.taken.insert(face_id);
                }
                None => {
                    known.remove(&face_id);
                    state.taken.remove(&face_id);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The frames in the queue, by principal.
#[derive(Debug)]
pub(crate) struct FrameShares {
    principals: Arc<FacePrincipals>,
    known: HashMap<u64, PrincipalKey>,
    ledger: Ledger<QueuedFrames, 1>,
    /// The principals of the frames in the queue, in its order.
    queued: VecDeque<PrincipalIndex>,
}

impl FrameShares {
    /// Of an empty queue with room for `capacity` frames.
    pub(crate) fn new(capacity: usize, reserves: Reserves) -> Self {
        Self {
            principals: Arc::default(),
            known: HashMap::new(),
            ledger: Ledger::new([Capacity::of(capacity)], reserves),
            queued: VecDeque::with_capacity(capacity),
        }
    }

    pub(crate) fn principals(&self) -> Arc<FacePrincipals> {
        Arc::clone(&self.principals)
    }

    /// Takes a place for a frame from this face, of a queue with `unreceived` frames; false if its principal has too many.
    /// A face that the control thread does not know yet is one of [`PrincipalKey::OTHER`].
    pub(crate) fn take(&mut self, face_id: Option<u64>, unreceived: usize) -> bool {
        self.principals.apply_to(&mut self.known);
        while self.queued.len() > unreceived
            && let Some(received) = self.queued.pop_front()
        {
            self.ledger.release(received, QueuedFrames, 1);
            self.ledger.detach(received);
        }
        let key = face_id.and_then(|face_id| self.known.get(&face_id).copied());
        let principal = self.ledger.attach(key.unwrap_or(PrincipalKey::OTHER));
        if !self.ledger.has_room_beside_others(principal, QueuedFrames, 1) {
            self.ledger.detach(principal);
            return false;
        }
        self.ledger.charge(principal, QueuedFrames, 1);
        self.queued.push_back(principal);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32) -> PrincipalKey {
        PrincipalKey::LocalApplication { uid: 1000, pid }
    }

    fn peer(last: u8) -> PrincipalKey {
        PrincipalKey::remote(([192, 0, 2, last], 6363).into())
    }

    /// Takes places until this principal gets none, with frames of a hundred of its faces.
    fn fill(shares: &mut FrameShares, first: u64, principal: PrincipalKey) -> usize {
        (first..first + 100).for_each(|face_id| shares.principals.set(face_id, principal));
        let (mut taken, mut face_ids) = (0, (first..first + 100).cycle());
        while shares.take(face_ids.next(), shares.queued.len()) {
            taken += 1;
        }
        taken
    }

    #[test]
    fn frames_of_some_processes_and_peers_leave_room_to_those_of_others() {
        let mut shares = FrameShares::new(4096, Reserves::default());
        // Half of what is open to all and to applications, and half of the rest each.
        let of_processes = [1, 2, 3, 4, 5, 6, 7, 8]
            .map(|pid| fill(&mut shares, 1000 * u64::from(pid), process(pid)));
        assert_eq!(of_processes, [1619, 809, 405, 202, 101, 51, 25, 13]);
        assert!(fill(&mut shares, 20_000, process(9)) > 0, "a place is left for another one");
        assert_eq!(fill(&mut shares, 1000, process(1)), 0);
        // Those of remote peers do not reach the reserve of applications.
        let mut shares = FrameShares::new(4096, Reserves::default());
        for last in 1..=20 {
            fill(&mut shares, 1000 * u64::from(last), peer(last));
        }
        assert_eq!(shares.queued.len(), 2828);
        assert_eq!(fill(&mut shares, 30_000, process(1)), 205);
        assert!(!shares.take(Some(99), shares.queued.len()), "a face that is not known");
    }

    #[test]
    fn received_frames_make_room_for_those_of_their_principal() {
        let mut shares = FrameShares::new(8, Reserves::default());
        shares.principals.set(300, process(1));
        assert_eq!((0..9).filter(|unreceived| shares.take(Some(300), *unreceived)).count(), 4);
        assert!(!shares.take(Some(300), 4));
        // The next frame finds the queue empty.
        assert!(shares.take(Some(300), 0));
        assert_eq!((shares.queued.len(), shares.ledger.used(QueuedFrames)), (1, 1));
        shares.principals.remove(300);
        assert!(shares.take(Some(300), 0));
        let held = shares.ledger.held(PrincipalIndex::OTHER, QueuedFrames);
        assert_eq!((held, shares.known.len()), (1, 0));
    }

    #[test]
    fn created_and_removed_faces_leave_no_charge() {
        let mut shares = FrameShares::new(8, Reserves::default());
        let principals = shares.principals();
        principals.set(300, process(1));
        principals.set(301, process(1));
        assert!(shares.take(None, 0));
        for face_id in 1000..2000 {
            principals.set(face_id, peer(1));
            principals.set(face_id, PrincipalKey::Neighbour { face_id });
            principals.remove(face_id);
        }
        assert!(principals.lock().changes.is_empty());
        principals.set(300, peer(1));
        principals.set(301, peer(1));
        principals.remove(301);
        assert!(shares.take(None, 0));
        assert_eq!((shares.known.get(&300), shares.known.get(&301)), (Some(&peer(1)), None));
        assert_eq!(principals.lock().taken.len(), 1);
    }
}

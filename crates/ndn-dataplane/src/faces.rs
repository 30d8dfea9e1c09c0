//! Numbers of faces: slots with generations for the packet path, FaceIds for management.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ndn_table::FaceIndex;
use ndn_types::PrincipalKey;

use crate::face_shares::FaceShares;

/// Number of slots freed after a slot before it is used again, so that the few bits of its generation
/// distinguish old users from new ones for a long time.
const RESTING_SLOTS: usize = 256;
/// Why a face is refused when there is no room for it: the name of the limit in the configuration.
pub const FACE_LIMIT_REACHED: &str = "limits.faces reached";

/// Number of faces of workers whose slots are `stride` apart, for which there are always rested slots.
pub(crate) const fn faces_max(stride: u32) -> usize {
    (FaceIndex::SLOT_COUNT_MAX / stride) as usize - RESTING_SLOTS
}

/// The faces of one worker by index and by FaceId.
///
/// The lowest bits of a slot are the number of the worker, so that a face is never far from its
/// worker.
#[derive(Debug)]
pub(crate) struct FaceNumbers {
    worker: u32,
    /// Distance between the slots of this worker.
    stride: u32,
    shares: Arc<FaceShares>,
    /// FaceId by slot; 0 for a free one.
    face_ids: Vec<u64>,
    generations: Vec<u32>,
    free: VecDeque<u32>,
    by_face_id: HashMap<u64, FaceIndex>,
}

impl FaceNumbers {
    /// No faces yet of worker `worker`, whose slots are `stride` apart.
    pub(crate) fn new(worker: usize, stride: u32, shares: Arc<FaceShares>) -> Self {
        Self {
            worker: u32::try_from(worker).unwrap_or(u32::MAX),
            stride,
            shares,
            face_ids: Vec::new(),
            generations: Vec::new(),
            free: VecDeque::new(),
            by_face_id: HashMap::new(),
        }
    }

    /// An index for the face `face_id` of a principal; `None` if there is no room for it, or it has one.
    pub(crate) fn allocate(&mut self, face_id: u64, principal: PrincipalKey) -> Option<FaceIndex> {
        if self.by_face_id.contains_key(&face_id) || !self.shares.take(face_id, principal) {
            return None;
        }
        let is_rested = self.free.len() > RESTING_SLOTS;
        let rested = if is_rested { self.free.pop_front() } else { None };
        let slot = rested.unwrap_or_else(|| {
            self.face_ids.push(0);
            self.generations.push(0);
            // Fits: FaceShares bounds the slots by those of a FaceIndex.
            u32::try_from(self.face_ids.len() - 1).unwrap_or(u32::MAX)
        });
        let index =
            FaceIndex::new(slot * self.stride + self.worker, self.generations[slot as usize]);
        self.face_ids[slot as usize] = face_id;
        self.by_face_id.insert(face_id, index);
        Some(index)
    }

    /// Whether there is no room for a face of any remote principal. Takes no lock.
    pub(crate) fn is_full(&self) -> bool {
        self.shares.is_full()
    }

    /// Charges a face to a principal from now on.
    pub(crate) fn change_holder(&self, face_id: u64, holder: PrincipalKey) {
        self.shares.change_holder(face_id, holder);
    }

    /// Frees the index of a face that has closed; returns its FaceId.
    pub(crate) fn release(&mut self, index: FaceIndex) -> Option<u64> {
        let face_id = self.face_id(index)?;
        let slot = self.own_slot(index)?;
        self.by_face_id.remove(&face_id);
        self.shares.release(face_id);
        self.face_ids[slot] = 0;
        self.generations[slot] = (self.generations[slot] + 1) % FaceIndex::GENERATION_COUNT;
        self.free.push_back(index.slot() / self.stride);
        Some(face_id)
    }

    /// Number of faces.
    pub(crate) fn count(&self) -> usize {
        self.by_face_id.len()
    }

    /// The FaceId of a face that exists.
    pub(crate) fn face_id(&self, index: FaceIndex) -> Option<u64> {
        let slot = self.own_slot(index)?;
        let face_id = *self.face_ids.get(slot)?;
        (face_id != 0 && self.generations[slot] == index.generation()).then_some(face_id)
    }

    /// The position of a face of this worker in its tables.
    fn own_slot(&self, index: FaceIndex) -> Option<usize> {
        let slot = index.slot();
        (slot % self.stride == self.worker).then_some((slot / self.stride) as usize)
    }

    /// The index of a face that exists.
    pub(crate) fn index(&self, face_id: u64) -> Option<FaceIndex> {
        self.by_face_id.get(&face_id).copied()
    }
}

#[cfg(test)]
mod tests {
    use ndn_types::Reserves;

    use super::*;
    use crate::face_shares::FaceLimits;

    const OPERATOR: PrincipalKey = PrincipalKey::Neighbour { face_id: 1 };

    fn shares(all: usize) -> Arc<FaceShares> {
        let limits = FaceLimits { all, per_peer: all, reserves: Reserves::NONE };
        Arc::new(FaceShares::new(limits))
    }

    #[test]
    fn freed_index_is_not_reused_soon() {
        let mut numbers = FaceNumbers::new(3, 4, shares(10));
        let mut seen = std::collections::BTreeSet::new();
        for face_id in 1..=5000 {
            let index = numbers.allocate(face_id, OPERATOR).unwrap();
            assert_eq!(numbers.face_id(index), Some(face_id));
            assert_eq!(numbers.index(face_id), Some(index));
            assert_eq!(index.slot() % 4, 3);
            assert!(seen.insert(index.to_bits()), "face {face_id} got a used index");
            assert_eq!(numbers.release(index), Some(face_id));
            assert_eq!(numbers.face_id(index), None);
            assert_eq!(numbers.release(index), None, "released twice");
        }
    }

    #[test]
    fn capacity_holds_across_workers() {
        let limit = shares(2);
        let mut numbers = FaceNumbers::new(0, 2, Arc::clone(&limit));
        let mut others = FaceNumbers::new(1, 2, Arc::clone(&limit));
        let first = numbers.allocate(300, OPERATOR).unwrap();
        assert!(numbers.allocate(300, OPERATOR).is_none(), "the same FaceId twice");
        let second = others.allocate(301, OPERATOR).unwrap();
        assert!(numbers.allocate(302, OPERATOR).is_none());
        assert_eq!(numbers.release(second), None, "a face of the other worker");
        numbers.release(first);
        assert!(others.allocate(302, OPERATOR).is_some());
        assert_eq!(limit.report().resources[0].total, 2);
    }
}

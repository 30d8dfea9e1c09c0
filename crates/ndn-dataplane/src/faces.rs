//! Numbers of faces: slots with generations for the packet path, FaceIds for management.

use std::collections::{HashMap, VecDeque};

use ndn_table::FaceIndex;

/// A freed slot waits until so many others were freed before it is used again, so that the few bits
/// of its generation tell old users from new ones for a long time.
const RESTING_SLOTS: usize = 256;

/// The faces of one worker by index and by FaceId.
#[derive(Debug)]
pub(crate) struct FaceNumbers {
    /// FaceId by slot; 0 for a free one.
    face_ids: Vec<u64>,
    generations: Vec<u32>,
    free: VecDeque<u32>,
    by_face_id: HashMap<u64, FaceIndex>,
    capacity: usize,
}

impl FaceNumbers {
    /// Room for `capacity` faces.
    pub(crate) fn new(capacity: usize) -> Self {
        let slots_max = FaceIndex::SLOT_COUNT_MAX as usize - RESTING_SLOTS;
        Self {
            face_ids: Vec::new(),
            generations: Vec::new(),
            free: VecDeque::new(),
            by_face_id: HashMap::new(),
            capacity: capacity.min(slots_max),
        }
    }

    /// Faces now.
    pub(crate) fn len(&self) -> usize {
        self.by_face_id.len()
    }

    /// Whether a peer that nobody asked for may have a face. A quarter of the faces is kept from
    /// them, so that senders of datagrams, who may lie about their address, cannot shut
    /// applications out.
    pub(crate) fn has_room_for_strangers(&self) -> bool {
        self.len() < self.capacity - self.capacity / 4
    }

    /// An index for the face `face_id`; `None` if there are as many faces as there may be, or it
    /// has one.
    pub(crate) fn allocate(&mut self, face_id: u64) -> Option<FaceIndex> {
        if self.len() >= self.capacity || self.by_face_id.contains_key(&face_id) {
            return None;
        }
        let is_rested = self.free.len() > RESTING_SLOTS;
        let rested = if is_rested { self.free.pop_front() } else { None };
        let slot = rested.unwrap_or_else(|| {
            self.face_ids.push(0);
            self.generations.push(0);
            // Fits: there are fewer slots than a FaceIndex can tell apart.
            u32::try_from(self.face_ids.len() - 1).unwrap_or(u32::MAX)
        });
        let index = FaceIndex::new(slot, self.generations[slot as usize]);
        self.face_ids[slot as usize] = face_id;
        self.by_face_id.insert(face_id, index);
        Some(index)
    }

    /// Frees the index of a face that is gone; returns its FaceId.
    pub(crate) fn release(&mut self, index: FaceIndex) -> Option<u64> {
        let face_id = self.face_id(index)?;
        let slot = index.slot() as usize;
        self.by_face_id.remove(&face_id);
        self.face_ids[slot] = 0;
        self.generations[slot] = (self.generations[slot] + 1) % FaceIndex::GENERATION_COUNT;
        self.free.push_back(index.slot());
        Some(face_id)
    }

    /// The FaceId of a face that exists.
    pub(crate) fn face_id(&self, index: FaceIndex) -> Option<u64> {
        let slot = index.slot() as usize;
        let face_id = *self.face_ids.get(slot)?;
        (face_id != 0 && self.generations[slot] == index.generation()).then_some(face_id)
    }

    /// The index of a face that exists.
    pub(crate) fn index(&self, face_id: u64) -> Option<FaceIndex> {
        self.by_face_id.get(&face_id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_not_given_out_again_soon() {
        let mut numbers = FaceNumbers::new(10);
        let mut seen = std::collections::BTreeSet::new();
        for face_id in 1..=5000 {
            let index = numbers.allocate(face_id).unwrap();
            assert_eq!(numbers.face_id(index), Some(face_id));
            assert_eq!(numbers.index(face_id), Some(index));
            assert!(seen.insert(index.to_bits()), "face {face_id} got a used index");
            assert_eq!(numbers.release(index), Some(face_id));
            assert_eq!(numbers.face_id(index), None);
            assert_eq!(numbers.release(index), None, "released twice");
        }
    }

    #[test]
    fn the_capacity_is_kept() {
        let mut numbers = FaceNumbers::new(2);
        let first = numbers.allocate(300).unwrap();
        assert!(numbers.allocate(300).is_none(), "the same FaceId twice");
        assert!(numbers.allocate(301).is_some());
        assert!(numbers.allocate(302).is_none());
        numbers.release(first);
        assert!(numbers.allocate(302).is_some());
        assert_eq!(numbers.len(), 2);
    }
}

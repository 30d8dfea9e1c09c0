//! Which downstreams have had their copy of a Data that satisfies several PIT entries.

use ndn_table::FaceIndex;

/// Downstreams that can be told apart, about; each place takes 16 bytes.
const PLACES: usize = 4096;

/// Places looked at for one downstream.
const PROBE_MAX: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Place {
    token_hash: u64,
    face: FaceIndex,
    /// Number of the Data that the place was written for.
    round: u32,
}

/// A set of downstream faces with a PIT token each, emptied for every Data.
///
/// The work for one downstream is bounded, however many wait in however many entries: comparing
/// each with all before it would let one Data stall the shard for seconds. Where the set has no
/// room, a downstream is forgotten, and may get the Data once more than it should.
#[derive(Debug)]
pub(super) struct SentCopies {
    places: Box<[Place]>,
    round: u32,
}

impl SentCopies {
    pub(super) fn new() -> Self {
        let empty = Place { token_hash: 0, face: FaceIndex::from_bits(u32::MAX), round: 0 };
        Self { places: vec![empty; PLACES].into_boxed_slice(), round: 0 }
    }

    /// Forgets all downstreams.
    pub(super) fn clear(&mut self) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            // Places of 2^32 Data ago would seem to be of this one.
            self.places.iter_mut().for_each(|place| place.round = 0);
            self.round = 1;
        }
    }

    /// Adds a downstream; false if it was there. `token_hash` is the keyed hash of its PIT token.
    pub(super) fn note(&mut self, face: FaceIndex, token_hash: u64) -> bool {
        let mixed = (u64::from(face.to_bits()) ^ token_hash).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let [high, low, ..] = mixed.to_be_bytes();
        let home = usize::from(u16::from_be_bytes([high, low]));
        for step in 0..PROBE_MAX {
            let place = &mut self.places[(home + step) % PLACES];
            if place.round != self.round {
                *place = Place { token_hash, face, round: self.round };
                return true;
            }
            if place.face == face && place.token_hash == token_hash {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_downstream_is_new_once_for_each_data() {
        let mut copies = SentCopies::new();
        for _ in 0..3 {
            copies.clear();
            for seen_before in [false, true] {
                for slot in 0..1000 {
                    let face = FaceIndex::new(slot, 1);
                    assert_eq!(copies.note(face, 7), !seen_before, "face {slot}");
                }
            }
            assert!(copies.note(FaceIndex::new(5, 1), 8), "another token");
            assert!(copies.note(FaceIndex::new(5, 2), 7), "another face");
        }
    }

    #[test]
    fn what_has_no_room_is_forgotten_and_never_taken_for_another() {
        let mut copies = SentCopies::new();
        copies.clear();
        for slot in 0..50_000 {
            assert!(copies.note(FaceIndex::new(slot, 1), 7));
        }
    }

    #[test]
    fn rounds_start_over() {
        let mut copies = SentCopies::new();
        copies.round = u32::MAX;
        assert!(copies.note(FaceIndex::new(1, 1), 7));
        copies.clear();
        assert!(copies.note(FaceIndex::new(1, 1), 7));
        assert!(!copies.note(FaceIndex::new(1, 1), 7));
    }
}

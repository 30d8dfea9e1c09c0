//! The downstreams that have received a copy of a Data that satisfies several PIT entries.

use ndn_table::FaceIndex;

/// Approximate number of downstreams that can be distinguished; each slot takes 16 bytes.
const SLOTS: usize = 4096;

/// Maximum number of slots probed for one downstream.
const PROBE_MAX: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Slot {
    token_hash: u64,
    face: FaceIndex,
    /// Number of the Data for which the slot was written.
    round: u32,
}

/// A set of (downstream face, PIT token), emptied for every Data.
///
/// The work per downstream is bounded, however many wait in however many entries: comparing each
/// with all others would let one Data stall the shard for seconds. When the set has no room, a
/// downstream is forgotten and may receive the Data once more than it should.
#[derive(Debug)]
pub(crate) struct SentCopies {
    slots: Box<[Slot]>,
    round: u32,
}

impl SentCopies {
    pub(crate) fn new() -> Self {
        let empty = Slot { token_hash: 0, face: FaceIndex::from_bits(u32::MAX), round: 0 };
        Self { slots: vec![empty; SLOTS].into_boxed_slice(), round: 0 }
    }

    /// Empties the set.
    pub(crate) fn clear(&mut self) {
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            // Slots of 2^32 Data ago would appear to belong to this one.
            self.slots.iter_mut().for_each(|slot| slot.round = 0);
            self.round = 1;
        }
    }

    /// Adds a downstream; returns false if it was present. `token_hash` is the keyed hash of its
    /// PIT token.
    pub(crate) fn insert(&mut self, face: FaceIndex, token_hash: u64) -> bool {
        let mixed = (u64::from(face.to_bits()) ^ token_hash).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let [high, low, ..] = mixed.to_be_bytes();
        let home = usize::from(u16::from_be_bytes([high, low]));
        for step in 0..PROBE_MAX {
            let slot = &mut self.slots[(home + step) % SLOTS];
            if slot.round != self.round {
                *slot = Slot { token_hash, face, round: self.round };
                return true;
            }
            if slot.face == face && slot.token_hash == token_hash {
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
    fn downstream_is_new_once_per_data() {
        let mut copies = SentCopies::new();
        for _ in 0..3 {
            copies.clear();
            for seen_before in [false, true] {
                for slot in 0..1000 {
                    let face = FaceIndex::new(slot, 1);
                    assert_eq!(copies.insert(face, 7), !seen_before, "face {slot}");
                }
            }
            assert!(copies.insert(FaceIndex::new(5, 1), 8), "another token");
            assert!(copies.insert(FaceIndex::new(5, 2), 7), "another face");
        }
    }

    #[test]
    fn full_set_forgets_downstreams_and_never_confuses_them() {
        let mut copies = SentCopies::new();
        copies.clear();
        for slot in 0..50_000 {
            assert!(copies.insert(FaceIndex::new(slot, 1), 7));
        }
    }

    #[test]
    fn round_counter_wraps() {
        let mut copies = SentCopies::new();
        copies.round = u32::MAX;
        assert!(copies.insert(FaceIndex::new(1, 1), 7));
        copies.clear();
        assert!(copies.insert(FaceIndex::new(1, 1), 7));
        assert!(!copies.insert(FaceIndex::new(1, 1), 7));
    }
}

//! Which faces have been refused Interests because of their quota.

use ndn_table::FaceIndex;

/// Faces remembered between two looks. Of more, some are not told of; they are counted as drops.
const FACES_MAX: usize = 64;

/// Refused Interests by face, until somebody asks.
#[derive(Debug)]
pub(crate) struct QuotaRefusals(Vec<(FaceIndex, u64)>);

impl Default for QuotaRefusals {
    fn default() -> Self {
        Self(Vec::with_capacity(FACES_MAX))
    }
}

impl QuotaRefusals {
    /// An Interest of a face has been refused.
    #[cold]
    pub(crate) fn note(&mut self, face: FaceIndex) {
        if let Some((_, count)) = self.0.iter_mut().find(|(known, _)| *known == face) {
            *count += 1;
        } else if self.0.len() < FACES_MAX {
            self.0.push((face, 1));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of the faces, and how many of its Interests were refused since it was last told of.
    pub(crate) fn take(&mut self) -> Option<(FaceIndex, u64)> {
        self.0.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_face_is_told_of_once_with_all_that_was_refused() {
        let mut refusals = QuotaRefusals::default();
        for round in 0..3_u32 {
            for slot in 0..2 * u32::try_from(FACES_MAX).unwrap() {
                (0..=round).for_each(|_| refusals.note(FaceIndex::new(slot, 1)));
            }
            let mut told: Vec<_> = std::iter::from_fn(|| refusals.take()).collect();
            told.sort_unstable_by_key(|(face, _)| face.slot());
            assert_eq!(told.len(), FACES_MAX);
            for (slot, (face, count)) in (0..).zip(told) {
                assert_eq!((face, count), (FaceIndex::new(slot, 1), u64::from(round) + 1));
            }
        }
    }
}

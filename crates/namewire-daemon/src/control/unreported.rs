//! Faces whose state is to be reported later, by principal.

use std::collections::{BTreeMap, VecDeque};

use ndn_types::PrincipalKey;

/// The faces that have gone down or up beyond the limit of reports. Their principals take turns, so that one with many
/// faces, or whose faces change often, does not delay the reports of another.
#[derive(Debug, Default)]
pub(super) struct Unreported {
    /// The principal that each face waits for.
    principals: BTreeMap<u64, PrincipalKey>,
    /// The faces of each principal, in the order in which they came; none is empty.
    faces: BTreeMap<PrincipalKey, VecDeque<u64>>,
    /// The principals, in the order of their turns.
    turns: VecDeque<PrincipalKey>,
}

impl Unreported {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Adds a face, unless it waits already.
    pub(super) fn add(&mut self, principal: PrincipalKey, face_id: u64) {
        if self.principals.contains_key(&face_id) {
            return;
        }
        self.principals.insert(face_id, principal);
        let faces = self.faces.entry(principal).or_default();
        if faces.is_empty() {
            self.turns.push_back(principal);
        }
        faces.push_back(face_id);
    }

    /// Removes a face, if it waits.
    pub(super) fn remove(&mut self, face_id: u64) {
        let Some(principal) = self.principals.remove(&face_id) else { return };
        let Some(faces) = self.faces.get_mut(&principal) else { return };
        faces.retain(|one| *one != face_id);
        if faces.is_empty() {
            self.faces.remove(&principal);
            self.turns.retain(|one| *one != principal);
        }
    }

    /// Takes the faces that may be reported now, one of each principal in turn, until none of them is admitted any more.
    pub(super) fn take(&mut self, mut admits: impl FnMut(PrincipalKey) -> bool) -> Vec<u64> {
        let (mut taken, mut refused) = (Vec::new(), VecDeque::new());
        while let Some(principal) = self.turns.pop_front() {
            if !admits(principal) {
                refused.push_back(principal);
                continue;
            }
            let Some(faces) = self.faces.get_mut(&principal) else { continue };
            if let Some(face_id) = faces.pop_front() {
                self.principals.remove(&face_id);
                taken.push(face_id);
            }
            if faces.is_empty() {
                self.faces.remove(&principal);
            } else {
                self.turns.push_back(principal);
            }
        }
        self.turns = refused;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> PrincipalKey {
        PrincipalKey::remote(([192, 0, 2, last], 6363).into())
    }

    #[test]
    fn principals_take_turns_whatever_number_of_faces_they_have() {
        let mut unreported = Unreported::default();
        (1..=100).for_each(|face_id| unreported.add(peer(1), face_id));
        unreported.add(peer(1), 1);
        unreported.add(peer(2), 200);
        unreported.add(peer(3), 300);
        unreported.add(peer(3), 301);
        let next = |unreported: &mut Unreported, count: usize| {
            let mut admitted = 0;
            unreported.take(|_| {
                admitted += 1;
                admitted <= count
            })
        };
        assert_eq!(next(&mut unreported, 4), [1, 200, 300, 2]);
        unreported.remove(301);
        unreported.remove(301);
        assert_eq!(next(&mut unreported, 2), [3, 4]);
        let of_others = unreported.take(|principal| principal != peer(1));
        assert_eq!((of_others, unreported.is_empty()), (vec![], false));
        assert_eq!(next(&mut unreported, 1000).len(), 96);
        assert!(unreported.is_empty() && unreported.faces.is_empty());
        assert!(unreported.principals.is_empty());
    }
}

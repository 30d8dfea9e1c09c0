//! The order in which the routes of destroyed faces are removed: accounts take turns of [`TURN_PREFIXES`] prefixes each.

use std::collections::{BTreeMap, VecDeque};

use ndn_types::PrincipalKey;

/// Prefixes per turn: those of a slice. Few in tests, so that random ones meet several slices.
pub(super) const TURN_PREFIXES: usize = if cfg!(test) { 3 } else { 256 };

#[derive(Debug)]
struct Account {
    /// Its place in the order.
    number: u64,
    /// Its destroyed faces, the next one first.
    faces: VecDeque<u64>,
    /// Prefixes until the end of its turn.
    left: usize,
}

/// The face whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) account: PrincipalKey,
    pub(super) face_id: u64,
    /// Prefixes until the end of the turn, at least one.
    pub(super) left: usize,
}

/// Destroyed faces with routes that remain, by the [account](PrincipalKey::account) of their principals.
#[derive(Debug, Default)]
pub(super) struct RemovalTurns {
    accounts: BTreeMap<PrincipalKey, Account>,
    /// By number, the next one first.
    order: BTreeMap<u64, PrincipalKey>,
    last_number: u64,
}

impl RemovalTurns {
    /// Adds a face, as the last of its account. The account follows the others, if it is new.
    pub(super) fn add(&mut self, account: PrincipalKey, face_id: u64) {
        if let Some(known) = self.accounts.get_mut(&account) {
            return known.faces.push_back(face_id);
        }
        let (number, faces) = (self.append(account), VecDeque::from([face_id]));
        self.accounts.insert(account, Account { number, faces, left: TURN_PREFIXES });
    }

    /// The turn of the preferred account, if it has faces, or else the next one.
    pub(super) fn next(&self, preferred: Option<PrincipalKey>) -> Option<Turn> {
        let preferred = preferred.filter(|account| self.accounts.contains_key(account));
        let account = preferred.or_else(|| self.order.values().next().copied())?;
        let Account { faces, left, .. } = self.accounts.get(&account)?;
        Some(Turn { account, face_id: *faces.front()?, left: *left })
    }

    /// Notes that this number of prefixes of the next face of an account were removed, and whether none remains.
    pub(super) fn removed(&mut self, account: PrincipalKey, prefixes: usize, is_done: bool) {
        let Some(known) = self.accounts.get_mut(&account) else { return };
        known.left = known.left.saturating_sub(prefixes);
        if is_done {
            known.faces.pop_front();
        }
        let (number, has_faces, is_over) = (known.number, !known.faces.is_empty(), known.left == 0);
        if !has_faces {
            self.order.remove(&number);
            self.accounts.remove(&account);
        } else if is_over {
            self.order.remove(&number);
            let number = self.append(account);
            let known = self.accounts.get_mut(&account).into_iter();
            known.for_each(|known| (known.number, known.left) = (number, TURN_PREFIXES));
        }
    }

    fn append(&mut self, account: PrincipalKey) -> u64 {
        self.last_number += 1;
        self.order.insert(self.last_number, account);
        self.last_number
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn user(uid: u32) -> PrincipalKey {
        PrincipalKey::LocalApplication { uid, pid: 0 }
    }

    /// Removes a slice of these numbers of prefixes of users with one face each. Returns the number removed of each.
    fn slice(turns: &mut RemovalTurns, counts: &mut [usize]) -> Vec<usize> {
        let (before, mut left) = (counts.to_vec(), TURN_PREFIXES);
        while left > 0
            && let Some(turn) = turns.next(None)
        {
            let count = &mut counts[usize::try_from(turn.face_id).unwrap()];
            let removed = turn.left.min(left).min(*count);
            (*count, left) = (*count - removed, left - removed);
            turns.removed(turn.account, removed, *count == 0);
        }
        before.iter().zip(counts).map(|(before, after)| before - *after).collect()
    }

    #[test]
    fn turn_goes_on_after_the_end_of_a_slice() {
        const SMALL: usize = TURN_PREFIXES - 1;
        const LARGE: usize = 4 * TURN_PREFIXES;
        let mut counts = [SMALL, LARGE, SMALL, SMALL];
        let mut turns = RemovalTurns::default();
        (0..4).for_each(|number| turns.add(user(number), number.into()));
        assert_eq!(slice(&mut turns, &mut counts), [SMALL, 1, 0, 0]);
        assert_eq!(slice(&mut turns, &mut counts), [0, SMALL, 1, 0], "the rest of its turn");
        assert_eq!(slice(&mut turns, &mut counts), [0, 0, SMALL - 1, 2]);
        assert_eq!(slice(&mut turns, &mut counts), [0, TURN_PREFIXES - SMALL + 2, 0, SMALL - 2]);
    }

    #[test]
    fn account_with_faces_of_one_turn_each_does_not_keep_the_turn() {
        let mut turns = RemovalTurns::default();
        (1..=3).for_each(|face_id| turns.add(user(1), face_id));
        turns.add(user(2), 4);
        let mut faces = Vec::new();
        while let Some(Turn { account, face_id, left }) = turns.next(None) {
            assert_eq!(left, TURN_PREFIXES);
            turns.removed(account, left, true);
            faces.push(face_id);
        }
        assert_eq!(faces, [1, 4, 2, 3]);
    }

    #[test]
    fn preferred_account_uses_up_its_turn() {
        let mut turns = RemovalTurns::default();
        (1..=3).for_each(|number| turns.add(user(number), number.into()));
        let face_of = |turns: &RemovalTurns, preferred: Option<u32>| {
            turns.next(preferred.map(user)).map(|turn| turn.face_id)
        };
        assert_eq!(face_of(&turns, Some(2)), Some(2));
        assert_eq!(face_of(&turns, Some(4)), Some(1), "it has no faces");
        turns.removed(user(2), 1, false);
        assert_eq!(face_of(&turns, None), Some(1), "the order is the same");
        turns.removed(user(1), 0, true);
        assert_eq!(turns.next(None).unwrap().left, TURN_PREFIXES - 1);
        turns.removed(user(2), TURN_PREFIXES - 1, false);
        assert_eq!(face_of(&turns, None), Some(3));
    }
}

//! Memory that the faces of a worker share, divided between principals.

use std::collections::HashMap;

use ndn_types::PrincipalKey;

/// The part of the limit that is made free when it was exceeded, as a divisor.
const SPARE_PART: usize = 16;

/// The account of a principal: the same number in each budget of a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder(pub(crate) u32);

/// Bytes in use, by account, and their limit.
///
/// Up to the limit, anybody may take. Beyond it, an account gets what its share allows: the limit divided by the number
/// of accounts that hold something. So nobody is refused below its share. What is used beyond the limit then is to be
/// taken from the debtor, which holds more than its share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    used: usize,
    limit: usize,
    /// By account.
    held: Vec<usize>,
    /// Accounts that hold something.
    holders: usize,
}

impl Budget {
    /// Nothing used of `limit` bytes.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { used: 0, limit, held: Vec::new(), holders: 0 }
    }

    /// Bytes in use.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }

    /// Bytes in use by an account.
    #[must_use]
    pub fn held_by(&self, holder: Holder) -> usize {
        self.held.get(holder.0 as usize).copied().unwrap_or(0)
    }

    /// One account of the budget.
    #[inline]
    pub fn account(&mut self, holder: Holder) -> Account<'_> {
        Account { budget: self, holder }
    }

    /// Whether more than the limit is used.
    #[inline]
    #[must_use]
    pub const fn is_exceeded(&self) -> bool {
        self.used > self.limit
    }

    /// While more than the limit is used: the account that holds most, and what it may keep. It gives back a little
    /// more than necessary, so that the next grant does not need another search, but keeps its share.
    pub(crate) fn debtor(&self) -> Option<(Holder, usize)> {
        if !self.is_exceeded() {
            return None;
        }
        let (account, held) = (0_u32..).zip(&self.held).max_by_key(|(_, held)| **held)?;
        let share = self.limit / self.holders.max(1);
        let excess = self.used - (self.limit - self.limit / SPARE_PART);
        Some((Holder(account), held.saturating_sub(excess).max(share)))
    }
}

/// One account of a [`Budget`].
#[derive(Debug)]
pub struct Account<'a> {
    budget: &'a mut Budget,
    holder: Holder,
}

impl Account<'_> {
    /// Whether `bytes` more fit.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        let Budget { used, limit, holders, .. } = *self.budget;
        if bytes <= limit.saturating_sub(used) {
            return true;
        }
        let held = self.budget.held_by(self.holder);
        let holders = holders + usize::from(held == 0);
        held + bytes <= limit / holders.max(1)
    }

    /// Uses `bytes` more if they fit.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = self.has_room(bytes);
        if fits {
            self.force(bytes);
        }
        fits
    }

    /// Uses `bytes` more even beyond the limit.
    pub(crate) fn force(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let at = self.holder.0 as usize;
        if at >= self.budget.held.len() {
            self.budget.held.resize(at + 1, 0);
        }
        let held = &mut self.budget.held[at];
        self.budget.holders += usize::from(*held == 0);
        *held += bytes;
        self.budget.used += bytes;
    }

    /// Gives `bytes` back.
    pub fn give_back(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let Some(held) = self.budget.held.get_mut(self.holder.0 as usize) else { return };
        debug_assert!(bytes <= *held);
        *held = held.saturating_sub(bytes);
        self.budget.holders -= usize::from(*held == 0);
        self.budget.used = self.budget.used.saturating_sub(bytes);
    }
}

/// The accounts of the principals that have faces on a worker.
#[derive(Debug, Default)]
pub(crate) struct Principals {
    /// With the number of their faces.
    accounts: HashMap<PrincipalKey, (Holder, usize)>,
    /// Accounts of principals that have no faces any more.
    unused: Vec<Holder>,
}

impl Principals {
    pub(crate) fn face_added(&mut self, principal: PrincipalKey) -> Holder {
        let next = u32::try_from(self.accounts.len() + self.unused.len()).unwrap_or(u32::MAX);
        let Self { accounts, unused } = self;
        let new = || (unused.pop().unwrap_or(Holder(next)), 0);
        let (holder, faces) = accounts.entry(principal).or_insert_with(new);
        *faces += 1;
        *holder
    }

    pub(crate) fn face_removed(&mut self, principal: PrincipalKey) {
        let Some((holder, faces)) = self.accounts.get_mut(&principal) else { return };
        *faces -= 1;
        if *faces == 0 {
            self.unused.push(*holder);
            self.accounts.remove(&principal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOG: Holder = Holder(0);
    const OTHER: Holder = Holder(1);

    #[test]
    fn one_account_gets_everything_while_it_is_alone() {
        let mut budget = Budget::new(1000);
        assert!(budget.account(HOG).take(1000));
        assert!(!budget.account(HOG).take(1));
        assert_eq!((budget.used(), budget.debtor()), (1000, None));
    }

    #[test]
    fn account_below_its_share_is_never_refused_and_the_largest_pays() {
        let mut budget = Budget::new(1000);
        assert!(budget.account(HOG).take(1000));
        assert!(budget.account(OTHER).take(500), "half of it is its share");
        assert!(!budget.account(OTHER).take(1));
        // Not below its share, although a sixteenth of the limit would be free then.
        assert_eq!(budget.debtor(), Some((HOG, 500)));
        budget.account(HOG).give_back(500);
        assert_eq!((budget.used(), budget.debtor()), (1000, None));
        assert!(!budget.account(HOG).take(1) && !budget.account(OTHER).take(1));
    }

    #[test]
    fn faces_of_a_principal_have_one_account() {
        let mut principals = Principals::default();
        let [first, second] = [1, 2].map(|face_id| PrincipalKey::Neighbour { face_id });
        assert_eq!(principals.face_added(first), Holder(0));
        assert_eq!(principals.face_added(second), Holder(1));
        assert_eq!(principals.face_added(first), Holder(0));
        principals.face_removed(first);
        assert_eq!(principals.face_added(first), Holder(0));
        principals.face_removed(second);
        assert_eq!(principals.face_added(PrincipalKey::Management), Holder(1));
    }

    #[test]
    fn everything_given_back_leaves_nothing() {
        let mut budget = Budget::new(100);
        for holder in [HOG, OTHER, Holder(7)] {
            budget.account(holder).force(60);
        }
        for holder in [HOG, OTHER, Holder(7)] {
            assert_eq!(budget.held_by(holder), 60);
            budget.account(holder).give_back(60);
        }
        assert_eq!((budget.used(), budget.holders, budget.debtor()), (0, 0, None));
    }
}

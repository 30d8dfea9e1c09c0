//! The order in which changes are passed on to longer prefixes: principals take turns, and so do the changes of each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use ndn_types::PrincipalIndex;

/// The principal that changes routes; `None`: operators.
pub(super) type Author = Option<PrincipalIndex>;

/// The prefixes where changes begin, by author.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Authors of changes, the next one first.
    authors: VecDeque<Author>,
    /// By author and number, the next one first.
    roots: BTreeMap<(Author, u64), Arc<[u8]>>,
    last_number: u64,
    /// Principals whose last change has ended since the last call of `take_ended`.
    ended: BTreeSet<PrincipalIndex>,
}

impl Turns {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.authors.is_empty() && self.roots.is_empty()
    }

    /// Adds a change, as the last of its author. Returns its number.
    pub(super) fn add(&mut self, author: Author, root: Arc<[u8]>) -> u64 {
        if !self.has(author) {
            self.authors.push_back(author);
            author.map(|principal| self.ended.remove(&principal));
        }
        self.last_number += 1;
        self.roots.insert((author, self.last_number), root);
        self.last_number
    }

    /// Takes out the change whose turn it is.
    pub(super) fn take(&mut self) -> Option<(Author, Arc<[u8]>)> {
        let author = self.authors.pop_front()?;
        let root = self.roots.remove(&(author, self.first(author)?))?;
        if self.has(author) {
            self.authors.push_back(author);
        } else {
            self.ended.extend(author);
        }
        Some((author, root))
    }

    /// Removes a change.
    pub(super) fn remove(&mut self, author: Author, number: u64) {
        self.roots.remove(&(author, number));
        if !self.has(author) {
            self.authors.retain(|other| *other != author);
            self.ended.extend(author);
        }
    }

    /// The principals whose last change has ended since the last call.
    pub(super) fn take_ended(&mut self) -> BTreeSet<PrincipalIndex> {
        std::mem::take(&mut self.ended)
    }

    /// Whether there are changes of this author.
    pub(super) fn has(&self, author: Author) -> bool {
        self.first(author).is_some()
    }

    fn first(&self, author: Author) -> Option<u64> {
        let (&(_, number), _) = self.roots.range((author, 0)..=(author, u64::MAX)).next()?;
        Some(number)
    }
}

//! Changes that wait until they are taken.

/// Maximum number of changes that wait: more than one slice of work makes.
const CHANGES_MAX: usize = 4096;

/// The changes of a table since they were taken, while somebody follows them.
#[derive(Debug)]
pub(crate) struct Journal<T> {
    /// `None` while nobody follows them.
    changes: Option<Vec<T>>,
    is_cut: bool,
}

impl<T> Default for Journal<T> {
    fn default() -> Self {
        Self { changes: None, is_cut: false }
    }
}

impl<T> Journal<T> {
    /// Keeps changes from now on, or none.
    pub(crate) fn follow(&mut self, is_followed: bool) {
        match is_followed {
            true => drop(self.changes.get_or_insert_default()),
            false => *self = Self::default(),
        }
    }

    /// Notes a change.
    pub(crate) fn note(&mut self, change: impl FnOnce() -> T) {
        let Some(changes) = &mut self.changes else { return };
        if changes.len() < CHANGES_MAX {
            changes.push(change());
        } else {
            self.is_cut = true;
        }
    }

    /// The changes since the last call, and whether there were more.
    pub(crate) fn take(&mut self) -> (Vec<T>, bool) {
        let changes = self.changes.as_mut().map(std::mem::take).unwrap_or_default();
        (changes, std::mem::take(&mut self.is_cut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_kept_up_to_a_limit_while_they_are_followed() {
        let mut journal = Journal::default();
        journal.note(|| unreachable!("nobody follows"));
        journal.follow(true);
        for number in 0..=CHANGES_MAX {
            journal.note(|| number);
        }
        let (changes, is_cut) = journal.take();
        assert_eq!((changes.len(), changes.last(), is_cut), (CHANGES_MAX, Some(&4095), true));
        journal.note(|| 7);
        // Following twice loses nothing.
        journal.follow(true);
        assert_eq!(journal.take(), (vec![7], false));
        journal.note(|| 8);
        journal.follow(false);
        assert_eq!(journal.take(), (vec![], false));
    }
}

//! The encoded blocks of a table, for its dataset: encoded in slices, and kept from one version to the next.
//!
//! The blocks of up to 64 consecutive entries are a run. A change of an entry makes its run stale, and
//! [`Listing::continue_encoding`] encodes stale runs. When none is stale, the runs show the table at that moment, and their
//! bytes become a version of the dataset. A version after few changes costs few runs, and versions share unchanged runs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// Maximum number of entries of a run.
const RUN_ENTRIES_MAX: usize = 64;
/// A run of this length takes no further entry, bytes.
const RUN_LENGTH: usize = 8192;
/// Work for a run in addition to its bytes, in bytes.
const RUN_WORK: usize = 256;
/// Work for an entry in addition to its bytes, in bytes, even if it is omitted.
const ENTRY_WORK: usize = 16;

/// The value of a Name TLV, which sorts like the name.
type Key = Box<[u8]>;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// By the least key of the run; that of the first run is empty. Empty if nothing is kept.
    runs: BTreeMap<Key, Arc<[u8]>>,
    /// Runs to be encoded.
    stale: BTreeSet<Key>,
    /// Runs with entries that change with time.
    timed: BTreeSet<Key>,
    /// The current version was restarted.
    is_restarted: bool,
    /// The next version begins with nothing.
    is_outdated: bool,
}

impl Listing {
    /// Whether anything is kept.
    pub(crate) fn is_kept(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Drops the runs.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Marks the run of an entry that was added, changed or removed.
    pub(crate) fn changed(&mut self, key: &[u8]) {
        let up_to = (Bound::Unbounded, Bound::Included(key));
        if let Some((start, _)) = self.runs.range::<[u8], _>(up_to).next_back()
            && !self.stale.contains(start)
        {
            self.stale.insert(start.clone());
        }
    }

    /// Marks all that is kept: it is encoded from the beginning. A version is restarted once; later on, this holds from the next
    /// one on, so that restarts do not keep a version from being completed.
    pub(crate) fn restart(&mut self) {
        if self.is_restarted {
            self.is_outdated = true;
        } else if self.is_kept() {
            self.forget();
            self.begin();
            self.is_restarted = true;
        }
    }

    /// Whether entries may be shown as they were before a restart.
    pub(crate) const fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    /// Begins a version: runs that change with time become stale.
    pub(crate) fn begin(&mut self) {
        if self.is_outdated {
            self.forget();
        }
        self.is_restarted = false;
        if self.runs.is_empty() {
            self.runs.insert(Key::default(), Arc::default());
            self.stale.insert(Key::default());
        }
        self.stale.extend(self.timed.iter().cloned());
    }

    /// Encodes about `work` bytes of stale runs; true if none remains. `entries` returns the entries of the table from a key
    /// on, in order; `encode` appends or omits one, and returns whether it changes with time. Entries that the iterator
    /// omits do not count as work.
    pub(crate) fn continue_encoding<K: AsRef<[u8]>, E, I: Iterator<Item = (K, E)>>(
        &mut self,
        work: usize,
        entries: impl Fn(&[u8]) -> I,
        encode: impl Fn(&mut Vec<u8>, K, E) -> bool,
    ) -> bool {
        let mut done = 0;
        while done < work
            && let Some(start) = self.stale.pop_first()
        {
            let behind = (Bound::Excluded(&*start), Bound::Unbounded);
            let end = self.runs.range::<[u8], _>(behind).next().map(|(key, _)| key.clone());
            let (mut bytes, mut is_timed, mut rest) = (Vec::new(), false, None);
            for (count, (key, entry)) in entries(&start).enumerate() {
                if end.as_deref().is_some_and(|end| key.as_ref() >= end) {
                    break;
                }
                if count >= RUN_ENTRIES_MAX || bytes.len() >= RUN_LENGTH {
                    rest = Some(Key::from(key.as_ref()));
                    break;
                }
                is_timed |= encode(&mut bytes, key, entry);
                done += ENTRY_WORK;
            }
            done += bytes.len() + RUN_WORK;
            if let Some(rest) = rest {
                self.runs.insert(rest.clone(), Arc::default());
                self.stale.insert(rest);
            }
            self.put(start, bytes, is_timed);
        }
        self.stale.is_empty()
    }

    fn put(&mut self, start: Key, bytes: Vec<u8>, is_timed: bool) {
        // The first run stays, so that every key has a run.
        let is_dropped = bytes.is_empty() && !start.is_empty();
        if is_timed && !is_dropped {
            self.timed.insert(start.clone());
        } else {
            self.timed.remove(&start);
        }
        if is_dropped {
            self.runs.remove(&start);
        } else {
            self.runs.insert(start, bytes.into());
        }
    }

    /// The bytes of the runs, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Arc<[u8]>> {
        self.runs.values().filter(|run| !run.is_empty()).map(Arc::clone)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use proptest::prelude::*;

    use super::*;

    type Table = BTreeMap<Key, Vec<u8>>;

    /// The values of entries that are left out; the second one changes with time.
    const UNWANTED: [[u8; 1]; 2] = [[250], [251]];

    /// The least mark of entries. The bytes of keys and of listed values are lower in the model test.
    const MARK_MIN: u8 = 200;

    fn entry(out: &mut Vec<u8>, key: &[u8], value: &[u8], mark: u8) {
        out.push(u8::try_from(key.len()).unwrap());
        out.extend_from_slice(key);
        out.extend_from_slice(value);
        out.push(mark);
    }

    fn continue_listing(
        listing: &mut Listing,
        table: &Table,
        (time, mark): (u8, u8),
        work: usize,
    ) -> bool {
        let entries = |start: &[u8]| {
            let from = (Bound::Included(start), Bound::Unbounded);
            table.range::<[u8], _>(from).map(|(key, value)| (&**key, value))
        };
        listing.continue_encoding(work, entries, |out, key, value| {
            if UNWANTED.iter().any(|unwanted| value == unwanted) {
                return *value == UNWANTED[1];
            }
            // An empty value stands for what changes with time.
            let value = if value.is_empty() { &[time][..] } else { value };
            entry(out, key, value, mark);
            value == [time]
        })
    }

    fn content(listing: &Listing) -> Vec<u8> {
        listing.runs().flat_map(|run| run.to_vec()).collect()
    }

    fn naive(table: &Table, (time, mark): (u8, u8)) -> Vec<u8> {
        let mut content = Vec::new();
        let is_listed = |value: &[u8]| UNWANTED.iter().all(|unwanted| value != unwanted);
        for (key, value) in table.iter().filter(|(_, value)| is_listed(value)) {
            let value = if value.is_empty() { &[time][..] } else { value };
            entry(&mut content, key, value, mark);
        }
        content
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Set(Vec<u8>, Vec<u8>),
        Remove(Vec<u8>),
        Begin,
        GoOn(usize),
        Forget,
        /// All entries change.
        Restart,
    }

    fn operation() -> impl Strategy<Value = Operation> {
        let key = || prop::collection::vec(0..4_u8, 0..5);
        let value = prop_oneof![
            3 => prop::collection::vec(100..200_u8, 1..4),
            1 => Just(Vec::new()),
            2 => prop::sample::select(&UNWANTED).prop_map(Vec::from),
            1 => Just(vec![7; RUN_LENGTH]),
        ];
        prop_oneof![
            8 => (key(), value).prop_map(|(key, value)| Operation::Set(key, value)),
            4 => key().prop_map(Operation::Remove),
            1 => Just(Operation::Begin),
            3 => (1..3 * RUN_LENGTH).prop_map(Operation::GoOn),
            1 => Just(Operation::Forget),
            1 => Just(Operation::Restart),
        ]
    }

    proptest! {
        #[test]
        fn complete_listing_equals_the_table_at_its_start(
            operations in prop::collection::vec(operation(), 1..400)
        ) {
            let (mut listing, mut table) = (Listing::default(), Table::new());
            let (mut time, mut mark, mut restarts) = (0, MARK_MIN, 0);
            for operation in operations {
                match operation {
                    Operation::Set(key, value) => {
                        listing.changed(&key);
                        table.insert(key.into(), value);
                    }
                    Operation::Remove(key) => {
                        table.remove(&key[..]);
                        listing.changed(&key);
                    }
                    Operation::Begin => {
                        (time, restarts) = ((time + 1) % 100, 0);
                        listing.begin();
                    }
                    Operation::GoOn(work) => {
                        let state = (time, mark);
                        if continue_listing(&mut listing, &table, state, work) && listing.is_kept() {
                            let (mut shown, mut all) = (content(&listing), naive(&table, state));
                            if restarts > 1 {
                                // Entries may be shown as they were before.
                                shown.retain(|byte| *byte < MARK_MIN);
                                all.retain(|byte| *byte < MARK_MIN);
                            }
                            prop_assert_eq!(shown, all);
                        }
                    }
                    Operation::Forget => {
                        listing.forget();
                        restarts = 0;
                    }
                    Operation::Restart => {
                        mark = if mark == u8::MAX { MARK_MIN } else { mark + 1 };
                        restarts += usize::from(listing.is_kept());
                        listing.restart();
                    }
                }
                prop_assert!(listing.runs.is_empty() || listing.runs.contains_key(&[][..]));
                prop_assert!(listing.stale.iter().all(|key| listing.runs.contains_key(key)));
                prop_assert!(listing.timed.iter().all(|key| listing.runs.contains_key(key)));
            }
            listing.begin();
            prop_assert!(continue_listing(&mut listing, &table, (time, mark), usize::MAX));
            prop_assert_eq!(content(&listing), naive(&table, (time, mark)));
        }
    }

    #[test]
    fn dropped_run_is_not_timed() {
        let (mut listing, mut table, state) = (Listing::default(), Table::new(), (0, MARK_MIN));
        table.insert([0].into(), vec![7; RUN_LENGTH]);
        table.insert([1].into(), vec![100]);
        listing.begin();
        assert!(!continue_listing(&mut listing, &table, state, 1), "a run is full");
        // A run of its own is begun for it.
        table.insert([0, 0].into(), UNWANTED[1].to_vec());
        listing.changed(&[0, 0]);
        assert!(continue_listing(&mut listing, &table, state, usize::MAX));
        assert_eq!(content(&listing), naive(&table, state));
        assert!(listing.timed.is_empty());
    }

    #[test]
    fn version_is_completed_in_spite_of_restarts() {
        let key = |number: u32| Key::from(number.to_be_bytes());
        let table: Table = (0..10_000).map(|number| (key(number), vec![1; 10])).collect();
        let (mut listing, mut restarts) = (Listing::default(), 0);
        listing.begin();
        while !continue_listing(&mut listing, &table, (0, MARK_MIN), 10_000) {
            listing.restart();
            restarts += 1;
        }
        // All of it twice at most.
        assert!(restarts <= 2 * 10_000 * (16 + ENTRY_WORK + RUN_WORK / RUN_ENTRIES_MAX) / 10_000);
        let is_complete = |listing: &mut Listing| continue_listing(listing, &table, (0, 201), 1);
        assert!(is_complete(&mut listing), "it remains so");
        assert!(listing.is_outdated());
        listing.begin();
        assert!(!is_complete(&mut listing), "the next version has nothing of this one");
    }

    #[test]
    fn omitted_entries_count_as_work() {
        let mut table = Table::new();
        for number in 0..10_000_u32 {
            table.insert(number.to_be_bytes().as_slice().into(), UNWANTED[0].to_vec());
        }
        table.insert(9000_u32.to_be_bytes().as_slice().into(), vec![1; 10]);
        let mut listing = Listing::default();
        listing.begin();
        let mut slices = 1;
        while !continue_listing(&mut listing, &table, (0, MARK_MIN), 10_000) {
            slices += 1;
        }
        assert!(slices >= 10_000 * ENTRY_WORK / 20_000, "{slices}");
        assert_eq!(content(&listing), naive(&table, (0, MARK_MIN)));
        assert_eq!(listing.runs().count(), 1);
    }

    #[test]
    fn unchanged_runs_are_shared_between_versions() {
        let mut table = Table::new();
        for number in 0..10_000_u32 {
            table.insert(number.to_be_bytes().as_slice().into(), vec![1; 10]);
        }
        let mut listing = Listing::default();
        listing.begin();
        assert!(
            !continue_listing(&mut listing, &table, (0, MARK_MIN), 10_000),
            "that is more than was asked for"
        );
        assert!(continue_listing(&mut listing, &table, (0, MARK_MIN), usize::MAX));
        let before: Vec<Arc<[u8]>> = listing.runs().collect();
        table.insert(5000_u32.to_be_bytes().as_slice().into(), vec![2; 10]);
        listing.changed(&5000_u32.to_be_bytes());
        listing.begin();
        assert!(continue_listing(&mut listing, &table, (0, MARK_MIN), 1));
        let after: Vec<Arc<[u8]>> = listing.runs().collect();
        let shared = after.iter().filter(|run| before.iter().any(|old| Arc::ptr_eq(old, run)));
        assert_eq!(shared.count(), before.len() - 1);
        assert_eq!(content(&listing), naive(&table, (0, MARK_MIN)));
        // What was there before stays as it was.
        let old: Vec<u8> = before.iter().flat_map(|run| run.to_vec()).collect();
        assert_eq!(old.len(), content(&listing).len());
        assert_ne!(old, content(&listing));
    }
}

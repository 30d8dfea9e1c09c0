//! Replay protection: each timestamp of a key is good for one command (ndn-cxx, "Command Interest").
//!
//! Commands of one key need not arrive in the order of their timestamps: several processes may have one key, and take
//! turns. So a key has its latest timestamps, not only the last one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ndn_packet::Name;
use ndn_types::{Now, Timestamp};

use crate::command::Module;

/// Maximum difference between the clocks of signer and forwarder, milliseconds.
const GRACE_MS: u64 = 120_000;
/// Maximum number of remembered keys.
const KEYS_MAX: usize = 1000;
/// Maximum number of timestamps of one key; earlier ones are refused.
const TIMESTAMPS_MAX: usize = 4096;
/// Time for which a key is remembered.
const LIFETIME: Duration = Duration::from_secs(3600);

/// The timestamps of each key.
#[derive(Debug, Clone, Default)]
pub(super) struct ReplayGuard {
    last: BTreeMap<Name, Record>,
    /// The keys by the numbers of their latest commands.
    order: BTreeMap<u64, Name>,
    /// Limits for keys without a record: a command within them may have been executed before the key's record was
    /// evicted.
    evicted: Record,
    notes: u64,
    /// Commands that were signed at this time or earlier are refused.
    floor_ms: u64,
}

/// The commands that an authorizer has executed, for its successor.
#[derive(Debug, Clone, Default)]
pub struct ReplayRecords {
    pub(super) of_modules: BTreeMap<Module, ReplayGuard>,
    pub(super) localhost_rib: Option<ReplayGuard>,
    pub(super) localhop_rib: Option<ReplayGuard>,
}

#[derive(Debug, Clone, Default)]
struct Record {
    /// Those of commands that were executed, within the grace.
    timestamps_ms: BTreeSet<u64>,
    /// Those up to this one are refused.
    floor_ms: u64,
    noted_at: Timestamp,
    note: u64,
}

impl Record {
    fn is_old(&self, now: Now) -> bool {
        now.monotonic - self.noted_at >= LIFETIME
    }

    fn may_be_repeated(&self, timestamp_ms: u64) -> bool {
        timestamp_ms <= self.floor_ms || self.timestamps_ms.contains(&timestamp_ms)
    }

    /// Refuses up to the latest timestamp of `evicted`, too.
    fn raise_floor(&mut self, now: Now, evicted: &Self) {
        let latest_ms = evicted.timestamps_ms.last().copied().unwrap_or(evicted.floor_ms);
        if latest_ms > self.floor_ms || self.is_old(now) {
            (self.floor_ms, self.noted_at) = (latest_ms, evicted.noted_at);
        }
    }

    fn note(&mut self, now: Now, timestamp_ms: u64) {
        self.timestamps_ms.insert(timestamp_ms);
        // The clock refuses those before.
        let earliest_ms = now.unix_ms().saturating_sub(GRACE_MS);
        while let Some(first_ms) = self.timestamps_ms.first().copied()
            && (first_ms < earliest_ms || self.timestamps_ms.len() > TIMESTAMPS_MAX)
        {
            self.floor_ms = self.floor_ms.max(first_ms);
            self.timestamps_ms.pop_first();
        }
    }
}

impl ReplayGuard {
    /// Checks the timestamp of a command.
    pub(super) fn check(&self, now: Now, key: &Name, timestamp_ms: u64) -> Result<(), String> {
        if timestamp_ms.abs_diff(now.unix_ms()) > GRACE_MS {
            return Err("the timestamp is too far from the forwarder's clock".to_owned());
        }
        if timestamp_ms <= self.floor_ms {
            return Err(
                "the command was signed before the forwarder started, or before its signer was known"
                    .to_owned(),
            );
        }
        let record = self.last.get(key).unwrap_or(&self.evicted);
        if record.may_be_repeated(timestamp_ms) && !record.is_old(now) {
            return Err(
                "a command with this timestamp was executed already, or many later ones".to_owned()
            );
        }
        Ok(())
    }

    /// Refuses what was signed at `unix_ms` or earlier.
    pub(super) fn refuse_signed_before(&mut self, unix_ms: u64) {
        self.floor_ms = unix_ms;
    }

    /// Records an accepted command.
    pub(super) fn note(&mut self, now: Now, key: Name, timestamp_ms: u64) {
        self.notes += 1;
        let floor_ms = self.evicted.floor_ms;
        let unknown = || Record { floor_ms, ..Record::default() };
        let record = self.last.entry(key.clone()).or_insert_with(unknown);
        record.note(now, timestamp_ms);
        self.order.remove(&record.note);
        (record.noted_at, record.note) = (now.monotonic, self.notes);
        self.order.insert(self.notes, key);
        while let Some(first) = self.order.first_entry() {
            let is_old = self.last.get(first.get()).is_none_or(|record| record.is_old(now));
            if !is_old && self.last.len() <= KEYS_MAX {
                break;
            }
            if let Some(record) = self.last.remove(&first.remove())
                && !is_old
            {
                self.evicted.raise_floor(now, &record);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.last.len().max(self.order.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::name;

    fn at(ms: u64) -> Now {
        Now { monotonic: Timestamp::from_millis(ms), unix: Duration::from_millis(ms) }
    }

    #[test]
    fn timestamp_is_good_once_and_near_the_clock() {
        let mut guard = ReplayGuard::default();
        let (now, key) = (at(10_000_000), name("/a/KEY/1"));
        assert!(guard.check(now, &key, 10_000_000).is_ok());
        guard.note(now, key.clone(), 10_000_000);
        assert!(guard.check(now, &key, 10_000_000).is_err());
        assert!(guard.check(now, &key, 9_999_999).is_ok(), "a command that was overtaken");
        guard.note(now, key.clone(), 9_999_999);
        assert!(guard.check(now, &key, 9_999_999).is_err());
        assert!(guard.check(now, &key, 10_000_000).is_err());
        assert!(guard.check(now, &key, 10_000_001).is_ok());
        assert!(guard.check(now, &name("/b/KEY/1"), 10_000_000).is_ok());
        for (timestamp, good) in [(9_880_000, true), (9_879_999, false), (10_120_001, false)] {
            assert_eq!(guard.check(now, &name("/b"), timestamp).is_ok(), good, "{timestamp}");
        }
    }

    #[test]
    fn timestamps_of_one_key_are_bounded_and_never_repeated() {
        let mut guard = ReplayGuard::default();
        let key = name("/a/KEY/1");
        let (start_ms, count) = (10_000_000, 5 * TIMESTAMPS_MAX as u64);
        for ms in start_ms..start_ms + count {
            guard.note(at(ms), key.clone(), ms);
        }
        let now = at(start_ms + count);
        assert_eq!(guard.last[&key].timestamps_ms.len(), TIMESTAMPS_MAX);
        assert!((start_ms - 5..now.unix_ms()).all(|ms| guard.check(now, &key, ms).is_err()));
        // A clock that is set back does not make old commands good again.
        guard.note(at(now.unix_ms() + 200_000), key.clone(), now.unix_ms() + 200_000);
        assert_eq!(guard.last[&key].timestamps_ms.len(), 1);
        assert!((start_ms..now.unix_ms()).all(|ms| guard.check(now, &key, ms).is_err()));
    }

    #[test]
    fn command_signed_before_the_floor_is_refused() {
        let mut guard = ReplayGuard::default();
        guard.refuse_signed_before(10_000_000);
        let now = at(10_000_005);
        assert!(guard.check(now, &name("/a"), 10_000_000).is_err());
        assert!(guard.check(now, &name("/a"), 10_000_001).is_ok());
    }

    #[test]
    fn client_behind_is_served_after_a_start_once_its_clock_has_passed_it() {
        const START_MS: u64 = 10_000_000;
        let mut guard = ReplayGuard::default();
        guard.refuse_signed_before(START_MS);
        let served_after = |behind_ms: u64| {
            (0..=2 * GRACE_MS).step_by(1000).find(|waited_ms| {
                let now = at(START_MS + waited_ms);
                guard.check(now, &name("/a"), now.unix_ms() - behind_ms).is_ok()
            })
        };
        assert_eq!(served_after(0), Some(1000));
        assert_eq!(served_after(90_500), Some(91_000));
        assert_eq!(served_after(GRACE_MS + 1), None, "its clock is too far away in any case");
        let replayed = (0..=2 * GRACE_MS).step_by(1000).find(|waited_ms| {
            guard.check(at(START_MS + waited_ms), &name("/a"), START_MS - 1).is_ok()
        });
        assert_eq!(replayed, None);
    }

    #[test]
    fn busy_key_is_remembered_and_idle_keys_are_dropped() {
        let mut guard = ReplayGuard::default();
        let key = |n: u64| {
            let mut key = name("/key");
            key.push_segment(n);
            key
        };
        for n in 0..5000 {
            guard.note(at(10_000_000 + n), key(n), 10_000_000 + n);
            guard.note(at(10_000_000 + n), key(0), 10_000_000 + n);
        }
        assert_eq!(guard.len(), KEYS_MAX);
        let now = at(10_005_000);
        assert!(guard.check(now, &key(0), 10_004_999).is_err());
        assert!(!guard.last.contains_key(&key(1)), "forgotten");
        let later = at(10_005_000 + 3_600_001);
        guard.note(later, key(9), later.unix_ms());
        assert_eq!(guard.last.len(), 1);
    }

    #[test]
    fn commands_of_a_busy_key_take_no_memory_beside_a_quiet_key() {
        let mut guard = ReplayGuard::default();
        guard.note(at(10_000_000), name("/quiet"), 10_000_000);
        for ms in 10_000_001..10_005_000 {
            guard.note(at(ms), name("/busy"), ms);
        }
        assert_eq!(guard.len(), 2);
    }

    #[test]
    fn command_of_an_evicted_key_is_not_repeated() {
        let mut guard = ReplayGuard::default();
        let other = |n: u64| {
            let mut key = name("/other");
            key.push_segment(n);
            key
        };
        let (key, start_ms) = (name("/a/KEY/1"), 10_000_000);
        for ms in [start_ms, start_ms + 2] {
            guard.note(at(start_ms), key.clone(), ms);
        }
        for n in 0..KEYS_MAX as u64 {
            guard.note(at(start_ms + 10), other(n), start_ms + 10);
        }
        assert!(!guard.last.contains_key(&key));
        let now = at(start_ms + 20);
        for ms in [start_ms, start_ms + 2] {
            assert!(guard.check(now, &key, ms).is_err(), "{ms}");
        }
        assert!(guard.check(now, &key, start_ms + 3).is_ok());
        // Its new record does not make the evicted times good again.
        guard.note(now, key.clone(), start_ms + 20);
        assert!(guard.check(now, &key, start_ms).is_err());
        // A clock that was set back keeps a new key out for the lifetime of a record at most.
        let later = Now { monotonic: now.monotonic + LIFETIME, ..at(start_ms) };
        assert!(guard.check(later, &name("/new"), start_ms).is_ok());
    }
}

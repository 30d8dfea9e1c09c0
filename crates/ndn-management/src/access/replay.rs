//! Replay protection: the timestamps of a key's commands have to increase (ndn-cxx, "Command Interest").

use std::collections::{BTreeMap, VecDeque};

use ndn_packet::Name;

use crate::Now;
use crate::command::Module;

/// Maximum difference between the clocks of signer and forwarder, milliseconds.
const GRACE_MS: u64 = 120_000;
/// Maximum number of remembered keys.
const KEYS_MAX: usize = 1000;
/// Time for which a key is remembered, nanoseconds.
const LIFETIME_NS: u64 = 3_600_000_000_000;

/// The last timestamp of each key.
#[derive(Debug, Clone, Default)]
pub(super) struct ReplayGuard {
    last: BTreeMap<Name, Record>,
    /// Names in the order of their records, each with the number of its record; only the latest number of a name is valid.
    order: VecDeque<(Name, u64)>,
    notes: u64,
    /// Commands that were signed at this time or earlier are refused.
    floor_ms: u64,
}

/// What an authorizer has recorded about the commands that were executed, for its successor.
#[derive(Debug, Clone, Default)]
pub struct ReplayRecords {
    pub(super) of_modules: BTreeMap<Module, ReplayGuard>,
    pub(super) localhost_rib: Option<ReplayGuard>,
    pub(super) localhop_rib: Option<ReplayGuard>,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    timestamp_ms: u64,
    noted_ns: u64,
    note: u64,
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
        match self.last.get(key) {
            Some(record)
                if record.timestamp_ms >= timestamp_ms
                    && now.monotonic_ns.saturating_sub(record.noted_ns) < LIFETIME_NS =>
            {
                Err("the timestamp is not later than that of the last command".to_owned())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses what was signed at `unix_ms` or earlier.
    pub(super) fn refuse_signed_before(&mut self, unix_ms: u64) {
        self.floor_ms = unix_ms;
    }

    /// Records an accepted command.
    pub(super) fn note(&mut self, now: Now, key: Name, timestamp_ms: u64) {
        self.notes += 1;
        let record = Record { timestamp_ms, noted_ns: now.monotonic_ns, note: self.notes };
        self.last.insert(key.clone(), record);
        self.order.push_back((key, self.notes));
        while let Some((key, note)) = self.order.front() {
            let is_current = self.last.get(key).is_some_and(|record| record.note == *note);
            let is_old = self.last.get(key).is_none_or(|record| {
                now.monotonic_ns.saturating_sub(record.noted_ns) >= LIFETIME_NS
            });
            if is_current && !is_old && self.last.len() <= KEYS_MAX {
                break;
            }
            if is_current {
                self.last.remove(key);
            }
            self.order.pop_front();
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
        Now { monotonic_ns: ms * 1_000_000, unix_us: ms * 1000 }
    }

    #[test]
    fn timestamp_has_to_increase_and_be_near_the_clock() {
        let mut guard = ReplayGuard::default();
        let (now, key) = (at(10_000_000), name("/a/KEY/1"));
        assert!(guard.check(now, &key, 10_000_000).is_ok());
        guard.note(now, key.clone(), 10_000_000);
        assert!(guard.check(now, &key, 10_000_000).is_err());
        assert!(guard.check(now, &key, 9_999_999).is_err());
        assert!(guard.check(now, &key, 10_000_001).is_ok());
        assert!(guard.check(now, &name("/b/KEY/1"), 10_000_000).is_ok());
        for (timestamp, good) in [(9_880_000, true), (9_879_999, false), (10_120_001, false)] {
            assert_eq!(guard.check(now, &name("/b"), timestamp).is_ok(), good, "{timestamp}");
        }
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
        assert!(guard.len() <= 2 * KEYS_MAX + 2, "{}", guard.len());
        let now = at(10_005_000);
        assert!(guard.check(now, &key(0), 10_004_999).is_err());
        assert!(guard.check(now, &key(1), 10_000_001).is_ok(), "forgotten");
        let later = at(10_005_000 + 3_600_001);
        guard.note(later, key(9), later.unix_ms());
        assert_eq!(guard.last.len(), 1);
    }
}

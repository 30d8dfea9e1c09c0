//! Dead Nonce List: names and nonces of Interests whose PIT entry is gone, to detect loops.
//!
//! A 64-byte line holds eight records of 64 bits: a 49-bit fingerprint of name and nonce, and the
//! insertion time in steps of 1/64 of the lifetime, modulo 2^14. The probability that a lookup
//! takes a new Interest for a looping one is below 8 * 2^-49, about 1.5e-14; the consumer's
//! retransmission carries a new nonce and is not affected. Time wraps after 256 lifetimes, which
//! can only revive a record for the same name and nonce.
//!
//! A lookup reads one line, and none if nothing was inserted within the lifetime, the usual case
//! when Interests are satisfied.
//!
//! Address space is reserved for the configured number of records, but only a part is in use. The
//! list grows when live records had to be overwritten, and for one lifetime after that a lookup
//! also reads the line of the previous size. An idle list shrinks.

use ndn_ring::{HUGE_PAGE_BYTES, advise_huge_pages, prefetch_slice};
use ndn_types::Timestamp;

const LIFETIME_STEPS: u64 = 64;
const TIME_MASK: u64 = (1 << 14) - 1;

/// Set in every record, so that no record is 0.
const IN_USE: u64 = 1 << 63;

const LINE_RECORDS: usize = 8;

/// Lines in use at first: 64 KiB.
const LINES_MIN: u64 = 1024;

/// The list grows by this factor, at most once per lifetime.
const GROWTH: u64 = 8;

/// Live records overwritten since the last growth that trigger the next one.
const LOSSES_MAX: u64 = 8;

/// Insertions collected before they are written, so that several lines are fetched from memory at a
/// time.
const PENDING_MAX: usize = 16;

/// Bounded set of (name, nonce) pairs. A pair expires after the lifetime (up to 1/64 late), or
/// earlier if the list is at its full size and overloaded.
#[derive(Debug)]
pub struct DeadNonceList {
    words: Vec<u64>,
    /// Where the first line starts in `words`.
    origin: usize,
    lines_max: u64,
    /// Lines in use, minus one; a power of two minus one.
    mask: u64,
    /// The mask before the last growth, and the time until which it may have records.
    old_mask: u64,
    old_until: Timestamp,
    lifetime_nanos: u64,
    step_nanos: u64,
    /// Expiry of the newest record.
    last_until: Timestamp,
    losses: u64,
    /// Pairs to be inserted, as mixed values, and their insertion time.
    pending: [u64; PENDING_MAX],
    pending_count: usize,
    pending_at: Timestamp,
}

impl DeadNonceList {
    /// A list for about `records_max` pairs with a lifetime of `lifetime_nanos` each.
    ///
    /// # Panics
    /// When `lifetime_nanos` is 0.
    #[must_use]
    pub fn new(records_max: usize, lifetime_nanos: u64) -> Self {
        assert!(lifetime_nanos > 0, "records have a lifetime");
        // Half full, so that a line seldom has to overwrite a live record.
        let lines = (records_max * 2).div_ceil(LINE_RECORDS).next_power_of_two() as u64;
        let lines_max = lines.max(LINES_MIN);
        let line_count = usize::try_from(lines_max).unwrap_or(usize::MAX / 64);
        // Align the array to whole huge pages: otherwise the lists of adjacent shards would share
        // them.
        let alignment = if line_count * 64 >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { 64 };
        let spare = alignment / size_of::<u64>();
        let words = vec![0; line_count * LINE_RECORDS + spare];
        let origin = words.as_ptr().align_offset(alignment).min(spare);
        advise_huge_pages(&words[origin..]);
        Self {
            words,
            origin,
            lines_max,
            mask: LINES_MIN - 1,
            old_mask: LINES_MIN - 1,
            old_until: Timestamp::ZERO,
            lifetime_nanos,
            step_nanos: lifetime_nanos.div_ceil(LIFETIME_STEPS),
            last_until: Timestamp::ZERO,
            losses: 0,
            pending: [0; PENDING_MAX],
            pending_count: 0,
            pending_at: Timestamp::ZERO,
        }
    }

    /// Records that fit at the present size.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        (self.mask + 1) * LINE_RECORDS as u64
    }

    /// Prefetches the lines that [`Self::contains`] will read.
    #[inline(always)]
    pub fn prefetch(&self, name_hash: u64, nonce: u32, now: Timestamp) {
        if now < self.last_until {
            let mixed = mix(name_hash, nonce);
            prefetch_slice(&self.words, self.line(mixed, self.mask));
            if now < self.old_until {
                prefetch_slice(&self.words, self.line(mixed, self.old_mask));
            }
        }
    }

    /// Whether the pair was inserted within the lifetime.
    #[must_use]
    #[inline]
    pub fn contains(&mut self, name_hash: u64, nonce: u32, now: Timestamp) -> bool {
        // Those that wait to be written have expired, too.
        if now >= self.last_until {
            return false;
        }
        if self.pending_count > 0 {
            self.flush_pending();
        }
        let mixed = mix(name_hash, nonce);
        self.position(mixed, self.mask, now).is_some()
            || now < self.old_until && self.position(mixed, self.old_mask, now).is_some()
    }

    /// Adds a pair.
    #[inline]
    pub fn insert(&mut self, name_hash: u64, nonce: u32, now: Timestamp) {
        if self.pending_count == PENDING_MAX || self.pending_at != now {
            self.flush_pending();
        }
        if now >= self.last_until {
            // No record is alive: records of any size may be ignored.
            self.mask = LINES_MIN - 1;
            self.old_until = Timestamp::ZERO;
            self.losses = 0;
        }
        self.last_until = now.plus_nanos(self.lifetime_nanos + self.step_nanos);
        let mixed = mix(name_hash, nonce);
        prefetch_slice(&self.words, self.line(mixed, self.mask));
        self.pending[self.pending_count % PENDING_MAX] = mixed;
        self.pending_count += 1;
        self.pending_at = now;
    }

    /// Writes the pending pairs, whose lines have been prefetched.
    fn flush_pending(&mut self) {
        let (now, count) = (self.pending_at, std::mem::take(&mut self.pending_count));
        for pending in 0..count.min(PENDING_MAX) {
            let mixed = self.pending[pending];
            let line = self.line(mixed, self.mask);
            let record = fingerprint(mixed) | self.step(now);
            let slot = match self.position(mixed, self.mask, now) {
                Some(slot) => slot,
                None => self.oldest(line, now),
            };
            self.words[slot] = record;
        }
    }

    /// A slot for a new record: a free or expired one, else the one that expires first.
    fn oldest(&mut self, line: usize, now: Timestamp) -> usize {
        let age = |record: u64| if record == 0 { u64::MAX } else { self.age(record, now) };
        let slot =
            (line..line + LINE_RECORDS).max_by_key(|&slot| age(self.words[slot])).unwrap_or(line);
        if age(self.words[slot]) <= LIFETIME_STEPS {
            self.losses += 1;
            if self.losses >= LOSSES_MAX && now >= self.old_until {
                self.grow(now);
            }
        }
        slot
    }

    #[cold]
    fn grow(&mut self, now: Timestamp) {
        let lines = ((self.mask + 1) * GROWTH).min(self.lines_max);
        if lines > self.mask + 1 {
            self.old_mask = self.mask;
            self.old_until = now.plus_nanos(self.lifetime_nanos + self.step_nanos);
            self.mask = lines - 1;
            self.losses = 0;
        }
    }

    /// Position of a live record of the pair.
    #[inline]
    fn position(&self, mixed: u64, mask: u64, now: Timestamp) -> Option<usize> {
        let requested = fingerprint(mixed);
        let line = self.line(mixed, mask);
        let found = self.words[line..line + LINE_RECORDS].iter().position(|&record| {
            record & !TIME_MASK == requested && self.age(record, now) <= LIFETIME_STEPS
        })?;
        Some(line + found)
    }

    /// Position of the first record in a pair's line.
    #[inline(always)]
    fn line(&self, mixed: u64, mask: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "below the number of lines")]
        let line = (mixed & mask) as usize;
        self.origin + line * LINE_RECORDS
    }

    #[inline(always)]
    fn step(&self, now: Timestamp) -> u64 {
        (now.as_nanos() / self.step_nanos) & TIME_MASK
    }

    /// Steps since a record was inserted.
    #[inline(always)]
    fn age(&self, record: u64, now: Timestamp) -> u64 {
        self.step(now).wrapping_sub(record) & TIME_MASK
    }
}

/// Spreads name hash and nonce over 64 bits. The hash is keyed, so an attacker cannot choose the
/// line.
#[inline(always)]
fn mix(name_hash: u64, nonce: u32) -> u64 {
    let mut mixed = name_hash.wrapping_add(u64::from(nonce).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 32
}

/// The bits of a record that identify the pair.
#[inline(always)]
fn fingerprint(mixed: u64) -> u64 {
    (mixed.rotate_left(32) & !TIME_MASK) | IN_USE
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const LIFETIME: u64 = 6_000_000_000;

    proptest! {
        /// Below its capacity the list keeps every record for its lifetime, and not much longer.
        #[test]
        fn records_are_kept_for_their_lifetime(
            start in 0..1_u64 << 45,
            operations in proptest::collection::vec((0..40_u64, 0..4_u32, 0..LIFETIME / 4), 1..300)
        ) {
            let mut list = DeadNonceList::new(10_000, LIFETIME);
            let mut model: BTreeMap<(u64, u32), Timestamp> = BTreeMap::new();
            let mut now = Timestamp::from_nanos(start);
            for (name, nonce, pause) in operations {
                let hash = name.wrapping_mul(0x2545_f491_4f6c_dd1d);
                now = now.plus_nanos(pause);
                list.insert(hash, nonce, now);
                model.insert((hash, nonce), now);
                for (&(hash, nonce), &inserted) in &model {
                    let age = now.nanos_since(inserted);
                    if age <= LIFETIME {
                        prop_assert!(list.contains(hash, nonce, now));
                    } else if age > LIFETIME + 2 * LIFETIME / LIFETIME_STEPS {
                        prop_assert!(!list.contains(hash, nonce, now));
                    }
                    prop_assert!(!list.contains(hash, nonce + 100, now));
                    prop_assert!(!list.contains(hash ^ 1, nonce, now));
                }
            }
        }
    }

    #[test]
    fn newest_record_ends_at_the_instant_of_its_expiry() {
        // A step is 2 ns long.
        let mut list = DeadNonceList::new(10_000, 100);
        list.insert(1, 1, Timestamp::ZERO);
        assert!(list.contains(1, 1, Timestamp::from_nanos(101)));
        assert!(!list.contains(1, 1, Timestamp::from_nanos(102)));
    }

    #[test]
    fn grows_under_load_and_shrinks_when_idle() {
        let mut list = DeadNonceList::new(1 << 18, LIFETIME);
        let small = list.capacity();
        let mut now = Timestamp::from_millis(1);
        for round in 0..4_u64 {
            for i in 0..200_000_u64 {
                list.insert((round << 32 | i).wrapping_mul(0x9e37_79b9_7f4a_7c15), 7, now);
            }
            now = now.plus_nanos(LIFETIME);
        }
        list.flush_pending();
        assert!(list.capacity() > 32 * small);
        let kept = (0..200_000_u64)
            .filter(|i| list.contains((3 << 32 | i).wrapping_mul(0x9e37_79b9_7f4a_7c15), 7, now))
            .count();
        assert!(kept > 199_000, "{kept} of the last round are left");
        now = now.plus_nanos(2 * LIFETIME);
        list.insert(1, 1, now);
        assert_eq!(list.capacity(), small);
        assert!(list.contains(1, 1, now));
    }

    #[test]
    fn records_survive_growth() {
        let mut list = DeadNonceList::new(1 << 16, LIFETIME);
        let now = Timestamp::from_millis(1);
        let pair = (0xABCD_EF01_2345_6789, 3);
        let small = list.capacity();
        let mut i = 0_u64;
        while list.capacity() == small {
            i += 1;
            list.insert(i.wrapping_mul(0x9e37_79b9_7f4a_7c15), 7, now);
            list.flush_pending();
            if list.losses == LOSSES_MAX - 1 {
                list.insert(pair.0, pair.1, now);
            }
        }
        assert!(list.contains(pair.0, pair.1, now));
    }

    #[test]
    fn different_pairs_do_not_collide() {
        let mut list = DeadNonceList::new(1 << 16, LIFETIME);
        let now = Timestamp::ZERO;
        for nonce in 0..1000 {
            list.insert(42, nonce, now);
        }
        assert_eq!((1000..2_000_000).filter(|&nonce| list.contains(42, nonce, now)).count(), 0);
        let lost = (0..1000).filter(|&nonce| !list.contains(42, nonce, now)).count();
        assert!(lost < 2, "{lost} of 1000 records are lost in a list for 8192");
    }
}

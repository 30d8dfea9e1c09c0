//! The latest cached Data in order of arrival, for Interests with CanBePrefix.
//!
//! Most Data is evicted before an Interest needs one of its prefixes, and an index of all prefixes costs more than
//! anything else that happens to a Data. An arrival therefore only leaves a few bits for each of its prefixes: a tag, and
//! three bits in the Bloom filter of its *segment*, a run of places. A search compares the filters of all segments,
//! latest first, then the tags of the segments that may have the prefix, eight at a time, and then names. It misses
//! nothing within the limit of its steps.
//!
//! A search reads a line of each filter, and an arrival writes to the filter of one segment, which should stay in the
//! processor's cache. Both the number of segments and their length therefore grow with the square root of the capacity:
//! 33 segments of 2,048 places for 65,536 Data, 124 of 8,192 for a million.
//!
//! The log is a ring, somewhat longer than the capacity of the store. What is still cached after the log went around
//! once moves to the [prefix tree](super::prefix_tree).

use ndn_ring::advise_huge_pages;
use ndn_types::Timestamp;

/// Length of a segment in relation to the square root of the capacity.
const LENGTH_FACTOR: usize = 8;

/// Minimum number of segments that hold as many Data as the store: the log is longer by one.
const SEGMENTS_MIN: usize = 16;

/// Maximum number of places in a segment.
const SEGMENT_LENGTH_MAX: usize = 1 << 16;

/// Places whose tags are compared at once, and minimum number of places in a segment.
const RUN: usize = 32;

/// Prefix lengths that have tags of their own, from 1 on. A search for a longer prefix compares the tags of this length,
/// and then names.
const TAGGED_LENGTHS: usize = 16;

/// Steps that one search may take: one for each Data that is stale or gone, and [`STEPS_PER_NAME`] for each name that is
/// compared. Without MustBeFresh and up to [`TAGGED_LENGTHS`] components, a search compares one name, or a second in
/// 65,536 cases.
const STEPS_MAX: u32 = 4096;

/// A name is compared in the packet, which is seldom in the processor's cache.
const STEPS_PER_NAME: u32 = 16;

/// Freshness bounds are in units of 2^31 ns.
const BOUND_SHIFT: u32 = 31;

/// Ring of the latest arrivals.
#[derive(Debug)]
pub(super) struct ArrivalLog {
    /// The Data in each place, see [`Place`].
    places: Vec<u64>,
    /// For each of [`TAGGED_LENGTHS`], the tags of all places, [`Self::stride`] apart.
    tags: Vec<u16>,
    stride: usize,
    /// Bloom filters of the segments, a word for each of their places: each prefix sets three bits of one word.
    filters: Vec<u64>,
    /// A power of two.
    segment_length: usize,
    /// The next place to be filled. This place and those before the next segment are free.
    next: usize,
}

/// Contents of a place: the slot of a Data plus 1 (0 if the place is free) in the bits below [`BOUND_SHIFT`], and above them
/// a bound of its freshness, the unit of time after the one in which it ends.
#[derive(Clone, Copy, Debug)]
struct Place(u64);

impl Place {
    /// The bits of the slot.
    const SLOT: u64 = (1 << BOUND_SHIFT) - 1;

    #[inline(always)]
    fn new(slot: u32, fresh_until: Timestamp) -> Self {
        let bound = fresh_until.as_nanos().saturating_add(1 << BOUND_SHIFT) & !Self::SLOT;
        Self(bound | (u64::from(slot) + 1))
    }

    #[inline(always)]
    fn slot(self) -> Option<u32> {
        u32::try_from(self.0 & Self::SLOT).ok()?.checked_sub(1)
    }

    /// False if the Data is not fresh at `now`.
    #[inline(always)]
    fn may_be_fresh(self, now: Timestamp) -> bool {
        self.0 >> BOUND_SHIFT > now.as_nanos() >> BOUND_SHIFT
    }
}

/// A search through the log, latest arrival first, which can be continued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// The places before this one are next.
    end: usize,
    /// Number of places that were not visited yet.
    left: usize,
    steps_left: u32,
}

impl Search {
    /// The rest of the search, with this number of steps. Data that arrives meanwhile may be visited or not.
    pub(super) fn continued(self, steps: u32) -> Self {
        Self { steps_left: steps, ..self }
    }

    /// Whether places are left that were not visited: the steps did not suffice.
    pub(super) fn has_more(&self) -> bool {
        self.left > 0
    }

    /// Passes the places from `start` on.
    #[inline(always)]
    fn pass(&mut self, start: usize) {
        self.left -= self.end - start;
        self.end = start;
    }
}

/// Places of a segment in a log of at least `capacity` places.
fn segment_length(capacity: usize) -> usize {
    let balanced = (capacity.isqrt() * LENGTH_FACTOR).next_power_of_two();
    let longest = (capacity / SEGMENTS_MIN).next_power_of_two().max(RUN);
    balanced.clamp(RUN, longest.min(SEGMENT_LENGTH_MAX))
}

impl ArrivalLog {
    /// A log of at least `capacity` places.
    pub(super) fn new(capacity: usize) -> Self {
        assert!((capacity as u64) < Place::SLOT, "a place has 31 bits for the slot");
        let segment_length = segment_length(capacity);
        let length = capacity.next_multiple_of(segment_length) + segment_length;
        // Not a power of two, so that the tags of one place lie in different sets of the processor's cache.
        let stride = length + 2 * RUN;
        let filters = vec![0; length];
        advise_huge_pages(&filters);
        Self {
            places: vec![0; length],
            tags: vec![0; stride * TAGGED_LENGTHS],
            stride,
            filters,
            segment_length,
            next: 0,
        }
    }

    /// The Data that has to be [removed](Self::remove) before the next [`append`](Self::append): the oldest, if the log is full.
    #[inline(always)]
    pub(super) fn oldest_if_full(&self) -> Option<u32> {
        let behind = self.next + self.segment_length;
        let length = self.places.len();
        let place = if behind < length { behind } else { behind - length };
        Place(self.places[place]).slot()
    }

    /// Appends a Data with these prefix hashes; returns its place.
    #[inline(always)]
    pub(super) fn append(&mut self, slot: u32, hashes: &[u64], fresh_until: Timestamp) -> u32 {
        debug_assert_eq!(self.oldest_if_full(), None);
        let Self { places, tags, stride, filters, segment_length, next } = self;
        let (place, stride, places) = (*next, *stride, &mut places[..]);
        let segment = place & !(*segment_length - 1);
        let filter = &mut filters[segment..segment + *segment_length];
        if place == segment {
            filter.fill(0);
        }
        places[place] = Place::new(slot, fresh_until).0;
        if let [_, prefixes @ .., _] = hashes {
            let tags = &mut tags[place..];
            let mut column = 0;
            for &hash in prefixes {
                let key = PrefixKey::of(hash);
                if let Some(word) = filter.get_mut(key.word & (filter.len() - 1)) {
                    *word |= key.bits;
                }
                if let Some(tag) = tags.get_mut(column) {
                    *tag = key.tag;
                }
                column += stride;
            }
        }
        *next = if place + 1 == places.len() { 0 } else { place + 1 };
        #[expect(clippy::cast_possible_truncation, reason = "slots are 32-bit numbers")]
        let place = place as u32;
        place
    }

    /// Frees a place.
    #[inline(always)]
    pub(super) fn remove(&mut self, place: u32) {
        self.places[place as usize] = 0;
    }

    /// A search from the latest arrival on.
    pub(super) fn search(&self) -> Search {
        Search { end: self.next, left: self.places.len(), steps_left: STEPS_MAX }
    }

    /// The next Data that has the prefix with these hashes and that `accept` accepts, with `fresh_at` among those
    /// that may be fresh at that time. `accept` compares the name.
    ///
    /// The tags of Data that is gone are replaced, so that a later search does not stop at them: however often Data comes
    /// and goes, each of its tags costs one step at most.
    pub(super) fn find(
        &mut self,
        search: &mut Search,
        hashes: &[u64],
        fresh_at: Option<Timestamp>,
        mut accept: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let Self { places, tags, stride, filters, segment_length, .. } = self;
        let length = hashes.len() - 1;
        let key = PrefixKey::of(hashes[length]);
        let tagged_length = length.min(TAGGED_LENGTHS);
        let tag = PrefixKey::of(hashes[tagged_length]).tag;
        let mut column = match tagged_length {
            0 => None,
            _ => tags.get_mut((tagged_length - 1) * *stride..),
        };
        while search.left > 0 {
            if search.end == 0 {
                search.end = places.len();
            }
            let segment = (search.end - 1) & !(*segment_length - 1);
            let start = search.end.saturating_sub(search.left).max(segment);
            let word = filters[segment + (key.word & (*segment_length - 1))];
            if column.is_some() && word & key.bits != key.bits {
                search.pass(start);
                continue;
            }
            loop {
                if let Some(tags) = &column {
                    search.pass(start + length_up_to(&tags[start..search.end], tag));
                }
                if search.end == start {
                    break;
                }
                search.pass(search.end - 1);
                let place = Place(places[search.end]);
                let may_match = match place.slot() {
                    Some(slot) => {
                        let may_match = fresh_at.is_none_or(|now| place.may_be_fresh(now));
                        if may_match && accept(slot) {
                            return Some(slot);
                        }
                        may_match
                    }
                    None => {
                        if let Some(tags) = &mut column {
                            tags[search.end] = other_tag(tag, search.end);
                        }
                        false
                    }
                };
                let steps = if may_match { STEPS_PER_NAME } else { 1 };
                search.steps_left = search.steps_left.checked_sub(steps)?;
            }
        }
        None
    }
}

/// A tag other than `tag` for a free place. Different places get different ones, so that no search stops at all of them.
#[cold]
fn other_tag(tag: u16, place: usize) -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "modulo the number of other tags")]
    let offset = (place % usize::from(u16::MAX)) as u16 + 1;
    tag.wrapping_add(offset)
}

/// The bits that a prefix leaves in the log.
#[derive(Clone, Copy, Debug)]
struct PrefixKey {
    /// Word of a filter, modulo its length.
    word: usize,
    /// Bits of that word.
    bits: u64,
    tag: u16,
}

impl PrefixKey {
    /// Of a prefix with this hash. The parts are different bits of the hash.
    #[inline(always)]
    fn of(hash: u64) -> Self {
        let bits = [16, 22, 48].iter().fold(0, |bits, part| bits | 1 << (hash >> part & 63));
        #[expect(clippy::cast_possible_truncation, reason = "parts of the hash")]
        let (word, tag) = (hash as usize, (hash >> 32) as u16);
        Self { word, bits, tag }
    }
}

/// Number of tags up to the last that is `tag`; 0 if none is.
#[inline]
fn length_up_to(tags: &[u16], tag: u16) -> usize {
    let mut rest = tags;
    while let Some((front, run)) = rest.split_last_chunk::<RUN>() {
        // Compared without a branch for each.
        if run.iter().fold(false, |has, &other| has | (other == tag)) {
            break;
        }
        rest = front;
    }
    rest.iter().rposition(|&other| other == tag).map_or(0, |position| position + 1)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// The log has five segments.
    const CAPACITY: usize = 100;
    const SECOND: u64 = 1 << BOUND_SHIFT;

    #[derive(Clone, Debug)]
    struct Entry {
        slot: u32,
        place: u32,
        fresh_until: Timestamp,
    }

    #[derive(Clone, Debug)]
    enum Operation {
        Append { name: Vec<u64>, fresh: u64 },
        Remove { age: usize },
        Find { prefix: Vec<u64>, fresh: Option<u64> },
        Erase { prefix: Vec<u64>, count: usize },
    }

    /// Few names, whose tags and filter bits also agree by chance.
    fn name() -> impl Strategy<Value = Vec<u64>> {
        prop_oneof![
            4 => proptest::collection::vec(0..3_u64, 0..4),
            1 => proptest::collection::vec(0..2_u64, TAGGED_LENGTHS..TAGGED_LENGTHS + 4),
        ]
    }

    fn hashes_of(name: &[u64]) -> Vec<u64> {
        let mix = |hash: u64, part: u64| {
            (hash ^ (part + 1)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
                & 0xFF00_FF3F_00FF
        };
        std::iter::once(7)
            .chain(name.iter().scan(7, |hash, &part| {
                *hash = mix(*hash, part);
                Some(*hash)
            }))
            .collect()
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            6 => (name(), 0..4_u64).prop_map(|(name, fresh)| Operation::Append { name, fresh }),
            2 => (0..CAPACITY).prop_map(|age| Operation::Remove { age }),
            4 => (name(), proptest::option::of(1..5_u64))
                .prop_map(|(prefix, fresh)| Operation::Find { prefix, fresh }),
            1 => (name(), 0..20_usize).prop_map(|(prefix, count)| Operation::Erase { prefix, count }),
        ]
    }

    /// The latest entry below a prefix.
    fn expected<'a>(
        model: &'a VecDeque<(Vec<u64>, Entry)>,
        prefix: &[u64],
        fresh_at: Option<Timestamp>,
    ) -> Option<&'a Entry> {
        let accepts = |(name, entry): &&(Vec<u64>, Entry)| {
            let is_fresh = |now| now < entry.fresh_until;
            name.len() > prefix.len() && name.starts_with(prefix) && fresh_at.is_none_or(is_fresh)
        };
        model.iter().rev().find(accepts).map(|(_, entry)| entry)
    }

    #[test]
    fn segment_length_grows_with_the_square_root_of_the_capacity() {
        for (capacity, expected) in [
            (1, RUN),
            (CAPACITY, RUN),
            (16_000, 1024),
            (65_536, 2048),
            (1_000_000, 8192),
            (1 << 24, 1 << 15),
        ] {
            let length = segment_length(capacity);
            assert_eq!(length, expected, "{capacity}");
            assert!(capacity < 1000 || (15..=512).contains(&(capacity / length)), "{capacity}");
        }
    }

    #[test]
    fn the_last_equal_tag_is_found() {
        for length in 0..3 * RUN {
            for place in 0..length {
                let mut tags = vec![1; length];
                assert_eq!(length_up_to(&tags, 2), 0);
                tags[place] = 2;
                tags[place / 2] = 2;
                assert_eq!(length_up_to(&tags, 2), place + 1);
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_list(operations in proptest::collection::vec(operation(), 1..700)) {
            let mut log = ArrivalLog::new(CAPACITY);
            let mut model: VecDeque<(Vec<u64>, Entry)> = VecDeque::new();
            for (slot, operation) in (0_u32..).zip(operations) {
                match operation {
                    Operation::Append { name, fresh } => {
                        if let Some(oldest) = log.oldest_if_full() {
                            let (_, entry) = model.pop_front().unwrap();
                            prop_assert_eq!(oldest, entry.slot);
                            log.remove(entry.place);
                        }
                        let hashes = hashes_of(&name);
                        let fresh_until = Timestamp::from_nanos(fresh * SECOND);
                        let place = log.append(slot, &hashes, fresh_until);
                        model.push_back((name, Entry { slot, place, fresh_until }));
                    }
                    Operation::Remove { age } => {
                        if let Some(position) = model.len().checked_sub(age + 1)
                            && let Some((_, entry)) = model.remove(position)
                        {
                            log.remove(entry.place);
                        }
                    }
                    Operation::Find { prefix, fresh } => {
                        let fresh_at = fresh.map(|fresh| Timestamp::from_nanos(fresh * SECOND));
                        let accept = |slot| {
                            let (name, entry) =
                                model.iter().find(|(_, entry)| entry.slot == slot).unwrap();
                            let is_fresh = |now| now < entry.fresh_until;
                            name.len() > prefix.len()
                                && name.starts_with(&prefix)
                                && fresh_at.is_none_or(is_fresh)
                        };
                        let found = log.find(&mut log.search(), &hashes_of(&prefix), fresh_at, accept);
                        let expected = expected(&model, &prefix, fresh_at);
                        prop_assert_eq!(found, expected.map(|entry| entry.slot));
                    }
                    Operation::Erase { prefix, count } => {
                        let mut search = log.search();
                        let hashes = hashes_of(&prefix);
                        for _ in 0..count {
                            let accept = |slot: u32| {
                                let (name, _) =
                                    model.iter().find(|(_, entry)| entry.slot == slot).unwrap();
                                name.len() > prefix.len() && name.starts_with(&prefix)
                            };
                            let found = log.find(&mut search, &hashes, None, accept);
                            let next = expected(&model, &prefix, None).cloned();
                            prop_assert_eq!(found, next.as_ref().map(|entry| entry.slot));
                            let Some(next) = next else { break };
                            log.remove(next.place);
                            model.retain(|(_, entry)| entry.slot != next.slot);
                        }
                    }
                }
                prop_assert!(model.len() <= CAPACITY + RUN);
            }
        }
    }

    #[test]
    fn search_among_stale_data_ends_and_is_continued() {
        let mut log = ArrivalLog::new(10_000);
        let hashes = hashes_of(&[1, 2]);
        let fresh_until = Timestamp::from_nanos(10 * SECOND);
        log.append(0, &hashes, fresh_until);
        (1..5000).for_each(|slot| {
            log.append(slot, &hashes, Timestamp::ZERO);
        });
        let prefix = hashes_of(&[1]);
        let now = Some(Timestamp::from_nanos(SECOND));
        let mut search = log.search();
        assert_eq!(log.find(&mut search, &prefix, now, |_| true), None);
        assert!(search.has_more());
        search = search.continued(STEPS_MAX);
        assert_eq!(log.find(&mut search, &prefix, now, |_| true), Some(0));
        assert_eq!(log.find(&mut search, &prefix, now, |_| true), None);
        assert!(!search.has_more());
        let mut compared = 0;
        let found = log.find(&mut log.search(), &prefix, None, |_| {
            compared += 1;
            false
        });
        assert_eq!((found, compared), (None, STEPS_MAX / STEPS_PER_NAME + 1));
    }

    #[test]
    fn tags_of_data_that_is_gone_cost_one_step_each() {
        let mut log = ArrivalLog::new(10_000);
        let hashes = hashes_of(&[1, 2]);
        let kept = log.append(0, &hashes, Timestamp::ZERO);
        // One Data arrives again and again.
        let mut place = log.append(1, &hashes, Timestamp::ZERO);
        for _ in 0..9000 {
            log.remove(place);
            place = log.append(1, &hashes, Timestamp::ZERO);
        }
        log.remove(place);
        let prefix = hashes_of(&[1]);
        let mut searches = 0;
        let steps = loop {
            let mut search = log.search();
            searches += 1;
            if let Some(slot) = log.find(&mut search, &prefix, None, |_| true) {
                assert_eq!((slot, search.end), (0, kept as usize));
                break STEPS_MAX - search.steps_left;
            }
            assert!(search.has_more() && searches < 10);
        };
        assert_eq!((searches, steps), (3, 9001 - 2 * (STEPS_MAX + 1)));
        let mut search = log.search();
        assert_eq!(log.find(&mut search, &prefix, None, |_| true), Some(0));
        assert_eq!(search.steps_left, STEPS_MAX, "no tag is left");
    }
}

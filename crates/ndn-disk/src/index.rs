//! Index of a share: from the hash of a name to the place of its record, in 23 bytes per packet.

/// Entries of a bucket, which fills one cache line.
const SLOTS: usize = 4;

const LOCATION_BITS: u32 = 40;
const UNITS_SHIFT: u32 = 40;
const TAG_SHIFT: u32 = 48;
const FRESH: u64 = 1 << 62;
const HOT: u64 = 1 << 63;

/// Place and properties of a record, in 64 bits. 0 is none: unit 0 is the header of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    /// The record of `units` at a unit of the share.
    pub(crate) fn new(location: u64, units: u8, tag: u16, may_be_fresh: bool) -> Self {
        debug_assert!(location != 0 && location < 1 << LOCATION_BITS && tag < 1 << 14);
        let fresh = if may_be_fresh { FRESH } else { 0 };
        Self(location | u64::from(units) << UNITS_SHIFT | u64::from(tag) << TAG_SHIFT | fresh)
    }

    /// Unit of the share at which the record begins.
    pub(crate) fn location(self) -> u64 {
        self.0 & ((1 << LOCATION_BITS) - 1)
    }

    /// Length of the record, units.
    pub(crate) fn units(self) -> usize {
        usize::from((self.0 >> UNITS_SHIFT).to_le_bytes()[0])
    }

    /// Part of a hash of the packet.
    pub(crate) fn tag(self) -> u16 {
        let [low, high, ..] = (self.0 >> TAG_SHIFT).to_le_bytes();
        u16::from_le_bytes([low, high]) & 0x3fff
    }

    /// Whether the Data had a FreshnessPeriod that has not been found to be over.
    pub(crate) fn may_be_fresh(self) -> bool {
        self.0 & FRESH != 0
    }

    /// Whether the record was read since it was written.
    pub(crate) fn is_hot(self) -> bool {
        self.0 & HOT != 0
    }

    pub(crate) fn hot(self) -> Self {
        Self(self.0 | HOT)
    }

    pub(crate) fn stale(self) -> Self {
        Self(self.0 & !FRESH)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u64,
    place: Place,
}

impl Slot {
    fn is_free(self) -> bool {
        self.place.0 == 0
    }
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Bucket([Slot; SLOTS]);

/// A hash table of fixed size. A hash has two buckets; a new entry goes to the emptier one, and displaces the oldest
/// record of both when these are full.
#[derive(Debug)]
pub(crate) struct Index {
    buckets: Vec<Bucket>,
    len: usize,
}

impl Index {
    /// An index for `packets`, with two fifths more slots, so that few records are displaced before it is full.
    pub(crate) fn new(packets: usize) -> Self {
        let buckets = (packets * 7 / 5).div_ceil(SLOTS).max(2);
        Self { buckets: vec![Bucket::default(); buckets], len: 0 }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    pub(crate) fn find(&self, hash: u64) -> Option<Place> {
        let (bucket, slot) = self.position(hash)?;
        Some(self.buckets[bucket].0[slot].place)
    }

    /// Inserts or replaces. Returns whether another record was displaced. `end` is the end of the log and `capacity`
    /// its length, in units: the oldest record is the one that follows the end first.
    pub(crate) fn insert(&mut self, hash: u64, place: Place, end: u64, capacity: u64) -> bool {
        if let Some((bucket, slot)) = self.position(hash) {
            self.buckets[bucket].0[slot].place = place;
            return false;
        }
        let free = |&bucket: &usize| self.buckets[bucket].0.iter().filter(|s| s.is_free()).count();
        let homes = self.homes(hash);
        let emptier = if free(&homes[0]) >= free(&homes[1]) { homes[0] } else { homes[1] };
        let slot = Slot { hash, place };
        if let Some(free) = self.buckets[emptier].0.iter_mut().find(|slot| slot.is_free()) {
            *free = slot;
            self.len += 1;
            return false;
        }
        let age = |slot: &Slot| (end + capacity - slot.place.location()) % capacity;
        let slots = homes.into_iter().flat_map(|bucket| (0..SLOTS).map(move |at| (bucket, at)));
        let oldest = slots.max_by_key(|&(bucket, at)| age(&self.buckets[bucket].0[at]));
        if let Some((bucket, at)) = oldest {
            self.buckets[bucket].0[at] = slot;
        }
        true
    }

    /// Replaces the place of an entry that exists.
    pub(crate) fn update(&mut self, hash: u64, place: Place) {
        if let Some((bucket, slot)) = self.position(hash) {
            self.buckets[bucket].0[slot].place = place;
        }
    }

    /// Removes the entry of a hash if its record is at `location`. Returns whether it was there.
    pub(crate) fn remove(&mut self, hash: u64, location: u64) -> bool {
        let Some((bucket, slot)) = self.position(hash) else { return false };
        let slot = &mut self.buckets[bucket].0[slot];
        let is_it = slot.place.location() == location;
        if is_it {
            *slot = Slot::default();
            self.len -= 1;
        }
        is_it
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        self.buckets.fill(Bucket::default());
        self.len = 0;
    }

    fn position(&self, hash: u64) -> Option<(usize, usize)> {
        self.homes(hash).into_iter().find_map(|bucket| {
            let slots = &self.buckets[bucket].0;
            let slot = slots.iter().position(|slot| slot.hash == hash && !slot.is_free())?;
            Some((bucket, slot))
        })
    }

    fn homes(&self, hash: u64) -> [usize; 2] {
        let other = hash.rotate_left(29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        [hash, other].map(|hash| {
            let scaled = (u128::from(hash) * self.buckets.len() as u128) >> 64;
            usize::try_from(scaled).unwrap_or(0)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn index_is_a_map_until_it_is_full(
            operations in prop::collection::vec((0_u64..60, 1_u64..1000, any::<bool>()), 1..300),
        ) {
            let mut index = Index::new(100);
            let mut model = BTreeMap::new();
            for (key, location, inserts) in operations {
                let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                if inserts {
                    let place = Place::new(location, 3, 77, true);
                    // 60 keys fit 128 slots, with rare exceptions that these keys do not have.
                    prop_assert!(!index.insert(hash, place, 0, 1 << 20));
                    model.insert(hash, place);
                } else {
                    let is_there = model.get(&hash).is_some_and(|p: &Place| p.location() == location);
                    prop_assert_eq!(index.remove(hash, location), is_there);
                    if is_there {
                        model.remove(&hash);
                    }
                }
                prop_assert_eq!(index.len(), model.len());
                prop_assert_eq!(index.find(hash), model.get(&hash).copied());
            }
        }
    }

    #[test]
    fn full_index_displaces_old_records() {
        let mut index = Index::new(1000);
        let mut displaced = 0;
        let hash = |key: u64| key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        for key in 1..=1000 {
            displaced +=
                u64::from(index.insert(hash(key), Place::new(key, 1, 0, false), key, 1 << 20));
        }
        assert!(displaced <= 10, "{displaced} displaced at the nominal load");
        for key in 1001..=10_000 {
            index.insert(hash(key), Place::new(key, 1, 0, false), key, 1 << 20);
        }
        let found = |keys: std::ops::RangeInclusive<u64>| {
            keys.filter(|&key| index.find(hash(key)).is_some()).count()
        };
        assert_eq!(found(1..=5000), 0);
        assert!(found(9501..=10_000) >= 490);
        assert!(index.len() >= 1300 && index.bytes() <= 23 * 1000);
    }

    #[test]
    fn place_keeps_all_fields() {
        let place = Place::new((1 << 40) - 1, 255, 0x3fff, true);
        assert_eq!((place.location(), place.units(), place.tag()), ((1 << 40) - 1, 255, 0x3fff));
        assert!(place.may_be_fresh() && !place.is_hot());
        assert!(place.hot().is_hot() && !place.stale().may_be_fresh());
        let place = Place::new(1, 1, 0, false);
        assert_eq!((place.location(), place.units(), place.tag()), (1, 1, 0));
        assert!(!place.may_be_fresh());
    }
}

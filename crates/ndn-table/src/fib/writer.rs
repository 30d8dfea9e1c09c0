//! The authoritative FIB, and how a change becomes a new version.

use std::ops::Bound;
use std::sync::Arc;

use ndn_packet::NameRef;

use super::bucket_items::{insert_item, remove_item, replace_item};
use super::config::{FibConfig, FibError};
use super::depth_tree::{FIB_DEPTH_MAX, marker_depths};
use super::entry::{FibEntry, FibSlot, NextHop, StrategyId};
use super::paged::PagedVec;
use super::record::{Inherited, Record, Records, inherited, write_entry};
use super::snapshot::{FibSnapshot, MARKER_BIT};
use crate::bucket::Bucket;
use crate::{FaceIndex, NameHasher};

/// Prefixes and markers that one bucket is sized for.
const ITEMS_PER_BUCKET: usize = 5;
/// Looks for old versions in vain after which pages that are kept for changes are given back.
const IDLE_LOOKS: u32 = 64;

/// The FIB of the control thread: routes and strategy choices, and the versions made of them.
///
/// Changes gather in a working version, which shares all untouched pages with the published ones,
/// until [`Self::publish`]; many changes before one `publish` copy a page once. The records are
/// ordered by name, so that what a prefix passes on reaches the longer ones without a search.
#[derive(Debug)]
pub struct FibWriter {
    records: Records,
    working: FibSnapshot,
    free_slots: Vec<FibSlot>,
    /// Places of `working` that have ever been used.
    slot_count: u32,
    real_count: usize,
    /// Records by prefix length.
    depth_counts: [u32; FIB_DEPTH_MAX + 1],
    published: Arc<FibSnapshot>,
    retired: Vec<Arc<FibSnapshot>>,
    /// Times in a row that none of them were left to collect.
    idle_looks: u32,
    hasher: NameHasher,
    entries_max: usize,
}

impl FibWriter {
    /// A FIB with the default strategy for `/` and no routes.
    #[must_use]
    pub fn new(config: &FibConfig) -> Self {
        let working = FibSnapshot {
            buckets: PagedVec::new(1, &Bucket::EMPTY),
            entries: PagedVec::new(1, &FibEntry::VACANT),
            depths: 0,
            version: 0,
        };
        let mut writer = Self {
            records: Records::new(),
            published: Arc::new(working.clone()),
            working,
            free_slots: Vec::new(),
            slot_count: 1,
            real_count: 1,
            depth_counts: [0; FIB_DEPTH_MAX + 1],
            retired: Vec::new(),
            idle_looks: 0,
            hasher: config.hasher,
            entries_max: config.entries_max,
        };
        // `/` keeps its place for ever and is found without a probe.
        let root = Record {
            next_hops: Vec::new(),
            strategy: Some(config.default_strategy),
            marker_count: 0,
            slot: FibSlot::ROOT,
            depth: 0,
        };
        writer.records.insert(Box::default(), root);
        writer.working.entries.element_mut(0).reset(FibSlot::ROOT, NameRef::ROOT);
        writer.pass_on(NameRef::ROOT);
        writer.publish();
        writer
    }

    /// Prefixes with next hops or a strategy choice.
    #[must_use]
    pub fn len(&self) -> usize {
        self.real_count
    }

    /// False: there is always the strategy choice of `/`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Adds a next hop to a prefix, or changes its cost.
    ///
    /// # Errors
    /// When the FIB is full or the prefix too deep.
    pub fn set_next_hop(
        &mut self,
        prefix: NameRef<'_>,
        face: FaceIndex,
        cost: u64,
    ) -> Result<(), FibError> {
        let mut next_hops = self.next_hops(prefix).to_vec();
        next_hops.retain(|hop| hop.face != face);
        next_hops.push(NextHop { face, cost });
        self.set_next_hops(prefix, &next_hops)
    }

    /// Removes a next hop; false when there was none.
    pub fn remove_next_hop(&mut self, prefix: NameRef<'_>, face: FaceIndex) -> bool {
        let mut next_hops = self.next_hops(prefix).to_vec();
        let before = next_hops.len();
        next_hops.retain(|hop| hop.face != face);
        next_hops.len() < before && self.set_next_hops(prefix, &next_hops).is_ok()
    }

    /// Replaces the next hops of a prefix; none removes the route.
    ///
    /// # Errors
    /// When the FIB is full or the prefix too deep.
    pub fn set_next_hops(
        &mut self,
        prefix: NameRef<'_>,
        next_hops: &[NextHop],
    ) -> Result<(), FibError> {
        let mut sorted = next_hops.to_vec();
        sorted.sort_by_key(|hop| (hop.cost, hop.face));
        self.change(prefix, |record| record.next_hops = sorted)
    }

    /// Removes a face from the next hops of every prefix; returns how many had it. Looks at every
    /// prefix.
    pub fn remove_face(&mut self, face: FaceIndex) -> usize {
        let affected: Vec<(Box<[u8]>, u16)> = self
            .records
            .iter()
            .filter(|(_, record)| record.next_hops.iter().any(|hop| hop.face == face))
            .map(|(value, record)| (value.clone(), u16::from(record.depth)))
            .collect();
        affected
            .iter()
            .filter(|(value, depth)| {
                self.remove_next_hop(NameRef::from_validated(value, *depth), face)
            })
            .count()
    }

    /// Chooses the strategy of a prefix and of the longer ones without a choice of their own.
    ///
    /// # Errors
    /// When the FIB is full or the prefix too deep.
    pub fn set_strategy(
        &mut self,
        prefix: NameRef<'_>,
        strategy: StrategyId,
    ) -> Result<(), FibError> {
        self.change(prefix, |record| record.strategy = Some(strategy))
    }

    /// Takes a choice back; false when there was none, or for `/`, which always has one.
    pub fn unset_strategy(&mut self, prefix: NameRef<'_>) -> bool {
        !prefix.is_empty()
            && self.strategy(prefix).is_some()
            && self.change(prefix, |record| record.strategy = None).is_ok()
    }

    /// The next hops set for exactly this prefix, sorted by cost and then by face.
    #[must_use]
    pub fn next_hops(&self, prefix: NameRef<'_>) -> &[NextHop] {
        self.records.get(prefix.value()).map_or(&[], |record| &record.next_hops)
    }

    /// The strategy chosen for exactly this prefix.
    #[must_use]
    pub fn strategy(&self, prefix: NameRef<'_>) -> Option<StrategyId> {
        self.records.get(prefix.value())?.strategy
    }

    /// The strategy in force for a name.
    #[must_use]
    pub fn effective_strategy(&self, name: NameRef<'_>) -> StrategyId {
        inherited(&self.records, name, true).strategy
    }

    /// All prefixes with next hops, in canonical order.
    pub fn routes(&self) -> impl Iterator<Item = (NameRef<'_>, &[NextHop])> {
        self.records.iter().filter(|(_, record)| !record.next_hops.is_empty()).map(
            |(value, record)| {
                let prefix = NameRef::from_validated(value, u16::from(record.depth));
                (prefix, record.next_hops.as_slice())
            },
        )
    }

    /// All strategy choices, in canonical order.
    pub fn strategies(&self) -> impl Iterator<Item = (NameRef<'_>, StrategyId)> {
        self.records.iter().filter_map(|(value, record)| {
            let prefix = NameRef::from_validated(value, u16::from(record.depth));
            Some((prefix, record.strategy?))
        })
    }

    /// Makes a version of all changes so far, for every shard to hold instead of its present one.
    /// The writer keeps the old one until [`Self::collect`] finds that nobody else does.
    pub fn publish(&mut self) -> Arc<FibSnapshot> {
        self.working.version += 1;
        let fresh = Arc::new(self.working.clone());
        self.retired.push(std::mem::replace(&mut self.published, Arc::clone(&fresh)));
        self.collect();
        fresh
    }

    /// Frees the versions that no shard holds any more; returns how many old ones are left. While there are
    /// none, pages that were kept for changes are given back little by little.
    pub fn collect(&mut self) -> usize {
        let Self { retired, working, idle_looks, .. } = self;
        if retired.is_empty() {
            // Not at once: changes that come one by one use the pages again.
            *idle_looks = idle_looks.saturating_add(1);
            if *idle_looks > IDLE_LOOKS {
                working.buckets.trim();
                working.entries.trim();
            }
            return 0;
        }
        *idle_looks = 0;
        // Whoever held one last does not any more: nobody can take it again but from here.
        for version in retired.extract_if(.., |version| Arc::strong_count(version) == 1) {
            if let Some(version) = Arc::into_inner(version) {
                working.buckets.reuse(version.buckets);
                working.entries.reuse(version.entries);
            }
        }
        retired.len()
    }

    /// Changes a record and everything that follows from it.
    fn change(
        &mut self,
        prefix: NameRef<'_>,
        apply: impl FnOnce(&mut Record),
    ) -> Result<(), FibError> {
        if prefix.len() > FIB_DEPTH_MAX {
            return Err(FibError::TooDeep);
        }
        let was_real = self.records.get(prefix.value()).is_some_and(Record::is_real);
        let mut blank = Record {
            next_hops: Vec::new(),
            strategy: None,
            marker_count: 0,
            slot: FibSlot::ROOT,
            depth: u8::try_from(prefix.len()).map_err(|_| FibError::TooDeep)?,
        };
        if !was_real {
            apply(&mut blank);
            if !blank.is_real() {
                return Ok(());
            }
            if self.real_count >= self.entries_max {
                return Err(FibError::Full);
            }
            self.make_real(prefix, blank);
        } else if let Some(record) = self.records.get_mut(prefix.value()) {
            apply(record);
            if !record.is_real() {
                self.make_unreal(prefix);
                return Ok(());
            }
        }
        self.pass_on(prefix);
        Ok(())
    }

    /// Gives a prefix an entry, and markers on the way to it.
    fn make_real(&mut self, prefix: NameRef<'_>, set: Record) {
        self.ensure_record(prefix);
        if let Some(record) = self.records.get_mut(prefix.value()) {
            record.next_hops = set.next_hops;
            record.strategy = set.strategy;
        }
        self.real_count += 1;
        for depth in marker_depths(prefix.len()) {
            let marker = prefix.prefix(depth);
            let is_new = self.ensure_record(marker);
            if let Some(record) = self.records.get_mut(marker.value()) {
                record.marker_count += 1;
                if record.marker_count == 1 {
                    let slot = record.slot;
                    self.set_marker(marker, slot, true);
                }
            }
            if is_new {
                self.write_marker(marker);
            }
        }
    }

    /// Takes the entry from a prefix, and the markers that nobody else needs.
    fn make_unreal(&mut self, prefix: NameRef<'_>) {
        self.real_count -= 1;
        for depth in marker_depths(prefix.len()) {
            let marker = prefix.prefix(depth);
            if let Some(record) = self.records.get_mut(marker.value()) {
                record.marker_count -= 1;
                if record.marker_count == 0 {
                    let slot = record.slot;
                    self.set_marker(marker, slot, false);
                    self.drop_if_unused(marker);
                }
            }
        }
        self.pass_on(prefix);
        self.drop_if_unused(prefix);
    }

    /// Makes a record, a place and an index item for a prefix that has none; whether it was new.
    fn ensure_record(&mut self, prefix: NameRef<'_>) -> bool {
        if self.records.contains_key(prefix.value()) {
            return false;
        }
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slot_count += 1;
            FibSlot(self.slot_count - 1)
        });
        self.working.entries.grow(slot.index() + 1, &FibEntry::VACANT);
        self.working.entries.element_mut(slot.index()).reset(slot, prefix);
        let depth = prefix.len();
        let record = Record {
            next_hops: Vec::new(),
            strategy: None,
            marker_count: 0,
            slot,
            depth: u8::try_from(depth).unwrap_or(u8::MAX),
        };
        self.records.insert(prefix.value().into(), record);
        self.depth_counts[depth] += 1;
        self.working.depths |= 1 << depth;
        if self.records.len() > self.working.buckets.len() * ITEMS_PER_BUCKET
            || !insert_item(
                &mut self.working.buckets,
                self.hasher.hash_value(prefix.value()),
                slot.0,
            )
        {
            self.rebuild_index();
        }
        true
    }

    fn drop_if_unused(&mut self, prefix: NameRef<'_>) {
        let Some(record) = self.records.get(prefix.value()) else { return };
        if record.is_real() || record.marker_count > 0 || record.depth == 0 {
            return;
        }
        let slot = record.slot;
        let depth = prefix.len();
        self.records.remove(prefix.value());
        remove_item(&mut self.working.buckets, self.hasher.hash_value(prefix.value()), slot.0);
        self.free_slots.push(slot);
        self.depth_counts[depth] -= 1;
        if self.depth_counts[depth] == 0 {
            self.working.depths &= !(1 << depth);
        }
    }

    /// Whether a search that hits `prefix` goes on to longer ones.
    fn set_marker(&mut self, prefix: NameRef<'_>, slot: FibSlot, is_marker: bool) {
        let hash = self.hasher.hash_value(prefix.value());
        let (plain, marked) = (slot.0, slot.0 | MARKER_BIT);
        let (old, new) = if is_marker { (plain, marked) } else { (marked, plain) };
        replace_item(&mut self.working.buckets, hash, old, new);
    }

    /// Doubles the number of buckets until everything fits.
    fn rebuild_index(&mut self) {
        let mut count = self.working.buckets.len();
        loop {
            count *= 2;
            let mut buckets = PagedVec::new(count, &Bucket::EMPTY);
            let fits = self.records.iter().filter(|(value, _)| !value.is_empty()).all(
                |(value, record)| {
                    let marker = if record.marker_count > 0 { MARKER_BIT } else { 0 };
                    let hash = self.hasher.hash_value(value);
                    insert_item(&mut buckets, hash, record.slot.0 | marker)
                },
            );
            if fits {
                let earlier = std::mem::replace(&mut self.working.buckets, buckets);
                self.working.buckets.reuse(earlier);
                return;
            }
        }
    }

    /// Fills in the entry of a marker that has just been made.
    fn write_marker(&mut self, marker: NameRef<'_>) {
        let best = inherited(&self.records, marker, true).best;
        if let Some(record) = self.records.get(marker.value()) {
            self.working.entries.element_mut(record.slot.index()).best = best;
        }
    }

    /// Writes the entries of `prefix` and of everything below it, as far as they change.
    fn pass_on(&mut self, prefix: NameRef<'_>) {
        let start = prefix.value();
        // The real prefixes that lead to the record at hand, and what each passes on.
        let mut above: Vec<(&[u8], Inherited<'_>)> =
            vec![(&[], inherited(&self.records, prefix, false))];
        let range = (Bound::Included(start), Bound::Unbounded);
        for (value, record) in self.records.range::<[u8], _>(range) {
            if !value.starts_with(start) {
                break;
            }
            while above.len() > 1 && above.last().is_some_and(|(top, _)| !value.starts_with(top)) {
                above.pop();
            }
            let Some((_, inherited)) = above.last() else { break };
            let mut passed_on = inherited.clone();
            passed_on.add(record);
            write_entry(&mut self.working.entries, record, &passed_on);
            if record.is_real() {
                above.push((value, passed_on));
            }
        }
    }
}

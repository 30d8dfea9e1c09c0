//! The control thread's FIB, and how a change becomes a new version.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use ndn_packet::NameRef;
use ndn_types::OneOrMany;

use super::depth_tree::{FIB_DEPTH_MAX, first_probes, marker_depths};
use super::entry::{FibEntry, FibSlot, NextHop, StrategyId};
use super::paged::PagedVec;
use super::snapshot::{FibSnapshot, MARKER_BIT};
use crate::bucket::{Bucket, Tag};
use crate::hash_index::{PROBE_MAX, home_bucket};
use crate::{FaceIndex, NameHasher};

/// Limits and defaults of a FIB.
#[derive(Clone, Debug)]
pub struct FibConfig {
    /// Maximum number of prefixes with next hops or a strategy choice.
    pub entries_max: usize,
    /// The name hasher of the shards.
    pub hasher: NameHasher,
    /// Strategy of `/`.
    pub default_strategy: StrategyId,
}

/// Why a change of the FIB was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FibError {
    /// There are [`FibConfig::entries_max`] prefixes.
    Full,
    /// The prefix has more than 32 components.
    TooDeep,
}

impl fmt::Display for FibError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the FIB is full"),
            Self::TooDeep => write!(f, "the prefix has more than {FIB_DEPTH_MAX} components"),
        }
    }
}

impl std::error::Error for FibError {}

/// Prefixes and markers per bucket at full load.
const ITEMS_PER_BUCKET: usize = 5;
/// Calls of [`FibWriter::collect`] without retired versions after which spare pages are freed.
const IDLE_COLLECTS_MAX: u32 = 64;

/// The authoritative FIB of the control thread: routes and strategy choices, and the versions
/// published from them.
///
/// Changes are made in a working version, which shares all unchanged pages with the published ones,
/// until [`Self::publish`]; many changes before one `publish` copy a page once. Records are ordered
/// by name, so that a change reaches the longer prefixes without a search.
///
/// A change of a short prefix may concern a million longer ones. [`Self::set_entries_at_once`] bounds how many of their
/// entries it updates; the others follow in slices ([`Self::continue_updating`]), and have their former content until then.
#[derive(Debug)]
pub struct FibWriter {
    records: Records,
    /// Updates of the entries below prefixes that are not complete. A record stays until the update below it is: entries
    /// there may refer to its slot.
    updates: BTreeMap<Box<[u8]>, Update>,
    /// The prefixes of `updates`, in turn.
    turns: VecDeque<Box<[u8]>>,
    entries_at_once: usize,
    working: FibSnapshot,
    free_slots: Vec<FibSlot>,
    /// Number of slots of `working` ever used.
    slot_count: u32,
    real_count: usize,
    /// Records by prefix length.
    depth_counts: [u32; FIB_DEPTH_MAX + 1],
    published: Arc<FibSnapshot>,
    retired: Vec<Arc<FibSnapshot>>,
    /// Consecutive calls of [`Self::collect`] that found no retired version.
    idle_collects: u32,
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
            first_probes: first_probes(0),
            version: 0,
        };
        let mut writer = Self {
            records: Records::new(),
            updates: BTreeMap::new(),
            turns: VecDeque::new(),
            entries_at_once: usize::MAX,
            published: Arc::new(working.clone()),
            working,
            free_slots: Vec::new(),
            slot_count: 1,
            real_count: 1,
            depth_counts: [0; FIB_DEPTH_MAX + 1],
            retired: Vec::new(),
            idle_collects: 0,
            hasher: config.hasher,
            entries_max: config.entries_max,
        };
        // `/` keeps its slot and is found without a probe.
        let root = Record {
            next_hops: OneOrMany::default(),
            strategy: Some(config.default_strategy),
            marker_count: 0,
            slot: FibSlot::ROOT,
            depth: 0,
        };
        writer.records.insert(Box::default(), root);
        writer.working.entries.element_mut(0).reset(FibSlot::ROOT, NameRef::ROOT);
        writer.update_descendants(NameRef::ROOT);
        writer.publish();
        writer
    }

    /// Sets the number of entries that a change updates before it returns; all, by default.
    pub fn set_entries_at_once(&mut self, count: usize) {
        self.entries_at_once = count;
    }

    /// Whether there are entries that changes of shorter prefixes have not reached yet.
    #[must_use]
    pub fn is_updating(&self) -> bool {
        !self.updates.is_empty()
    }

    /// Updates at most `entries_max` of the entries that changes of one shorter prefix have not reached yet.
    pub fn continue_updating(&mut self, entries_max: usize) {
        let Some(value) = self.turns.pop_front() else { return };
        let Some(Update { last, is_outdated }) = self.updates.remove(&value) else { return };
        let Ok(prefix) = NameRef::from_value(&value) else { return };
        let rest = self.update_part(prefix, Bound::Excluded(&last), entries_max);
        let next = match rest {
            Some(last) => Update { last, is_outdated },
            None if is_outdated => Update { last: value.clone(), is_outdated: false },
            None => return self.remove_if_unused(prefix),
        };
        self.updates.insert(value.clone(), next);
        self.turns.push_back(value);
    }

    /// Updates all entries.
    pub fn finish_updating(&mut self) {
        while self.is_updating() {
            self.continue_updating(usize::MAX);
        }
    }

    /// Prefixes with next hops or a strategy choice.
    #[must_use]
    pub fn len(&self) -> usize {
        self.real_count
    }

    /// Always false: `/` always has a strategy choice.
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

    /// Removes a next hop; returns false when there was none.
    pub fn remove_next_hop(&mut self, prefix: NameRef<'_>, face: FaceIndex) -> bool {
        let mut next_hops = self.next_hops(prefix).to_vec();
        let before = next_hops.len();
        next_hops.retain(|hop| hop.face != face);
        next_hops.len() < before && self.set_next_hops(prefix, &next_hops).is_ok()
    }

    /// Replaces the next hops of a prefix; an empty list removes the route. Those of equal cost keep their order.
    ///
    /// # Errors
    /// When the FIB is full or the prefix too deep.
    pub fn set_next_hops(
        &mut self,
        prefix: NameRef<'_>,
        next_hops: &[NextHop],
    ) -> Result<(), FibError> {
        let mut sorted = next_hops.to_vec();
        sorted.sort_by_key(|hop| hop.cost);
        self.change(prefix, |record| record.next_hops = sorted.into())
    }

    /// Removes a face from the next hops of every prefix; returns the number of prefixes changed.
    /// Iterates over all prefixes.
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

    /// Sets the strategy of a prefix, and of longer prefixes without their own choice.
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

    /// Removes a strategy choice; returns false when there was none, or for `/`, which always has
    /// one.
    pub fn unset_strategy(&mut self, prefix: NameRef<'_>) -> bool {
        !prefix.is_empty()
            && self.strategy(prefix).is_some()
            && self.change(prefix, |record| record.strategy = None).is_ok()
    }

    /// The next hops set for exactly this prefix, sorted by cost.
    #[must_use]
    pub fn next_hops(&self, prefix: NameRef<'_>) -> &[NextHop] {
        self.records.get(prefix.value()).map_or(&[], |record| &record.next_hops)
    }

    /// The strategy chosen for exactly this prefix.
    #[must_use]
    pub fn strategy(&self, prefix: NameRef<'_>) -> Option<StrategyId> {
        self.records.get(prefix.value())?.strategy
    }

    /// All prefixes with next hops, in canonical order.
    pub fn routes(&self) -> impl Iterator<Item = (NameRef<'_>, &[NextHop])> {
        self.records.iter().filter(|(_, record)| !record.next_hops.is_empty()).map(
            |(value, record)| {
                let prefix = NameRef::from_validated(value, u16::from(record.depth));
                (prefix, &*record.next_hops)
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

    /// Publishes all changes so far as a new version for the shards. The writer keeps the old
    /// version until [`Self::collect`] finds that no shard holds it.
    pub fn publish(&mut self) -> Arc<FibSnapshot> {
        self.working.version += 1;
        let fresh = Arc::new(self.working.clone());
        self.retired.push(std::mem::replace(&mut self.published, Arc::clone(&fresh)));
        self.collect();
        fresh
    }

    /// Frees the versions that no shard holds any more; returns the number of retired versions
    /// left. While there are none, spare pages are freed gradually.
    pub fn collect(&mut self) -> usize {
        let Self { retired, working, idle_collects, .. } = self;
        if retired.is_empty() {
            // Not immediately: further single changes reuse the pages.
            *idle_collects = idle_collects.saturating_add(1);
            if *idle_collects > IDLE_COLLECTS_MAX {
                working.buckets.trim();
                working.entries.trim();
            }
            return 0;
        }
        *idle_collects = 0;
        // A strong count of 1 is final: only this list could hand out the version again.
        for version in retired.extract_if(.., |version| Arc::strong_count(version) == 1) {
            if let Some(version) = Arc::into_inner(version) {
                working.buckets.reuse(version.buckets);
                working.entries.reuse(version.entries);
            }
        }
        retired.len()
    }

    /// Changes a record and updates the entries that depend on it.
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
            next_hops: OneOrMany::default(),
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
            self.insert_real(prefix, blank);
        } else if let Some(record) = self.records.get_mut(prefix.value()) {
            apply(record);
            if !record.is_real() {
                self.remove_real(prefix);
                return Ok(());
            }
        }
        self.update_descendants(prefix);
        Ok(())
    }

    /// Creates an entry for a prefix, and the markers that lead to it.
    fn insert_real(&mut self, prefix: NameRef<'_>, set: Record) {
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

    /// Removes the entry of a prefix, and the markers that no other prefix needs.
    fn remove_real(&mut self, prefix: NameRef<'_>) {
        self.real_count -= 1;
        for depth in marker_depths(prefix.len()) {
            let marker = prefix.prefix(depth);
            if let Some(record) = self.records.get_mut(marker.value()) {
                record.marker_count -= 1;
                if record.marker_count == 0 {
                    let slot = record.slot;
                    self.set_marker(marker, slot, false);
                    self.remove_if_unused(marker);
                }
            }
        }
        self.update_descendants(prefix);
        self.remove_if_unused(prefix);
    }

    /// Creates a record, a slot and an index item for a prefix without one. Returns whether it was
    /// created.
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
            next_hops: OneOrMany::default(),
            strategy: None,
            marker_count: 0,
            slot,
            depth: u8::try_from(depth).unwrap_or(u8::MAX),
        };
        self.records.insert(prefix.value().into(), record);
        self.depth_counts[depth] += 1;
        self.set_depths(self.working.depths | 1 << depth);
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

    fn set_depths(&mut self, depths: u64) {
        if depths != self.working.depths {
            self.working.depths = depths;
            self.working.first_probes = first_probes(depths);
        }
    }

    fn remove_if_unused(&mut self, prefix: NameRef<'_>) {
        let Some(record) = self.records.get(prefix.value()) else { return };
        if record.is_real() || record.marker_count > 0 || record.depth == 0 {
            return;
        }
        if self.updates.contains_key(prefix.value()) {
            // Its end calls this again.
            return;
        }
        let slot = record.slot;
        let depth = prefix.len();
        self.records.remove(prefix.value());
        remove_item(&mut self.working.buckets, self.hasher.hash_value(prefix.value()), slot.0);
        self.free_slots.push(slot);
        self.depth_counts[depth] -= 1;
        if self.depth_counts[depth] == 0 {
            self.set_depths(self.working.depths & !(1 << depth));
        }
    }

    /// Sets whether a search that hits `prefix` continues with longer ones.
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

    /// Fills in the entry of a new marker.
    fn write_marker(&mut self, marker: NameRef<'_>) {
        let best = inherited(&self.records, marker, true).best;
        if let Some(record) = self.records.get(marker.value()) {
            self.working.entries.element_mut(record.slot.index()).best = best;
        }
    }

    /// Rewrites the entries of `prefix` and of everything below it where they change, or begins to.
    fn update_descendants(&mut self, prefix: NameRef<'_>) {
        let value = prefix.value();
        let rest = self.update_part(prefix, Bound::Included(value), self.entries_at_once);
        let Some(last) = rest else { return };
        match self.updates.get_mut(value) {
            Some(update) => update.is_outdated = true,
            None => {
                self.updates.insert(value.into(), Update { last, is_outdated: false });
                self.turns.push_back(value.into());
            }
        }
    }

    /// Rewrites at most `entries_max` entries of `prefix` and of what is below it where they change, from a name on. Returns
    /// the last one, if there may be more.
    fn update_part(
        &mut self,
        prefix: NameRef<'_>,
        from: Bound<&[u8]>,
        entries_max: usize,
    ) -> Option<Box<[u8]>> {
        // The real prefixes above the current record, and what each passes to longer ones.
        let mut above: Vec<(&[u8], Inherited<'_>)> =
            vec![(&[], inherited(&self.records, prefix, false))];
        if let Bound::Excluded(last) = from
            && let Ok(last) = NameRef::from_value(last)
        {
            for depth in prefix.len()..=last.len() {
                let record = self.records.get_key_value(last.prefix(depth).value());
                if let (Some((value, record)), Some((_, parent))) = (record, above.last())
                    && record.is_real()
                {
                    let mut inherited = parent.clone();
                    inherited.add(record);
                    above.push((value, inherited));
                }
            }
        }
        let range = self.records.range::<[u8], _>((from, Bound::Unbounded));
        for (count, (value, record)) in range.enumerate() {
            if !value.starts_with(prefix.value()) {
                break;
            }
            while above.len() > 1 && above.last().is_some_and(|(top, _)| !value.starts_with(top)) {
                above.pop();
            }
            let Some((_, parent)) = above.last() else { break };
            let mut inherited = parent.clone();
            inherited.add(record);
            write_entry(&mut self.working.entries, record, &inherited);
            if record.is_real() {
                above.push((value, inherited));
            }
            if count + 1 >= entries_max {
                return Some(value.clone());
            }
        }
        None
    }
}

/// An update of the entries below a prefix that is not complete.
#[derive(Debug)]
struct Update {
    /// The prefix that was visited last.
    last: Box<[u8]>,
    /// The prefix has changed again since the beginning: the entries before `last` are updated again at the end.
    is_outdated: bool,
}

/// Settings of a prefix, or a marker.
#[derive(Debug)]
struct Record {
    next_hops: OneOrMany<NextHop>,
    strategy: Option<StrategyId>,
    /// Number of prefixes whose search passes through this one.
    marker_count: u32,
    slot: FibSlot,
    depth: u8,
}

impl Record {
    fn is_real(&self) -> bool {
        !self.next_hops.is_empty() || self.strategy.is_some()
    }
}

/// Keyed by the value of the Name TLV, whose byte order is the canonical order of names.
type Records = BTreeMap<Box<[u8]>, Record>;

/// Settings that longer prefixes inherit.
#[derive(Clone)]
struct Inherited<'a> {
    best: FibSlot,
    next_hops: &'a [NextHop],
    next_hops_depth: u8,
    strategy: StrategyId,
}

impl<'a> Inherited<'a> {
    /// Applies the settings of a longer prefix.
    fn add(&mut self, record: &'a Record) {
        if !record.is_real() {
            return;
        }
        self.best = record.slot;
        if !record.next_hops.is_empty() {
            self.next_hops = &record.next_hops;
            self.next_hops_depth = record.depth;
        }
        if let Some(strategy) = record.strategy {
            self.strategy = strategy;
        }
    }
}

/// The settings that a name inherits from its real proper prefixes and, if requested, from itself.
fn inherited<'a>(records: &'a Records, name: NameRef<'_>, include_self: bool) -> Inherited<'a> {
    let mut inherited = Inherited {
        best: FibSlot::ROOT,
        next_hops: &[],
        next_hops_depth: 0,
        strategy: StrategyId(0),
    };
    let depths = name.len() + usize::from(include_self);
    for depth in (0..depths).take(FIB_DEPTH_MAX + 1) {
        if let Some(record) = records.get(name.prefix(depth).value()) {
            inherited.add(record);
        }
    }
    inherited
}

/// Writes the entry of a record, unless it is up to date.
fn write_entry(entries: &mut PagedVec<FibEntry>, record: &Record, inherited: &Inherited<'_>) {
    let index = record.slot.index();
    let entry = entries.element(index);
    let is_same = entry.best == inherited.best
        && entry.strategy() == inherited.strategy
        && entry.next_hops_depth() == usize::from(inherited.next_hops_depth)
        && entry.next_hops() == inherited.next_hops;
    if !is_same {
        let entry = entries.element_mut(index);
        entry.best = inherited.best;
        entry.set_strategy(inherited.strategy);
        entry.set_next_hops(inherited.next_hops, inherited.next_hops_depth);
    }
}

/// Calls `stop` for each bucket where an item of `hash` may lie, until it returns true. Returns the
/// distance of that bucket from the home bucket.
fn probe_buckets(
    buckets: &mut PagedVec<Bucket>,
    hash: u64,
    mut stop: impl FnMut(&mut PagedVec<Bucket>, usize) -> bool,
) -> Option<usize> {
    let count = buckets.len();
    let home = home_bucket(hash, count);
    (0..PROBE_MAX).find(|distance| stop(buckets, (home + distance) % count))
}

/// Updates the overflow count of the `distance` buckets before an item.
fn update_overflow(
    buckets: &mut PagedVec<Bucket>,
    hash: u64,
    distance: usize,
    change: impl Fn(&mut Bucket),
) {
    let count = buckets.len();
    let home = home_bucket(hash, count);
    for step in 0..distance {
        change(buckets.element_mut((home + step) % count));
    }
}

/// Inserts an item; returns false when all buckets within reach are full.
fn insert_item(buckets: &mut PagedVec<Bucket>, hash: u64, reference: u32) -> bool {
    let distance = probe_buckets(buckets, hash, |buckets, position| {
        !buckets.element(position).is_full()
            && buckets.element_mut(position).insert(Tag::of(hash), reference)
    });
    if let Some(distance) = distance {
        update_overflow(buckets, hash, distance, Bucket::increment_overflow);
    }
    distance.is_some()
}

fn remove_item(buckets: &mut PagedVec<Bucket>, hash: u64, reference: u32) {
    let distance = probe_buckets(buckets, hash, |buckets, position| {
        buckets.element(position).contains(Tag::of(hash), reference)
            && buckets.element_mut(position).remove(Tag::of(hash), reference)
    });
    if let Some(distance) = distance {
        update_overflow(buckets, hash, distance, Bucket::decrement_overflow);
    }
}

fn replace_item(buckets: &mut PagedVec<Bucket>, hash: u64, old: u32, new: u32) {
    probe_buckets(buckets, hash, |buckets, position| {
        buckets.element(position).contains(Tag::of(hash), old)
            && buckets.element_mut(position).replace(Tag::of(hash), old, new)
    });
}

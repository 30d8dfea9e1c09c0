//! The FIB of management: next hops from the RIB and from `fib/*` commands in one table.
//!
//! As in NFD there is one cost per prefix and face, the one that was set last: the RIB adds and removes exactly those next
//! hops that changed in it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use ndn_packet::{Name, NameRef};
use ndn_types::OneOrMany;

use crate::listing::Listing;
use crate::range::NameRange;
use crate::rib::{FibUpdate, NextHop, Rib};
use crate::share::{Charge, Owners};

/// The FIB is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the FIB is full ({entries_max} entries)")]
pub struct FibFull {
    /// The limit.
    pub entries_max: usize,
}

/// The value of a Name TLV, which sorts like the name. The tables share it.
type Key = Arc<[u8]>;

#[derive(Debug, Default)]
struct Entry {
    /// Ascending cost; at equal cost in the order of the RIB, then those of `fib/*` commands by FaceId.
    next_hops: OneOrMany<NextHop>,
    /// The next hops that the RIB last set, if they differ from `next_hops`.
    from_rib: Option<Box<[NextHop]>>,
}

impl Entry {
    fn next_hops_of_rib(&self) -> &[NextHop] {
        self.from_rib.as_deref().unwrap_or(&self.next_hops)
    }
}

/// The authoritative FIB. Every change returns the update for the forwarding threads.
#[derive(Debug)]
pub struct Fib {
    entries: BTreeMap<Key, Entry>,
    faces: BTreeSet<(u64, Key)>,
    entries_max: usize,
    entry_count: usize,
    generation: u64,
    pub(crate) listing: Listing,
    /// Next hops of `fib/*` commands of principals other than operators.
    owners: Owners<(u64, Key)>,
}

impl Fib {
    /// Default limit on the number of entries.
    pub const ENTRIES_MAX_DEFAULT: usize = 2 << 20;

    /// An empty FIB that takes at most `entries_max` entries.
    #[must_use]
    pub fn new(entries_max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            faces: BTreeSet::new(),
            entries_max,
            entry_count: 0,
            generation: 0,
            listing: Listing::default(),
            owners: Owners::default(),
        }
    }

    /// Number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entry_count
    }

    /// Whether there are no entries.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entry_count == 0
    }

    /// Grows with every change, and when next hops are hidden.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Prefixes in canonical order with their next hops in ascending cost.
    pub fn iter(&self) -> impl Iterator<Item = (NameRef<'_>, &[NextHop])> {
        let entries = self.entries.iter().map(|(key, entry)| (name_ref(key), &entry.next_hops[..]));
        entries.filter(|(_, next_hops)| !next_hops.is_empty())
    }

    /// The prefixes of a range in canonical order, with their next hops. Those before it are not visited.
    pub(crate) fn range<'a>(
        &'a self,
        range: &'a NameRange,
    ) -> impl Iterator<Item = (NameRef<'a>, &'a [NextHop])> {
        let found = self.entries.range::<[u8], _>((range.start(), Bound::Unbounded));
        let found = found.map(|(key, entry)| (name_ref(key), &entry.next_hops[..]));
        let found = found.take_while(|(name, _)| range.has(*name));
        found.filter(|(_, next_hops)| !next_hops.is_empty())
    }

    /// Hides next hops through a face: the listing is encoded again where it shows some, or, if these are more than
    /// `prefixes_max` prefixes, as a whole.
    pub(crate) fn hide(&mut self, face_id: u64, prefixes_max: usize) {
        self.generation += 1;
        if !self.listing.is_kept() {
            return;
        }
        let mut listing = std::mem::take(&mut self.listing);
        let mut prefixes = self.prefixes_of(face_id);
        prefixes.by_ref().take(prefixes_max).for_each(|key| listing.changed(key));
        if prefixes.next().is_some() {
            listing.restart();
        }
        drop(prefixes);
        self.listing = listing;
    }

    /// The generation that the complete listing shows; `None` if some hidden next hops may be in it.
    pub(crate) fn listed_generation(&self) -> Option<u64> {
        (!self.listing.is_outdated()).then_some(self.generation)
    }

    /// Encodes about `work` bytes of the listing; true if it is complete.
    pub(crate) fn continue_listing(
        &mut self,
        work: usize,
        encode: impl Fn(&mut Vec<u8>, NameRef<'_>, &[NextHop]),
    ) -> bool {
        let Self { entries, listing, .. } = self;
        let from = |start: &[u8]| {
            let entries = entries.range::<[u8], _>((Bound::Included(start), Bound::Unbounded));
            let entries = entries.map(|(key, entry)| (&**key, entry));
            entries.filter(|(_, entry)| !entry.next_hops.is_empty())
        };
        listing.continue_encoding(work, from, |out, key, entry| {
            encode(out, name_ref(key), &entry.next_hops);
            false
        })
    }

    /// The next hops of exactly this prefix.
    #[must_use]
    pub fn find(&self, prefix: NameRef<'_>) -> Option<&[NextHop]> {
        let entry = self.entries.get(prefix.value())?;
        (!entry.next_hops.is_empty()).then_some(&entry.next_hops[..])
    }

    /// Whether `prefix` has an entry, or one more entry fits.
    ///
    /// # Errors
    /// [`FibFull`].
    pub fn check_room(&self, prefix: NameRef<'_>) -> Result<(), FibFull> {
        if self.entry_count < self.entries_max || self.find(prefix).is_some() {
            return Ok(());
        }
        Err(FibFull { entries_max: self.entries_max })
    }

    /// Adds a next hop, or changes its cost. `None` if nothing changed.
    ///
    /// # Errors
    /// [`FibFull`] if the prefix is new and the limit is reached.
    pub fn add_next_hop(
        &mut self,
        prefix: &Name,
        next_hop: NextHop,
    ) -> Result<Option<FibUpdate>, FibFull> {
        self.check_room(prefix.as_ref())?;
        Ok(self.change(self.key(prefix), prefix, None, |next_hops| insert(next_hops, next_hop)))
    }

    /// Removes a next hop. `None` if it did not exist.
    pub fn remove_next_hop(&mut self, prefix: &Name, face_id: u64) -> Option<FibUpdate> {
        let key = self.find_key(prefix)?;
        self.change(key, prefix, None, |next_hops| next_hops.retain(|hop| hop.face_id != face_id))
    }

    /// The charge for a next hop of `fib/*` commands; `None`: it is an operator's, or there is no such next hop.
    pub(crate) fn charge(&self, prefix: &Name, face_id: u64) -> Option<Charge> {
        self.owners.find(&(face_id, self.key(prefix)))
    }

    /// Sets the charge for a next hop; `None`: it is an operator's.
    pub(crate) fn set_charge(&mut self, prefix: &Name, face_id: u64, charge: Option<Charge>) {
        let key = (face_id, self.key(prefix));
        match charge {
            Some(charge) => self.owners.begin(key, charge),
            None => self.owners.end(&key),
        }
    }

    /// Number of next hops that are charged to a principal.
    pub(crate) fn charged_count(&self) -> usize {
        self.owners.len()
    }

    /// The charges of next hops that have ended since the last call.
    pub(crate) fn take_ended_charges(&mut self) -> Vec<Charge> {
        self.owners.take_ended()
    }

    /// Applies an update of the RIB: only the next hops that changed in it. A new entry shares the name of the RIB's. `None` if
    /// nothing changed.
    ///
    /// A prefix that the RIB accepted is never refused; see [`Fib::check_room`].
    pub(crate) fn apply(&mut self, update: FibUpdate, rib: &Rib) -> Option<FibUpdate> {
        let (prefix, computed) = match update {
            FibUpdate::Set { prefix, next_hops } => (prefix, next_hops),
            FibUpdate::Remove { prefix } => (prefix, Vec::new()),
        };
        let before =
            self.entries.get(prefix.value()).map(|entry| entry.next_hops_of_rib().to_vec());
        let before = before.unwrap_or_default();
        let (old, new) = (Costs::of(&before), Costs::of(&computed));
        let is_gone = |face_id| old.find(face_id).is_some() && new.find(face_id).is_none();
        let is_changed = |face_id| {
            let of_new = new.find(face_id);
            of_new.is_some() && of_new != old.find(face_id)
        };
        let key = self.find_key(&prefix).unwrap_or_else(|| rib.key(prefix.as_ref()));
        self.change(key, &prefix, Some(&computed), |next_hops| {
            next_hops.retain(|hop| !is_gone(hop.face_id) && !is_changed(hop.face_id));
            next_hops.extend(computed.iter().filter(|hop| is_changed(hop.face_id)));
        })
    }

    /// Removes the next hops of at most `prefixes_max` prefixes through a face.
    pub fn remove_face(&mut self, face_id: u64, prefixes_max: usize) -> Vec<FibUpdate> {
        (0..prefixes_max).map_while(|_| self.remove_first(face_id)).collect()
    }

    /// Removes the next hop of the first prefix that has one through a face. `None` if there is none.
    pub fn remove_first(&mut self, face_id: u64) -> Option<FibUpdate> {
        let prefix = name_ref(self.prefixes_of(face_id).next()?).to_name();
        self.remove_next_hop(&prefix, face_id)
    }

    /// Whether any next hop is this face.
    #[must_use]
    pub fn has_face(&self, face_id: u64) -> bool {
        self.prefixes_of(face_id).next().is_some()
    }

    /// The next hops through a face that differ from those of the RIB: prefix and cost.
    pub fn own_next_hops(&self, face_id: u64) -> impl Iterator<Item = (NameRef<'_>, u64)> {
        self.prefixes_of(face_id).filter_map(move |key| {
            let prefix = name_ref(key);
            Some((prefix, self.own_next_hop(prefix, face_id)?))
        })
    }

    /// The cost of the next hop of a prefix through a face, if it differs from that of the RIB.
    #[must_use]
    pub fn own_next_hop(&self, prefix: NameRef<'_>, face_id: u64) -> Option<u64> {
        let hop_of = |hops: &[NextHop]| hops.iter().find(|hop| hop.face_id == face_id).copied();
        let entry = self.entries.get(prefix.value())?;
        let hop = hop_of(&entry.next_hops)?;
        (hop_of(entry.next_hops_of_rib()) != Some(hop)).then_some(hop.cost)
    }

    fn prefixes_of(&self, face_id: u64) -> impl Iterator<Item = &Key> {
        let from = self.faces.range((face_id, Key::default())..);
        from.take_while(move |(face, _)| *face == face_id).map(|(_, prefix)| prefix)
    }

    /// The key of a prefix: that of its entry, if there is one.
    fn key(&self, prefix: &Name) -> Key {
        self.find_key(prefix).unwrap_or_else(|| Key::from(prefix.value()))
    }

    fn find_key(&self, prefix: &Name) -> Option<Key> {
        self.entries.get_key_value(prefix.value()).map(|(key, _)| Key::clone(key))
    }

    /// Changes the next hops of a prefix; `from_rib` are those of the RIB, if they change.
    fn change(
        &mut self,
        key: Key,
        prefix: &Name,
        from_rib: Option<&[NextHop]>,
        change: impl FnOnce(&mut Vec<NextHop>),
    ) -> Option<FibUpdate> {
        let entry = self.entries.entry(Key::clone(&key)).or_default();
        let from_rib: Box<[NextHop]> = from_rib.unwrap_or(entry.next_hops_of_rib()).into();
        let mut after = entry.next_hops.to_vec();
        change(&mut after);
        if after.len() > 1 {
            sort(&mut after, &from_rib);
        }
        let before = std::mem::replace(&mut entry.next_hops, after.as_slice().into());
        let is_unused = after.is_empty() && from_rib.is_empty();
        entry.from_rib = (*from_rib != *after).then_some(from_rib);
        if is_unused {
            self.entries.remove(&key);
        }
        if *before == *after {
            return None;
        }
        self.generation += 1;
        self.listing.changed(&key);
        self.index(&key, &before, &after);
        match (before.is_empty(), after.is_empty()) {
            (true, false) => self.entry_count += 1,
            (false, true) => self.entry_count -= 1,
            _ => {}
        }
        let prefix = prefix.clone();
        Some(if after.is_empty() {
            FibUpdate::Remove { prefix }
        } else {
            FibUpdate::Set { prefix, next_hops: after }
        })
    }

    fn index(&mut self, prefix: &Key, before: &[NextHop], after: &[NextHop]) {
        let (old, new) = (Costs::of(before), Costs::of(after));
        for hop in before {
            if new.find(hop.face_id).is_none() {
                let key = (hop.face_id, Key::clone(prefix));
                self.faces.remove(&key);
                self.owners.end(&key);
            }
        }
        for hop in after {
            if old.find(hop.face_id).is_none() {
                self.faces.insert((hop.face_id, Key::clone(prefix)));
            }
        }
    }
}

/// The name of a key.
fn name_ref(key: &[u8]) -> NameRef<'_> {
    // Keys are values of names.
    NameRef::from_value(key).unwrap_or(NameRef::ROOT)
}

/// Maximum number of next hops that are searched one after the other: most entries have fewer, and need no memory for it.
const SEARCHED_MAX: usize = 16;

/// Sorts next hops by cost; at equal cost, in the order of the RIB.
fn sort(next_hops: &mut [NextHop], from_rib: &[NextHop]) {
    let face_ids = || from_rib.iter().map(|hop| hop.face_id);
    if from_rib.len() <= SEARCHED_MAX {
        let position = |face_id| face_ids().position(|one| one == face_id).unwrap_or(usize::MAX);
        return next_hops.sort_by_key(|hop| (hop.cost, position(hop.face_id), hop.face_id));
    }
    let positions: HashMap<u64, usize> = face_ids().zip(0..).collect();
    let position = |face_id| positions.get(&face_id).copied().unwrap_or(usize::MAX);
    next_hops.sort_by_key(|hop| (hop.cost, position(hop.face_id), hop.face_id));
}

/// The costs of next hops, by face.
enum Costs<'a> {
    Few(&'a [NextHop]),
    /// In the order of FaceIds.
    Sorted(Vec<NextHop>),
}

impl<'a> Costs<'a> {
    fn of(next_hops: &'a [NextHop]) -> Self {
        if next_hops.len() <= SEARCHED_MAX {
            return Self::Few(next_hops);
        }
        let mut sorted = next_hops.to_vec();
        sorted.sort_unstable_by_key(|hop| hop.face_id);
        Self::Sorted(sorted)
    }

    fn find(&self, face_id: u64) -> Option<u64> {
        match self {
            Self::Few(hops) => hops.iter().find(|hop| hop.face_id == face_id).map(|hop| hop.cost),
            Self::Sorted(hops) => {
                let at = hops.binary_search_by_key(&face_id, |hop| hop.face_id).ok()?;
                Some(hops[at].cost)
            }
        }
    }
}

/// Adds or replaces the next hop of a face.
fn insert(next_hops: &mut Vec<NextHop>, next_hop: NextHop) {
    next_hops.retain(|hop| hop.face_id != next_hop.face_id);
    next_hops.push(next_hop);
}

#[cfg(test)]
mod tests;

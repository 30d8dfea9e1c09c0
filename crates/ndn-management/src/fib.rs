//! The FIB of management: next hops from the RIB and from `fib/*` commands in one table.
//!
//! As in NFD there is one cost per prefix and face, the one that was set last: the RIB adds and removes exactly those next
//! hops that changed in it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use ndn_packet::{Name, NameRef};

use crate::listing::Listing;
use crate::rib::{FibUpdate, NextHop};
use crate::share::{Charge, Owners};

/// The FIB is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the FIB is full ({entries_max} entries)")]
pub struct FibFull {
    /// The limit.
    pub entries_max: usize,
}

#[derive(Debug, Default)]
struct Entry {
    /// Ascending cost; at equal cost in the order of the RIB, then those of `fib/*` commands by FaceId.
    next_hops: Vec<NextHop>,
    /// The next hops that the RIB last set.
    from_rib: Vec<NextHop>,
}

/// The authoritative FIB. Every change returns the update for the forwarding threads.
#[derive(Debug)]
pub struct Fib {
    entries: BTreeMap<Name, Entry>,
    faces: BTreeSet<(u64, Name)>,
    entries_max: usize,
    entry_count: usize,
    generation: u64,
    pub(crate) listing: Listing,
    /// Next hops of `fib/*` commands of principals other than operators.
    owners: Owners<(u64, Name)>,
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

    /// Grows with every change.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Prefixes in canonical order with their next hops in ascending cost.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &[NextHop])> {
        let entries = self.entries.iter().map(|(prefix, entry)| (prefix, &entry.next_hops[..]));
        entries.filter(|(_, next_hops)| !next_hops.is_empty())
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
            let named = entries.map(|(prefix, entry)| (prefix.value(), (prefix, entry)));
            named.filter(|(_, (_, entry))| !entry.next_hops.is_empty())
        };
        listing.continue_encoding(work, from, |out, _, (prefix, entry)| {
            encode(out, prefix.as_ref(), &entry.next_hops);
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
        Ok(self.change(prefix, |next_hops| insert(next_hops, next_hop)))
    }

    /// Removes a next hop. `None` if it did not exist.
    pub fn remove_next_hop(&mut self, prefix: &Name, face_id: u64) -> Option<FibUpdate> {
        self.entries.get(prefix.value())?;
        self.change(prefix, |next_hops| next_hops.retain(|hop| hop.face_id != face_id))
    }

    /// The charge for a next hop of `fib/*` commands; `None`: it is an operator's, or there is no such next hop.
    pub(crate) fn charge(&self, prefix: &Name, face_id: u64) -> Option<Charge> {
        self.owners.find(&(face_id, prefix.clone()))
    }

    /// Sets the charge for a next hop; `None`: it is an operator's.
    pub(crate) fn set_charge(&mut self, prefix: &Name, face_id: u64, charge: Option<Charge>) {
        let key = (face_id, prefix.clone());
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

    /// Applies an update of the RIB: only the next hops that changed in it. `None` if nothing changed.
    ///
    /// A prefix that the RIB accepted is never refused; see [`Fib::check_room`].
    pub fn apply(&mut self, update: FibUpdate) -> Option<FibUpdate> {
        let (prefix, computed) = match update {
            FibUpdate::Set { prefix, next_hops } => (prefix, next_hops),
            FibUpdate::Remove { prefix } => (prefix, Vec::new()),
        };
        let entry = self.entries.entry(prefix.clone()).or_default();
        let before = std::mem::replace(&mut entry.from_rib, computed.clone());
        let (old, new) = (by_face(&before), by_face(&computed));
        let is_gone = |face_id| cost(&old, face_id).is_some() && cost(&new, face_id).is_none();
        let is_changed = |face_id| {
            let of_new = cost(&new, face_id);
            of_new.is_some() && of_new != cost(&old, face_id)
        };
        self.change(&prefix, |next_hops| {
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
        let prefix = self.prefixes_of(face_id).next()?.clone();
        self.remove_next_hop(&prefix, face_id)
    }

    /// Whether any next hop is this face.
    #[must_use]
    pub fn has_face(&self, face_id: u64) -> bool {
        self.prefixes_of(face_id).next().is_some()
    }

    /// The next hops through a face that differ from those of the RIB: prefix and cost.
    pub fn own_next_hops(&self, face_id: u64) -> impl Iterator<Item = (&Name, u64)> {
        self.prefixes_of(face_id)
            .filter_map(move |prefix| Some((prefix, self.own_next_hop(prefix, face_id)?)))
    }

    /// The cost of the next hop of a prefix through a face, if it differs from that of the RIB.
    #[must_use]
    pub fn own_next_hop(&self, prefix: &Name, face_id: u64) -> Option<u64> {
        let hop_of = |hops: &[NextHop]| hops.iter().find(|hop| hop.face_id == face_id).copied();
        let entry = self.entries.get(prefix.value())?;
        let hop = hop_of(&entry.next_hops)?;
        (hop_of(&entry.from_rib) != Some(hop)).then_some(hop.cost)
    }

    fn prefixes_of(&self, face_id: u64) -> impl Iterator<Item = &Name> {
        let from = self.faces.range((face_id, Name::new())..);
        from.take_while(move |(face, _)| *face == face_id).map(|(_, prefix)| prefix)
    }

    fn change(
        &mut self,
        prefix: &Name,
        change: impl FnOnce(&mut Vec<NextHop>),
    ) -> Option<FibUpdate> {
        let entry = self.entries.entry(prefix.clone()).or_default();
        let before = entry.next_hops.clone();
        change(&mut entry.next_hops);
        let positions = entry.from_rib.iter().zip(0..).map(|(hop, at)| (hop.face_id, at));
        let positions: HashMap<u64, usize> = positions.collect();
        let position = |face_id| positions.get(&face_id).copied().unwrap_or(usize::MAX);
        let order = |hop: &NextHop| (hop.cost, position(hop.face_id), hop.face_id);
        entry.next_hops.sort_by_key(order);
        let after = entry.next_hops.clone();
        if after.is_empty() && entry.from_rib.is_empty() {
            self.entries.remove(prefix.value());
        }
        if before == after {
            return None;
        }
        self.generation += 1;
        self.listing.changed(prefix.value());
        self.index(prefix, &before, &after);
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

    fn index(&mut self, prefix: &Name, before: &[NextHop], after: &[NextHop]) {
        let (old, new) = (by_face(before), by_face(after));
        for hop in before {
            if cost(&new, hop.face_id).is_none() {
                let key = (hop.face_id, prefix.clone());
                self.faces.remove(&key);
                self.owners.end(&key);
            }
        }
        for hop in after {
            if cost(&old, hop.face_id).is_none() {
                self.faces.insert((hop.face_id, prefix.clone()));
            }
        }
    }
}

/// Next hops in the order of FaceIds, for [`cost`].
fn by_face(next_hops: &[NextHop]) -> Vec<NextHop> {
    let mut next_hops = next_hops.to_vec();
    next_hops.sort_unstable_by_key(|hop| hop.face_id);
    next_hops
}

/// The cost of a face among next hops in the order of FaceIds.
fn cost(by_face: &[NextHop], face_id: u64) -> Option<u64> {
    let at = by_face.binary_search_by_key(&face_id, |hop| hop.face_id).ok()?;
    Some(by_face[at].cost)
}

/// Adds or replaces the next hop of a face.
fn insert(next_hops: &mut Vec<NextHop>, next_hop: NextHop) {
    next_hops.retain(|hop| hop.face_id != next_hop.face_id);
    next_hops.push(next_hop);
}

#[cfg(test)]
mod tests;

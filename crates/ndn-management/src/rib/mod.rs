//! The Routing Information Base, and the FIB that follows from it.
//!
//! Semantics are NFD's (NFD Developer's Guide, "RIB Manager"): a prefix that has routes gets a FIB
//! entry whose next hops are its own routes (the lowest cost per face) and, for the other faces,
//! the CHILD_INHERIT routes of shorter prefixes: the nearest prefix wins, and the walk ends behind
//! a prefix that has a CAPTURE route. A prefix with a CAPTURE route inherits nothing itself.
//!
//! The computation is incremental. A change at one prefix changes the costs that longer prefixes inherit, and only that
//! difference is propagated; subtrees that capture, or that override every changed face, are skipped.
//! [`Rib::take_updates`] returns one update per prefix whose next hops have changed since the previous call.

mod entry;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use ndn_packet::{Name, NameRef};

use crate::journal::Journal;
use crate::listing::Listing;
use crate::range::NameRange;
use crate::share::{Charge, Owners};
use entry::{Entry, FaceCostChanges, FaceCosts, changes};
pub use entry::{NextHop, Route, RouteChange};
use ndn_types::{PrincipalIndex, Timestamp};
use turns::{Author, Turns};

/// The value of a Name TLV. Its byte order is the canonical order of names, and a name is a prefix
/// of another exactly if its bytes are, so that a subtree is one range of a `BTreeMap`.
type Key = Arc<[u8]>;

/// A change of the FIB that follows from changes of the RIB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FibUpdate {
    /// The prefix now has exactly these next hops, in ascending cost.
    Set {
        /// The FIB prefix.
        prefix: Name,
        /// Never empty.
        next_hops: Vec<NextHop>,
    },
    /// The prefix has no next hops.
    Remove {
        /// The FIB prefix.
        prefix: Name,
    },
}

/// The RIB is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the RIB is full ({routes_max} routes)")]
pub struct RibFull {
    /// The limit.
    pub routes_max: usize,
}

/// The result of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// A new route.
    New,
    /// A route that existed, with new cost, flags and expiry.
    Updated,
}

/// See [`Rib`]'s field `inherited_at_once`: some milliseconds of work.
const INHERITED_AT_ONCE: usize = 1024;
/// Number of entries that one counts as whose inherited next hops are computed from the routes of shorter prefixes.
const RECOMPUTED_COST: usize = 32;

/// A change of what longer prefixes inherit, while it is passed on to them.
///
/// Only the faces are remembered. Their costs are those of the time of each slice, so that the order in which several changes
/// are passed on does not matter: the last one to reach a prefix brings what holds then.
#[derive(Debug)]
struct Propagation {
    faces: BTreeSet<u64>,
    /// Faces that have changed again since the beginning: they are passed on from the beginning, after this.
    again: BTreeSet<u64>,
    /// The prefix that was visited last.
    last: Key,
    /// Its places in the turns of the principals that have made these changes.
    turns: BTreeMap<Author, u64>,
}

/// Routes by prefix, and the FIB updates that they cause. Pure: time is an argument.
#[derive(Debug)]
pub struct Rib {
    entries: BTreeMap<Key, Entry>,
    /// Faces and the prefixes with a route to them.
    faces: BTreeSet<(u64, Key)>,
    /// Expiry, prefix, face, origin.
    deadlines: BTreeSet<(Timestamp, Key, u64, u64)>,
    /// Changes that longer prefixes have not inherited yet, by the prefix of their origin.
    propagations: BTreeMap<Key, Propagation>,
    /// The keys of `propagations`, in turn.
    turns: Turns,
    /// Entries that inherit a change at once; those beyond follow by [`continue_propagating`](Rib::continue_propagating).
    inherited_at_once: usize,
    /// Next hops at the last `take_updates` of every prefix touched since (`None`: no entry).
    touched: BTreeMap<Key, Option<Vec<NextHop>>>,
    /// Prefixes whose own routes have changed, while they are watched.
    changed: Option<BTreeSet<Key>>,
    route_count: usize,
    routes_max: usize,
    generation: u64,
    pub(crate) listing: Listing,
    /// Routes that have changed, with their prefixes.
    pub(crate) journal: Journal<(Name, RouteChange, Route)>,
    /// Routes of principals other than operators: prefix, face, origin.
    owners: Owners<(Key, u64, u64)>,
}

impl Default for Rib {
    fn default() -> Self {
        Self::new(Self::ROUTES_MAX_DEFAULT)
    }
}

impl Rib {
    /// Default limit on the number of routes.
    pub const ROUTES_MAX_DEFAULT: usize = 4 << 20;

    /// An empty RIB that takes at most `routes_max` routes.
    #[must_use]
    pub fn new(routes_max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            faces: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            propagations: BTreeMap::new(),
            turns: Turns::default(),
            inherited_at_once: INHERITED_AT_ONCE,
            touched: BTreeMap::new(),
            changed: None,
            route_count: 0,
            routes_max,
            generation: 0,
            listing: Listing::default(),
            journal: Journal::default(),
            owners: Owners::default(),
        }
    }

    /// Number of routes.
    #[must_use]
    pub const fn route_count(&self) -> usize {
        self.route_count
    }

    /// Number of prefixes that have routes.
    #[must_use]
    pub fn prefix_count(&self) -> usize {
        self.entries.len()
    }

    /// Increases with every change of a route, and when some are hidden; shows whether a snapshot is current.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The route of `prefix` to `face_id` by `origin`.
    #[must_use]
    pub fn find(&self, prefix: NameRef<'_>, face_id: u64, origin: u64) -> Option<&Route> {
        self.entries.get(prefix.value())?.find(face_id, origin)
    }

    /// Prefixes in canonical order with their routes in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = (NameRef<'_>, &[Route])> {
        self.entries.iter().map(|(key, entry)| (name(key), entry.routes()))
    }

    /// The prefixes of a range in canonical order, with their routes. Those before it are not visited.
    pub(crate) fn range<'a>(
        &'a self,
        range: &'a NameRange,
    ) -> impl Iterator<Item = (NameRef<'a>, &'a [Route])> {
        let found = self.entries.range::<[u8], _>((range.start(), Bound::Unbounded));
        let found = found.map(|(key, entry)| (name(key), entry.routes()));
        found.take_while(|(name, _)| range.has(*name))
    }

    /// The routes to one face, with their prefixes in canonical order. The others are not visited.
    pub fn routes_to(&self, face_id: u64) -> impl Iterator<Item = (NameRef<'_>, &Route)> {
        self.keys_of(face_id).flat_map(move |key| {
            let routes = self.entries.get(key).map_or(&[][..], |entry| entry.routes());
            let own = routes.iter().filter(move |route| route.face_id == face_id);
            own.map(move |route| (name(key), route))
        })
    }

    /// Whether any route leads to a face.
    #[must_use]
    pub fn has_face(&self, face_id: u64) -> bool {
        self.keys_of(face_id).next().is_some()
    }

    /// Which prefixes have a route to a face.
    fn keys_of(&self, face_id: u64) -> impl Iterator<Item = &Key> {
        let empty: Key = Arc::from(&[][..]);
        let keys = self.faces.range((face_id, empty)..);
        keys.take_while(move |(face, _)| *face == face_id).map(|(_, key)| key)
    }

    /// Hides routes to a face: the listing is encoded again where it shows some, or, if these are more than `prefixes_max`
    /// prefixes, as a whole.
    pub(crate) fn hide(&mut self, face_id: u64, prefixes_max: usize) {
        self.generation += 1;
        if !self.listing.is_kept() {
            return;
        }
        let mut listing = std::mem::take(&mut self.listing);
        let mut keys = self.keys_of(face_id);
        keys.by_ref().take(prefixes_max).for_each(|key| listing.changed(key));
        if keys.next().is_some() {
            listing.restart();
        }
        drop(keys);
        self.listing = listing;
    }

    /// The generation that the complete listing shows; `None` if some hidden routes may be in it.
    pub(crate) fn listed_generation(&self) -> Option<u64> {
        (!self.listing.is_outdated()).then_some(self.generation)
    }

    /// Encodes about `work` bytes of the listing; true if it is complete.
    pub(crate) fn continue_listing(
        &mut self,
        work: usize,
        encode: impl Fn(&mut Vec<u8>, NameRef<'_>, &[Route]),
    ) -> bool {
        let Self { entries, listing, .. } = self;
        let from = |start: &[u8]| {
            let entries = entries.range::<[u8], _>((Bound::Included(start), Bound::Unbounded));
            entries.map(|(key, entry)| (&**key, entry.routes()))
        };
        listing.continue_encoding(work, from, |out, key, routes| {
            encode(out, name(key), routes);
            routes.iter().any(|route| route.expires_at.is_some())
        })
    }

    /// Whether one more route fits, or this one is there already.
    ///
    /// # Errors
    /// [`RibFull`].
    pub fn check_room(
        &self,
        prefix: NameRef<'_>,
        face_id: u64,
        origin: u64,
    ) -> Result<(), RibFull> {
        let has_room = self.route_count < self.routes_max;
        if has_room || self.find(prefix, face_id, origin).is_some() {
            return Ok(());
        }
        Err(RibFull { routes_max: self.routes_max })
    }

    /// Adds a route, or gives the one with the same prefix, face and origin a new cost, flags and
    /// expiry.
    ///
    /// # Errors
    /// [`RibFull`] if the route is new and the limit is reached; nothing is changed then.
    pub fn register(&mut self, prefix: NameRef<'_>, route: Route) -> Result<Registration, RibFull> {
        self.register_by(None, prefix, route)
    }

    /// [`Self::register`] by a principal: what longer prefixes inherit later is passed on in its turns.
    pub(crate) fn register_by(
        &mut self,
        author: Option<PrincipalIndex>,
        prefix: NameRef<'_>,
        route: Route,
    ) -> Result<Registration, RibFull> {
        self.check_room(prefix, route.face_id, route.origin)?;
        let exists = self.find(prefix, route.face_id, route.origin).is_some();
        let key = self.key(prefix);
        let replaced = self.change(&key, (prefix, author), |entry| entry.insert(route));
        self.faces.insert((route.face_id, Arc::clone(&key)));
        if let Some(deadline) = replaced.and_then(|old| old.expires_at) {
            self.deadlines.remove(&(deadline, Arc::clone(&key), route.face_id, route.origin));
        }
        if let Some(deadline) = route.expires_at {
            self.deadlines.insert((deadline, key, route.face_id, route.origin));
        }
        match replaced {
            Some(old) if old == route => {}
            Some(_) => self.journal.note(|| (prefix.to_name(), RouteChange::Changed, route)),
            None => self.journal.note(|| (prefix.to_name(), RouteChange::Added, route)),
        }
        if exists {
            return Ok(Registration::Updated);
        }
        self.route_count += 1;
        Ok(Registration::New)
    }

    /// Removes the route of `prefix` to `face_id` by `origin`; returns it if there was one.
    pub fn unregister(&mut self, prefix: NameRef<'_>, face_id: u64, origin: u64) -> Option<Route> {
        self.find(prefix, face_id, origin)?;
        let key = self.key(prefix);
        let author = self.charge(prefix, face_id, origin).map(|charge| charge.owner);
        let removed = self.change(&key, (prefix, author), |entry| entry.remove(face_id, origin))?;
        self.route_count -= 1;
        self.journal.note(|| (prefix.to_name(), RouteChange::Removed, removed));
        if !self.owners.is_empty() {
            self.owners.end(&(Arc::clone(&key), face_id, origin));
        }
        if let Some(deadline) = removed.expires_at {
            self.deadlines.remove(&(deadline, Arc::clone(&key), face_id, origin));
        }
        if !self.entries.get(&key).is_some_and(|entry| entry.has_face(face_id)) {
            self.faces.remove(&(face_id, key));
        }
        Some(removed)
    }

    /// The charge for a route; `None`: it is an operator's, or there is no such route.
    pub(crate) fn charge(&self, prefix: NameRef<'_>, face_id: u64, origin: u64) -> Option<Charge> {
        if self.owners.is_empty() {
            return None;
        }
        self.owners.find(&(self.key(prefix), face_id, origin))
    }

    /// Sets the charge for a route; `None`: it is an operator's.
    pub(crate) fn set_charge(
        &mut self,
        prefix: NameRef<'_>,
        (face_id, origin): (u64, u64),
        charge: Option<Charge>,
    ) {
        let key = (self.key(prefix), face_id, origin);
        match charge {
            Some(charge) => self.owners.begin(key, charge),
            None => self.owners.end(&key),
        }
    }

    /// Number of routes that are charged to a principal.
    pub(crate) fn charged_count(&self) -> usize {
        self.owners.len()
    }

    /// The charges of routes that have ended since the last call.
    pub(crate) fn take_ended_charges(&mut self) -> Vec<Charge> {
        self.owners.take_ended()
    }

    /// Removes the routes of at most `prefixes_max` prefixes to `face_id`; returns how many there were.
    pub fn remove_face(&mut self, face_id: u64, prefixes_max: usize) -> usize {
        let mut removed = 0;
        // One after the other: collected first, they would be a large piece of memory each time.
        for _ in 0..prefixes_max {
            let Some(key) = self.keys_of(face_id).next().map(Arc::clone) else { break };
            let origins: Vec<u64> = self
                .entries
                .get(&key)
                .map(|entry| {
                    entry
                        .routes()
                        .iter()
                        .filter(|r| r.face_id == face_id)
                        .map(|r| r.origin)
                        .collect()
                })
                .unwrap_or_default();
            for origin in origins {
                removed += usize::from(self.unregister(name(&key), face_id, origin).is_some());
            }
        }
        removed
    }

    /// When the next route expires.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(deadline, ..)| *deadline)
    }

    /// Removes routes whose expiry is `now` or earlier, at most `routes_max` of them; returns how many.
    pub fn handle_timeout(&mut self, now: Timestamp, routes_max: usize) -> usize {
        let mut removed = 0;
        while let Some((deadline, key, face_id, origin)) = self.deadlines.first().cloned() {
            if deadline > now || removed >= routes_max {
                break;
            }
            self.deadlines.pop_first();
            removed += usize::from(self.unregister(name(&key), face_id, origin).is_some());
        }
        removed
    }

    /// Remembers from now on which prefixes change; those that have routes count as changed, and so do
    /// those that have changed and were not taken yet.
    pub fn watch(&mut self) {
        let keys = self.entries.keys().map(Arc::clone);
        self.changed.get_or_insert_default().extend(keys);
    }

    /// Remembers no changes from now on.
    pub fn unwatch(&mut self) {
        self.changed = None;
    }

    /// The prefixes whose own routes have changed since the last call, if they are watched.
    pub fn take_changed(&mut self) -> Vec<Name> {
        let changed = self.changed.as_mut().map(std::mem::take).unwrap_or_default();
        changed.iter().map(|key| name(key).to_name()).collect()
    }

    /// Whether any prefix has changed since then.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.changed.as_ref().is_some_and(|changed| !changed.is_empty())
    }

    /// The routes of `prefix`.
    #[must_use]
    pub fn routes(&self, prefix: NameRef<'_>) -> &[Route] {
        self.entries.get(prefix.value()).map(Entry::routes).unwrap_or_default()
    }

    /// Returns the changes to the FIB since the previous call, in canonical order of prefixes, each prefix at most
    /// once.
    pub fn take_updates(&mut self) -> Vec<FibUpdate> {
        let touched = std::mem::take(&mut self.touched);
        let mut updates = Vec::with_capacity(touched.len());
        for (key, before) in touched {
            let after = self.entries.get(&key).map(Entry::fib_next_hops);
            if after == before {
                continue;
            }
            let prefix = name(&key).to_name();
            updates.push(match after {
                Some(next_hops) => FibUpdate::Set { prefix, next_hops },
                None => FibUpdate::Remove { prefix },
            });
        }
        updates
    }

    /// The key of an existing entry, or a new one.
    pub(crate) fn key(&self, prefix: NameRef<'_>) -> Key {
        match self.entries.get_key_value(prefix.value()) {
            Some((key, _)) => Arc::clone(key),
            None => Arc::from(prefix.value()),
        }
    }

    /// Changes the routes of one prefix and carries the consequences down.
    fn change<T>(
        &mut self,
        key: &Key,
        (prefix, author): (NameRef<'_>, Author),
        change: impl FnOnce(&mut Entry) -> T,
    ) -> T {
        self.generation += 1;
        self.listing.changed(key);
        if let Some(changed) = &mut self.changed {
            changed.insert(Arc::clone(key));
        }
        let inherited = self.inherited(prefix);
        let before = self.entries.get(key).map(Entry::fib_next_hops);
        self.touched.entry(Arc::clone(key)).or_insert(before);

        let entry = self.entries.entry(Arc::clone(key)).or_default();
        let passed_on_before = entry.inheritable(&inherited);
        let result = change(entry);
        let passed_on_after = entry.inheritable(&inherited);
        if entry.routes().is_empty() {
            self.entries.remove(key);
        } else {
            entry.recompute(&inherited);
        }
        let mut faces = changes(&passed_on_before, &passed_on_after);
        // From now on, this entry may hide from longer prefixes what they have not inherited yet.
        for length in (0..prefix.len()).take_while(|_| !self.propagations.is_empty()) {
            if let Some(pending) = self.propagations.get(prefix.prefix(length).value()) {
                faces.extend(pending.faces.iter().chain(&pending.again));
            }
        }
        if !faces.is_empty() {
            self.begin_propagating(key, author, faces);
        }
        result
    }

    /// Whether longer prefixes have not inherited all changes yet.
    #[must_use]
    pub fn is_propagating(&self) -> bool {
        !self.propagations.is_empty()
    }

    /// Whether longer prefixes have not inherited all changes of a principal yet.
    pub(crate) fn has_changes_of(&self, author: PrincipalIndex) -> bool {
        self.turns.has(Some(author))
    }

    /// The principals whose last change longer prefixes have inherited since the last call.
    pub(crate) fn take_ended_authors(&mut self) -> BTreeSet<PrincipalIndex> {
        self.turns.take_ended()
    }

    /// Passes changes on to at most `entries_max` longer prefixes.
    pub fn continue_propagating(&mut self, entries_max: usize) {
        let Some((author, root)) = self.turns.take() else { return };
        let Some(mut propagation) = self.propagations.remove(&root) else { return };
        propagation.turns.remove(&author);
        let Propagation { faces, last, .. } = &propagation;
        match self.propagate(&root, faces, (last, entries_max)) {
            Some(last) => propagation.last = last,
            None if propagation.again.is_empty() => {
                for (author, number) in propagation.turns {
                    self.turns.remove(author, number);
                }
                return;
            }
            None => {
                propagation.faces = std::mem::take(&mut propagation.again);
                propagation.last = Arc::clone(&root);
            }
        }
        propagation.turns.insert(author, self.turns.add(author, Arc::clone(&root)));
        self.propagations.insert(root, propagation);
    }

    fn begin_propagating(&mut self, root: &Key, author: Author, faces: BTreeSet<u64>) {
        if let Some(propagation) = self.propagations.get_mut(root) {
            propagation.again.extend(faces);
            let turns = &mut self.turns;
            propagation.turns.entry(author).or_insert_with(|| turns.add(author, Arc::clone(root)));
        } else if let Some(last) = self.propagate(root, &faces, (root, self.inherited_at_once)) {
            let turns = BTreeMap::from([(author, self.turns.add(author, Arc::clone(root)))]);
            let again = BTreeSet::new();
            let propagation = Propagation { faces, again, last, turns };
            self.propagations.insert(Arc::clone(root), propagation);
        }
    }

    /// The costs of faces that an entry at `prefix` inherits from shorter prefixes.
    fn inherited(&self, prefix: NameRef<'_>) -> FaceCosts {
        let mut costs = FaceCosts::new();
        for length in (0..prefix.len()).rev() {
            let Some(ancestor) = self.entries.get(prefix.prefix(length).value()) else { continue };
            ancestor.add_inheritable(&mut costs);
            if ancestor.has_capture() {
                break;
            }
        }
        costs
    }

    /// Carries what the children of `root` inherit of these faces into its subtree, after the prefix `last`. Returns the
    /// prefix that was visited last, if there are more than `entries_max`.
    fn propagate(
        &mut self,
        root: &Key,
        faces: &BTreeSet<u64>,
        (last, entries_max): (&Key, usize),
    ) -> Option<Key> {
        // The changes that hold below each prefix on the path to the current one.
        let mut path: Vec<(Key, FaceCostChanges)> =
            vec![(Arc::clone(root), self.passed_on(root, faces))];
        let root_length = name(root).len();
        for length in root_length + 1..=name(last).len() {
            let prefix = name(last).prefix(length).value();
            if let Some((key, entry)) = self.entries.get_key_value(prefix) {
                let changes =
                    path.last().map(|(_, changes)| entry.passed_on(changes)).unwrap_or_default();
                path.push((Arc::clone(key), changes));
            }
        }
        let below = (Bound::Excluded(Arc::clone(last)), Bound::Unbounded);
        let (mut count, mut next, mut incomplete) = (0, None, Vec::new());
        let mut next_hops = Vec::new();
        for (key, entry) in self.entries.range_mut::<Key, _>(below) {
            while path.last().is_some_and(|(prefix, _)| !key.starts_with(prefix)) {
                path.pop();
            }
            let Some((_, changes)) = path.last() else { break };
            if !entry.has_capture() && entry.is_affected(changes) {
                let touched = self.touched.entry(Arc::clone(key));
                touched.or_insert_with(|| Some(entry.fib_next_hops()));
                if entry.apply_inherited(changes, &mut next_hops) {
                    incomplete.push(Arc::clone(key));
                    count += RECOMPUTED_COST;
                }
            }
            let passed_on = entry.passed_on(changes);
            if passed_on.len() != changes.len() {
                path.push((Arc::clone(key), passed_on));
            }
            count += 1;
            if count >= entries_max {
                next = Some(Arc::clone(key));
                break;
            }
        }
        for key in incomplete {
            let inherited = self.inherited(name(&key));
            self.entries.get_mut(&key).into_iter().for_each(|entry| entry.recompute(&inherited));
        }
        next
    }

    /// The costs of these faces that the children of `root` inherit.
    fn passed_on(&self, root: &Key, faces: &BTreeSet<u64>) -> FaceCostChanges {
        let inherited = self.inherited(name(root));
        let costs = match self.entries.get(root) {
            Some(entry) => entry.inheritable(&inherited),
            None => inherited,
        };
        faces.iter().map(|face_id| (*face_id, costs.get(face_id).copied())).collect()
    }
}

/// The name whose value was stored as a key; it was valid when it came in.
fn name(key: &[u8]) -> NameRef<'_> {
    NameRef::from_value(key).unwrap_or(NameRef::ROOT)
}

#[cfg(test)]
mod tests;

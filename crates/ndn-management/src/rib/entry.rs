//! One RIB prefix: its routes, the next hops that follow from them, and what longer prefixes
//! inherit.

use std::collections::{BTreeMap, BTreeSet};

use ndn_types::{OneOrMany, Timestamp};

use crate::types::route_flag;

/// A route: Interests under a prefix may be forwarded to a face, at a cost.
/// A prefix holds at most one route per face and origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The next hop.
    pub face_id: u64,
    /// Its origin ([`route_origin`](crate::route_origin)).
    pub origin: u64,
    /// Lower is preferred.
    pub cost: u64,
    /// [`route_flag`] bits.
    pub flags: u64,
    /// Expiry; `None` if it does not expire.
    pub expires_at: Option<Timestamp>,
}

impl Route {
    /// Longer prefixes inherit this route.
    #[must_use]
    pub const fn is_child_inherit(&self) -> bool {
        self.flags & route_flag::CHILD_INHERIT != 0
    }

    /// Whether it has expired.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// The prefix inherits nothing from shorter ones while this route exists.
    #[must_use]
    pub const fn is_capture(&self) -> bool {
        self.flags & route_flag::CAPTURE != 0
    }
}

/// Kind of a change of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteChange {
    /// It is new.
    Added,
    /// It has another cost, other flags or another expiry.
    Changed,
    /// It was removed, or has expired.
    Removed,
}

/// A FIB next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// The face.
    pub face_id: u64,
    /// Lower is preferred.
    pub cost: u64,
}

/// Cost by face, as longer prefixes inherit it.
pub(super) type FaceCosts = BTreeMap<u64, u64>;

/// Changes of an inherited [`FaceCosts`]: the new cost, or `None` where the face is gone.
pub(super) type FaceCostChanges = Vec<(u64, Option<u64>)>;

/// Routes of a prefix that have no room for others beside them: most prefixes have one.
const EXACT_MAX: usize = 4;

/// Maximum number of inherited next hops of an entry of the FIB: the cheapest. Own ones, which are charged to principals,
/// are not limited by it. Without it, some routes of short prefixes would take the memory of any number of entries below.
/// Few in tests, so that random ones exceed it.
pub(super) const INHERITED_MAX: usize = if cfg!(test) { 2 } else { 64 };

/// Maximum number of inherited next hops that an entry remembers: some more, so that when the cheapest ones end, it rarely
/// has to find the next ones among the routes of shorter prefixes.
const REMEMBERED_MAX: usize = INHERITED_MAX + INHERITED_MAX / 2;

#[derive(Debug, Default)]
pub(super) struct Entry {
    routes: Vec<Route>,
    /// The next hops of this prefix: ascending cost; at equal cost own routes first, then by FaceId.
    next_hops: OneOrMany<NextHop>,
    /// Number of own ones among them.
    own_count: u32,
    /// Whether there are inherited next hops that `next_hops` does not have. None of them is cheaper than an inherited one
    /// that it has.
    is_cut: bool,
}

impl Entry {
    pub(super) fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The next hops of this prefix in the FIB: all own ones, and [`INHERITED_MAX`] others.
    pub(super) fn fib_next_hops(&self) -> Vec<NextHop> {
        if self.inherited_count() <= INHERITED_MAX {
            return self.next_hops.to_vec();
        }
        let mut inherited = 0;
        let fits = |hop: &&NextHop| {
            let is_own = self.has_face(hop.face_id);
            inherited += usize::from(!is_own);
            is_own || inherited <= INHERITED_MAX
        };
        self.next_hops.iter().filter(fits).copied().collect()
    }

    pub(super) fn find(&self, face_id: u64, origin: u64) -> Option<&Route> {
        self.routes.iter().find(|route| route.face_id == face_id && route.origin == origin)
    }

    /// Adds the route or replaces the one with its face and origin; returns the replaced one.
    pub(super) fn insert(&mut self, route: Route) -> Option<Route> {
        let existing = self
            .routes
            .iter_mut()
            .find(|other| other.face_id == route.face_id && other.origin == route.origin);
        if let Some(existing) = existing {
            return Some(std::mem::replace(existing, route));
        }
        if self.routes.len() < EXACT_MAX {
            self.routes.reserve_exact(1);
        }
        self.routes.push(route);
        None
    }

    pub(super) fn remove(&mut self, face_id: u64, origin: u64) -> Option<Route> {
        let index = self
            .routes
            .iter()
            .position(|route| route.face_id == face_id && route.origin == origin)?;
        Some(self.routes.remove(index))
    }

    pub(super) fn has_face(&self, face_id: u64) -> bool {
        self.routes.iter().any(|route| route.face_id == face_id)
    }

    pub(super) fn has_capture(&self) -> bool {
        self.routes.iter().any(Route::is_capture)
    }

    pub(super) fn passes_on(&self, face_id: u64) -> bool {
        self.routes.iter().any(|route| route.face_id == face_id && route.is_child_inherit())
    }

    /// Those changes of the inherited costs that longer prefixes inherit, too.
    pub(super) fn passed_on(&self, changes: &FaceCostChanges) -> FaceCostChanges {
        if self.has_capture() {
            return FaceCostChanges::new();
        }
        changes.iter().copied().filter(|&(face_id, _)| !self.passes_on(face_id)).collect()
    }

    /// Adds the own routes that longer prefixes inherit, for the faces that `costs` does not have (the longer prefix
    /// prevails, and within one prefix the lower cost).
    pub(super) fn add_inheritable(&self, costs: &mut FaceCosts) {
        let mut own = FaceCosts::new();
        for route in self.routes.iter().filter(|route| route.is_child_inherit()) {
            lower(&mut own, route);
        }
        for (face_id, cost) in own {
            costs.entry(face_id).or_insert(cost);
        }
    }

    /// The costs that longer prefixes inherit, given those that this entry may inherit.
    pub(super) fn inheritable(&self, inherited: &FaceCosts) -> FaceCosts {
        let mut costs = FaceCosts::new();
        self.add_inheritable(&mut costs);
        if !self.has_capture() {
            for (&face_id, &cost) in inherited {
                costs.entry(face_id).or_insert(cost);
            }
        }
        costs
    }

    /// Computes the next hops: own routes by lowest cost, inherited routes for other faces.
    pub(super) fn recompute(&mut self, inherited: &FaceCosts) {
        let mut own = FaceCosts::new();
        for route in &self.routes {
            lower(&mut own, route);
        }
        let next_hop = |(&face_id, &cost): (&u64, &u64)| NextHop { face_id, cost };
        let mut next_hops: Vec<NextHop> = own.iter().map(next_hop).collect();
        self.own_count = u32::try_from(own.len()).unwrap_or(u32::MAX);
        if !self.has_capture() {
            let others = inherited.iter().filter(|(face_id, _)| !own.contains_key(face_id));
            next_hops.extend(others.map(next_hop));
        }
        // Stable: own routes stay before inherited ones.
        next_hops.sort_by_key(|hop| hop.cost);
        self.is_cut = next_hops.len() - own.len() > REMEMBERED_MAX;
        if self.is_cut {
            let mut inherited = 0;
            next_hops.retain(|hop| {
                let is_own = own.contains_key(&hop.face_id);
                inherited += usize::from(!is_own);
                is_own || inherited <= REMEMBERED_MAX
            });
        }
        self.next_hops = next_hops.into();
    }

    /// Whether a change of the inherited costs changes the next hops of this entry.
    pub(super) fn is_affected(&self, changes: &FaceCostChanges) -> bool {
        changes.iter().any(|&(face_id, _)| !self.has_face(face_id))
    }

    /// Applies changes of the inherited costs; the entry must not capture. Returns whether it remembers too few of them
    /// now: they are to be [computed](Self::recompute). The content of `next_hops` is replaced.
    #[must_use]
    pub(super) fn apply_inherited(
        &mut self,
        changes: &FaceCostChanges,
        next_hops: &mut Vec<NextHop>,
    ) -> bool {
        next_hops.clear();
        next_hops.extend_from_slice(&self.next_hops);
        for &(face_id, cost) in changes {
            if self.has_face(face_id) {
                continue;
            }
            next_hops.retain(|hop| hop.face_id != face_id);
            let Some(cost) = cost else { continue };
            let order = |hop: &NextHop| (hop.cost, !self.has_face(hop.face_id), hop.face_id);
            let hop = NextHop { face_id, cost };
            let at = next_hops.partition_point(|other| order(other) < order(&hop));
            // One that is dearer than those it remembers may be dearer than some that it does not.
            if self.is_cut && self.last_inherited(next_hops).is_none_or(|last| at > last) {
                continue;
            }
            next_hops.insert(at, hop);
            if next_hops.len() - self.own_count as usize > REMEMBERED_MAX
                && let Some(last) = self.last_inherited(next_hops)
            {
                next_hops.remove(last);
                self.is_cut = true;
            }
        }
        self.next_hops.set(next_hops);
        self.is_cut && self.inherited_count() < INHERITED_MAX
    }

    /// Number of inherited next hops that take memory.
    pub(super) fn inherited_count(&self) -> usize {
        self.next_hops.len().saturating_sub(self.own_count as usize)
    }

    /// The position of the dearest inherited next hop that is remembered.
    fn last_inherited(&self, next_hops: &[NextHop]) -> Option<usize> {
        next_hops.iter().rposition(|hop| !self.has_face(hop.face_id))
    }
}

fn lower(costs: &mut FaceCosts, route: &Route) {
    costs
        .entry(route.face_id)
        .and_modify(|cost| *cost = (*cost).min(route.cost))
        .or_insert(route.cost);
}

/// The faces whose costs differ between two inheritances.
pub(super) fn changes(before: &FaceCosts, after: &FaceCosts) -> BTreeSet<u64> {
    let faces = before.keys().chain(after.keys()).copied();
    faces.filter(|face_id| before.get(face_id) != after.get(face_id)).collect()
}

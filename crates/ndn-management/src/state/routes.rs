//! The RIB and the FIB, the removal of routes of destroyed faces and of expired routes, and the FIB updates for the data
//! plane.
//!
//! The removal of a million routes takes seconds. It is done in slices, between which management serves other requests;
//! the principals whose faces were destroyed take turns. Datasets do not show what remains to be removed, but for next hops of
//! expired routes. The data plane sends nothing to a destroyed face, because it knows by itself which faces exist; a shorter
//! prefix is found in place of its next hops, and routes of other faces are inherited past them, when they are removed. An
//! expired route is in use until the version of the FIB that is published after its slice.
//!
//! A route with CHILD_INHERIT changes the next hops of all longer prefixes. The first thousand of them change at once, the
//! others in slices; the answer to the command does not wait for these.

use std::collections::{BTreeMap, BTreeSet};

use ndn_packet::{Name, NameRef};
use ndn_types::{LedgerReport, PrincipalIndex, PrincipalKey, Timestamp};

use super::action::Action;
use super::config::ControlConfig;
use super::removal_turns::{RemovalTurns, TURN_PREFIXES};
use crate::fib::{Fib, FibFull};
use crate::range::NameRange;
use crate::response::{ControlResponse, status};
use crate::rib::{FibUpdate, NextHop, Rib, RibFull, Route};
use crate::share::{Share, ShareUsedUp, places};
use crate::types::PREFIX_DEPTH_MAX;

/// Prefixes per slice: 5 to 10 ms of work.
pub(super) const SLICE_PREFIXES: usize = TURN_PREFIXES;
/// Slices of expired routes per version of the FIB. The routes are in use until then, less than a second; each version
/// copies what differs from the previous one.
pub(super) const SLICES_PER_VERSION: usize = 64;
/// Maximum number of routes, or of next hops of `fib/*` commands, of one prefix that principals other than operators hold: a
/// change of one of them takes time in proportion to their number, and is inherited by all longer prefixes.
const ROUTES_PER_PREFIX_MAX: usize = 256;
/// Those of one principal.
const OWN_ROUTES_PER_PREFIX_MAX: usize = 16;
/// Prefixes that are removed at once when faces are destroyed, before management serves others again. Further ones follow in
/// slices: a user may close very many faces at a time.
pub(super) const AT_ONCE_MAX: usize = 4 * SLICE_PREFIXES;
/// Entries of a table that are marked at once, when a face is destroyed, to be encoded again without it: less work than a
/// slice. If there are more, the table is encoded again from its beginning, once in a version: this one may show some next hops
/// of a second such face.
pub(super) const HIDDEN_AT_ONCE: usize = 64 * SLICE_PREFIXES;
/// Slices that one command waits for when a table is full: some tenths of a second.
pub(super) const ROOM_SLICES_MAX: usize = 32;

/// The reason why a route is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The face does not exist.
    #[error("face {0} does not exist")]
    NoFace(u64),
    /// The prefix has more than [`PREFIX_DEPTH_MAX`] components.
    #[error("route prefix cannot exceed {PREFIX_DEPTH_MAX} components")]
    PrefixTooLong,
    /// The RIB is full.
    #[error(transparent)]
    RibFull(#[from] RibFull),
    /// The FIB is full.
    #[error(transparent)]
    FibFull(#[from] FibFull),
    /// The prefix has enough routes of principals that are no operators.
    #[error(
        "the prefix has {all} routes, {own} of this requester; only operators add further ones"
    )]
    PrefixFull {
        /// Number of routes of the principal.
        own: usize,
        /// Number of routes of all principals that are no operators.
        all: usize,
    },
    /// The prefix is for operators.
    #[error("only operators add routes of the routing daemon")]
    ForOperators,
    /// The principal has its share of the routes.
    #[error(transparent)]
    ShareUsedUp(#[from] ShareUsedUp),
}

impl RouteError {
    /// The answer to a command that adds a route or a next hop, of which `prefix` is the name of the prefix.
    pub(super) fn response(&self, prefix: &str) -> ControlResponse {
        match self {
            Self::PrefixTooLong => ControlResponse::new(
                status::NAME_TOO_LONG,
                format!("{prefix} cannot exceed {PREFIX_DEPTH_MAX} components"),
            ),
            Self::NoFace(_) => ControlResponse::new(status::GONE, "Face not found"),
            Self::RibFull(_)
            | Self::FibFull(_)
            | Self::PrefixFull { .. }
            | Self::ForOperators
            | Self::ShareUsedUp(_) => {
                ControlResponse::new(status::INTERNAL_ERROR, self.to_string())
            }
        }
    }
}

ndn_types::resource! {
    /// Routes, and next hops of `fib/*` commands, which principals share: as many as the FIB has entries.
    pub struct RoutePlaces = "routes";
}

/// Routes and next hops that remain to be removed.
#[derive(Debug, Default)]
pub(super) struct Removals {
    turns: RemovalTurns,
    /// All faces of `turns`.
    pub(super) faces: BTreeSet<u64>,
    /// Prefixes removed at once since the last slice.
    at_once: usize,
    /// Routes whose expiry is this time or earlier remain.
    expired_at: Option<Timestamp>,
    /// Slices of expired routes since the last version that was requested because of them.
    expired_slices: usize,
}

impl Removals {
    /// Whether a face was destroyed, and routes or next hops of it may remain.
    pub(super) fn has(&self, face_id: u64) -> bool {
        !self.faces.is_empty() && self.faces.contains(&face_id)
    }

    /// Whether a route is one of those that remain to be removed.
    fn has_route(&self, route: &Route) -> bool {
        self.has(route.face_id) || self.expired_at.is_some_and(|now| route.is_over(now))
    }

    /// The routes that datasets and parts of tables show at this time.
    pub(super) fn shown_routes<'a>(
        &self,
        now: Timestamp,
        routes: &'a [Route],
    ) -> impl Iterator<Item = &'a Route> {
        routes.iter().filter(move |route| !self.has(route.face_id) && !route.is_over(now))
    }

    /// The next hops that datasets and parts of tables show.
    pub(super) fn shown_next_hops<'a>(
        &self,
        next_hops: &'a [NextHop],
    ) -> impl Iterator<Item = &'a NextHop> {
        next_hops.iter().filter(|hop| !self.has(hop.face_id))
    }
}

/// A route of a prefix, or a next hop of `fib/*` commands, that a principal holds.
#[derive(Debug, Clone, Copy)]
struct Charged {
    owner: PrincipalIndex,
    face_id: u64,
    /// `None`: a next hop.
    origin: Option<u64>,
    /// It remains to be removed.
    is_ending: bool,
}

/// Whether a principal may add one to a prefix that has these.
fn check_charged(owner: PrincipalIndex, charged: &[Charged]) -> Result<(), RouteError> {
    let own = charged.iter().filter(|one| one.owner == owner).count();
    let all = charged.len();
    // The second half is for principals that have none.
    let limit = if own > 0 { ROUTES_PER_PREFIX_MAX / 2 } else { ROUTES_PER_PREFIX_MAX };
    if own >= OWN_ROUTES_PER_PREFIX_MAX || all >= limit {
        return Err(RouteError::PrefixFull { own, all });
    }
    Ok(())
}

/// RIB, FIB and the updates of the data plane's FIB.
#[derive(Debug)]
pub(super) struct RoutingTables {
    pub(super) rib: Rib,
    pub(super) fib: Fib,
    pub(super) removals: Removals,
    share: Share<RoutePlaces>,
    /// Principals whose routes have ended while their changes are passed on. No newcomer gets the index of one: it would get
    /// its turns, too.
    leaving: BTreeSet<PrincipalIndex>,
    /// Number of routes that fit into the RIB beside one for each FIB entry.
    spare_routes: usize,
    updates: BTreeMap<Name, FibUpdate>,
    /// A command waits for one of the updates, or for one that was passed on before.
    is_awaited: bool,
    /// Updates were passed on for which no command waited.
    is_unpublished: bool,
}

impl RoutingTables {
    pub(super) fn new(config: &ControlConfig) -> Self {
        let (routes_max, entries_max) = (config.rib_routes_max, config.fib_entries_max);
        let places = (routes_max.min(entries_max), config.routes_per_principal_max);
        Self {
            rib: Rib::new(routes_max),
            fib: Fib::new(entries_max),
            removals: Removals::default(),
            share: Share::new(RoutePlaces, places, config.reserves),
            leaving: BTreeSet::new(),
            spare_routes: routes_max.saturating_sub(entries_max),
            updates: BTreeMap::new(),
            is_awaited: false,
            is_unpublished: false,
        }
    }

    /// Plants a fault: routes are first come, first served.
    #[cfg(feature = "planted-faults")]
    pub(super) fn stop_sharing(&mut self) {
        self.share.stop_sharing();
    }

    /// Plants a fault: a route is charged, and never given back.
    #[cfg(feature = "planted-faults")]
    pub(super) fn leak_charge(&mut self) {
        let _ = self.share.charge(PrincipalKey::OTHER, 1);
    }

    /// Adds or changes a route; its face exists. A new one is charged to `owner`, unless an operator adds it (`None`). A
    /// route that an operator changes is the operator's.
    pub(super) fn add_route(
        &mut self,
        prefix: NameRef<'_>,
        route: Route,
        owner: Option<PrincipalKey>,
    ) -> Result<(), RouteError> {
        let Route { face_id, origin, .. } = route;
        self.make_room(None, |tables| tables.rib.check_room(prefix, face_id, origin).is_err());
        self.check_room(prefix)?;
        let charged = owner.filter(|_| self.rib.find(prefix, face_id, origin).is_none());
        if let Some(principal) = charged {
            self.check_prefix(principal, prefix, self.charged_routes(prefix))?;
            self.check_share(principal, prefix)?;
        }
        let charge = charged.map(|principal| self.share.charge(principal, places(prefix)));
        let of_owner =
            owner.and_then(|_| charge.or_else(|| self.rib.charge(prefix, face_id, origin)));
        let author = of_owner.map(|charge| charge.owner);
        if let Err(full) = self.rib.register_by(author, prefix, route) {
            charge.into_iter().for_each(|charge| self.share.release(charge));
            return Err(full.into());
        }
        if charged.is_some() || owner.is_none() {
            self.rib.set_charge(prefix, (face_id, origin), charge);
        }
        self.rib_changed();
        self.release_ended();
        Ok(())
    }

    /// Removes a route; returns whether it existed.
    pub(super) fn remove_route(&mut self, prefix: NameRef<'_>, face_id: u64, origin: u64) -> bool {
        let removed = self.rib.unregister(prefix, face_id, origin).is_some();
        self.rib_changed();
        self.release_ended();
        removed
    }

    /// Adds a next hop to the FIB alone, or changes its cost; its face exists. It is charged as a route is.
    pub(super) fn add_next_hop(
        &mut self,
        prefix: &Name,
        next_hop: NextHop,
        owner: Option<PrincipalKey>,
    ) -> Result<(), RouteError> {
        self.check_room(prefix.as_ref())?;
        let face_id = next_hop.face_id;
        let exists = |hop: &NextHop| hop.face_id == face_id;
        let others = self.fib.find(prefix.as_ref()).unwrap_or_default();
        let charged = owner.filter(|_| !others.iter().any(exists));
        if let Some(principal) = charged {
            let others = self.charged_next_hops(prefix.as_ref());
            self.check_prefix(principal, prefix.as_ref(), others)?;
            self.check_share(principal, prefix.as_ref())?;
        }
        if let Some(update) = self.fib.add_next_hop(prefix, next_hop)? {
            self.fib_changed(update);
        }
        if charged.is_some() || owner.is_none() {
            let places = places(prefix.as_ref());
            let charge = charged.map(|principal| self.share.charge(principal, places));
            self.fib.set_charge(prefix, face_id, charge);
        }
        self.release_ended();
        Ok(())
    }

    /// Removes a next hop from the FIB alone.
    pub(super) fn remove_next_hop(&mut self, prefix: &Name, face_id: u64) {
        if let Some(update) = self.fib.remove_next_hop(prefix, face_id) {
            self.fib_changed(update);
        }
        self.release_ended();
    }

    /// Removes the routes and next hops of a range whose owner and face fit. Returns the prefix, the face and, of a route,
    /// the origin of each.
    pub(super) fn remove_range(
        &mut self,
        range: &NameRange,
        fits: impl Fn(Option<PrincipalKey>, u64) -> bool,
    ) -> Vec<(Name, u64, Option<u64>)> {
        let mut removed = Vec::new();
        for (prefix, routes) in self.rib.range(range) {
            let owner = |route: &Route| self.route_owner(prefix, route.face_id, route.origin);
            let ending = routes.iter().filter(|route| fits(owner(route), route.face_id));
            removed.extend(ending.map(|it| (prefix.to_name(), it.face_id, Some(it.origin))));
        }
        for (prefix, hops) in self.fib.range(range) {
            let prefix = prefix.to_name();
            let is_own =
                |hop: &NextHop| self.fib.own_next_hop(prefix.as_ref(), hop.face_id).is_some();
            let fits = |hop: &NextHop| fits(self.next_hop_owner(&prefix, hop.face_id), hop.face_id);
            let ending = hops.iter().filter(|hop| is_own(hop) && fits(hop));
            removed.extend(ending.map(|hop| (prefix.clone(), hop.face_id, None)));
        }
        for (prefix, face_id, origin) in &removed {
            match origin {
                Some(origin) => {
                    self.remove_route(prefix.as_ref(), *face_id, *origin);
                }
                None => self.remove_next_hop(prefix, *face_id),
            }
        }
        removed
    }

    /// Returns the routes that each principal holds.
    pub(super) fn report(&self) -> LedgerReport<1> {
        self.share.report()
    }

    /// The principal that holds a route; `None`: an operator.
    pub(super) fn route_owner(
        &self,
        prefix: NameRef<'_>,
        face_id: u64,
        origin: u64,
    ) -> Option<PrincipalKey> {
        let charge = self.rib.charge(prefix, face_id, origin)?;
        Some(self.share.principal(charge))
    }

    /// The principal that holds a next hop of `fib/*` commands; `None`: an operator.
    pub(super) fn next_hop_owner(&self, prefix: &Name, face_id: u64) -> Option<PrincipalKey> {
        let charge = self.fib.charge(prefix, face_id)?;
        Some(self.share.principal(charge))
    }

    /// The routes of a prefix that are charged.
    fn charged_routes(&self, prefix: NameRef<'_>) -> Vec<Charged> {
        let charged = |route: &Route| {
            let Route { face_id, origin, .. } = *route;
            let charge = self.rib.charge(prefix, face_id, origin)?;
            let is_ending = self.removals.has_route(route);
            Some(Charged { owner: charge.owner, face_id, origin: Some(origin), is_ending })
        };
        self.rib.routes(prefix).iter().filter_map(charged).collect()
    }

    /// The next hops of `fib/*` commands of a prefix that are charged.
    fn charged_next_hops(&self, prefix: NameRef<'_>) -> Vec<Charged> {
        let (next_hops, prefix) = (self.fib.find(prefix).unwrap_or_default(), prefix.to_name());
        let charged = |&NextHop { face_id, .. }: &NextHop| {
            let owner = self.fib.charge(&prefix, face_id)?.owner;
            Some(Charged { owner, face_id, origin: None, is_ending: self.removals.has(face_id) })
        };
        next_hops.iter().filter_map(charged).collect()
    }

    /// Whether a prefix has room for what a principal adds beside these. Of those that remain to be removed, no more than it takes
    /// are removed.
    fn check_prefix(
        &mut self,
        principal: PrincipalKey,
        prefix: NameRef<'_>,
        mut charged: Vec<Charged>,
    ) -> Result<(), RouteError> {
        let owner = self.share.index_of(principal);
        // The principal's own ones make most room.
        charged.sort_by_key(|one| (!one.is_ending, one.owner != owner));
        let ending_count = charged.partition_point(|one| one.is_ending);
        check_charged(owner, &charged[ending_count..])?;
        let needed =
            (0..ending_count).find(|count| check_charged(owner, &charged[*count..]).is_ok());
        charged.truncate(needed.unwrap_or(ending_count));
        self.remove_charged(prefix, &charged);
        Ok(())
    }

    fn remove_charged(&mut self, prefix: NameRef<'_>, charged: &[Charged]) {
        if charged.is_empty() {
            return;
        }
        for Charged { face_id, origin, .. } in charged {
            if let Some(origin) = origin {
                self.rib.unregister(prefix, *face_id, *origin);
            } else if let Some(update) = self.fib.remove_next_hop(&prefix.to_name(), *face_id) {
                self.push_update(update);
            }
        }
        self.apply_rib_updates();
        self.release_ended();
    }

    /// Whether a principal may hold one more route of this prefix; removals that are in progress make room.
    fn check_share(
        &mut self,
        principal: PrincipalKey,
        prefix: NameRef<'_>,
    ) -> Result<(), RouteError> {
        let places = places(prefix);
        // What ends of its own counts for its share.
        let of = Some(principal.account());
        self.make_room(of, |tables| tables.share.check(principal, places).is_err());
        Ok(self.share.check(principal, places)?)
    }

    /// Gives back what has ended, and notes what operators hold.
    fn release_ended(&mut self) {
        let ended = self.rib.take_ended_charges().into_iter();
        for charge in ended.chain(self.fib.take_ended_charges()) {
            if self.rib.has_changes_of(charge.owner) && self.leaving.insert(charge.owner) {
                self.share.keep_index(charge.owner);
            }
            self.share.release(charge);
        }
        for principal in self.rib.take_ended_authors() {
            if self.leaving.remove(&principal) {
                self.share.release_index(principal);
            }
        }
        let routes = self.rib.route_count().saturating_sub(self.spare_routes);
        let used = routes.max(self.fib.len());
        let of_others = self.rib.charged_count() + self.fib.charged_count();
        self.share.set_operators(used.saturating_sub(of_others));
    }

    /// A command waits for the updates so far, which a slice of a removal may have made.
    pub(super) const fn await_updates(&mut self) {
        self.is_awaited = true;
    }

    /// Whether routes or next hops of destroyed faces, or expired routes, remain.
    pub(super) fn is_removing(&self) -> bool {
        !self.removals.faces.is_empty() || self.removals.expired_at.is_some()
    }

    /// Removes the routes and next hops of a destroyed face of a principal, or begins to.
    pub(super) fn face_destroyed(&mut self, face_id: u64, principal: PrincipalKey) {
        let left = AT_ONCE_MAX.saturating_sub(self.removals.at_once).min(SLICE_PREFIXES);
        let (removed, is_done) = self.remove_prefixes(face_id, left);
        self.removals.at_once += removed;
        if is_done {
            // Whatever else is being removed, the prefixes that this face hid are to be found.
            self.is_awaited = true;
        } else {
            self.removals.faces.insert(face_id);
            self.removals.turns.add(principal.account(), face_id);
            self.rib.hide(face_id, HIDDEN_AT_ONCE);
            self.fib.hide(face_id, HIDDEN_AT_ONCE);
        }
        self.release_ended();
    }

    /// Marks the routes whose expiry is `now` or earlier for removal.
    pub(super) fn expire_routes(&mut self, now: Timestamp) {
        if self.rib.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.removals.expired_at = Some(now);
        }
    }

    /// Removes one slice of expired routes and one of the routes and next hops of destroyed faces.
    pub(super) fn continue_removing(&mut self) {
        self.continue_removing_of(None);
    }

    /// As [`Self::continue_removing`], preferably of a face of this principal.
    fn continue_removing_of(&mut self, principal: Option<PrincipalKey>) {
        self.remove_expired();
        let mut left = SLICE_PREFIXES;
        while left > 0
            && let Some(turn) = self.removals.turns.next(principal)
        {
            let (removed, is_done) = self.remove_prefixes(turn.face_id, left.min(turn.left));
            left -= removed;
            self.removals.turns.removed(turn.account, removed, is_done);
            if is_done {
                self.removals.faces.remove(&turn.face_id);
                self.is_awaited = true;
            }
        }
        self.release_ended();
    }

    /// Whether routes or next hops remain to be removed, or to be inherited.
    pub(super) fn is_changing(&self) -> bool {
        self.is_removing() || self.rib.is_propagating()
    }

    /// Continues what takes long: removes a slice of routes, and lets a slice of prefixes inherit what has changed.
    pub(super) fn continue_changing(&mut self) {
        self.removals.at_once = 0;
        if self.is_removing() {
            self.continue_removing();
        }
        if self.rib.is_propagating() {
            self.rib.continue_propagating(SLICE_PREFIXES);
            self.apply_rib_updates();
            self.is_awaited |= !self.rib.is_propagating();
            self.release_ended();
        }
    }

    /// The next deadline; [`Timestamp::ZERO`] while routes are being removed or inherited.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        if self.is_changing() { Some(Timestamp::ZERO) } else { self.rib.next_deadline() }
    }

    /// The FIB updates since the last call, in one batch.
    pub(super) fn poll_updates(&mut self) -> Option<Action> {
        let is_awaited = std::mem::take(&mut self.is_awaited) || !self.is_changing();
        if self.updates.is_empty() && !(is_awaited && self.is_unpublished) {
            return None;
        }
        let updates = std::mem::take(&mut self.updates).into_values().collect();
        self.is_unpublished = !is_awaited;
        Some(Action::UpdateFib { updates, is_awaited })
    }

    /// Whether one more prefix fits into the FIB; removals that are in progress make room.
    fn check_room(&mut self, prefix: NameRef<'_>) -> Result<(), FibFull> {
        self.make_room(None, |tables| tables.fib.check_room(prefix).is_err());
        self.fib.check_room(prefix)
    }

    /// Removes slices, those of a principal first, until there is room, nothing remains or [`ROOM_SLICES_MAX`] are done.
    fn make_room(
        &mut self,
        principal: Option<PrincipalKey>,
        mut is_full: impl FnMut(&mut Self) -> bool,
    ) {
        for _ in 0..ROOM_SLICES_MAX {
            if !self.is_removing() || !is_full(self) {
                break;
            }
            self.continue_removing_of(principal);
        }
    }

    fn remove_expired(&mut self) {
        let Some(now) = self.removals.expired_at.take() else { return };
        self.rib.handle_timeout(now, SLICE_PREFIXES);
        self.apply_rib_updates();
        self.removals.expired_slices += 1;
        self.expire_routes(now);
        if self.removals.expired_at.is_none() || self.removals.expired_slices >= SLICES_PER_VERSION
        {
            self.removals.expired_slices = 0;
            self.is_awaited = true;
        }
    }

    /// Removes the routes and next hops of at most `prefixes_max` prefixes to a face. Returns the number of these, and whether
    /// none remains.
    fn remove_prefixes(&mut self, face_id: u64, prefixes_max: usize) -> (usize, bool) {
        for removed in 0..prefixes_max {
            if self.rib.remove_face(face_id, 1) > 0 {
                self.apply_rib_updates();
            } else if let Some(update) = self.fib.remove_first(face_id) {
                // A next hop that is not of the RIB.
                self.push_update(update);
            } else {
                return (removed, true);
            }
        }
        (prefixes_max, !self.rib.has_face(face_id) && !self.fib.has_face(face_id))
    }

    /// Applies the changes of the RIB to the FIB; a command waits for them.
    pub(super) fn rib_changed(&mut self) {
        self.is_awaited |= self.apply_rib_updates();
    }

    /// Applies the changes of the RIB to the FIB; true if the FIB has changed.
    fn apply_rib_updates(&mut self) -> bool {
        let mut is_changed = false;
        for update in self.rib.take_updates() {
            if let Some(update) = self.fib.apply(update, &self.rib) {
                self.push_update(update);
                is_changed = true;
            }
        }
        is_changed
    }

    fn fib_changed(&mut self, update: FibUpdate) {
        self.is_awaited = true;
        self.push_update(update);
    }

    fn push_update(&mut self, update: FibUpdate) {
        let prefix = match &update {
            FibUpdate::Set { prefix, .. } | FibUpdate::Remove { prefix } => prefix.clone(),
        };
        self.updates.insert(prefix, update);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::testing::name;
    use crate::types::{route_flag, route_origin};

    /// The next user would wait for all that the former one has set off.
    #[test]
    fn newcomer_does_not_get_the_turns_of_a_principal_that_has_left() {
        const ROOTS: u64 = 10;
        const SLICES: usize = 20;
        // Those that inherit a change at once, and others.
        const BELOW: usize = 1024 + SLICES * SLICE_PREFIXES;
        let mut tables = RoutingTables::new(&ControlConfig::default());
        let user = |uid| Some(PrincipalKey::LocalApplication { uid, pid: 0 });
        let root = |number: u64| name(&format!("/{number}"));
        let route = |face_id, flags| {
            let (origin, cost, expires_at) = (route_origin::APP, 1, None);
            Route { face_id, origin, cost, flags, expires_at }
        };
        let inherited = |face_id| route(face_id, route_flag::CHILD_INHERIT);
        let finish = |tables: &mut RoutingTables| {
            while tables.is_changing() {
                tables.continue_changing();
            }
        };
        for prefix in (0..=ROOTS).flat_map(|root| (0..BELOW).map(move |n| format!("/{root}/{n}"))) {
            tables.add_route(name(&prefix).as_ref(), route(300, 0), None).unwrap();
        }
        for number in 0..ROOTS {
            tables.add_route(root(number).as_ref(), inherited(400), user(1)).unwrap();
        }
        finish(&mut tables);
        for number in 0..ROOTS {
            tables.remove_route(root(number).as_ref(), 400, route_origin::APP);
        }
        tables.add_route(root(ROOTS).as_ref(), inherited(401), user(2)).unwrap();
        (0..2 * SLICES + 1).for_each(|_| tables.continue_changing());
        let last = name(&format!("/{ROOTS}/{}", BELOW - 1));
        assert_eq!(tables.fib.find(last.as_ref()).map(<[NextHop]>::len), Some(2));
        assert!(tables.is_changing(), "those of the first are not complete");
        finish(&mut tables);
        let report = tables.report();
        let users = report.principals.iter().filter(|one| one.key == user(1).unwrap());
        assert_eq!((users.count(), tables.leaving.len()), (0, 0));
    }
}

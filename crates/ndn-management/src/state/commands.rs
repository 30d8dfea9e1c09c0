//! Carrying out commands, and the same operations for the forwarder's own configuration.

use ndn_packet::{Name, NameRef};

use super::pending::{Pending, Work};
use super::{
    Action, ControlState, CsConfiguration, Executing, FaceSpecification, Handled, Outcome, Ticket,
};
use crate::announcement::ANNOUNCEMENT_COST;
use crate::authorize::Authorizer;
use crate::request::{AcceptedCommand, Request, success_text};
use crate::response::{ControlResponse, status};
use crate::rib::{NextHop, Route};
use crate::types::{
    CS_ERASE_LIMIT, FACE_ID_INTERNAL, PREFIX_DEPTH_MAX, cs_flag, route_flag, route_origin,
};
use crate::{ControlParameters, FibFull, Now, PrefixAnnouncement, RibFull, TopPrefix};

/// Why a route was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// There is no such face.
    #[error("face {0} does not exist")]
    NoFace(u64),
    /// The prefix has more than [`PREFIX_DEPTH_MAX`] components.
    #[error("route prefix cannot exceed {PREFIX_DEPTH_MAX} components")]
    PrefixTooLong,
    /// No room for another route.
    #[error(transparent)]
    RibFull(#[from] RibFull),
    /// No room for another FIB entry.
    #[error(transparent)]
    FibFull(#[from] FibFull),
}

/// What management's own prefixes are routed by.
const MANAGEMENT_ROUTE: Route = Route {
    face_id: FACE_ID_INTERNAL,
    origin: route_origin::APP,
    cost: 0,
    flags: route_flag::CHILD_INHERIT,
    expires_at_ns: None,
};

impl ControlState {
    /// Routes `/localhost/nfd`, and `/localhop/nfd` if that is enabled, to management's own face, as
    /// NFD does at start.
    ///
    /// # Errors
    /// [`RouteError`] if the tables have no room at all.
    pub fn register_management(&mut self) -> Result<(), RouteError> {
        self.register_top_prefixes(self.collaborators.authorizer.is_localhop_enabled())
    }

    fn register_top_prefixes(&mut self, is_localhop_enabled: bool) -> Result<(), RouteError> {
        self.add_route(TopPrefix::Localhost.to_name().as_ref(), MANAGEMENT_ROUTE)?;
        if is_localhop_enabled {
            self.add_route(TopPrefix::Localhop.to_name().as_ref(), MANAGEMENT_ROUTE)?;
        }
        Ok(())
    }

    /// Asks `authorizer` about commands from now on. `/localhop/nfd` comes and goes with it.
    ///
    /// # Errors
    /// [`RouteError`] if there is no room for management's routes; the one before stays in charge then.
    pub fn set_authorizer(
        &mut self,
        authorizer: Box<dyn Authorizer + Send>,
    ) -> Result<(), RouteError> {
        let is_localhop_enabled = authorizer.is_localhop_enabled();
        self.register_top_prefixes(is_localhop_enabled)?;
        if !is_localhop_enabled {
            let localhop = TopPrefix::Localhop.to_name();
            self.remove_route(localhop.as_ref(), FACE_ID_INTERNAL, route_origin::APP);
        }
        self.collaborators.authorizer = authorizer;
        Ok(())
    }

    pub(super) fn execute(
        &mut self,
        executing: Executing<'_>,
        command: AcceptedCommand,
    ) -> Handled {
        let success = command.success();
        let AcceptedCommand { verb, request, parameters, signer } = command;
        // What it asks for may have come about in a slice of a removal for which nobody waited until now.
        self.is_awaited |= request.is_about_next_hops();
        let outcome = match request {
            // NFD lets a next hop of its own be removed, and answers nobody from then on.
            request if request.is_about_management() => {
                Outcome::reply(status::CONFLICT, "Management's own route cannot be changed")
            }
            Request::FaceCreate { remote, local, persistency, options } => {
                let specification = FaceSpecification { remote, local, persistency, options };
                self.create_face(executing, specification)
            }
            Request::FaceUpdate { face_id, persistency, options } => {
                self.update_face(face_id, persistency, options)
            }
            Request::FaceDestroy { face_id } => self.destroy_face(face_id, success),
            Request::FibAddNextHop { prefix, face_id, cost } => {
                self.fib_add_next_hop(&prefix, NextHop { face_id, cost }, success)
            }
            Request::FibRemoveNextHop { prefix, face_id } => {
                if let Some(update) = self.fib.remove_next_hop(&prefix, face_id) {
                    self.fib_changed(update);
                }
                self.actions.push_back(Action::ForgetRoute { prefix, face_id, origin: None });
                Outcome::Reply(success)
            }
            Request::CsConfig { capacity, admit, serve } => self.cs_config(capacity, admit, serve),
            Request::CsErase { prefix, count } => self.cs_erase(executing, prefix, count),
            Request::StrategySet { prefix, strategy } => {
                self.strategy_set(&prefix, strategy.as_ref(), parameters, success_text(verb))
            }
            Request::StrategyUnset { prefix } => {
                self.unset_strategy(&prefix);
                Outcome::Reply(success)
            }
            Request::RibRegister { prefix, face_id, origin, cost, flags, expiration_period_ms } => {
                let expires_at_ns = expiration_period_ms
                    .and_then(|period_ms| period_ms.checked_mul(1_000_000))
                    .and_then(|period_ns| executing.now.monotonic_ns.checked_add(period_ns));
                let route = Route { face_id, origin, cost, flags, expires_at_ns };
                self.rib_register(executing.now, prefix.as_ref(), route, success)
            }
            Request::RibUnregister { prefix, face_id, origin } => {
                self.take_route_back(prefix.as_ref(), face_id, origin);
                Outcome::Reply(success)
            }
            Request::RibAnnounce { face_id, announcement } => {
                self.rib_announce(executing.now, face_id, &announcement, success)
            }
        };
        self.counters.commands += 1;
        match outcome {
            Outcome::Deferred => Handled::Command { verb, signer, code: None },
            Outcome::Reply(response) => {
                self.respond(executing.name, &response);
                Handled::Command { verb, signer, code: Some(response.code) }
            }
        }
    }

    /// Adds or changes a route.
    ///
    /// # Errors
    /// [`RouteError`]; nothing is changed then.
    pub fn add_route(&mut self, prefix: NameRef<'_>, route: Route) -> Result<(), RouteError> {
        if prefix.len() > PREFIX_DEPTH_MAX {
            return Err(RouteError::PrefixTooLong);
        }
        if self.faces.get(route.face_id).is_none() {
            return Err(RouteError::NoFace(route.face_id));
        }
        let Route { face_id, origin, .. } = route;
        self.make_room(|state| state.rib.check_room(prefix, face_id, origin).is_err());
        self.check_room(prefix)?;
        self.rib.register(prefix, route)?;
        self.rib_changed();
        Ok(())
    }

    /// Whether one more prefix fits; what is to be removed anyway makes room.
    fn check_room(&mut self, prefix: NameRef<'_>) -> Result<(), FibFull> {
        self.make_room(|state| state.fib.check_room(prefix).is_err());
        self.fib.check_room(prefix)
    }

    /// Removes a route; tells whether there was one.
    pub fn remove_route(&mut self, prefix: NameRef<'_>, face_id: u64, origin: u64) -> bool {
        let removed = self.rib.unregister(prefix, face_id, origin).is_some();
        self.rib_changed();
        removed
    }

    /// Removes a route for somebody who may mean one of a face that is away, or that has come back and has
    /// not got the older one of this prefix yet.
    fn take_route_back(&mut self, prefix: NameRef<'_>, face_id: u64, origin: u64) {
        self.remove_route(prefix, face_id, origin);
        let (prefix, origin) = (prefix.to_name(), Some(origin));
        self.actions.push_back(Action::ForgetRoute { prefix, face_id, origin });
    }

    fn rib_register(
        &mut self,
        now: Now,
        prefix: NameRef<'_>,
        route: Route,
        success: ControlResponse,
    ) -> Outcome {
        // A period of zero ends an existing route and makes no new one.
        if route.expires_at_ns.is_some_and(|at| at <= now.monotonic_ns)
            && prefix.len() <= PREFIX_DEPTH_MAX
        {
            self.take_route_back(prefix, route.face_id, route.origin);
            return Outcome::Reply(success);
        }
        match self.add_route(prefix, route) {
            // The answer is given before the face is known to exist; if it does not, there is no route.
            Ok(()) | Err(RouteError::NoFace(_)) => Outcome::Reply(success),
            Err(RouteError::PrefixTooLong) => Outcome::reply(
                status::NAME_TOO_LONG,
                format!("Route prefix cannot exceed {PREFIX_DEPTH_MAX} components"),
            ),
            Err(error @ (RouteError::RibFull(_) | RouteError::FibFull(_))) => {
                Outcome::reply(status::INTERNAL_ERROR, error.to_string())
            }
        }
    }

    fn rib_announce(
        &mut self,
        now: Now,
        face_id: u64,
        announcement: &PrefixAnnouncement,
        success: ControlResponse,
    ) -> Outcome {
        let Some(expires_at_ns) = announcement.expires_at_ns(now) else {
            let text = "Prefix announcement is not valid at this time";
            return Outcome::reply(status::NOT_ACCEPTABLE, text);
        };
        let route = Route {
            face_id,
            origin: route_origin::PREFIX_ANNOUNCEMENT,
            cost: ANNOUNCEMENT_COST,
            flags: 0,
            expires_at_ns: Some(expires_at_ns),
        };
        self.rib_register(now, announcement.prefix.as_ref(), route, success)
    }

    fn fib_add_next_hop(
        &mut self,
        prefix: &Name,
        next_hop: NextHop,
        success: ControlResponse,
    ) -> Outcome {
        match self.add_next_hop(prefix, next_hop) {
            Ok(()) => Outcome::Reply(success),
            Err(RouteError::PrefixTooLong) => {
                let text = format!("FIB entry prefix cannot exceed {PREFIX_DEPTH_MAX} components");
                Outcome::reply(status::NAME_TOO_LONG, text)
            }
            Err(RouteError::NoFace(_)) => Outcome::reply(status::GONE, "Face not found"),
            Err(error @ (RouteError::RibFull(_) | RouteError::FibFull(_))) => {
                Outcome::reply(status::INTERNAL_ERROR, error.to_string())
            }
        }
    }

    /// Adds a next hop to the FIB alone, or gives it another cost.
    ///
    /// # Errors
    /// [`RouteError`]; nothing is changed then.
    pub fn add_next_hop(&mut self, prefix: &Name, next_hop: NextHop) -> Result<(), RouteError> {
        if prefix.len() > PREFIX_DEPTH_MAX {
            return Err(RouteError::PrefixTooLong);
        }
        if self.faces.get(next_hop.face_id).is_none() {
            return Err(RouteError::NoFace(next_hop.face_id));
        }
        self.check_room(prefix.as_ref())?;
        if let Some(update) = self.fib.add_next_hop(prefix, next_hop)? {
            self.fib_changed(update);
        }
        Ok(())
    }

    /// Changes settings of the Content Store; what is `None` stays. Returns what holds then.
    pub fn configure_cs(
        &mut self,
        capacity: Option<u64>,
        admit: Option<bool>,
        serve: Option<bool>,
    ) -> CsConfiguration {
        let wanted = CsConfiguration {
            capacity: capacity.unwrap_or(self.cs.capacity).min(self.config.cs_capacity_max),
            admit: admit.unwrap_or(self.cs.admit),
            serve: serve.unwrap_or(self.cs.serve),
        };
        if wanted != self.cs {
            self.cs = wanted;
            self.actions.push_back(Action::ConfigureCs(wanted));
        }
        wanted
    }

    fn cs_config(
        &mut self,
        capacity: Option<u64>,
        admit: Option<bool>,
        serve: Option<bool>,
    ) -> Outcome {
        let wanted = self.configure_cs(capacity, admit, serve);
        let mut body =
            ControlParameters { capacity: Some(wanted.capacity), ..ControlParameters::default() };
        body.set_flag(cs_flag::ADMIT, wanted.admit);
        body.set_flag(cs_flag::SERVE, wanted.serve);
        body.mask = None;
        Outcome::Reply(ControlResponse::new(status::OK, "OK").with_body(&body))
    }

    fn cs_erase(&mut self, executing: Executing<'_>, prefix: Name, count: Option<u64>) -> Outcome {
        let limit = count.unwrap_or(u64::MAX).min(CS_ERASE_LIMIT);
        let work = Work::EraseCs { prefix: prefix.clone(), count };
        let Some(ticket) = self.pending.add(Pending::new(executing, work)) else {
            return Outcome::busy();
        };
        self.actions.push_back(Action::EraseCs { ticket, prefix, limit });
        Outcome::Deferred
    }

    /// Tells how [`Action::EraseCs`] ended: how many packets are gone, and whether there are more
    /// under the prefix.
    pub fn cs_erase_done(&mut self, ticket: Ticket, erased: u64, more_remain: bool) {
        let Some(Pending { requesters, work: Work::EraseCs { prefix, count }, .. }) =
            self.pending.take(ticket)
        else {
            return;
        };
        let was_limited =
            erased >= CS_ERASE_LIMIT && count.is_none_or(|count| count > CS_ERASE_LIMIT);
        let body = ControlParameters {
            name: Some(prefix),
            count: Some(erased),
            capacity: (was_limited && more_remain).then_some(CS_ERASE_LIMIT),
            ..ControlParameters::default()
        };
        let response = ControlResponse::new(status::OK, "OK").with_body(&body);
        for name in &requesters {
            self.respond(name.as_ref(), &response);
        }
    }
}

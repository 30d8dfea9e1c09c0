//! Events of routes and strategies, for receivers in this process.

use std::fmt;

use ndn_packet::Name;

use super::strategies::StrategyChoices;
use crate::rib::{Rib, Route, RouteChange};

/// Kind of a change, with its details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoutingChange {
    /// A route.
    Route(RouteChange, Route),
    /// The strategy of the name is this one now; `None`: that of a shorter name.
    Strategy(Option<Name>),
    /// Further changes that have no event each, because there were too many at once.
    More,
}

/// A change of the RIB or of the strategy choices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutingEvent {
    /// The prefix.
    pub name: Name,
    /// The change.
    pub change: RoutingChange,
}

/// A receiver of these events in this process. It returns false when it needs no further events, and does not wait.
pub type RoutingEventSink = Box<dyn FnMut(&RoutingEvent) -> bool + Send>;

/// The receivers.
#[derive(Default)]
pub(super) struct RoutingEvents(Vec<RoutingEventSink>);

impl fmt::Debug for RoutingEvents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("RoutingEvents").field(&self.0.len()).finish()
    }
}

impl RoutingEvents {
    /// Adds a receiver of the events from now on.
    pub(super) fn add(
        &mut self,
        sink: RoutingEventSink,
        (rib, strategies): (&mut Rib, &mut StrategyChoices),
    ) {
        self.publish((rib, strategies));
        self.0.push(sink);
        rib.journal.follow(true);
        strategies.journal.follow(true);
    }

    /// Passes on what has changed since the last call: routes first, then strategies.
    pub(super) fn publish(&mut self, (rib, strategies): (&mut Rib, &mut StrategyChoices)) {
        if self.0.is_empty() {
            return;
        }
        let (routes, more_routes) = rib.journal.take();
        let (choices, more_choices) = strategies.journal.take();
        let routes = routes.into_iter().map(|(name, change, route)| RoutingEvent {
            name,
            change: RoutingChange::Route(change, route),
        });
        let choices = choices.into_iter().map(|(name, strategy)| RoutingEvent {
            name,
            change: RoutingChange::Strategy(strategy),
        });
        let more = (more_routes || more_choices)
            .then(|| RoutingEvent { name: Name::new(), change: RoutingChange::More });
        for event in routes.chain(choices).chain(more) {
            self.0.retain_mut(|sink| sink(&event));
        }
        if self.0.is_empty() {
            rib.journal.follow(false);
            strategies.journal.follow(false);
        }
    }
}

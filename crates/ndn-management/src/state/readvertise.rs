//! The RIB told to a routing daemon.

use ndn_packet::Data;

use super::{Action, ControlState};
use crate::types::route_origin;
use crate::{Now, Readvertise};

impl ControlState {
    /// Tells the daemon under `/localhost/nlsr`, once there is one, of the prefixes that have routes
    /// of origin `client`; or no longer.
    pub fn set_readvertise_nlsr(&mut self, is_wanted: bool) {
        if is_wanted && self.readvertise.is_none() {
            self.rib.watch();
            self.readvertise = Some(Readvertise::to_nlsr());
        } else if !is_wanted {
            self.readvertise = None;
        }
    }

    pub(super) fn readvertise_deadline_ns(&self) -> Option<u64> {
        let readvertise = self.readvertise.as_ref()?;
        // What has changed is looked at as soon as somebody says what time it is.
        if self.rib.has_changed() { Some(0) } else { readvertise.next_deadline_ns() }
    }

    pub(super) fn readvertise(&mut self, now: Now) {
        let Some(readvertise) = &mut self.readvertise else { return };
        for prefix in self.rib.take_changed() {
            let routes = self.rib.routes(prefix.as_ref());
            if readvertise.is_about_daemon(prefix.as_ref()) {
                readvertise.set_available(now, !routes.is_empty());
                continue;
            }
            let is_served = routes.iter().any(|route| route.origin == route_origin::CLIENT);
            readvertise.set_wanted(now, &prefix, is_served);
        }
        while let Some(wire) = readvertise.poll(now) {
            self.actions.push_back(Action::SendInterest { wire, next_hop: None });
        }
    }

    pub(super) fn is_answer_of_daemon(&mut self, now: Now, data: &Data<'_>) -> bool {
        let content = data.content().unwrap_or_default();
        self.readvertise
            .as_mut()
            .is_some_and(|readvertise| readvertise.handle_data(now, data.name(), content))
    }
}

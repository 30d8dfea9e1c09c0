//! The RIB told to a routing daemon, and to the router that `/localhop/nfd` leads to.

use std::collections::{BTreeMap, BTreeSet};

use ndn_packet::{Component, Data, Name, NameRef};

use super::{Action, ControlState};
use crate::command::TopPrefix;
use crate::readvertise::{CommandSigner, ReadvertiseOptions};
use crate::types::route_origin;
use crate::{Now, Readvertise, Rib};

/// The last component of an identity that is left out of the prefix that it stands for.
const IGNORED: Component<'static> = Component::generic(b"nrd");
/// What stays on this host.
const LOCALHOST: Component<'static> = Component::generic(b"localhost");

/// Who is told of routes.
#[derive(Debug, Default)]
pub(super) struct Readvertising {
    daemon: Option<Readvertise>,
    gateway: Option<Gateway>,
}

/// The router that `/localhop/nfd` leads to, with which the prefixes of this host are registered: for
/// each route, the name of the shortest identity that is a prefix of it, once (NFD:
/// `HostToGatewayReadvertisePolicy`).
#[derive(Debug)]
struct Gateway {
    readvertise: Readvertise,
    /// The identities' prefixes that prefixes with routes are registered by.
    registered: BTreeMap<Name, Name>,
    /// How many prefixes with routes each of those stands for.
    users: BTreeMap<Name, usize>,
    /// Prefixes that have changed while it was not known which identities there are.
    unresolved: BTreeSet<Name>,
}

impl Gateway {
    fn new(options: ReadvertiseOptions) -> Self {
        let readvertise = Readvertise::new(options);
        let (registered, users) = (BTreeMap::new(), BTreeMap::new());
        Self { readvertise, registered, users, unresolved: BTreeSet::new() }
    }

    /// Looks again at what waits for the identities, if they are known by now.
    fn resolve(&mut self, now: Now, rib: &Rib, signer: &mut dyn CommandSigner) {
        if self.unresolved.is_empty() || signer.identities(now).is_none() {
            return;
        }
        for prefix in std::mem::take(&mut self.unresolved) {
            self.prefix_changed(now, &prefix, rib, signer);
        }
    }

    /// Routes of `prefix` have changed.
    fn prefix_changed(
        &mut self,
        now: Now,
        prefix: &Name,
        rib: &Rib,
        signer: &mut dyn CommandSigner,
    ) {
        let own = self.readvertise.options().prefix.clone();
        if own.as_ref().starts_with(prefix.as_ref()) {
            let has_routes = |length: usize| !rib.routes(own.as_ref().prefix(length)).is_empty();
            self.readvertise.set_available(now, (0..=own.len()).any(has_routes));
        }
        let is_for_others = *prefix != TopPrefix::Localhop.to_name()
            && prefix.as_ref().component(0) != Some(LOCALHOST);
        let is_served = is_for_others && !rib.routes(prefix.as_ref()).is_empty();
        match (is_served, self.registered.contains_key(prefix)) {
            (true, false) => {
                let Some(identities) = signer.identities(now) else {
                    self.unresolved.insert(prefix.clone());
                    return;
                };
                let shortest = shortest_identity(prefix.as_ref(), identities);
                let Some((identity, short)) = shortest else { return };
                let users = self.users.entry(short.clone()).or_insert(0);
                *users += 1;
                if *users == 1 {
                    self.readvertise.set_wanted(now, &short, true, Some(&identity));
                }
                self.registered.insert(prefix.clone(), short);
            }
            (false, true) => {
                let Some(short) = self.registered.remove(prefix) else { return };
                let Some(users) = self.users.get_mut(&short) else { return };
                *users -= 1;
                if *users == 0 {
                    self.users.remove(&short);
                    self.readvertise.set_wanted(now, &short, false, None);
                }
            }
            (true, true) | (false, false) => {}
        }
    }
}

/// The identity that stands for the shortest prefix of `name`, and that prefix.
fn shortest_identity(name: NameRef<'_>, identities: Vec<Name>) -> Option<(Name, Name)> {
    let prefixes = identities.into_iter().map(|identity| {
        let length = identity.len();
        let is_ignored = length > 0 && identity.as_ref().component(length - 1) == Some(IGNORED);
        let prefix = identity.as_ref().prefix(length - usize::from(is_ignored)).to_name();
        (identity, prefix)
    });
    let fitting = prefixes.filter(|(_, prefix)| name.starts_with(prefix.as_ref()));
    fitting.min_by_key(|(_, prefix)| prefix.len())
}

impl ControlState {
    /// Tells the daemon under `/localhost/nlsr`, once there is one, of the prefixes that have routes
    /// of origin `client`; or no longer.
    pub fn set_readvertise_nlsr(&mut self, is_wanted: bool) {
        let daemon = &mut self.readvertising.daemon;
        if is_wanted && daemon.is_none() {
            *daemon = Some(Readvertise::new(ReadvertiseOptions::nlsr()));
            self.rib.watch();
        } else if !is_wanted {
            *daemon = None;
        }
    }

    /// Registers the prefixes of this host with the router that `/localhop/nfd` leads to, once there
    /// is one; or no longer. Prefixes for which there was no identity are looked at again.
    pub fn set_propagate(&mut self, options: Option<ReadvertiseOptions>) {
        let gateway = &mut self.readvertising.gateway;
        let Some(options) = options else {
            *gateway = None;
            return;
        };
        if gateway.as_ref().is_none_or(|gateway| *gateway.readvertise.options() != options) {
            *gateway = Some(Gateway::new(options));
        }
        self.rib.watch();
    }

    pub(super) fn readvertise_deadline_ns(&self) -> Option<u64> {
        let Readvertising { daemon, gateway } = &self.readvertising;
        let gateway = gateway.as_ref().map(|gateway| &gateway.readvertise);
        let all = || daemon.iter().chain(gateway);
        // What has changed is looked at as soon as somebody says what time it is.
        if self.rib.has_changed() && all().next().is_some() {
            return Some(0);
        }
        all().filter_map(Readvertise::next_deadline_ns).min()
    }

    pub(super) fn readvertise(&mut self, now: Now) {
        let Readvertising { daemon, gateway } = &mut self.readvertising;
        if daemon.is_none() && gateway.is_none() {
            return;
        }
        let signer = &mut *self.collaborators.commands;
        if let Some(gateway) = gateway {
            gateway.resolve(now, &self.rib, signer);
        }
        for prefix in self.rib.take_changed() {
            if let Some(daemon) = daemon {
                daemon_prefix_changed(daemon, now, &prefix, &self.rib);
            }
            if let Some(gateway) = gateway {
                gateway.prefix_changed(now, &prefix, &self.rib, signer);
            }
        }
        let gateway = gateway.as_mut().map(|gateway| &mut gateway.readvertise);
        for readvertise in daemon.iter_mut().chain(gateway) {
            while let Some(wire) = readvertise.poll(now, signer) {
                self.actions.push_back(Action::SendInterest { wire, next_hop: None });
            }
        }
    }

    /// Takes the answer to a command of the forwarder's own; false if it is to something else.
    pub(super) fn is_answer_to_readvertise(&mut self, now: Now, data: &Data<'_>) -> bool {
        let content = data.content().unwrap_or_default();
        let Readvertising { daemon, gateway } = &mut self.readvertising;
        let gateway = gateway.as_mut().map(|gateway| &mut gateway.readvertise);
        daemon.iter_mut().chain(gateway).any(|one| one.handle_data(now, data.name(), content))
    }
}

fn daemon_prefix_changed(daemon: &mut Readvertise, now: Now, prefix: &Name, rib: &Rib) {
    let routes = rib.routes(prefix.as_ref());
    if prefix.as_ref().starts_with(daemon.options().prefix.as_ref()) {
        return daemon.set_available(now, !routes.is_empty());
    }
    let is_served = routes.iter().any(|route| route.origin == route_origin::CLIENT);
    daemon.set_wanted(now, prefix, is_served, None);
}

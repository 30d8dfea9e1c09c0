//! Readvertisement of the RIB to a routing daemon, and to the router that `/localhop/nfd` leads to (the gateway).

use std::collections::{BTreeMap, BTreeSet};

use ndn_packet::{Component, Data, Name, NameRef};
use ndn_types::{LedgerReport, Now, Reserves, Timestamp};

use super::action::Action;
use super::outbox::Outbox;
use super::routes::RoutingTables;
use crate::command::TopPrefix;
use crate::readvertise::{CommandSigner, Readvertise, ReadvertiseOptions, Registrant};
use crate::rib::Rib;
use crate::types::route_origin;

/// The last component of an identity that is not part of the prefix that the identity stands for.
const IGNORED: Component<'static> = Component::generic(b"nrd");
/// Names below it stay on this host.
const LOCALHOST: Component<'static> = Component::generic(b"localhost");

/// The recipients of routes.
#[derive(Debug)]
pub(super) struct Readvertising {
    daemon: Option<Readvertise>,
    gateway: Option<Gateway>,
    reserves: Reserves,
}

/// The router that `/localhop/nfd` leads to, with which the prefixes of this host are registered: for
/// each route, the name of the shortest identity that is a prefix of it, once (NFD:
/// `HostToGatewayReadvertisePolicy`).
#[derive(Debug)]
struct Gateway {
    readvertise: Readvertise,
    /// The registered prefix of each prefix with routes.
    registered: BTreeMap<Name, Name>,
    /// The number of prefixes with routes of each registered prefix.
    users: BTreeMap<Name, usize>,
    /// Prefixes that changed while the identities were unknown.
    unresolved: BTreeSet<Name>,
}

impl Gateway {
    fn new(options: ReadvertiseOptions, reserves: Reserves) -> Self {
        let readvertise = Readvertise::new(options, reserves);
        let (registered, users) = (BTreeMap::new(), BTreeMap::new());
        Self { readvertise, registered, users, unresolved: BTreeSet::new() }
    }

    /// Registers the prefixes that wait for the identities, once these are known.
    fn resolve(&mut self, now: Now, rib: &Rib, signer: &mut dyn CommandSigner) {
        if self.unresolved.is_empty() || signer.identities(now).is_none() {
            return;
        }
        for prefix in std::mem::take(&mut self.unresolved) {
            self.prefix_changed(now, &prefix, rib, signer);
        }
    }

    /// The routes of `prefix` have changed.
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
                    // There are as many of these as identities.
                    let by = Registrant { identity: Some(&identity), owner: None };
                    self.readvertise.set_advertised(now, &short, true, by);
                }
                self.registered.insert(prefix.clone(), short);
            }
            (false, true) => {
                let Some(short) = self.registered.remove(prefix) else { return };
                let Some(users) = self.users.get_mut(&short) else { return };
                *users -= 1;
                if *users == 0 {
                    self.users.remove(&short);
                    self.readvertise.set_advertised(now, &short, false, Registrant::default());
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

impl Readvertising {
    pub(super) fn new(reserves: Reserves) -> Self {
        Self { daemon: None, gateway: None, reserves }
    }

    /// Returns the places for prefixes to be withdrawn from the daemon that each principal holds.
    pub(super) fn report(&self) -> Option<LedgerReport<1>> {
        self.daemon.as_ref().map(Readvertise::report)
    }

    /// Whether a route for `prefix` would lead the commands for a routing daemon to its face.
    pub(super) fn is_for_daemon(&self, prefix: NameRef<'_>) -> bool {
        let daemon = self.daemon.as_ref().map(Readvertise::options);
        daemon.is_some_and(|options| prefix.starts_with(options.prefix.as_ref()))
    }

    /// Starts or stops the readvertisement to the daemon.
    pub(super) fn set_nlsr(&mut self, is_enabled: bool, rib: &mut Rib) {
        if is_enabled && self.daemon.is_none() {
            self.daemon = Some(Readvertise::new(ReadvertiseOptions::nlsr(), self.reserves));
            rib.watch();
        } else if !is_enabled {
            self.daemon = None;
            self.unwatch_if_unused(rib);
        }
    }

    /// Without a receiver, nobody takes the changes of the RIB.
    fn unwatch_if_unused(&self, rib: &mut Rib) {
        if self.daemon.is_none() && self.gateway.is_none() {
            rib.unwatch();
        }
    }

    /// Starts, changes or stops the registration with the gateway.
    pub(super) fn set_propagate(&mut self, options: Option<ReadvertiseOptions>, rib: &mut Rib) {
        let Some(options) = options else {
            self.gateway = None;
            return self.unwatch_if_unused(rib);
        };
        let current = self.gateway.as_ref().map(|gateway| gateway.readvertise.options());
        if current != Some(&options) {
            self.gateway = Some(Gateway::new(options, self.reserves));
        }
        rib.watch();
    }

    /// The next deadline; [`Timestamp::ZERO`] if the RIB has changed.
    pub(super) fn next_deadline(&self, rib: &Rib) -> Option<Timestamp> {
        let gateway = self.gateway.as_ref().map(|gateway| &gateway.readvertise);
        let all = || self.daemon.iter().chain(gateway);
        if rib.has_changed() && all().next().is_some() {
            return Some(Timestamp::ZERO);
        }
        all().filter_map(Readvertise::next_deadline).min()
    }

    /// Passes the changes of the RIB on, and sends the commands that are due.
    pub(super) fn handle_timeout(
        &mut self,
        now: Now,
        routes: &mut RoutingTables,
        signer: &mut dyn CommandSigner,
        outbox: &mut Outbox,
    ) {
        let Self { daemon, gateway, .. } = self;
        if daemon.is_none() && gateway.is_none() {
            return;
        }
        if let Some(gateway) = gateway {
            gateway.resolve(now, &routes.rib, signer);
        }
        for prefix in routes.rib.take_changed() {
            if let Some(daemon) = daemon {
                daemon_prefix_changed(daemon, now, &prefix, routes);
            }
            if let Some(gateway) = gateway {
                gateway.prefix_changed(now, &prefix, &routes.rib, signer);
            }
        }
        let gateway = gateway.as_mut().map(|gateway| &mut gateway.readvertise);
        for readvertise in daemon.iter_mut().chain(gateway) {
            while let Some(wire) = readvertise.poll(now, signer) {
                outbox.push(Action::SendInterest { wire, next_hop: None });
            }
        }
    }

    /// Takes the answer to a command; false if the Data is something else.
    pub(super) fn handle_data(&mut self, now: Now, data: &Data<'_>) -> bool {
        let content = data.content().unwrap_or_default();
        let gateway = self.gateway.as_mut().map(|gateway| &mut gateway.readvertise);
        let mut all = self.daemon.iter_mut().chain(gateway);
        all.any(|one| one.handle_data(now, data.name(), content))
    }
}

fn daemon_prefix_changed(
    daemon: &mut Readvertise,
    now: Now,
    prefix: &Name,
    tables: &RoutingTables,
) {
    let own = &daemon.options().prefix;
    if prefix.as_ref().starts_with(own.as_ref()) {
        let is_available = !tables.rib.routes(own.as_ref()).is_empty();
        return daemon.set_available(now, is_available);
    }
    let routes = tables.rib.routes(prefix.as_ref());
    let client = routes.iter().find(|route| route.origin == route_origin::CLIENT);
    let owner =
        client.and_then(|route| tables.route_owner(prefix.as_ref(), route.face_id, route.origin));
    let by = Registrant { identity: None, owner };
    daemon.set_advertised(now, prefix, client.is_some(), by);
}

//! The configuration read again while the forwarder runs: on SIGHUP, all or nothing.

use std::sync::Arc;

use ndn_dataplane::Command;
use ndn_forwarding::ProducerRegions;
use tracing::{error, info, warn};

use super::ConfigSource;
use super::access;
use super::control::Control;
use crate::config::{Config, Listeners};
use crate::logging::LogHandle;

/// Where the configuration comes from, and what is beside the control thread.
pub(super) struct Reload {
    pub(super) source: ConfigSource,
    pub(super) log: LogHandle,
}

impl Control {
    /// Reads the configuration and uses what of it can change; a bad one changes nothing.
    pub(super) fn reload(&mut self, reload: &Reload) {
        match (reload.source)().and_then(|config| self.apply(config, &reload.log)) {
            Ok(()) => info!("the configuration was read again"),
            Err(reason) => error!("the configuration stays as it was: {reason}"),
        }
    }

    fn apply(&mut self, config: Config, log: &LogHandle) -> Result<(), String> {
        // What can fail comes first.
        let mut access = access::access_control(&config.management.access)
            .map_err(|error| format!("{error:#}"))?;
        access.refuse_signed_before(super::control::now().unix_ms());
        let mut strategies = ndn_forwarding::strategy::StrategyTable::default();
        for choice in &config.strategy_choices {
            strategies.insert(choice.strategy.as_ref()).map_err(|error| error.to_string())?;
        }
        // A certificate may have been renewed, at the same place: the listener is what it was.
        let certificate = self.reload_certificate();
        certificate.map_err(|error| format!("{error:#}"))?;
        log.apply(&config.log)?;
        self.state.set_authorizer(Box::new(access)).map_err(|error| error.to_string())?;
        self.state.set_readvertise_nlsr(config.management.readvertise_nlsr);
        self.state.set_propagate(super::control::propagate(&config.management));
        self.reload_strategies(&config)?;
        self.reload_tables(&config);
        for part in unchangeable(&self.config, &config) {
            warn!("{part} changes with the next start only");
        }
        // New faces start with the new defaults; sockets and threads stay what they are, but for
        // multicast, bound and Ethernet faces, which come and go anyway.
        self.config = Config {
            listeners: Listeners {
                multicast: config.listeners.multicast.clone(),
                ethernet: config.listeners.ethernet.clone(),
                ..self.config.listeners.clone()
            },
            privileges: self.config.privileges.clone(),
            forwarder: self.config.forwarder.clone(),
            static_faces: self.config.static_faces.clone(),
            static_routes: self.config.static_routes.clone(),
            ..config
        };
        let now_ns = super::control::now().monotonic_ns;
        self.multicast.look_anew(now_ns, &self.config, &mut self.dataplane);
        self.bound.look_anew(now_ns, &self.config, &mut self.dataplane);
        self.ethernet.look_soon();
        Ok(())
    }

    fn reload_strategies(&mut self, config: &Config) -> Result<(), String> {
        for choice in &self.config.strategy_choices {
            if !config.strategy_choices.iter().any(|other| other.prefix == choice.prefix) {
                self.state.unset_strategy(&choice.prefix);
            }
        }
        self.state.set_default_strategies().map_err(|error| error.to_string())?;
        for choice in &config.strategy_choices {
            self.state
                .set_strategy(&choice.prefix, choice.strategy.as_ref())
                .map_err(|error| format!("{}: {error}", choice.prefix))?;
        }
        Ok(())
    }

    fn reload_tables(&mut self, config: &Config) {
        let (old, new) = (&self.config.tables.cs, &config.tables.cs);
        let changed = |is_changed: bool| is_changed.then_some(());
        let capacity = changed(old.capacity_packets != new.capacity_packets)
            .map(|()| new.capacity_packets as u64);
        let admit = changed(old.admit != new.admit).map(|()| new.admit);
        let serve = changed(old.serve != new.serve).map(|()| new.serve);
        self.state.configure_cs(capacity, admit, serve);
        let regions = ProducerRegions::new(config.tables.network_regions.clone());
        self.dataplane.send(Command::SetRegions(Arc::new(regions)));
    }
}

/// What is different but cannot change while the forwarder runs.
fn unchangeable(old: &Config, new: &Config) -> Vec<&'static str> {
    let (old_tables, new_tables) = (&old.tables, &new.tables);
    let sizes = |tables: &crate::config::Tables| {
        let cs = &tables.cs;
        let policies = (cs.policy, cs.unsolicited, cs.capacity_bytes);
        (tables.pit_capacity, tables.fib_capacity, tables.dead_nonce_lifetime, policies)
    };
    let sockets = |listeners: &Listeners| Listeners {
        multicast: crate::config::Multicast::default(),
        ethernet: crate::config::Ethernet::default(),
        ..listeners.clone()
    };
    [
        ("[listeners]", sockets(&old.listeners) != sockets(&new.listeners)),
        ("[privileges]", old.privileges != new.privileges),
        ("[forwarder]", old.forwarder != new.forwarder),
        ("[tables]", sizes(old_tables) != sizes(new_tables)),
        (
            "sharing the UDP port with [[bound_faces]]",
            old.bound_faces.is_empty() && !new.bound_faces.is_empty(),
        ),
        ("[limits]", old.limits != new.limits),
        ("[pool]", old.pool != new.pool),
        ("identity of [management]", old.management.identity != new.management.identity),
        ("[control]", old.control != new.control),
        ("[[static_faces]]", old.static_faces != new.static_faces),
        ("[[static_routes]]", old.static_routes != new.static_routes),
    ]
    .into_iter()
    .filter_map(|(part, is_different)| is_different.then_some(part))
    .collect()
}

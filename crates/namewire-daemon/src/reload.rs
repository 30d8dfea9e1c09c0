//! The configuration read again while the forwarder runs: on SIGHUP, all or nothing.

use std::sync::Arc;

use ndn_dataplane::Command;
use ndn_forwarding::ProducerRegions;
use ndn_management::StrategyChanges;
use ndn_packet::Name;
use tracing::{error, info, warn};

use super::control::{Control, InterfacesEvent, Service};
use super::{access, restart, settings};
use crate::config::{Config, PendingChanges};
use crate::hooks::{ConfigSource, LogControl};

/// Where the configuration comes from, what it was, and what is beside the control thread.
pub(super) struct Reload {
    pub(super) source: ConfigSource,
    pub(super) log: Arc<dyn LogControl>,
    /// What the forwarder was started with.
    pub(super) started: Config,
}

impl Control {
    /// Opens the file of the log again; reads the configuration and uses what of it can change; a bad one changes nothing.
    pub(super) fn reload(&mut self, reload: &Reload) {
        if let Err(reason) = reload.log.reopen() {
            error!("the log stays where it was: {reason}");
        }
        match (reload.source.read)().and_then(|config| self.apply(config, reload)) {
            Ok(()) if reload.source.has_file => info!("the configuration was read again"),
            Ok(()) => info!(
                "there is no configuration file to read again: the settings are as at the start"
            ),
            Err(reason) => error!("the configuration stays as it was: {reason}"),
        }
    }

    /// What can fail comes first, and changes nothing that is in force.
    fn apply(&mut self, mut config: Config, reload: &Reload) -> Result<(), String> {
        let now_unix_ms = self.now().unix_ms();
        let access = access::access_control(&config.management, now_unix_ms).map_err(|faults| {
            faults.into_iter().map(|fault| fault.reason).collect::<Vec<_>>().join("; ")
        })?;
        let strategies = self.plan_strategies(&config)?;
        // A certificate may have been renewed, at the same place: the listener is what it was.
        let certificate = self.read_certificate().map_err(|error| format!("{error:#}"))?;
        self.state.set_authorizer(Box::new(access)).map_err(|error| error.to_string())?;
        // From here on, it is in force.
        if let Err(reason) = reload.log.apply(&config.log) {
            error!("the levels of the log stay as they were: {reason}");
        }
        self.use_certificate(certificate);
        self.state.set_readvertise_nlsr(config.management.readvertise_nlsr);
        self.state.set_propagate(super::control::propagate(&config.management));
        self.state.change_strategies(strategies);
        let capacity_max = settings::cs_capacity_max(&reload.started);
        log_pending(&restart::keep(&reload.started, capacity_max, &mut config));
        self.reload_tables(&config);
        let had = self.config.memif_secrecy();
        // New faces start with the new defaults; sockets and threads stay what they are, but for
        // multicast, bound and Ethernet faces, which come and go anyway.
        self.config = config;
        if self.config.memif_secrecy() != had {
            self.log_memif_secrecy();
        }
        let (interfaces, mut cx) = self.interfaces_and_cx(self.now());
        interfaces.handle_event(&mut cx, InterfacesEvent::Reloaded);
        Ok(())
    }

    /// The choices that the file makes, and no longer makes; what commands chose for other prefixes
    /// stays.
    fn plan_strategies(&mut self, config: &Config) -> Result<StrategyChanges, String> {
        let choices = &config.strategy_choices;
        let is_gone = |prefix: &&Name| !choices.iter().any(|choice| choice.prefix == **prefix);
        let before = self.config.strategy_choices.iter().map(|choice| &choice.prefix);
        let chosen = choices.iter().map(|choice| (&choice.prefix, choice.strategy.as_ref()));
        let changes = self.state.plan_strategies(before.filter(is_gone), chosen);
        let changes = changes.map_err(|(prefix, error)| format!("{prefix}: {error}"))?;
        self.prepare_strategies(changes.strategies()).map_err(|error| error.to_string())?;
        Ok(changes)
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

/// Logs the changes that take effect at the next start, at each reload of a configuration that has them.
fn log_pending(pending: &PendingChanges) {
    let PendingChanges { restart, new_faces } = pending;
    if !restart.is_empty() {
        let settings = restart.join(", ");
        warn!("changes of these settings take effect at the next start: {settings}");
    }
    if !new_faces.is_empty() {
        let settings = new_faces.join(", ");
        warn!(
            "for on-demand UDP faces, changes of these settings take effect at the next start: {settings}"
        );
    }
}

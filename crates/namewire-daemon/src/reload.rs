//! Reload of the configuration on SIGHUP: all or nothing.

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

/// Input of a reload.
pub(super) struct Reload {
    pub(super) source: ConfigSource,
    pub(super) log: Arc<dyn LogControl>,
    /// The configuration at the start.
    pub(super) started: Config,
}

impl Control {
    /// Reopens the log file, reads the configuration and applies the settings that can change. An invalid
    /// configuration changes nothing.
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

    /// Steps that can fail come first and change nothing in force.
    fn apply(&mut self, mut config: Config, reload: &Reload) -> Result<(), String> {
        let now_unix_ms = self.now().unix_ms();
        let access = access::access_control(&config.management, now_unix_ms).map_err(|faults| {
            faults.into_iter().map(|fault| fault.reason).collect::<Vec<_>>().join("; ")
        })?;
        let strategies = self.plan_strategies(&config)?;
        // The certificate may have been renewed in place; the listener's settings are unchanged.
        let certificate = self.read_certificate().map_err(|error| format!("{error:#}"))?;
        self.state.set_authorizer(Box::new(access)).map_err(|error| error.to_string())?;
        // From here on the configuration is in force.
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
        // New faces use the new defaults. Sockets and threads stay, except multicast, bound and Ethernet faces.
        self.config = config;
        if self.config.memif_secrecy() != had {
            self.log_memif_secrecy();
        }
        let (interfaces, mut cx) = self.interfaces_and_cx(self.now());
        interfaces.handle_event(&mut cx, InterfacesEvent::Reloaded);
        Ok(())
    }

    /// Returns the strategy choices that the file adds and removes. Choices made by command for other prefixes stay.
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

/// Logs, at each reload, the changes that take effect at the next start.
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

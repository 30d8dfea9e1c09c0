//! Reload of the configuration on SIGHUP: all or nothing.

use std::fmt;
use std::sync::Arc;

use namewire_control::ConfigStatus;
use ndn_dataplane::Command;
use ndn_forwarding::ProducerRegions;
use ndn_management::{AccessControl, ControlState, Operators, StrategyChanges};
use ndn_packet::Name;
use ndn_webtransport::Identity;
use tracing::{error, info, warn};

use super::control::listening::Listening;
use super::control::management::Management;
use super::control::service::Core;
use super::control::sessions::Sessions;
use super::control::setup::{operators, propagate};
use super::tables::ForwardingTables;
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

impl fmt::Debug for Reload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Reload").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Reload {
    /// Reopens the log file, reads the configuration and applies the settings that can change; network interfaces and
    /// quotas follow it later. An invalid configuration changes nothing.
    ///
    /// # Errors
    /// The reason why the settings are not in force.
    pub(super) fn run(
        &self,
        core: &mut Core,
        management: &mut Management,
        sessions: &Sessions,
        listening: &mut Listening,
    ) -> Result<ConfigStatus, String> {
        if let Err(reason) = self.log.reopen() {
            error!("the log stays where it was: {reason}");
        }
        let read = self.read(core, management, sessions);
        let applied = read.and_then(|read| self.apply(read, core, management, sessions, listening));
        match &applied {
            Ok(_) if self.source.has_file => info!("the configuration was read again"),
            Ok(_) => info!(
                "there is no configuration file to read again: the settings are as at the start"
            ),
            Err(reason) => {
                let (first, more) = reason.split_once('\n').unwrap_or((reason, ""));
                error!("the configuration stays as it was: {first}");
                more.lines().for_each(|line| error!("{line}"));
            }
        }
        applied.map(|pending| self.status(None, &pending))
    }

    /// Reads the configuration and opens its listeners, without applying it.
    pub(super) fn check(
        &self,
        core: &Core,
        management: &mut Management,
        sessions: &Sessions,
        listening: &Listening,
    ) -> ConfigStatus {
        let usable = self.read(core, management, sessions).and_then(|read| {
            listening.check(&read.config).map_err(|error| format!("{error:#}"))?;
            Ok(read.pending)
        });
        match usable {
            Ok(pending) => self.status(None, &pending),
            Err(error) => self.status(Some(error), &PendingChanges::default()),
        }
    }

    /// Reads the configuration and what it names. Changes nothing in force.
    fn read(
        &self,
        core: &Core,
        management: &mut Management,
        sessions: &Sessions,
    ) -> Result<Usable, String> {
        let mut config = (self.source.read)()?;
        // Settings that wait for the next start are as they were from here on.
        let cs_capacity_max = settings::cs_capacity_max(&self.started);
        let pending = restart::keep(&self.started, &core.config, cs_capacity_max, &mut config);
        let (state, tables) = management.change();
        let access = access::access_control(&config.management, &core.clock).map_err(|faults| {
            faults.into_iter().map(|fault| fault.reason).collect::<Vec<_>>().join("; ")
        })?;
        #[cfg(feature = "vip")]
        super::vip::check_signers(&config, &core.clock).map_err(|error| format!("{error:#}"))?;
        let strategies = plan_strategies(&config, &core.config, state, tables)?;
        // The certificate may have been renewed in place; the listener's settings are unchanged.
        let certificate = sessions.read_certificate(&core.config);
        let certificate = certificate.map_err(|error| format!("{error:#}"))?;
        let operators = operators(&config.management).map_err(|error| format!("{error:#}"))?;
        Ok(Usable { config, pending, access, operators, strategies, certificate })
    }

    /// The status of a configuration that was read.
    fn status(&self, error: Option<String>, pending: &PendingChanges) -> ConfigStatus {
        let waiting = pending.restart.iter().flat_map(|(reason, settings)| {
            settings.iter().map(move |setting| format!("{setting}: {reason}"))
        });
        let on_demand = pending.new_faces.iter().map(|setting| {
            format!("{setting}, for on-demand UDP faces: worker threads are set up at the start")
        });
        let waiting = waiting.chain(on_demand).collect();
        let changes = pending.live.clone();
        let overrides = self.source.overrides.clone();
        ConfigStatus { has_file: self.source.has_file, error, waiting, changes, overrides }
    }

    /// Steps that can fail come first and change nothing in force.
    fn apply(
        &self,
        read: Usable,
        core: &mut Core,
        management: &mut Management,
        sessions: &Sessions,
        listening: &mut Listening,
    ) -> Result<PendingChanges, String> {
        let Usable { config, pending, access, operators, strategies, certificate } = read;
        let (state, _) = management.change();
        let listeners = listening.prepare(&config).map_err(|error| format!("{error:#}"))?;
        if let Err(error) = state.set_authorizer(Box::new(access)) {
            listening.abandon(&mut core.cx(), listeners);
            return Err(error.to_string());
        }
        // From here on the configuration is in force.
        if let Err(reason) = self.log.apply(&config.log) {
            error!("the levels of the log stay as they were: {reason}");
        }
        sessions.use_certificate(certificate);
        state.set_operators(operators);
        state.set_readvertise_nlsr(config.management.readvertise_nlsr);
        state.set_propagate(propagate(&config.management));
        state.change_strategies(strategies);
        log_pending(&pending);
        reload_tables(&config, &core.config, state);
        let regions = ProducerRegions::new(config.tables.network_regions.clone());
        core.dataplane.send(Command::SetRegions(Arc::new(regions)));
        if config.tables.cs.policy != core.config.tables.cs.policy
            && let Err(reason) = core.set_cs_policy(config.tables.cs.policy)
        {
            error!("the policy of the Content Store stays as it was: {reason}");
        }
        // New faces use the new defaults. UDP sockets and threads stay.
        core.config = config;
        listening.commit(&mut core.cx(), listeners);
        Ok(pending)
    }
}

/// A configuration that was read and can be put in force, if its listeners can be opened.
struct Usable {
    config: Config,
    pending: PendingChanges,
    access: AccessControl,
    operators: Operators,
    strategies: StrategyChanges,
    certificate: Option<Identity>,
}

/// Returns the strategy choices that the file adds and removes. Choices made by command for other prefixes stay.
fn plan_strategies(
    config: &Config,
    before: &Config,
    state: &ControlState,
    tables: &mut ForwardingTables,
) -> Result<StrategyChanges, String> {
    let choices = &config.strategy_choices;
    let is_gone = |prefix: &&Name| !choices.iter().any(|choice| choice.prefix == **prefix);
    let before = before.strategy_choices.iter().map(|choice| &choice.prefix);
    let chosen = choices.iter().map(|choice| (&choice.prefix, choice.strategy.as_ref()));
    let changes = state.plan_strategies(before.filter(is_gone), chosen);
    let changes = changes.map_err(|(prefix, error)| format!("{prefix}: {error}"))?;
    tables.prepare_strategies(changes.strategies()).map_err(|error| error.to_string())?;
    Ok(changes)
}

fn reload_tables(config: &Config, before: &Config, state: &mut ControlState) {
    let (old, new) = (&before.tables.cs, &config.tables.cs);
    let changed = |is_changed: bool| is_changed.then_some(());
    let capacity =
        changed(old.capacity_packets != new.capacity_packets).map(|()| new.capacity_packets as u64);
    let admit = changed(old.admit != new.admit).map(|()| new.admit);
    let serve = changed(old.serve != new.serve).map(|()| new.serve);
    state.configure_cs(capacity, admit, serve);
}

/// Logs, at each reload, the changes that take effect at the next start.
fn log_pending(pending: &PendingChanges) {
    let PendingChanges { restart: waiting, new_faces, live: _ } = pending;
    for (reason, settings) in waiting {
        let settings = settings.join(", ");
        warn!("changes of these settings take effect at the next start: {settings} ({reason})");
    }
    if !new_faces.is_empty() {
        let settings = new_faces.join(", ");
        warn!(
            "for on-demand UDP faces, changes of these settings take effect at the next start: {settings}"
        );
    }
}

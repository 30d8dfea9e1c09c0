//! Configuration and collaborators of the control plane.

use ndn_types::Reserves;

use super::action::CsConfiguration;
use super::strategies::STRATEGY_CHOICES_MAX;
use crate::authorize::{AnySigner, Authorizer};
use crate::fib::Fib;
use crate::publisher::PublisherLimits;
use crate::readvertise::{CommandSigner, DigestCommandSigner};
use crate::rib::Rib;
use crate::sign::{DataSigner, DigestSigner};
use crate::strategy_name::StrategyCatalog;

/// Default of `routes_per_principal_max` in [`ControlConfig`].
const ROUTES_PER_PRINCIPAL_MAX: usize = 16_384;

/// Settings of the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlConfig {
    /// Version of the forwarder, as `status/general` shows it.
    pub version: String,
    /// When the forwarder started, milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// Schemes of the faces that `faces/create` can make.
    pub face_schemes: Vec<String>,
    /// Limit on routes.
    pub rib_routes_max: usize,
    /// Limit on FIB entries.
    pub fib_entries_max: usize,
    /// Limit on routes of one principal that is no operator. A route counts once, and once more for each 128 bytes of its
    /// prefix.
    pub routes_per_principal_max: usize,
    /// Limit on strategy choices.
    pub strategy_choices_max: usize,
    /// Limit on different strategy instances, a strategy with its parameters, among the choices.
    pub strategy_instances_max: usize,
    /// Content Store settings at start.
    pub cs: CsConfiguration,
    /// Maximum capacity of the Content Store that `cs/config` sets, packets. A higher one is reduced to it, as the answer
    /// shows.
    pub cs_capacity_max: u64,
    /// Limits on published datasets.
    pub publisher: PublisherLimits,
    /// Reserves of what principals share: memory for requests, places for commands that wait for certificates.
    pub reserves: Reserves,
}

impl Default for ControlConfig {
    fn default() -> Self {
        Self {
            version: String::new(),
            started_unix_ms: 0,
            face_schemes: ["udp4", "udp6", "tcp4", "tcp6"].map(str::to_owned).to_vec(),
            rib_routes_max: Rib::ROUTES_MAX_DEFAULT,
            fib_entries_max: Fib::ENTRIES_MAX_DEFAULT,
            routes_per_principal_max: ROUTES_PER_PRINCIPAL_MAX,
            strategy_choices_max: STRATEGY_CHOICES_MAX,
            strategy_instances_max: usize::MAX,
            cs: CsConfiguration::default(),
            cs_capacity_max: u64::MAX,
            publisher: PublisherLimits::default(),
            reserves: Reserves::default(),
        }
    }
}

/// The collaborators of the control plane.
pub struct Collaborators {
    /// Authorizes commands and prefix announcements.
    pub authorizer: Box<dyn Authorizer + Send>,
    /// The strategies that can be chosen.
    pub strategies: Box<dyn StrategyCatalog + Send>,
    /// Signs answers.
    pub signer: Box<dyn DataSigner + Send>,
    /// Signs the commands that the forwarder itself issues.
    pub commands: Box<dyn CommandSigner + Send>,
}

impl Collaborators {
    /// NFD's defaults: any signer is authorised, answers are signed with DigestSha256.
    #[must_use]
    pub fn with_strategies(strategies: impl StrategyCatalog + Send + 'static) -> Self {
        Self {
            authorizer: Box::new(AnySigner::default()),
            strategies: Box::new(strategies),
            signer: Box::new(DigestSigner),
            commands: Box::new(DigestCommandSigner),
        }
    }
}

impl std::fmt::Debug for Collaborators {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Collaborators").finish_non_exhaustive()
    }
}

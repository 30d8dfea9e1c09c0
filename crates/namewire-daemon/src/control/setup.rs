//! Initial state of the control thread: management and its internal face.

use std::sync::Arc;

use anyhow::Context;
use ndn_dataplane::NewFace;
use ndn_face::{FaceOptions, InternalEnd};
use ndn_forwarding::{FaceProperties, StrategyTable};
use ndn_keychain::{Access, KeyChain, Locations};
use ndn_management::readvertise::ReadvertiseOptions;
use ndn_management::{
    Collaborators, ControlConfig, ControlState, DataSigner, DigestSigner, FACE_ID_INTERNAL,
    Operators,
};
use ndn_packet::DataBuilder;
use ndn_security::sign_data;
use ndn_sys::poll::Waker;
use ndn_types::{FaceUri, Persistency, PrincipalKey, Scope};

use crate::config::{Config, Conflict, Management, Propagate};
use crate::environment::now;
use crate::identities::KeyChainSigner;
use crate::local_peers::user_ids;
use crate::tables::Catalog;
use crate::{access, settings};
use ndn_sys::clock::Clock;

/// Schemes of faces that can be created: UDP faces send from the listening sockets.
fn face_schemes(config: &Config) -> Vec<String> {
    let udp = &config.listeners.udp;
    let is_udp = |ipv4: bool| udp.enabled && udp.addresses.iter().any(|a| a.is_ipv4() == ipv4);
    let (ether, memif, webtransport) = (("ether", true), ("memif", true), ("https", true));
    let (udp4, udp6) = (("udp4", is_udp(true)), ("udp6", is_udp(false)));
    [udp4, udp6, ("tcp4", true), ("tcp6", true), ether, memif, webtransport]
        .into_iter()
        .filter(|(_, is_possible)| *is_possible)
        .map(|(scheme, _)| scheme.to_owned())
        .collect()
}

/// Creates management with the configured keys, certificates and rules, and the waker that signals that the key chain
/// has been read.
///
/// # Errors
/// The keys, certificates or rules that cannot be used, by setting and file name.
pub(crate) fn management(
    config: &Config,
    clock: &Clock,
) -> Result<(ControlState, Arc<Waker>), Vec<Conflict>> {
    let control = ControlConfig {
        version: format!("namewire {}", env!("CARGO_PKG_VERSION")),
        started_unix_ms: now(clock).unix_ms(),
        fib_entries_max: config.tables.fib_capacity,
        routes_per_principal_max: config.limits.routes_per_principal,
        // One instance is the default, and a change needs the new one before the old one is free.
        strategy_instances_max: StrategyTable::INSTANCES_MAX - 2,
        face_schemes: face_schemes(config),
        cs_capacity_max: settings::cs_capacity_max(config) as u64,
        cs: ndn_management::CsConfiguration {
            capacity: config.tables.cs.capacity_packets as u64,
            admit: config.tables.cs.admit,
            serve: config.tables.cs.serve,
        },
        reserves: settings::reserves(&config.limits),
        ..ControlConfig::default()
    };
    let identity = |error: anyhow::Error| Conflict::from_error(&["management.identity"], &error);
    let access = access::access_control(&config.management, clock);
    let commands = KeyChainSigner::new(config.management.identity.clone());
    let commands = commands.map_err(|error| vec![identity(error.into())]);
    let signer = signer(config).map_err(|error| vec![identity(error)]);
    let operators = operators(&config.management)
        .map_err(|error| vec![Conflict::from_error(&["management.operators"], &error)])?;
    let (access, commands, signer) = match (access, commands, signer) {
        (Ok(access), Ok(commands), Ok(signer)) => (access, commands, signer),
        (access, commands, signer) => {
            // Both signers read the same identity.
            let of_identity = commands.err().or(signer.err()).into_iter().flatten();
            return Err(access.err().into_iter().flatten().chain(of_identity).collect());
        }
    };
    let key_chain = commands.waker();
    let collaborators = Collaborators {
        authorizer: Box::new(access),
        signer,
        commands: Box::new(commands),
        ..Collaborators::with_strategies(Catalog)
    };
    let mut state = ControlState::new(control, collaborators);
    state.set_operators(operators);
    state.set_readvertise_nlsr(config.management.readvertise_nlsr);
    state.set_propagate(propagate(&config.management));
    Ok((state, key_chain))
}

/// The operators that the configuration lists, and what others may do.
///
/// # Errors
/// A user does not exist; the error names it.
pub(crate) fn operators(management: &Management) -> anyhow::Result<Operators> {
    let users = user_ids(&management.operators, "management.operators")?;
    Ok(Operators { users, protect_others: management.protect_others })
}

/// Options for registering this host's prefixes with a router, if enabled.
pub(crate) fn propagate(management: &Management) -> Option<ReadvertiseOptions> {
    let Propagate { enabled, cost, timeout, refresh_interval, base_retry_wait, max_retry_wait } =
        management.propagate;
    enabled.then(|| ReadvertiseOptions {
        cost: Some(cost),
        timeout,
        refresh: refresh_interval,
        retry_min: base_retry_wait,
        retry_max: max_retry_wait,
        ..ReadvertiseOptions::gateway()
    })
}

/// Returns the signer of management's replies.
fn signer(config: &Config) -> anyhow::Result<Box<dyn DataSigner + Send>> {
    let Some(name) = &config.management.identity else {
        return Ok(Box::new(DigestSigner));
    };
    let signer = Locations::from_environment()
        .and_then(|locations| KeyChain::open(locations, Access::Read)?.signer(name.as_ref()))
        .context("management.identity")?;
    Ok(Box::new(move |data: &DataBuilder<'_>| sign_data(data, &signer).ok()))
}

/// Creates the data plane's end of the internal face.
pub(super) fn internal_face(end: InternalEnd) -> NewFace {
    own_face(FACE_ID_INTERNAL, FaceUri::internal(), end.limited())
}

/// Creates the data plane's end of a face of the forwarder itself.
pub(super) fn own_face(face_id: u64, uri: FaceUri, end: InternalEnd) -> NewFace {
    let properties = FaceProperties {
        local_fields: true,
        principal: PrincipalKey::Management,
        ..FaceProperties::point_to_point(face_id, Scope::Local)
    };
    let mut options = FaceOptions::stream(properties, Persistency::Permanent);
    options.link.congestion_marking = false;
    NewFace { ticket: None, transport: end.into(), options, remote: uri.clone(), local: uri }
}

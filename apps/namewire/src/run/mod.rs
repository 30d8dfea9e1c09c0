//! `namewire run`: the forwarder process.
//!
//! The workers of the data plane move packets; this thread, the control thread, accepts
//! connections, answers management and owns the authoritative tables.
//!
//! | module | what it holds |
//! |---|---|
//! | `plan` | whatever can be refused before the start |
//! | `privileges` | root's rights, given up |
//! | `settings` | from the configuration to what the data plane is made of |
//! | `identities` | who the forwarder is where it issues commands itself |
//! | `listeners` | the sockets to listen on, and what is said about them |
//! | `control` | the control thread's loop |
//! | `balance` | which worker has which names: looked at, evened out, told |
//! | `addresses` | addresses of the ends of faces, as the kernel knows them |
//! | `faces` | faces as management sees them; making new ones |
//! | `memory` | what the packet buffers are made of, told at the start |
//! | `missing` | interfaces that are named and not there |
//! | `names` | host names of configured faces |
//! | `bound`, `multicast` | faces that come and go with network interfaces |
//! | `tables` | FIB and strategy instances |
//! | `telemetry` | counters for datasets |
//! | `access` | who may manage the forwarder |
//! | `dpdk` | ports of DPDK, for Ethernet faces |
//! | `ethernet` | Ethernet faces, which come and go with interfaces |
//! | `captures` | frames on their way to a capture file |
//! | `reload` | the configuration read again while it runs |
//! | `restart` | settings that wait for the next start |
//! | `placement` | which worker does what on which processor |
//! | `service_manager` | telling systemd, or `namewire start`, that it is ready |
//! | `operator` | the control socket's requests: log levels, figures of the workers, captures |
//! | `websocket`, `webtransport` | for browsers |
//! | `stop` | signals |

pub(crate) mod access;
mod addresses;
mod balance;
mod bound;
mod captures;
mod control;
mod destinations;
mod directory;
mod dpdk;
mod ethernet;
mod faces;
mod identities;
mod listeners;
mod memory;
mod missing;
mod multicast;
mod names;
mod operator;
pub(crate) mod placement;
mod plan;
mod privileges;
mod reload;
mod restart;
pub(crate) mod service_manager;
mod service_times;
mod settings;
mod static_setup;
mod stop;
mod tables;
mod telemetry;
mod websocket;
mod webtransport;

use std::sync::Arc;

use anyhow::Context;
use ndn_dataplane::Dataplane;
use ndn_table::NameHasher;

pub(crate) use missing::interfaces_missing;
pub use plan::Plan;

use crate::config::{Config, Contradiction};
use crate::logging::{self, LogFile};
use namewire_control::ControlListener;

/// Reads the configuration again.
pub struct ConfigSource {
    /// The settings of the file, as the options of the command line change them.
    pub read: Box<dyn Fn() -> Result<Config, String> + Send>,
    /// There is a file.
    pub has_file: bool,
}

impl std::fmt::Debug for ConfigSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ConfigSource")
            .field("has_file", &self.has_file)
            .finish_non_exhaustive()
    }
}

/// Runs the forwarder until it is told to stop. SIGHUP makes it read `source`, and open `log_file` again.
///
/// # Errors
/// Whatever keeps it from starting, naming the address, path or setting; or a worker that ended by
/// a fault of its own.
pub fn run(
    config: &Config,
    plan: Plan,
    source: ConfigSource,
    log_file: Option<LogFile>,
) -> anyhow::Result<()> {
    let Plan { management, key_chain, places, privileges } = plan;
    let log = logging::init(&config.log, log_file).map_err(anyhow::Error::msg)?;
    let with_faces = places.iter().filter(|place| place.roles.has_faces()).count();
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(version, workers = places.len(), workers_with_faces = with_faces, "starting");
    // Best effort: fewer descriptors only mean fewer connections.
    if let Err(error) = ndn_sys::cpu::raise_descriptor_limit() {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    let signals = stop::Signals::new()?;
    missing::warn_of_interfaces(config);
    memory::warn_of_capacity(&config.pool, places.len());
    let mut listeners = listeners::Listeners::open(config, with_faces)?;
    let control_socket = open_control_socket(config, &mut listeners)?;
    // Before there are threads, which would keep rights of their own.
    privileges::carry_out(&privileges, &listeners)?;
    warn_of_rotation(&log, &privileges);
    check_anchors(&management, &privileges)?;
    let stop = signals.watch()?;
    let hasher = NameHasher::new(rand::random());
    let mut tables = tables::ForwardingTables::new(hasher, settings::fib_entries_max(config));
    let (fib, strategies) = tables.initial();
    let options = settings::dataplane_options(config, hasher, &places, listeners.take_udp());
    let dataplane = Dataplane::start(options, fib, strategies)?;
    memory::tell(&places, &dataplane);
    let figures = dataplane.workers().iter().zip(&places);
    let figures = figures.map(|(worker, place)| operator::WorkerFigures {
        rounds: Arc::clone(worker.worker_counters()),
        calls: Arc::clone(worker.call_counters()),
        pool: Arc::clone(worker.pool_counters()),
        shard: Arc::clone(worker.counters()),
        service_times: Arc::clone(worker.service_times()),
        exchange: worker.exchange_counters().cloned(),
        node: place.node,
    });
    let (operator, requests) = operator::Operator::new(log.clone(), figures.collect())?;
    let control_socket = match control_socket {
        None => None,
        Some(socket) => Some(socket.serve(Arc::new(operator)).context("the control socket")?),
    };
    let own = dpdk::open(config)?;
    let parts = control::Parts {
        management,
        key_chain,
        dataplane,
        tables,
        listeners,
        operator: requests,
        own,
    };
    let mut control = control::Control::new(config, parts)?;
    let started = config.clone();
    let result = control.run(&stop, &reload::Reload { source, log, started });
    drop(control_socket);
    result.and(control.finish())
}

/// Checks what the settings of access control name: certificates and trust rules.
///
/// # Errors
/// Which files cannot be used, with the settings.
pub(crate) fn check_access(config: &Config) -> Result<(), Vec<Contradiction>> {
    access::access_control(&config.management.access).map(|_| ())
}

/// Root's successor may have no right to make the log's next file, which would turn out at the first rotation only.
fn warn_of_rotation(log: &logging::LogHandle, change: &privileges::Change) {
    if let (privileges::Change::Become(identity, _), Some(directory)) =
        (change, log.closed_directory())
    {
        let (uid, directory) = (identity.uid, directory.display());
        tracing::warn!(
            uid,
            %directory,
            "after a rotation the log stays in the renamed file, unless its next one is made for this user first"
        );
    }
}

/// Root may read what its successor may not, and would be told only when the anchors are due.
fn check_anchors(
    management: &ndn_management::ControlState,
    change: &privileges::Change,
) -> anyhow::Result<()> {
    let privileges::Change::Become(identity, _) = change else { return Ok(()) };
    let uid = identity.uid;
    management.check_anchors().map_err(|reason| {
        anyhow::anyhow!("trust anchors with `refresh` must be readable for user {uid}: {reason}")
    })
}

fn open_control_socket(
    config: &Config,
    listeners: &mut listeners::Listeners,
) -> anyhow::Result<Option<ControlListener>> {
    let Some(path) = config.control_socket_path() else { return Ok(None) };
    let shown = path.display();
    let advice =
        || format!("cannot open the control socket {shown}; choose another path with --control");
    let made = directory::make_parent(&path, directory::Access::Umask).with_context(advice)?;
    listeners.own_files.extend(made);
    let socket = ControlListener::open(&path).with_context(advice)?;
    listeners.own_files.push(directory::OwnFile { path, identity: socket.file(), opened: None });
    Ok(Some(socket))
}

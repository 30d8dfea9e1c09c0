//! `namewire run`: the forwarder process.
//!
//! The workers of the data plane move packets; this thread, the control thread, accepts
//! connections, answers management and owns the authoritative tables.
//!
//! | module | what it holds |
//! |---|---|
//! | `settings` | from the configuration to what the data plane is made of |
//! | `listeners` | the sockets to listen on, and what is said about them |
//! | `control` | the control thread's loop |
//! | `balance` | which worker has which names: looked at, evened out, told |
//! | `faces` | faces as management sees them; making new ones |
//! | `tables` | FIB and strategy instances |
//! | `telemetry` | counters for datasets |
//! | `access` | who may manage the forwarder |
//! | `captures` | frames on their way to a capture file |
//! | `reload` | the configuration read again while it runs |
//! | `placement` | which worker does what on which processor |
//! | `operator` | the control socket's requests: log levels, figures of the workers, captures |
//! | `stop` | signals |

mod access;
mod balance;
mod captures;
mod control;
mod faces;
mod listeners;
mod multicast;
mod operator;
pub(crate) mod placement;
mod reload;
mod service_times;
mod settings;
mod static_setup;
mod stop;
mod tables;
mod telemetry;
mod websocket;

use std::sync::Arc;

use anyhow::Context;
use ndn_dataplane::Dataplane;
use ndn_management::ControlState;
use ndn_table::NameHasher;

use crate::config::Config;
use crate::control_socket::ControlSocket;
use crate::logging;

/// Reads the configuration again.
pub type ConfigSource = Box<dyn Fn() -> Result<Config, String> + Send>;

/// Management with the keys, certificates and trust rules that a configuration names.
#[derive(Debug)]
pub struct Management(ControlState);

impl Management {
    /// Reads what the configuration names.
    ///
    /// # Errors
    /// A file or identity that cannot be used, by its name.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        control::management(config).map(Self)
    }
}

/// Runs the forwarder until it is told to stop. SIGHUP makes it read `source`.
///
/// # Errors
/// Whatever keeps it from starting, naming the address, path or setting; or a worker that ended by
/// a fault of its own.
pub fn run(config: &Config, management: Management, source: ConfigSource) -> anyhow::Result<()> {
    let Management(management) = management;
    let log = logging::init(&config.log).map_err(anyhow::Error::msg)?;
    // Best effort: fewer descriptors only mean fewer connections.
    if let Err(error) = ndn_sys::cpu::raise_descriptor_limit() {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
    let stop = stop::StopRequest::on_signals()?;
    let places = placement::plan(&config.forwarder)?;
    let with_faces = places.iter().filter(|place| place.roles.has_faces()).count();
    tracing::info!(workers = places.len(), with_faces, "starting");
    let mut listeners = listeners::Listeners::open(&config.listeners, &config.faces, with_faces)?;
    let hasher = NameHasher::new(rand::random());
    let mut tables = tables::ForwardingTables::new(hasher, config.tables.fib_capacity);
    let (fib, strategies) = tables.initial();
    let options = settings::dataplane_options(config, hasher, &places, listeners.take_udp());
    let dataplane = Dataplane::start(options, fib, strategies)?;
    let figures = dataplane.workers().iter().map(|worker| operator::WorkerFigures {
        rounds: Arc::clone(worker.worker_counters()),
        calls: Arc::clone(worker.call_counters()),
        pool: Arc::clone(worker.pool_counters()),
        shard: Arc::clone(worker.counters()),
        service_times: Arc::clone(worker.service_times()),
        exchange: worker.exchange_counters().cloned(),
    });
    let (operator, requests) = operator::Operator::new(log.clone(), figures.collect())?;
    let control_socket = match config.control_socket_path() {
        None => None,
        Some(path) => Some(ControlSocket::serve(&path, Arc::new(operator)).with_context(|| {
            let path = path.display();
            format!("cannot open the control socket {path}; choose another path with --control")
        })?),
    };
    let parts = control::Parts { management, dataplane, tables, listeners, operator: requests };
    let mut control = control::Control::new(config, parts)?;
    let result = control.run(&stop, &reload::Reload { source, log });
    drop(control_socket);
    result.and(control.finish())
}

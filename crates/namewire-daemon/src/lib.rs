//! The Namewire forwarder as a library.
//!
//! The workers of the data plane move packets; the control thread accepts connections, answers management and
//! owns the authoritative tables. Nothing here concerns the process: signals, the log, privileges, standard output
//! and `exit` belong to the program that embeds a forwarder, which passes [`Hooks`].
//!
//! | module | what it holds |
//! |---|---|
//! | `hooks` | what the embedding program provides |
//! | `plan` | whatever can be refused before the start |
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
//! | `operator` | the control socket's requests: log levels, figures of the workers, captures |
//! | `websocket`, `webtransport` | for browsers |
#![forbid(unsafe_code)]

pub mod access;
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
pub mod frames;
mod hooks;
mod identities;
mod listeners;
mod memory;
mod missing;
mod multicast;
mod names;
mod operator;
pub mod placement;
mod plan;
mod reload;
mod restart;
mod service_times;
mod settings;
mod static_setup;
mod tables;
mod telemetry;
pub mod text;
mod websocket;
mod webtransport;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use anyhow::Context;
use namewire_config as config;
use namewire_control::ControlListener;
use ndn_dataplane::Dataplane;
use ndn_table::NameHasher;

use crate::config::{Config, Conflict};

pub use directory::OwnFile;
pub use hooks::{ConfigSource, Hooks, LogControl, NoLogControl, Requests};
pub use missing::interfaces_missing;
pub use plan::Plan;

/// A forwarder whose sockets are open and that has no threads yet: the embedding program may change its user now.
#[derive(Debug)]
pub struct OpenForwarder {
    config: Config,
    plan: Plan,
    listeners: listeners::Listeners,
    control_socket: Option<ControlListener>,
}

impl OpenForwarder {
    /// Opens the sockets that the configuration names.
    ///
    /// # Errors
    /// A socket cannot be opened; the error names the address or path and the setting.
    pub fn open(config: &Config, plan: Plan) -> anyhow::Result<Self> {
        let places = &plan.places;
        let with_faces = places.iter().filter(|place| place.roles.has_faces()).count();
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!(
            version,
            workers = places.len(),
            workers_with_faces = with_faces,
            "starting"
        );
        missing::warn_of_interfaces(config);
        memory::warn_of_capacity(&config.pool, places.len());
        let mut listeners = listeners::Listeners::open(config, with_faces)?;
        let control_socket = open_control_socket(config, &mut listeners)?;
        Ok(Self { config: config.clone(), plan, listeners, control_socket })
    }

    /// The UDP sockets. Only sockets of one user share a port.
    pub fn udp_sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.listeners.udp().map(std::os::fd::AsFd::as_fd)
    }

    /// Files and directories that were made for sockets, and are removed in the end.
    #[must_use]
    pub fn own_files(&self) -> &[OwnFile] {
        &self.listeners.own_files
    }

    /// Reads the trust anchors that are read again at intervals, as another user may not be allowed to.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn check_anchors(&self) -> Result<(), String> {
        self.plan.management.check_anchors()
    }

    /// Runs the forwarder on this thread, the control thread, until `hooks.requests` has it stop.
    ///
    /// # Errors
    /// What keeps the forwarder from starting, with the address, path or setting; or a worker that ended by a fault
    /// of its own.
    pub fn run(self, hooks: Hooks) -> anyhow::Result<()> {
        let Self { config, plan, mut listeners, control_socket } = self;
        let Plan { management, key_chain, places } = plan;
        let hasher = NameHasher::new(rand::random());
        let mut tables = tables::ForwardingTables::new(hasher, settings::fib_entries_max(&config));
        let (fib, strategies) = tables.initial();
        let options = settings::dataplane_options(&config, hasher, &places, listeners.take_udp());
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
        let (operator, requests) =
            operator::Operator::new(Arc::clone(&hooks.log), figures.collect())?;
        let control_socket = match control_socket {
            None => None,
            Some(socket) => Some(socket.serve(Arc::new(operator)).context("the control socket")?),
        };
        let own = dpdk::open(&config)?;
        let parts = control::Parts {
            management,
            key_chain,
            dataplane,
            tables,
            listeners,
            operator: requests,
            own,
        };
        let mut control = control::Control::new(&config, parts)?;
        let result = control.run(hooks, config);
        drop(control_socket);
        result.and(control.finish())
    }
}

/// Checks what the settings of access control name: certificates and trust rules.
///
/// # Errors
/// Which files cannot be used, with the settings.
pub fn check_access(config: &Config) -> Result<(), Vec<Conflict>> {
    access::access_control(&config.management, 0).map(|_| ())
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
    listeners.own_files.push(OwnFile { path, identity: socket.file(), opened: None });
    Ok(Some(socket))
}

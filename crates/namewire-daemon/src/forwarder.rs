//! A forwarder with threads: open sockets, start, and the handle of the running forwarder.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, anyhow, bail};
use namewire_control::{ControlListener, Operations};
use ndn_dataplane::{Dataplane, DiskFile, MemoryFaceOptions, WorkerView};
use ndn_face::InternalEnd;
use ndn_management::{CallError, Management};
use ndn_sys::poll::Poller;

use crate::calls::{Caller, Calls};
use crate::config::Config;
use crate::control::operator::{Operator, WorkerFigures};
use crate::control::{Control, Parts};
use crate::environment::Environment;
use crate::hooks::{Hooks, LogControl, Requests};
use crate::listeners::Listeners;
use crate::plan::Plan;
use crate::tables::ForwardingTables;
use crate::{OwnFile, directory, disk, dpdk, machine, memory, settings};

/// A forwarder whose sockets are open and that has no threads yet: the embedding program may change its user now.
#[derive(Debug)]
pub struct OpenForwarder {
    config: Config,
    plan: Plan,
    environment: Environment,
    listeners: Listeners,
    control_socket: Option<ControlListener>,
    disk: Option<DiskFile>,
}

impl OpenForwarder {
    /// Opens the sockets that the configuration names. The threads read the clock of `environment`, which is not a manual
    /// one: they wait in real time.
    ///
    /// # Errors
    /// A socket cannot be opened; the error names the address or path and the setting. Or the clock is a manual one.
    pub fn open(config: &Config, plan: Plan, environment: Environment) -> anyhow::Result<Self> {
        if environment.clock.is_manual() {
            bail!(
                "a forwarder with threads cannot run on a manual clock: step it (SteppedForwarder)"
            );
        }
        let places = &plan.places;
        let with_faces = places.iter().filter(|place| place.roles.has_faces()).count();
        let version = env!("CARGO_PKG_VERSION");
        let identity = config.management.identity.as_ref().map(ToString::to_string);
        tracing::info!(
            version,
            workers = places.len(),
            workers_with_faces = with_faces,
            pit_entries = config.tables.pit_capacity,
            fib_entries = config.tables.fib_capacity,
            cs_packets = config.tables.cs.capacity_packets,
            identity = identity.as_deref().unwrap_or("none"),
            "starting"
        );
        machine::log_warnings(config);
        let spread = environment.seeds.peer_spread;
        let mut listeners = Listeners::open(config, with_faces, spread)?;
        let control_socket = open_control_socket(config, &mut listeners)?;
        let disk = disk::open(config, &plan.places)?;
        Ok(Self { config: config.clone(), plan, environment, listeners, control_socket, disk })
    }

    /// The UDP sockets. Only sockets of one user share a port.
    pub fn udp_sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.listeners.udp().map(std::os::fd::AsFd::as_fd)
    }

    /// Files and directories created for sockets, removed at the end.
    #[must_use]
    pub fn own_files(&self) -> &[OwnFile] {
        &self.listeners.own_files
    }

    /// Reads the trust anchors that are reloaded periodically, to check that the current user may read them.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn check_anchors(&self) -> Result<(), String> {
        self.plan.management.check_anchors()
    }

    /// Starts the workers and the control thread.
    ///
    /// # Errors
    /// The forwarder cannot start; the error names the address, path or setting.
    pub fn start(self, hooks: Hooks) -> anyhow::Result<Forwarder> {
        let Self { config, plan, mut environment, mut listeners, control_socket, disk } = self;
        let Plan {
            management,
            key_chain,
            places,
            #[cfg(feature = "vip")]
            vip,
        } = plan;
        // Its errors are reported before anything runs that has to end again.
        let own = dpdk::open(&config)?;
        let disk = disk.and_then(|file| disk::prepare(file, &places, &mut environment));
        let mut tables = forwarding_tables(&config, &environment);
        let (fib, strategies) = tables.initial();
        let udp = listeners.take_udp();
        let mut options = settings::dataplane_options(&config, &places, udp, &environment);
        if let Some(disk) = disk {
            disk.start(&config.tables.cs.disk, &mut options.workers, &environment)?;
        }
        let dataplane = Dataplane::start(options, fib, strategies)?;
        memory::report(&places, &dataplane);
        let nodes = places.iter().map(|place| place.node);
        let (caller, calls) = Calls::new()?;
        let operator = operator(&hooks.log, dataplane.workers(), nodes, caller, &environment);
        let operator = Arc::new(operator);
        let operations: Arc<dyn Operations> = operator.clone();
        let mut control_socket = match control_socket {
            None => None,
            Some(socket) => Some(socket.serve(operations).context("the control socket")?),
        };
        let parts = Parts {
            clock: environment.clock,
            poller: Poller::new()?,
            has_link_monitor: true,
            management,
            key_chain,
            dataplane,
            tables,
            listeners,
            calls,
            own,
            #[cfg(feature = "vip")]
            vip,
        };
        let mut control = Control::new(&config, parts)?;
        let stop = hooks.requests.clone();
        let run = move || {
            let result = control.run(hooks, config);
            // No new connection meets a forwarder that stops. Those that wait for an answer end with the control thread's
            // queues.
            if let Some(socket) = &mut control_socket {
                socket.close();
            }
            let finished = control.finish();
            drop(control_socket);
            result.and(finished)
        };
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(run)?;
        Ok(Forwarder { requests: stop, operator, thread: Some(thread) })
    }
}

/// Creates the initial FIB and strategies of a forwarder.
pub(crate) fn forwarding_tables(config: &Config, environment: &Environment) -> ForwardingTables {
    let hasher = ndn_table::NameHasher::new(environment.seeds.name_hash_key);
    ForwardingTables::new(hasher, settings::fib_entries_max(config))
}

fn operator(
    log: &Arc<dyn LogControl>,
    workers: &[WorkerView],
    nodes: impl Iterator<Item = Option<usize>>,
    caller: Caller<Control>,
    environment: &Environment,
) -> Operator {
    let figures = workers.iter().zip(nodes).map(|(worker, node)| WorkerFigures {
        rounds: Arc::clone(worker.worker_counters()),
        calls: Arc::clone(worker.call_counters()),
        pool: Arc::clone(worker.pool_counters()),
        shard: Arc::clone(worker.counters()),
        service_times: Arc::clone(worker.service_times()),
        exchange: worker.exchange_counters().cloned(),
        disk: Arc::clone(worker.disk_counters()),
        node,
    });
    Operator::new(Arc::clone(log), figures.collect(), caller, environment.clock.clone())
}

/// A running forwarder. Several may run in one process. Dropping the handle stops it.
#[derive(Debug)]
pub struct Forwarder {
    requests: Requests,
    operator: Arc<Operator>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Forwarder {
    /// Opens the configured sockets, if any, and starts the forwarder. Its clock is not a manual one.
    ///
    /// # Errors
    /// All settings that cannot be used on this machine, or the reason why the forwarder cannot start.
    pub fn start(config: &Config, environment: Environment, hooks: Hooks) -> anyhow::Result<Self> {
        let plan = Plan::embedded(config, &environment.clock);
        let plan = plan.map_err(|faults| refused(&faults))?;
        OpenForwarder::open(config, plan, environment)?.start(hooks)
    }

    /// The operations of the control socket, for other threads too.
    #[must_use]
    pub fn operations(&self) -> Arc<dyn Operations> {
        self.operator.clone()
    }

    /// Creates a face whose frames go through queues in this process.
    ///
    /// # Errors
    /// The forwarder is stopping, or no file descriptor is left.
    pub fn add_memory_face(
        &self,
        options: MemoryFaceOptions,
    ) -> Result<(u64, InternalEnd), CallError> {
        let (near, far) = memory_pair(&options)?;
        Ok((self.operator.add_memory_face(options, near)?, far))
    }

    /// Connects this forwarder to another one of this process: each gets a face with these options, and the frames between
    /// them go through queues in memory. The face of one closes when that of the other does. Returns the FaceIds, of this
    /// forwarder first.
    ///
    /// # Errors
    /// A forwarder is stopping or has reached its limit of faces, or no file descriptor is left.
    pub fn connect(&self, other: &Self, options: MemoryFaceOptions) -> Result<[u64; 2], CallError> {
        let (near, far) = memory_pair(&options)?;
        let here = self.operator.add_memory_face(options, near)?;
        // If this fails, the dropped end closes the first face.
        Ok([here, other.operator.add_memory_face(options, far)?])
    }

    /// Requests a stop and waits until the forwarder has ended.
    ///
    /// # Errors
    /// A worker has ended by a fault of its own.
    pub fn shut_down(self) -> anyhow::Result<()> {
        self.requests.stop();
        self.join()
    }

    /// Waits until a stop was requested with [`Requests::stop`] and the forwarder has ended.
    ///
    /// # Errors
    /// A worker has ended by a fault of its own.
    pub fn join(mut self) -> anyhow::Result<()> {
        self.end()
    }

    fn end(&mut self) -> anyhow::Result<()> {
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(anyhow!("the control thread has ended by a fault of its own")),
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.requests.stop();
            if let Err(error) = self.end() {
                tracing::error!("a forwarder ended: {error:#}");
            }
        }
    }
}

impl Management for &Forwarder {
    fn exchange(&mut self, interest: Vec<u8>) -> Result<Vec<u8>, CallError> {
        self.operator.execute_interest(interest)?.map_err(CallError::NoAnswer)
    }

    fn nonce(&mut self) -> u32 {
        rand::random()
    }

    fn unix_ms(&self) -> u64 {
        crate::environment::now(self.operator.clock()).unix_ms()
    }
}

fn memory_pair(options: &MemoryFaceOptions) -> Result<(InternalEnd, InternalEnd), CallError> {
    let pair = InternalEnd::pair(options.queue_frames_max);
    pair.map_err(|error| CallError::NoAnswer(error.to_string()))
}

/// Joins all conflicts of a configuration into one error.
pub(crate) fn refused(faults: &[crate::config::Conflict]) -> anyhow::Error {
    anyhow!(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

fn open_control_socket(
    config: &Config,
    listeners: &mut Listeners,
) -> anyhow::Result<Option<ControlListener>> {
    let Some(path) = config.control_socket_path() else { return Ok(None) };
    let shown = path.display();
    let advice =
        || format!("cannot open the control socket {shown}; choose another path with --control");
    let made = directory::make_parent(&path, directory::Access::Enter).with_context(advice)?;
    listeners.own_files.extend(made);
    if let Some(directory) = directory::open_to_others(&path) {
        tracing::warn!(
            directory = %directory.display(),
            "other users can replace the control socket: choose a directory that only its owner can write to, with --control"
        );
    }
    let socket = ControlListener::open(&path).with_context(advice)?;
    listeners.own_files.push(OwnFile { path, identity: socket.file(), opened: None });
    Ok(Some(socket))
}

//! The control thread's end of the data plane.

mod dispatch;
mod memory;
mod ports;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ndn_face::{Direction, FaceSetOptions, FrameTap, LinkOptions, Persistency, PortId};
use ndn_forwarding::{
    Counters, Dispatcher, PitTokenPolicy, ShardConfig, SharedTables, StrategyTable,
};
use ndn_ring::{PagePreference, PoolError};
use ndn_sys::clock::Clock;
use ndn_sys::poll::Waker;
use ndn_sys::udp::UdpSocket;
use ndn_table::{FaceIndex, FibSnapshot, NameHasher, SHARDS_MAX, Timestamp};

use crate::balance::Balancer;
use crate::command::{Command, CsSettings, NewFace, NewTransport};
use crate::erasures::{Erasures, Progress};
use crate::event::Event;
use crate::exchange::{Exchange, slot_stride};
use crate::faces::FaceLimit;
use crate::overload::OverloadOptions;
use crate::queue::WorkerGone;
use crate::start::{Parts, prepare_on, sharers, spawn};
use crate::stepped::SteppedWorker;
use crate::view::WorkerView;
use crate::worker::{Crew, Worker};

pub use memory::MemoryFaceOptions;
use ports::PortWorkers;

/// The first FaceId of faces that are not the forwarder's own (NFD reserves those up to 255).
const FIRST_FACE_ID: u64 = 256;

/// What a data plane is made of.
#[derive(Debug)]
pub struct DataplaneOptions {
    /// Sizes and policies of the tables of each shard; [`Dataplane::start`] sets its number and the time
    /// of construction.
    pub shard: ShardConfig,
    /// 64 KiB blocks of packet buffers of each worker.
    pub pool_blocks: u32,
    /// What pages they are made of. Huge pages of a NUMA node are shared evenly by its workers.
    pub pool_pages: PagePreference,
    /// Limits of the faces of each worker together.
    pub faces: FaceSetOptions,
    /// Faces at one time, on all workers.
    pub faces_max: usize,
    /// The workers: 1 to [`SHARDS_MAX`].
    pub workers: Vec<WorkerOptions>,
    /// Components that names are dispatched by, if there are several workers.
    pub dispatch_depth: usize,
    /// The faces of UDP peers that have spoken first.
    pub on_demand: OnDemandOptions,
    /// How long to poll without waiting after the last packet.
    pub spin: Duration,
    /// How queues of Interests are kept short.
    pub overload: OverloadOptions,
    /// Random.
    pub nonce_seed: u64,
    /// Longest time that an Interest is pending, whatever it asks for.
    pub interest_lifetime_max: Duration,
    /// HopLimit of Interests that come without; 0 for none.
    pub default_hop_limit: u8,
    /// Where the workers read the time.
    pub clock: Clock,
}

/// What differs from worker to worker.
#[derive(Debug, Default)]
pub struct WorkerOptions {
    /// UDP sockets to receive on, and whether peers that have no face get one. Every worker that
    /// has faces has one for each address.
    pub channels: Vec<(UdpSocket, bool)>,
    /// The processor to run on; `None` leaves it to the kernel.
    pub cpu: Option<usize>,
    /// The NUMA node of that processor.
    pub node: Option<usize>,
    /// What it does.
    pub roles: Roles,
}

/// What a worker does. By default everything; a dedicated worker does only one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// Has faces of those who connect: receives from them and transmits to them.
    pub clients: bool,
    /// Has faces that this forwarder makes by itself or because it was told to.
    pub servers: bool,
    /// Has names: a part of PIT and Content Store.
    pub forwards: bool,
}

impl Default for Roles {
    fn default() -> Self {
        Self { clients: true, servers: true, forwards: true }
    }
}

impl Roles {
    /// Faces and no names.
    pub const IO: Self = Self { clients: true, servers: true, forwards: false };
    /// Names and no faces.
    pub const FORWARDING: Self = Self { clients: false, servers: false, forwards: true };

    /// Whether it may have a face.
    #[must_use]
    pub fn has_faces(self) -> bool {
        self.clients || self.servers
    }
}

/// Faces for UDP peers that have spoken first.
#[derive(Debug, Clone, Copy)]
pub struct OnDemandOptions {
    /// Largest datagram, bytes.
    pub mtu: usize,
    /// Their link services.
    pub link: LinkOptions,
    /// After how long without a packet they close.
    pub idle_timeout: Duration,
    /// When they send PIT tokens.
    pub pit_tokens: PitTokenPolicy,
    /// How many a worker makes for one peer ([`Strangers`](crate::Strangers)).
    pub per_peer_max: usize,
}

/// Why a data plane cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    /// The kernel refused something.
    #[error("cannot start a worker: {0}")]
    Io(#[from] io::Error),
    /// No memory for packet buffers.
    #[error("cannot reserve packet buffers: {0}")]
    Pool(#[from] PoolError),
    /// The processor is not there or not ours.
    #[error("cannot run a worker on CPU {cpu}: {error}")]
    Cpu {
        /// The processor.
        cpu: usize,
        /// Why not.
        error: io::Error,
    },
}

/// The running workers, seen from the control thread.
#[derive(Debug)]
pub struct Dataplane {
    workers: Vec<WorkerView>,
    event_waker: Arc<Waker>,
    next_face_id: Arc<AtomicU64>,
    /// The worker that gets the next face.
    next_worker: usize,
    /// Who has network devices.
    ports: HashMap<PortId, PortWorkers>,
    roles: Vec<Roles>,
    /// The worker whose events are looked at first.
    next_events: usize,
    erasures: Erasures,
    /// None if there is only one worker.
    balancer: Option<Balancer>,
    hasher: NameHasher,
}

impl Dataplane {
    /// Starts the workers, each with an empty shard, no faces and a thread.
    ///
    /// # Errors
    /// See [`DataplaneError`].
    ///
    /// # Panics
    /// If there are no workers, or more than [`SHARDS_MAX`], or no worker has one of the [`Roles`]; with a
    /// manual clock, since a thread waits in the kernel.
    pub fn start(
        options: DataplaneOptions,
        fib: Arc<FibSnapshot>,
        strategies: Arc<StrategyTable>,
    ) -> Result<Self, DataplaneError> {
        assert!(!options.clock.is_manual(), "threads wait on the system's clock");
        let (mut dataplane, workers) = Self::prepare(options, fib, strategies, false)?;
        for (number, (worker, cpu)) in workers.into_iter().enumerate() {
            dataplane.workers[number].thread = Some(spawn(number, worker, cpu)?);
        }
        Ok(dataplane)
    }

    /// The same without threads: the embedder steps the workers, in any order and on any thread. Nothing
    /// blocks or spins, and with a manual clock nothing depends on real time.
    ///
    /// # Errors
    /// See [`DataplaneError`].
    ///
    /// # Panics
    /// As [`start`](Self::start), except for the clock.
    pub fn stepped(
        options: DataplaneOptions,
        fib: Arc<FibSnapshot>,
        strategies: Arc<StrategyTable>,
    ) -> Result<(Self, Vec<SteppedWorker>), DataplaneError> {
        let (dataplane, workers) = Self::prepare(options, fib, strategies, true)?;
        Ok((dataplane, workers.into_iter().map(|(worker, _)| SteppedWorker::new(worker)).collect()))
    }

    /// Makes the workers and the handle. A worker comes with the processor that its thread is pinned to.
    fn prepare(
        mut options: DataplaneOptions,
        fib: Arc<FibSnapshot>,
        strategies: Arc<StrategyTable>,
        is_stepped: bool,
    ) -> Result<(Self, Vec<(Worker, Option<usize>)>), DataplaneError> {
        let workers = std::mem::take(&mut options.workers);
        let count = workers.len();
        assert!((1..=SHARDS_MAX).contains(&count), "1 to {SHARDS_MAX} workers");
        let roles: Vec<Roles> = workers.iter().map(|worker| worker.roles).collect();
        let members: Vec<u8> =
            (0..=u8::MAX).zip(&roles).filter(|(_, one)| one.forwards).map(|(n, _)| n).collect();
        assert!(!members.is_empty(), "somebody forwards");
        assert!(roles.iter().any(|one| one.clients), "somebody has the faces of clients");
        assert!(roles.iter().any(|one| one.servers), "somebody has the faces of servers");
        let shared = SharedTables::with_members(count, &members, options.dispatch_depth);
        let stride = slot_stride(count);
        let parts = Parts {
            event_waker: Arc::new(Waker::new()?),
            next_face_id: Arc::new(AtomicU64::new(FIRST_FACE_ID)),
            limit: Arc::new(FaceLimit::new(options.faces_max, stride)),
            registry: Arc::default(),
            stride,
            shared,
            fib,
            strategies,
            options,
            is_stepped,
        };
        let mut crews: Vec<Option<Box<Crew>>> = (0..count).map(|_| None).collect();
        if count > 1 {
            for (own, (crew, exchange)) in
                (0..).zip(crews.iter_mut().zip(Exchange::between(count)?))
            {
                let dispatcher = Dispatcher::new(Arc::clone(&parts.shared.ndt), own);
                let registry = Arc::clone(&parts.registry);
                let overload = &parts.options.overload;
                *crew = Some(Box::new(Crew::new(exchange, dispatcher, registry, overload)));
            }
        }
        let nodes: Vec<Option<usize>> = workers.iter().map(|worker| worker.node).collect();
        let prepared = workers.into_iter().zip(crews).enumerate();
        // All are made before the first one runs: what fails, fails before anything happens.
        let prepared = prepared
            .map(|(number, (worker, crew))| {
                let sharers = sharers(&nodes[number..]);
                prepare_on(worker.cpu, || parts.prepare(number, worker, crew, sharers))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let (workers, views) =
            prepared.into_iter().map(|(worker, cpu, view)| ((worker, cpu), view)).unzip();
        let Parts { event_waker, next_face_id, shared, options, .. } = parts;
        let dataplane = Self {
            workers: views,
            event_waker,
            next_face_id,
            next_worker: 0,
            ports: HashMap::new(),
            roles,
            next_events: 0,
            erasures: Erasures::default(),
            balancer: (count > 1).then(|| Balancer::new(shared.ndt)),
            hasher: options.shard.hasher,
        };
        Ok((dataplane, workers))
    }

    /// A FaceId that was never used.
    #[must_use]
    pub fn allocate_face_id(&self) -> u64 {
        self.next_face_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Queues a command. It reaches its worker with the next [`wake`](Self::wake). A face goes to
    /// one worker, anything else to whom it concerns.
    pub fn send(&mut self, command: Command) {
        if let [worker] = &mut self.workers[..] {
            return worker.send(command);
        }
        match command {
            Command::AddFace(face) => {
                let number = self.worker_for(&face);
                self.workers[number].send(Command::AddFace(face));
            }
            Command::AddPort(port) => self.add_port(*port),
            Command::ChangePort { port, change } => self.change_port(port, *change),
            Command::EraseCs { ticket, prefix, limit } => {
                let command = self.erasures.begin(ticket, prefix, limit);
                self.workers[0].send(command);
            }
            Command::AnswerLearning { ticket, announcement } => {
                // A shard has the number of its worker.
                if let Some(worker) = self.workers.get_mut(usize::from(ticket.shard)) {
                    worker.send(Command::AnswerLearning { ticket, announcement });
                }
            }
            Command::SetTap(None) => self.broadcast(|| Command::SetTap(None)),
            Command::SetTap(Some(tap)) => {
                let tap = Arc::new(Mutex::new(tap));
                self.broadcast(|| Command::SetTap(Some(Box::new(SharedTap(Arc::clone(&tap))))));
            }
            Command::ConfigureCs(settings) => {
                let count = self.roles.iter().filter(|one| one.forwards).count();
                let capacity_packets =
                    settings.capacity_packets.map(|packets| packets.div_ceil(count));
                self.broadcast(|| {
                    Command::ConfigureCs(CsSettings { capacity_packets, ..settings })
                });
            }
            Command::UpdateFace { face_id, options } => {
                self.broadcast(|| Command::UpdateFace { face_id, options: options.clone() });
            }
            Command::SeparateInput { face_id } => {
                self.broadcast(|| Command::SeparateInput { face_id });
            }
            Command::RemoveFace { face_id } => self.broadcast(|| Command::RemoveFace { face_id }),
            Command::SetTables { fib, strategies } => self.broadcast(|| Command::SetTables {
                fib: Arc::clone(&fib),
                strategies: strategies.clone(),
            }),
            Command::SetRegions(regions) => {
                self.broadcast(|| Command::SetRegions(Arc::clone(&regions)));
            }
            Command::Trace(is_on) => self.broadcast(|| Command::Trace(is_on)),
            Command::Stop => self.broadcast(|| Command::Stop),
        }
    }

    fn broadcast(&mut self, command: impl Fn() -> Command) {
        self.workers.iter_mut().for_each(|worker| worker.send(command()));
    }

    /// Faces are spread in turn over the workers that have such; that of management is the first worker's, which
    /// the control thread waits for.
    fn worker_for(&mut self, face: &NewFace) -> usize {
        match face.transport {
            NewTransport::Internal(_) => 0,
            NewTransport::Station(port, _) => self.ports.get(&port).map_or(0, PortWorkers::first),
            NewTransport::Stream(_)
            | NewTransport::Operator(_)
            | NewTransport::WebSocket(_)
            | NewTransport::Datagram(_)
            | NewTransport::Connected(_)
            | NewTransport::Memif(_)
            | NewTransport::Memory(_)
            | NewTransport::Group(..) => {
                let is_client = face.options.persistency == Persistency::OnDemand;
                self.next_worker(|roles| if is_client { roles.clients } else { roles.servers })
            }
        }
    }

    /// The next one in turn of those that do something.
    fn next_worker(&mut self, does: impl Fn(Roles) -> bool) -> usize {
        let count = self.workers.len();
        let mut others = (1..=count).map(|step| (self.next_worker + step) % count);
        self.next_worker = others.find(|&one| does(self.roles[one])).unwrap_or(0);
        self.next_worker
    }

    /// Wakes each worker once for everything queued.
    pub fn wake(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.commands.wake());
    }

    /// Whether commands still wait on this side because a worker is behind.
    #[must_use]
    pub fn is_backed_up(&self) -> bool {
        self.workers.iter().any(|worker| worker.commands.is_backed_up())
    }

    /// Whether all workers have carried out all commands. A single worker carries them out before
    /// anything that reaches it later, so it need not be waited for; several say so with the
    /// [event waker](Self::event_waker).
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let is_done = |worker: &WorkerView| worker.worker_counters.commands.value() == worker.sent;
        self.workers.len() == 1 || self.workers.iter().all(is_done)
    }

    /// The next event; `None` when there is none now.
    ///
    /// # Errors
    /// [`WorkerGone`] if a worker has ended.
    pub fn next_event(&mut self) -> Result<Option<Event>, WorkerGone> {
        let count = self.workers.len();
        let mut looked_at = 0;
        while looked_at < count {
            let Some(event) = self.workers[self.next_events].events.receive()? else {
                self.next_events = (self.next_events + 1) % count;
                looked_at += 1;
                continue;
            };
            let Event::CsErased { ticket, erased, more } = event else { return Ok(Some(event)) };
            match self.erasures.advance(ticket, erased, more, count) {
                Progress::Done(event) => return Ok(Some(event)),
                Progress::Ask(number, command) => {
                    self.workers[number].send(command);
                    self.workers[number].commands.wake();
                }
            }
        }
        Ok(None)
    }

    /// Readable when there may be an event. Reset it before looking for events.
    #[must_use]
    pub fn event_waker(&self) -> &Waker {
        &self.event_waker
    }

    /// The workers, by number.
    #[must_use]
    pub fn workers(&self) -> &[WorkerView] {
        &self.workers
    }

    /// What all shards count together.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters::total(self.workers.iter().map(|worker| &*worker.counters))
    }

    /// Ends the workers and waits for them.
    ///
    /// # Errors
    /// [`WorkerGone`] if one had ended by a fault of its own.
    pub fn stop(mut self) -> Result<(), WorkerGone> {
        self.broadcast(|| Command::Stop);
        self.wake();
        let threads: Vec<_> = self.workers.iter_mut().filter_map(|w| w.thread.take()).collect();
        // All of them are waited for, whatever became of the first.
        let ends: Vec<_> = threads.into_iter().map(JoinHandle::join).collect();
        if ends.iter().all(Result::is_ok) { Ok(()) } else { Err(WorkerGone) }
    }
}

/// One tap for the frames of several workers.
#[derive(Debug)]
struct SharedTap(Arc<Mutex<Box<dyn FrameTap>>>);

impl FrameTap for SharedTap {
    fn frame(
        &mut self,
        now: Timestamp,
        face: FaceIndex,
        direction: Direction,
        header: &[u8],
        payload: &[u8],
    ) {
        let mut tap = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tap.frame(now, face, direction, header, payload);
    }
}

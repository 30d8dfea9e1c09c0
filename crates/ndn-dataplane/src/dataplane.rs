//! The control thread's handle of the data plane.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use ndn_face::{Direction, FacePlacement, FrameTap, InternalEnd, PortId};
use ndn_forwarding::{Counters, Dispatcher, SharedTables, StrategyTable};
use ndn_packet::NameRef;
use ndn_sys::poll::Waker;
use ndn_table::{
    CsReplacement, FaceIndex, FibSnapshot, NameHasher, NdtError, PREFIX_HASHES_MAX, SHARDS_MAX,
};
use ndn_types::{LedgerReport, Persistency, PrincipalKey, Timestamp};

use crate::balance::{Balanced, Balancer, EntryLoad, LatestExpiries};
use crate::command::{Command, CsSettings, NewFace, NewPort, PortChange};
use crate::erasures::{Erasures, Progress};
use crate::event::Event;
use crate::exchange::{Exchange, slot_stride};
use crate::face_shares::{FaceDebt, FaceLimits, FaceRefusal, FaceShares};
use crate::faces::faces_max;
use crate::options::{DataplaneError, DataplaneOptions, MemoryFaceOptions, Roles};
use crate::port_workers::PortWorkers;
use crate::queue::WorkerGone;
use crate::start::{Parts, prepare_on, sharers, spawn};
use crate::stepped::SteppedWorker;
use crate::view::WorkerView;
use crate::worker::{InterWorker, Worker};

/// The first FaceId of faces that are not the forwarder's own (NFD reserves those up to 255).
const FIRST_FACE_ID: u64 = 256;

/// A point in the sequence of commands to the workers: for each, the number of commands before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandMark(Box<[u64]>);

/// The control thread's handle of the workers.
#[derive(Debug)]
pub struct Dataplane {
    workers: Vec<WorkerView>,
    event_waker: Arc<Waker>,
    next_face_id: Arc<AtomicU64>,
    face_shares: Arc<FaceShares>,
    /// The worker that gets the next face.
    next_worker: usize,
    /// The workers of each network device.
    ports: HashMap<PortId, PortWorkers>,
    roles: Vec<Roles>,
    /// The worker whose events are received first.
    next_events: usize,
    erasures: Erasures,
    /// None with a single worker.
    balancer: Option<Balancer>,
    hasher: NameHasher,
    /// Maximum number of packets in the Content Store of a shard.
    cs_packets_max: u32,
}

/// A worker, and the processor that its thread is pinned to.
type PinnedWorker = (Worker, Option<usize>);

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

    /// Makes the workers and the handle.
    pub(crate) fn prepare(
        mut options: DataplaneOptions,
        fib: Arc<FibSnapshot>,
        strategies: Arc<StrategyTable>,
        is_stepped: bool,
    ) -> Result<(Self, Vec<PinnedWorker>), DataplaneError> {
        let workers = std::mem::take(&mut options.workers);
        let count = workers.len();
        assert!((1..=SHARDS_MAX).contains(&count), "1 to {SHARDS_MAX} workers");
        let roles: Vec<Roles> = workers.iter().map(|worker| worker.roles).collect();
        let members: Vec<u8> =
            (0..=u8::MAX).zip(&roles).filter(|(_, one)| one.forwards).map(|(n, _)| n).collect();
        assert!(!members.is_empty(), "a worker forwards");
        assert!(roles.iter().any(|one| one.clients), "a worker has the faces of clients");
        assert!(roles.iter().any(|one| one.servers), "a worker has the faces of servers");
        let shared = SharedTables::with_members(count, &members, options.dispatch_depth);
        let stride = slot_stride(count);
        let limits = FaceLimits {
            all: options.faces_max.min(faces_max(stride)),
            per_peer: options.on_demand.per_peer_max,
            reserves: options.faces.reserves,
        };
        let face_shares = Arc::new(FaceShares::new(limits));
        let parts = Parts {
            event_waker: Arc::new(Waker::new()?),
            next_face_id: Arc::new(AtomicU64::new(FIRST_FACE_ID)),
            face_shares: Arc::clone(&face_shares),
            registry: Arc::default(),
            stride,
            shared,
            fib,
            strategies,
            options,
            is_stepped,
        };
        let mut ends: Vec<Option<Box<InterWorker>>> = (0..count).map(|_| None).collect();
        if count > 1 {
            for (own, (end, exchange)) in (0..).zip(ends.iter_mut().zip(Exchange::between(count)?))
            {
                let dispatcher = Dispatcher::new(Arc::clone(&parts.shared.ndt), own);
                let registry = Arc::clone(&parts.registry);
                let overload = &parts.options.overload;
                *end = Some(Box::new(InterWorker::new(exchange, dispatcher, registry, overload)));
            }
        }
        let nodes: Vec<Option<usize>> = workers.iter().map(|worker| worker.node).collect();
        let prepared = workers.into_iter().zip(ends).enumerate();
        // All are made before the first one runs, so that an error leaves nothing running.
        let prepared = prepared
            .map(|(number, (worker, end))| {
                let sharers = sharers(&nodes[number..]);
                prepare_on(worker.cpu, || parts.prepare(number, worker, end, sharers))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let (workers, views) =
            prepared.into_iter().map(|(worker, cpu, view)| ((worker, cpu), view)).unzip();
        let Parts { event_waker, next_face_id, shared, options, .. } = parts;
        let dataplane = Self {
            workers: views,
            event_waker,
            next_face_id,
            face_shares,
            next_worker: 0,
            ports: HashMap::new(),
            roles,
            next_events: 0,
            erasures: Erasures::default(),
            balancer: (count > 1).then(|| Balancer::new(shared.ndt)),
            hasher: options.shard.hasher,
            cs_packets_max: options.shard.pcct.cs_packets_max,
        };
        Ok((dataplane, workers))
    }

    /// A FaceId that was never used.
    #[must_use]
    pub fn allocate_face_id(&self) -> u64 {
        self.next_face_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Why a principal could not have one more face, if so. It is decided when the face is made.
    #[must_use]
    pub fn face_refusal(&self, principal: PrincipalKey) -> Option<FaceRefusal> {
        self.face_shares.refusal(principal)
    }

    /// The principals that have to give up faces, because others took their places.
    #[must_use]
    pub fn face_debts(&self) -> Vec<FaceDebt> {
        self.face_shares.debts()
    }

    /// Closes a face that its principal gives up.
    pub fn give_up_face(&mut self, face_id: u64) {
        self.face_shares.give_up(face_id);
        self.send(Command::RemoveFace { face_id });
    }

    /// Faces that principals have.
    #[must_use]
    pub fn face_report(&self) -> LedgerReport<1> {
        self.face_shares.report()
    }

    /// Queues a command. It reaches its worker with the next [`wake`](Self::wake). A face goes to
    /// one worker, other commands to all that they concern.
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
            Command::EraseCs { ticket, prefix, limit, is_whole_name } => {
                let command = self.erasures.begin(ticket, prefix, limit, is_whole_name);
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
            // One policy is of one shard: `set_cs_policy` sends it.
            Command::SetCsPolicy(new) => self.workers[0].send(Command::SetCsPolicy(new)),
            Command::SetLink { face_id, event } => {
                self.broadcast(|| Command::SetLink { face_id, event });
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
            #[cfg(feature = "vip")]
            Command::ExchangeVip { decisions, requests } => {
                let objects = requests.capacity();
                self.broadcast(|| Command::ExchangeVip {
                    decisions: Arc::clone(&decisions),
                    requests: Box::new(ndn_forwarding::VipRequests::with_capacity(objects)),
                });
            }
            Command::SetRegions(regions) => {
                self.broadcast(|| Command::SetRegions(Arc::clone(&regions)));
            }
            Command::ReportLedgers { answer, .. } => {
                for (worker, &Roles { forwards, .. }) in self.workers.iter_mut().zip(&self.roles) {
                    worker.send(Command::ReportLedgers { forwards, answer: answer.clone() });
                }
            }
            Command::Trace(is_on) => self.broadcast(|| Command::Trace(is_on)),
            Command::TracePackets(trace) => {
                self.broadcast(|| Command::TracePackets(trace.clone()));
            }
            Command::Stop => self.broadcast(|| Command::Stop),
        }
    }

    /// Puts another replacement policy of the Content Store in force in every shard, without loss of what is cached.
    /// `build` makes it for a shard of up to this many packets.
    pub fn set_cs_policy(&mut self, build: impl Fn(u32) -> CsReplacement) {
        let packets = self.cs_packets_max;
        let workers = self.workers.iter_mut().zip(&self.roles);
        for (worker, _) in workers.filter(|(_, roles)| roles.forwards) {
            worker.send(Command::SetCsPolicy(Box::new(build(packets))));
        }
    }

    fn broadcast(&mut self, command: impl Fn() -> Command) {
        self.workers.iter_mut().for_each(|worker| worker.send(command()));
    }

    /// The worker of a new face: in turn those with the role for it. The face of management belongs to the first
    /// worker, which the control thread waits for.
    fn worker_for(&mut self, face: &NewFace) -> usize {
        match face.transport.placement() {
            FacePlacement::First => 0,
            FacePlacement::Device(port) => self.ports.get(&port).map_or(0, PortWorkers::first),
            FacePlacement::Balanced => {
                let is_client = face.options.persistency == Persistency::OnDemand;
                self.next_worker(|roles| if is_client { roles.clients } else { roles.servers })
            }
        }
    }

    /// The next worker in turn with a role.
    fn next_worker(&mut self, has_role: impl Fn(Roles) -> bool) -> usize {
        let count = self.workers.len();
        let mut others = (1..=count).map(|step| (self.next_worker + step) % count);
        self.next_worker = others.find(|&one| has_role(self.roles[one])).unwrap_or(0);
        self.next_worker
    }

    /// Wakes each worker once for everything queued.
    pub fn wake(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.commands.wake());
    }

    /// Whether there is one worker: it carries out all commands before it reads the internal face.
    #[must_use]
    pub fn has_one_worker(&self) -> bool {
        self.workers.len() == 1
    }

    /// The commands sent so far.
    #[must_use]
    pub fn mark(&self) -> CommandMark {
        CommandMark(self.workers.iter().map(|worker| worker.sent).collect())
    }

    /// Whether all workers have carried out the commands before a mark, whatever was sent since. They announce it by the
    /// [event waker](Self::event_waker).
    #[must_use]
    pub fn has_executed(&self, mark: &CommandMark) -> bool {
        let workers = self.workers.iter().zip(&mark.0);
        workers.into_iter().all(|(worker, sent)| worker.worker_counters.commands.value() >= *sent)
    }

    /// Whether a worker is behind with its commands: those that can wait should not be sent.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.workers.iter().any(|worker| worker.commands.is_full())
    }

    /// Whether all workers have carried out all commands. They announce it by the
    /// [event waker](Self::event_waker).
    #[must_use]
    pub fn has_executed_all(&self) -> bool {
        let is_done = |worker: &WorkerView| worker.worker_counters.commands.value() == worker.sent;
        self.workers.iter().all(is_done)
    }

    /// The next event; `None` when there is none now.
    ///
    /// # Errors
    /// [`WorkerGone`] if a worker has ended.
    pub fn next_event(&mut self) -> Result<Option<Event>, WorkerGone> {
        let count = self.workers.len();
        let mut polled = 0;
        while polled < count {
            let Some(event) = self.workers[self.next_events].events.receive()? else {
                self.next_events = (self.next_events + 1) % count;
                polled += 1;
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

    /// Readable when there may be an event. Reset it before receiving events.
    #[must_use]
    pub fn event_waker(&self) -> &Waker {
        &self.event_waker
    }

    /// The hasher of names.
    #[must_use]
    pub const fn hasher(&self) -> NameHasher {
        self.hasher
    }

    /// The workers, by number.
    #[must_use]
    pub fn workers(&self) -> &[WorkerView] {
        &self.workers
    }

    /// The sum of the counters of all shards.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters::total(self.workers.iter().map(|worker| &*worker.counters))
    }

    /// Ends the workers and waits for them.
    ///
    /// # Errors
    /// [`WorkerGone`] if one has panicked.
    pub fn stop(mut self) -> Result<(), WorkerGone> {
        self.end()
    }

    fn end(&mut self) -> Result<(), WorkerGone> {
        self.broadcast(|| Command::Stop);
        self.wake();
        let threads: Vec<_> = self.workers.iter_mut().filter_map(|w| w.thread.take()).collect();
        // All of them are joined, even if one has panicked.
        let ends: Vec<_> = threads.into_iter().map(JoinHandle::join).collect();
        if ends.iter().all(Result::is_ok) { Ok(()) } else { Err(WorkerGone) }
    }
}

/// Ends the workers and waits for them, as [`stop`](Dataplane::stop) does, for example when a later step of the start
/// fails.
impl Drop for Dataplane {
    fn drop(&mut self) {
        // A panic of a worker has been reported there.
        let _ = self.end();
    }
}

// Memory faces.
impl Dataplane {
    /// Makes a face in memory. Returns its FaceId, which is also the ticket of the
    /// [event](crate::Event) that answers, and the embedding program's end.
    ///
    /// # Errors
    /// Those of making a [`Waker`].
    pub fn add_memory_face(
        &mut self,
        options: &MemoryFaceOptions,
    ) -> io::Result<(u64, InternalEnd)> {
        let (near, far) = InternalEnd::pair(options.queue_frames_max)?;
        let face_id = self.allocate_face_id();
        self.send(Command::AddFace(Box::new(options.new_face(Some(face_id), face_id, near))));
        self.wake();
        Ok((face_id, far))
    }
}

// Network devices.
impl Dataplane {
    /// Maximum number of workers with sockets of one network device.
    #[must_use]
    pub fn port_workers(&self) -> usize {
        self.roles.iter().filter(|roles| roles.servers).count()
    }

    /// Adds a device. Each device begins with another worker, so that devices with one socket are spread.
    pub(super) fn add_port(&mut self, new: NewPort) {
        let NewPort { port, name, is_up, accepts, sockets, on_demand } = new;
        let workers = (0..self.port_workers()).map(|_| self.next_worker(|roles| roles.servers));
        let workers = workers.collect();
        let mut device = PortWorkers { name: name.clone(), workers, socket_count: 0, is_up };
        // The next device begins with the worker after the first of this one.
        self.next_worker = device.first();
        for (worker, sockets) in device.deal(sockets) {
            let (name, is_up) = (name.clone(), is_up && !sockets.is_empty());
            let new = NewPort { port, name, is_up, accepts, sockets, on_demand };
            self.workers[worker].send(Command::AddPort(Box::new(new)));
        }
        self.ports.insert(port, device);
    }

    pub(super) fn change_port(&mut self, port: PortId, change: PortChange) {
        let Self { workers, ports, .. } = self;
        let Some(device) = ports.get_mut(&port) else { return };
        let mut send = |worker: usize, change| {
            workers[worker].send(Command::ChangePort { port, change: Box::new(change) });
        };
        let mut send_all = |device: &PortWorkers, change: &dyn Fn() -> PortChange| {
            device.workers.iter().for_each(|&worker| send(worker, change()));
        };
        match change {
            PortChange::Link(is_up) => {
                device.is_up = is_up;
                let states = device.states().into_iter();
                states.for_each(|(worker, is_up)| send(worker, PortChange::Link(is_up)));
            }
            PortChange::Sockets(sockets, stations) => {
                for (worker, sockets) in device.deal(sockets) {
                    send(worker, PortChange::Sockets(sockets, stations));
                }
                // It may be the first socket of a worker.
                let states = device.states().into_iter();
                states.for_each(|(worker, is_up)| send(worker, PortChange::Link(is_up)));
            }
            PortChange::Suspend => send_all(device, &|| PortChange::Suspend),
            PortChange::Address(mac) => send_all(device, &|| PortChange::Address(mac)),
            PortChange::Purpose { accepts, leaves_group } => {
                send_all(device, &|| PortChange::Purpose { accepts, leaves_group });
            }
            PortChange::Gone => {
                device.is_up = false;
                send_all(device, &|| PortChange::Gone);
            }
            PortChange::Remove => {
                send_all(device, &|| PortChange::Remove);
                ports.remove(&port);
            }
        }
    }
}

// The dispatch of names.
impl Dataplane {
    /// The dispatch of names to shards, and the load of the shards; none with a single worker.
    #[must_use]
    pub fn balancer(&self) -> Option<&Balancer> {
        self.balancer.as_ref()
    }

    /// The entry of a name in the dispatch table; none with a single worker, or if the name is too long to be
    /// forwarded.
    #[must_use]
    pub fn dispatch_entry(&self, name: NameRef<'_>) -> Option<usize> {
        let mut hashes = [0; PREFIX_HASHES_MAX];
        let count = self.hasher.hash_prefixes(name, &mut hashes)?;
        let route = self.balancer.as_ref()?.ndt().find(name, &hashes[..count]);
        Some(usize::from(route.entry))
    }

    /// Measures the load of the shards, and moves names between them if it is uneven. No effect with a single
    /// worker.
    pub fn balance(&mut self, now: Timestamp) -> Balanced {
        let Self { balancer, workers, .. } = self;
        let Some(balancer) = balancer else { return Balanced::default() };
        let load_of = |entry| {
            let loads = workers.iter().filter_map(|worker| worker.loads.as_deref());
            loads.fold(EntryLoad::default(), |sum, load| EntryLoad {
                count: sum.count.wrapping_add(load.count(entry)),
                components: sum.components.max(load.components(entry)),
            })
        };
        balancer.balance(now, load_of, |shard| latest_expiries(workers, shard))
    }

    /// Gives an entry of the dispatch table to a shard.
    ///
    /// # Errors
    /// See [`NdtError`]; with a single worker, [`NdtError::NoSuchEntry`].
    pub fn set_dispatch(
        &mut self,
        entry: usize,
        shard: u8,
        now: Timestamp,
    ) -> Result<(), NdtError> {
        let balancer = self.balancer.as_mut().ok_or(NdtError::NoSuchEntry)?;
        balancer.set(entry, shard, now)
    }
}

fn latest_expiries(workers: &[WorkerView], shard: u8) -> LatestExpiries {
    workers.get(usize::from(shard)).map_or_else(LatestExpiries::default, |worker| LatestExpiries {
        all: Timestamp::from_nanos(worker.counters.latest_expiry_ns.value()),
        renewed: Timestamp::from_nanos(worker.counters.latest_renewed_expiry_ns.value()),
    })
}

/// A tap that several workers share.
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

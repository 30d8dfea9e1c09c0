//! The control thread's end of the data plane.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ndn_face::{CallCounters, ChannelCounters, FaceSet, FaceSetOptions, LinkOptions};
use ndn_forwarding::{Burst, Counters, Ingress, PitTokenPolicy, Shard, ShardConfig, StrategyTable};
use ndn_ring::{PacketPool, PoolCounters, PoolError};
use ndn_sys::poll::{Interest, Waker};
use ndn_sys::udp::UdpSocket;
use ndn_sys::{clock, cpu};
use ndn_table::{FibSnapshot, Timestamp};

use crate::command::Command;
use crate::event::Event;
use crate::faces::FaceNumbers;
use crate::queue::{Inbox, Sender, WorkerGone, channel};
use crate::worker::{COMMAND_TOKEN, RoundState, Worker, WorkerCounters};

/// The first FaceId of faces that are not the forwarder's own (NFD reserves those up to 255).
const FIRST_FACE_ID: u64 = 256;
/// A stack that holds the largest burst with room to spare.
const STACK_BYTES: usize = 1 << 20;

/// What a data plane is made of.
#[derive(Debug)]
pub struct DataplaneOptions {
    /// Sizes and policies of the tables.
    pub shard: ShardConfig,
    /// 64 KiB blocks of packet buffers.
    pub pool_blocks: u32,
    /// Limits of the faces together.
    pub faces: FaceSetOptions,
    /// Faces at one time.
    pub faces_max: usize,
    /// UDP sockets to receive on, and whether peers that have no face get one.
    pub channels: Vec<(UdpSocket, bool)>,
    /// The faces of such peers.
    pub on_demand: OnDemandOptions,
    /// The processor to run on; `None` leaves it to the kernel.
    pub cpu: Option<usize>,
    /// How long to poll without waiting after the last packet.
    pub spin: Duration,
    /// Random.
    pub nonce_seed: u64,
    /// Longest time that an Interest is pending, whatever it asks for.
    pub interest_lifetime_max: Duration,
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

/// A running worker, seen from the control thread.
#[derive(Debug)]
pub struct Dataplane {
    commands: Sender<Command>,
    events: Inbox<Event>,
    thread: Option<JoinHandle<()>>,
    next_face_id: Arc<AtomicU64>,
    counters: Arc<Counters>,
    worker_counters: Arc<WorkerCounters>,
    pool_counters: Arc<PoolCounters>,
    channels: Vec<(SocketAddr, Arc<ChannelCounters>)>,
    calls: Arc<CallCounters>,
}

impl Dataplane {
    /// Starts a worker with an empty shard and no faces.
    ///
    /// # Errors
    /// See [`DataplaneError`].
    pub fn start(
        options: DataplaneOptions,
        fib: Arc<FibSnapshot>,
        strategies: Arc<StrategyTable>,
    ) -> Result<Self, DataplaneError> {
        if let Some(cpu) = options.cpu
            && !cpu::allowed_cpus()?.contains(&cpu)
        {
            let error = io::Error::new(io::ErrorKind::NotFound, "it is not among those allowed");
            return Err(DataplaneError::Cpu { cpu, error });
        }
        let now = Timestamp::from_nanos(clock::now());
        let counters = Arc::new(Counters::default());
        let pool = PacketPool::new(options.pool_blocks)?;
        let pool_counters = Arc::clone(pool.counters());
        let mut faces = FaceSet::new(&options.faces)?;
        let calls = Arc::clone(faces.call_counters());
        let mut channels = Vec::new();
        let mut channel_counters = Vec::new();
        for (socket, accepts) in options.channels {
            let local = socket.local_address()?;
            let (id, counters) = faces.add_channel(socket, accepts)?;
            channels.push((id, local));
            channel_counters.push((local, counters));
        }
        let (command_sender, command_inbox) = channel()?;
        let (event_sender, event_inbox) = channel()?;
        faces.poller().add(command_inbox.waker(), COMMAND_TOKEN, Interest::Readable)?;
        let hasher = options.shard.hasher;
        let next_face_id = Arc::new(AtomicU64::new(FIRST_FACE_ID));
        let worker_counters = Arc::new(WorkerCounters::default());
        let mut ingress = Ingress::new(hasher, Arc::clone(&counters), options.nonce_seed);
        ingress.set_interest_lifetime_max(options.interest_lifetime_max);
        let worker = Worker {
            faces,
            shard: Shard::new(&options.shard, fib, strategies, Arc::clone(&counters), now),
            ingress,
            hasher,
            burst: Burst::new(),
            pool,
            numbers: FaceNumbers::new(options.faces_max),
            channels,
            on_demand: options.on_demand,
            next_face_id: Arc::clone(&next_face_id),
            commands: command_inbox,
            events: event_sender,
            counters: Arc::clone(&worker_counters),
            spin: options.spin,
            state: RoundState::default(),
        };
        let cpu = options.cpu;
        let thread = std::thread::Builder::new()
            .name("worker-0".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                if let Some(cpu) = cpu
                    && let Err(error) = cpu::pin_thread(cpu)
                {
                    tracing::warn!(cpu, %error, "the worker is not pinned");
                }
                worker.run();
            })?;
        Ok(Self {
            commands: command_sender,
            events: event_inbox,
            thread: Some(thread),
            next_face_id,
            counters,
            worker_counters,
            pool_counters,
            channels: channel_counters,
            calls,
        })
    }

    /// A FaceId that was never used.
    #[must_use]
    pub fn allocate_face_id(&self) -> u64 {
        self.next_face_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Queues a command. It reaches the worker with the next [`wake`](Self::wake).
    pub fn send(&mut self, command: Command) {
        self.commands.send(command);
    }

    /// Wakes the worker once for everything queued.
    pub fn wake(&mut self) {
        self.commands.wake();
    }

    /// Whether commands still wait on this side because the worker is behind.
    #[must_use]
    pub fn is_backed_up(&self) -> bool {
        self.commands.is_backed_up()
    }

    /// The next event; `None` when there is none now.
    ///
    /// # Errors
    /// [`WorkerGone`] if the worker has ended.
    pub fn next_event(&self) -> Result<Option<Event>, WorkerGone> {
        self.events.receive()
    }

    /// Readable when there may be an event. Reset it before looking for events.
    #[must_use]
    pub fn event_waker(&self) -> &Waker {
        self.events.waker()
    }

    /// What the shard and the ingress count.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// What the run loop counts.
    #[must_use]
    pub fn worker_counters(&self) -> &Arc<WorkerCounters> {
        &self.worker_counters
    }

    /// System calls of the worker's sockets.
    #[must_use]
    pub fn call_counters(&self) -> &Arc<CallCounters> {
        &self.calls
    }

    /// Figures of the packet buffers.
    #[must_use]
    pub fn pool_counters(&self) -> &Arc<PoolCounters> {
        &self.pool_counters
    }

    /// The UDP sockets: local address and what they count.
    #[must_use]
    pub fn channels(&self) -> &[(SocketAddr, Arc<ChannelCounters>)] {
        &self.channels
    }

    /// Ends the worker and waits for it.
    ///
    /// # Errors
    /// [`WorkerGone`] if it had ended by a fault of its own.
    pub fn stop(mut self) -> Result<(), WorkerGone> {
        self.commands.send(Command::Stop);
        self.commands.wake();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(())) | None => Ok(()),
            Some(Err(_)) => Err(WorkerGone),
        }
    }
}

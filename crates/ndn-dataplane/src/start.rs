//! Makes workers from the options of a data plane.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread::JoinHandle;

use ndn_face::{Datagrams, FaceSet};
use ndn_forwarding::{Burst, Counters, Ingress, ServiceTimes, Shard, SharedTables, StrategyTable};
use ndn_ring::{PacketPool, PagePreference, free_huge_bytes};
use ndn_sys::cpu;
use ndn_sys::poll::{Poller, Waker};
use ndn_table::FibSnapshot;
use ndn_types::Timestamp;

use crate::disk::DiskPort;
use crate::face_shares::FaceShares;
use crate::faces::FaceNumbers;
use crate::options::{DataplaneError, DataplaneOptions, WorkerOptions};
use crate::peers::PeerRegistry;
use crate::queue::{channel, channel_with};
use crate::view::WorkerView;
use crate::worker::{
    COMMAND_TOKEN, ContentErasures, DISK_TOKEN, EVENTS_MAX, EventQueue, FaceAdmission, FlushBatch,
    INTER_WORKER_TOKEN, Idle, InterWorker, ManagementBudget, Overload, ReadOrder, Refusals,
    RoundState, ServiceMeter, Worker, WorkerCounters, WorkerDisk,
};

/// Stack of a worker's thread: several times the largest burst.
const STACK_BYTES: usize = 1 << 20;

/// The parts that all workers have in common.
pub(crate) struct Parts {
    pub(crate) options: DataplaneOptions,
    pub(crate) fib: Arc<FibSnapshot>,
    pub(crate) strategies: Arc<StrategyTable>,
    pub(crate) event_waker: Arc<Waker>,
    pub(crate) next_face_id: Arc<AtomicU64>,
    pub(crate) face_shares: Arc<FaceShares>,
    pub(crate) registry: Arc<PeerRegistry>,
    pub(crate) stride: u32,
    pub(crate) shared: SharedTables,
    /// The embedder steps the workers.
    pub(crate) is_stepped: bool,
}

impl Parts {
    /// A worker that does not run yet, its processor, and the control thread's view of it. `sharers` is the number
    /// of workers that still share the huge pages of its NUMA node, itself included.
    pub(crate) fn prepare(
        &self,
        number: usize,
        worker: WorkerOptions,
        inter_worker: Option<Box<InterWorker>>,
        sharers: usize,
    ) -> Result<(Worker, Option<usize>, WorkerView), DataplaneError> {
        if let Some(cpu) = worker.cpu
            && !cpu::allowed_cpus()?.contains(&cpu)
        {
            let error = io::Error::new(io::ErrorKind::NotFound, "it is not among those allowed");
            return Err(DataplaneError::Cpu { cpu, error });
        }
        let options = &self.options;
        let now = options.clock.now();
        let counters = Arc::new(Counters::default());
        let huge_bytes_max = match options.pool_pages {
            PagePreference::Best => free_huge_bytes(worker.node) / sharers,
            PagePreference::Transparent | PagePreference::Ordinary => 0,
        };
        let pool = PacketPool::with_pages(options.pool_blocks, options.pool_pages, huge_bytes_max)?;
        let poller = if self.is_stepped { Poller::stepped()? } else { Poller::new()? };
        let mut faces = FaceSet::with_poller(&options.faces, poller);
        let mut channels = Vec::new();
        for (socket, accepts) in worker.channels {
            let local = socket.local_address()?;
            let (_, counters) = faces.transport_mut::<Datagrams>().add_channel(socket, accepts)?;
            channels.push((local, counters));
        }
        let (commands, command_inbox) = channel()?;
        let (event_sender, events) = channel_with(Arc::clone(&self.event_waker));
        faces.poller().add_waker(command_inbox.waker(), COMMAND_TOKEN)?;
        let mut shard_config = options.shard.clone();
        shard_config.shard = u8::try_from(number).unwrap_or(u8::MAX);
        shard_config.pcct.now = now;
        let (fib, strategies) = (Arc::clone(&self.fib), Arc::clone(&self.strategies));
        let mut shard = Shard::new(&shard_config, fib, strategies, Arc::clone(&counters), now);
        if let Some(one) = &inter_worker {
            shard.join_others(self.shared.clone());
            let waker = &one.exchange.sleeper().waker;
            faces.poller().add_waker(waker, INTER_WORKER_TOKEN)?;
        }
        let hasher = options.shard.hasher;
        let nonce_seed = options.nonce_seed.wrapping_add(number as u64);
        let mut ingress = Ingress::new(hasher, Arc::clone(&counters), nonce_seed);
        ingress
            .set_interest_lifetime_max(options.interest_lifetime_max, options.remote_lifetime_max);
        ingress.set_default_hop_limit(options.default_hop_limit);
        let service_times = Arc::<ServiceTimes>::default();
        let worker_counters = Arc::new(WorkerCounters::default());
        let overload = Overload::new(
            options.overload,
            Arc::clone(&worker_counters),
            Arc::clone(shard.counters()),
        );
        let view = WorkerView {
            commands,
            events,
            thread: None,
            counters,
            worker_counters: Arc::clone(&worker_counters),
            pool_counters: Arc::clone(pool.counters()),
            calls: Arc::clone(faces.call_counters()),
            service_times: Arc::clone(&service_times),
            channels,
            exchange: inter_worker.as_ref().map(|one| Arc::clone(one.exchange.counters())),
            loads: inter_worker.as_ref().map(|one| Arc::clone(one.dispatcher.loads())),
            disk: Arc::default(),
            sent: 0,
        };
        let disk = worker_disk(worker.disk, &faces, &view)?;
        let idle = if self.is_stepped { Idle::stepped() } else { Idle::new(options.spin) };
        if idle.may_poll() {
            faces.enable_polling();
        }
        let admission = FaceAdmission {
            numbers: FaceNumbers::new(number, self.stride, Arc::clone(&self.face_shares)),
            on_demand: options.on_demand,
            next_face_id: Arc::clone(&self.next_face_id),
            next_rejection_report: Timestamp::ZERO,
            refusals: Refusals::new(),
        };
        let prepared = Worker {
            faces,
            shard,
            ingress,
            hasher,
            clock: options.clock.clone(),
            burst: Burst::new(),
            pool,
            admission,
            commands: command_inbox,
            events: EventQueue::new(event_sender),
            counters: worker_counters,
            idle,
            state: RoundState::default(),
            inter_worker,
            overload,
            read_order: ReadOrder::new(EVENTS_MAX),
            flush_batch: FlushBatch::new(),
            management: ManagementBudget::default(),
            erasures: ContentErasures::default(),
            service: ServiceMeter::new(service_times),
            disk,
        };
        Ok((prepared, worker.cpu, view))
    }
}

/// The disk tier of a worker, whose threads wake it.
fn worker_disk(
    port: Option<DiskPort>,
    faces: &FaceSet,
    view: &WorkerView,
) -> io::Result<Option<Box<WorkerDisk>>> {
    let Some(port) = port else { return Ok(None) };
    faces.poller().add_waker(port.waker(), DISK_TOKEN)?;
    Ok(Some(Box::new(WorkerDisk::new(port, Arc::clone(&view.disk)))))
}

/// Number of workers on the node of the first one, itself included.
pub(crate) fn sharers(nodes: &[Option<usize>]) -> usize {
    nodes.iter().filter(|&node| Some(node) == nodes.first()).count().max(1)
}

/// Makes a worker on its processor, so that the memory that this writes lies on the NUMA node of the
/// processor (first touch).
pub(crate) fn prepare_on<T: Send>(cpu: Option<usize>, prepare: impl FnOnce() -> T + Send) -> T {
    let Some(cpu) = cpu else { return prepare() };
    std::thread::scope(|scope| {
        let pinned = scope.spawn(move || {
            // Errors are handled in `prepare` and `spawn`.
            let _ = cpu::pin_thread(cpu);
            prepare()
        });
        pinned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Starts the thread of a worker.
pub(crate) fn spawn(
    number: usize,
    worker: Worker,
    cpu: Option<usize>,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(format!("worker-{number}")).stack_size(STACK_BYTES).spawn(
        move || {
            if let Some(cpu) = cpu
                && let Err(error) = cpu::pin_thread(cpu)
            {
                tracing::warn!(cpu, %error, "worker is not pinned");
            }
            worker.run();
        },
    )
}

#[cfg(test)]
mod tests {
    use super::sharers;

    #[test]
    fn workers_of_a_node_share_its_huge_pages() {
        let nodes = [Some(0), Some(1), Some(0), Some(0), None];
        let shares: Vec<usize> = (0..nodes.len()).map(|at| sharers(&nodes[at..])).collect();
        assert_eq!(shares, [3, 1, 2, 1, 1]);
    }
}

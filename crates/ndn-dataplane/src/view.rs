//! The control thread's view of one worker.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use ndn_disk::DiskCounters;
use ndn_face::{CallCounters, ChannelCounters};
use ndn_forwarding::{Counters, NdtLoads, ServiceTimes};
use ndn_ring::PoolCounters;

use crate::command::Command;
use crate::event::Event;
use crate::exchange::ExchangeCounters;
use crate::queue::{Inbox, Sender};
use crate::worker::WorkerCounters;

// Counters of workers lie in adjacent allocations: each is aligned to a pair of cache lines, because
// processors fetch lines in pairs, so that no two workers write to the same pair.
const _: () = {
    assert!(align_of::<Counters>() == 128);
    assert!(align_of::<WorkerCounters>() == 128);
    assert!(align_of::<ExchangeCounters>() == 128);
    assert!(align_of::<ServiceTimes>() == 128);
    assert!(align_of::<CallCounters>() == 128);
    assert!(align_of::<ndn_face::FaceCounters>() == 128);
};

/// The control thread's view of one worker.
#[derive(Debug)]
pub struct WorkerView {
    pub(crate) commands: Sender<Command>,
    pub(crate) events: Inbox<Event>,
    pub(crate) thread: Option<JoinHandle<()>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) worker_counters: Arc<WorkerCounters>,
    pub(crate) pool_counters: Arc<PoolCounters>,
    pub(crate) calls: Arc<CallCounters>,
    pub(crate) service_times: Arc<ServiceTimes>,
    pub(crate) channels: Vec<(SocketAddr, Arc<ChannelCounters>)>,
    pub(crate) exchange: Option<Arc<ExchangeCounters>>,
    pub(crate) disk: Arc<OnceLock<Arc<DiskCounters>>>,
    /// The load that it has dispatched, if there are other workers.
    pub(crate) loads: Option<Arc<NdtLoads>>,
    /// Number of commands sent.
    pub(crate) sent: u64,
}

impl WorkerView {
    /// Counters of the shard and the ingress.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Counters of the loop.
    #[must_use]
    pub fn worker_counters(&self) -> &Arc<WorkerCounters> {
        &self.worker_counters
    }

    /// Counters of system calls of the worker's sockets.
    #[must_use]
    pub fn call_counters(&self) -> &Arc<CallCounters> {
        &self.calls
    }

    /// Service times, while they were [measured](Command::Trace).
    #[must_use]
    pub fn service_times(&self) -> &Arc<ServiceTimes> {
        &self.service_times
    }

    /// Counters of the packet buffers.
    #[must_use]
    pub fn pool_counters(&self) -> &Arc<PoolCounters> {
        &self.pool_counters
    }

    /// Counters of the exchange with other workers, if there are any.
    #[must_use]
    pub fn exchange_counters(&self) -> Option<&Arc<ExchangeCounters>> {
        self.exchange.as_ref()
    }

    /// Counters of the disk tier of its Content Store, once it is in use.
    #[must_use]
    pub fn disk_counters(&self) -> &Arc<OnceLock<Arc<DiskCounters>>> {
        &self.disk
    }

    /// The UDP sockets: local address and counters.
    #[must_use]
    pub fn channels(&self) -> &[(SocketAddr, Arc<ChannelCounters>)] {
        &self.channels
    }

    pub(crate) fn send(&mut self, command: Command) {
        self.sent += 1;
        self.commands.send(command);
    }
}

//! Worker threads, overload control, and memory for packets.

use std::fmt;
use std::time::Duration;

use ndn_types::{Arrangement, ByteSize};
use toml::de::DeValue;

use crate::declaration::RestartReason::{Memory, WorkerThreads};
use crate::declaration::{restart, settings};
use crate::value::{Value, expected, number_in, quoted, words};

/// Maximum number of workers.
pub const WORKERS_MAX: usize = ndn_table::SHARDS_MAX;

settings! {
    /// Worker threads. Each worker has a part of the tables and of the faces; the capacities of tables and buffers
    /// are those of all workers together.
    pub struct Forwarder {
        /// Number of workers. `"auto"` is one for each of `cpus`; without `cpus`, one worker if the process can use
        /// one or two processors, otherwise one for each physical core that it can use. A single worker needs no
        /// exchange of packets and is the most economical.
        workers: WorkerCount = WorkerCount::Auto => restart(WorkerThreads),
        /// Number of the workers that only receive and transmit. The others then only forward. With 0, each worker
        /// does everything.
        io_workers: usize = 0 => restart(WorkerThreads).within(0..=WORKERS_MAX - 1),
        /// Division of faces and forwarding workers between two NUMA nodes, each worker on a core of its own. Client
        /// faces are accepted by this forwarder, server faces are created by it. P1: everything on one node. P2: server
        /// faces on the other node. P3: client faces on the other node. P4: forwarding workers on the other node. P2
        /// and P3 require at least two io_workers, P4 one. `namewire workers --plan` shows the result. Not tested on
        /// hardware with two nodes. By default, `cpus` or the kernel places the workers.
        placement: Option<Arrangement> = None => restart(WorkerThreads).example("\"P1\""),
        /// HopLimit added to Interests that have none. 0: no HopLimit is added.
        default_hop_limit: u8 = 0 => restart(WorkerThreads),
        /// Processors to pin the workers to, one for each. Empty: the kernel places them.
        cpus: Vec<usize> = Vec::new() => restart(WorkerThreads).checked(check_cpus),
        /// Time for which a worker without packets polls before it sleeps, provided that packets have recently
        /// arrived at shorter intervals; otherwise it sleeps at once. A longer time lowers the latency of the next
        /// packet and costs processor time.
        spin: Duration = Duration::from_micros(20) =>
            restart(WorkerThreads).within(Duration::ZERO..=Duration::from_secs(1)),
    }
}

settings! {
    /// Overload control. If more packets arrive than the forwarder can process, Interests are dropped before other
    /// packets, because dropping Data wastes the work of all forwarders on its path. The delay of Interests is
    /// known on UDP sockets and between workers; on streams, the kernel slows the sender down.
    pub struct Overload {
        /// Queueing delay of Interests above which, for a whole interval, Interests and Data are marked as
        /// congested, the more often the longer it lasts (CoDel, RFC 8289).
        mark_after: Duration = Duration::from_millis(5) =>
            restart(WorkerThreads).within(Duration::from_micros(10)..=Duration::from_secs(10)),
        /// Queueing delay of Interests above which, for a whole interval, Interests are refused.
        shed_after: Duration = Duration::from_millis(20) =>
            restart(WorkerThreads).within(Duration::from_micros(10)..=Duration::from_secs(10)),
        /// Interval of the queue measurement: the longest expected round-trip time.
        interval: Duration = Duration::from_millis(100) =>
            restart(WorkerThreads).within(Duration::from_millis(1)..=Duration::from_secs(10)),
        /// Treatment of refused Interests: `"nack"` returns a Nack with reason Congestion, `"drop"` drops them,
        /// `"never"` refuses none.
        shed: Shed = Shed::Nack => restart(WorkerThreads),
        /// Whether faces that bring Data and Nacks are read before those that bring Interests, and UDP neighbours
        /// to which Interests are sent have sockets of their own. `false` is for measurements only.
        answers_first: bool = true => restart(WorkerThreads),
    }
}

settings! {
    /// Buffers for packets in flight. Packets that find no buffer stay in the kernel or are dropped, and counted
    /// (`namewire status`).
    pub struct Pool {
        /// Memory for packet buffers, in equal parts for the workers, at least 4MiB for each.
        capacity: ByteSize = ByteSize::mebibytes(256) =>
            restart(Memory).within(Pool::PER_WORKER_MIN..=ByteSize::mebibytes(1 << 20)),
        /// Page size of the buffers. `"best"`: huge pages that are reserved on the NUMA node of the worker
        /// (vm.nr_hugepages; allocated at the start), then transparent huge pages, then ordinary pages.
        /// `"transparent"`: transparent huge pages, then ordinary pages. `"ordinary"`: ordinary pages.
        /// `namewire workers` shows the result.
        pages: Pages = Pages::Best => restart(Memory),
    }
}

#[expect(clippy::ptr_arg, reason = "a check takes a reference to the value of the setting")]
fn check_cpus(cpus: &Vec<usize>) -> Result<(), String> {
    if cpus.len() > WORKERS_MAX {
        return Err(format!("the maximum number of workers is {WORKERS_MAX}"));
    }
    let repeated = cpus.iter().enumerate().find(|(index, cpu)| cpus[..*index].contains(cpu));
    match repeated {
        Some((_, cpu)) => Err(format!("processor {cpu} is listed twice")),
        None => Ok(()),
    }
}

/// Number of worker threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerCount {
    /// One for each processor that they are pinned to; without any, the default of the machine.
    Auto,
    /// A fixed number.
    Fixed(usize),
}

impl fmt::Display for WorkerCount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Fixed(count) => write!(formatter, "{count}"),
        }
    }
}

impl Value for WorkerCount {
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some("auto") => Ok(Self::Auto),
            Some(_) => Err(expected("a whole number or \"auto\"", value)),
            None => number_in(value, &(1..=WORKERS_MAX)).map(Self::Fixed),
        }
    }

    fn to_toml(&self) -> Option<String> {
        Some(match self {
            Self::Auto => quoted(self),
            Self::Fixed(count) => count.to_string(),
        })
    }

    fn type_name() -> String {
        format!("whole number, 1 to {WORKERS_MAX}, or `\"auto\"`")
    }

    #[cfg(test)]
    fn examples() -> Vec<Self> {
        vec![Self::Auto, Self::Fixed(1), Self::Fixed(WORKERS_MAX)]
    }
}

/// The treatment of refused Interests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shed {
    /// A Nack with reason Congestion is returned.
    Nack,
    /// They are dropped.
    Drop,
    /// No Interests are refused: they are only marked.
    Never,
}

words!(Shed { "nack" => Self::Nack, "drop" => Self::Drop, "never" => Self::Never });

/// Pages of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Reserved huge pages, then transparent huge pages, then ordinary pages.
    Best,
    /// Transparent huge pages, then ordinary pages.
    Transparent,
    /// Ordinary pages.
    Ordinary,
}

words!(Pages {
    "best" => Self::Best,
    "transparent" => Self::Transparent,
    "ordinary" => Self::Ordinary,
});

impl Forwarder {
    /// Number of workers on a machine where `default` workers run if neither their number nor their processors are
    /// set (`ndn_dataplane::default_worker_count`).
    #[must_use]
    pub fn worker_count(&self, default: usize) -> usize {
        match self.workers {
            WorkerCount::Fixed(count) => count.max(1),
            WorkerCount::Auto if self.cpus.is_empty() => default.max(1),
            WorkerCount::Auto => self.cpus.len(),
        }
    }
}

impl Pool {
    /// Minimum for each worker.
    pub const PER_WORKER_MIN: ByteSize = ByteSize::mebibytes(4);

    /// The memory that `workers` need, if it is more than `capacity`.
    #[must_use]
    pub fn shortage(&self, workers: usize) -> Option<ByteSize> {
        let needed =
            Self::PER_WORKER_MIN.0.saturating_mul(u64::try_from(workers).unwrap_or(u64::MAX));
        (self.capacity.0 < needed).then_some(ByteSize(needed))
    }

    /// Whether it is more than the memory of the system.
    #[must_use]
    pub fn exceeds(&self, memory_bytes: u64) -> bool {
        self.capacity.0 > memory_bytes
    }
}

//! Worker threads: how many, what they do, and where.

use std::time::Duration;

use ndn_dataplane::Arrangement;

/// How many worker threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerCount {
    /// One for each processor that they are pinned to; without any, the default of the machine.
    Auto,
    /// So many.
    Fixed(usize),
}

impl std::fmt::Display for WorkerCount {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Fixed(count) => write!(formatter, "{count}"),
        }
    }
}

/// Worker threads and their processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarder {
    /// Worker threads.
    pub workers: WorkerCount,
    /// HopLimit that Interests without one leave with; 0 for none.
    pub default_hop_limit: u8,
    /// Those of them that have faces and no names; with some, the others have no faces.
    pub io_workers: usize,
    /// How faces and names are divided between two NUMA nodes.
    pub placement: Option<Arrangement>,
    /// Processors to pin the workers to, one each; empty leaves placement to the kernel.
    pub cpus: Vec<usize>,
    /// How long a worker that has run out of packets keeps polling before it sleeps in the kernel.
    pub spin: Duration,
}

impl Forwarder {
    /// Number of workers on a machine where `default` workers run if neither their number nor their
    /// processors are set ([`ndn_dataplane::default_worker_count`]).
    #[must_use]
    pub fn worker_count(&self, default: usize) -> usize {
        match self.workers {
            WorkerCount::Fixed(count) => count.max(1),
            WorkerCount::Auto if self.cpus.is_empty() => default.max(1),
            WorkerCount::Auto => self.cpus.len(),
        }
    }
}

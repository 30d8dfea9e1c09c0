//! Worker threads: how many, what they do, and where.

use std::time::Duration;

use ndn_dataplane::Arrangement;

use super::types::WORKERS_MAX;

/// How many worker threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerCount {
    /// As many as there are processors to pin them to; without any, as many as physical cores that
    /// the process may use.
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

/// Which threads workers run on. Those that are pinned to processors have their own in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One for all, as long as that keeps up, or more would not forward more.
    AsNeeded,
    /// One each.
    Each,
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
    /// Which threads the workers run on.
    pub threads: Threads,
    /// How long a worker that has run out of packets keeps polling before it sleeps in the kernel.
    pub spin: Duration,
}

impl Forwarder {
    /// How many workers there are on a machine on which so many threads can be busy.
    #[must_use]
    pub fn worker_count(&self, parallelism: usize) -> usize {
        match self.workers {
            WorkerCount::Fixed(count) => count.max(1),
            WorkerCount::Auto if self.cpus.is_empty() => parallelism.clamp(1, WORKERS_MAX),
            WorkerCount::Auto => self.cpus.len(),
        }
    }
}

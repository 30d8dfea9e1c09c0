//! The workers of a network device, which its queues are dealt over.

use std::sync::Arc;

use ndn_face::PortSocket;

/// The workers of a network device.
#[derive(Debug)]
pub(crate) struct PortWorkers {
    pub(crate) name: Arc<str>,
    /// All workers that may have a socket of it, those with a socket first.
    pub(crate) workers: Vec<usize>,
    /// Number of workers with a socket.
    pub(crate) socket_count: usize,
    /// Frames can go out.
    pub(crate) is_up: bool,
}

impl PortWorkers {
    /// A worker with a socket, if there is one.
    pub(crate) fn first(&self) -> usize {
        self.workers.first().copied().unwrap_or(0)
    }

    /// Each worker with its socket; the last ones get none if there are too few.
    pub(crate) fn deal(&mut self, sockets: Vec<PortSocket>) -> Vec<(usize, Vec<PortSocket>)> {
        self.socket_count = sockets.len().min(self.workers.len());
        if self.socket_count > 1 {
            // In the order of the driver's queues.
            let workers = &self.workers[..self.socket_count];
            tracing::info!(interface = %self.name, ?workers, "queues are dealt over workers");
        }
        let mut sockets = sockets.into_iter();
        let workers = self.workers.iter();
        workers.map(|&worker| (worker, sockets.by_ref().take(1).collect())).collect()
    }

    /// Each worker, and whether it has a socket that can send.
    pub(crate) fn states(&self) -> Vec<(usize, bool)> {
        let workers = self.workers.iter().copied().enumerate();
        workers.map(|(place, worker)| (worker, self.is_up && place < self.socket_count)).collect()
    }
}

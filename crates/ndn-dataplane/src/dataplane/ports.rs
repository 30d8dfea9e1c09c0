//! Network devices, whose queues are dealt over workers.

use std::sync::Arc;

use ndn_face::{PortId, PortSocket};

use super::Dataplane;
use crate::command::{Command, NewPort, PortChange};

/// Who has a network device.
#[derive(Debug)]
pub(super) struct PortWorkers {
    name: Arc<str>,
    /// All workers that may have a socket of it, and those first that do.
    workers: Vec<usize>,
    /// How many do.
    socket_count: usize,
    /// Frames can go out.
    is_up: bool,
}

impl PortWorkers {
    /// The one that has a socket if any has.
    pub(super) fn first(&self) -> usize {
        self.workers.first().copied().unwrap_or(0)
    }

    /// Each worker, with a socket as long as there are some.
    fn deal(&mut self, sockets: Vec<PortSocket>) -> Vec<(usize, Vec<PortSocket>)> {
        self.socket_count = sockets.len().min(self.workers.len());
        if self.socket_count > 1 {
            // In the order of the queues that the driver tells of.
            let workers = &self.workers[..self.socket_count];
            tracing::info!(interface = %self.name, ?workers, "queues are dealt over workers");
        }
        let mut sockets = sockets.into_iter();
        let workers = self.workers.iter();
        workers.map(|&worker| (worker, sockets.by_ref().take(1).collect())).collect()
    }

    /// Each worker, and whether frames can go out by a socket that it has.
    fn states(&self) -> Vec<(usize, bool)> {
        let workers = self.workers.iter().copied().enumerate();
        workers.map(|(place, worker)| (worker, self.is_up && place < self.socket_count)).collect()
    }
}

impl Dataplane {
    /// How many workers may have sockets of one network device.
    #[must_use]
    pub fn port_workers(&self) -> usize {
        self.roles.iter().filter(|roles| roles.servers).count()
    }

    /// Takes a device. Each one begins with another worker, so that those that have one socket are spread.
    pub(super) fn add_port(&mut self, new: NewPort) {
        let NewPort { port, name, is_up, accepts, sockets, stations } = new;
        let workers = (0..self.port_workers()).map(|_| self.next_worker(|roles| roles.servers));
        let workers = workers.collect();
        let mut device = PortWorkers { name: name.clone(), workers, socket_count: 0, is_up };
        // The next one is to begin behind the first of this one.
        self.next_worker = device.first();
        for (worker, sockets) in device.deal(sockets) {
            let (name, is_up) = (name.clone(), is_up && !sockets.is_empty());
            let new = NewPort { port, name, is_up, accepts, sockets, stations };
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
        let mut tell_all = |device: &PortWorkers, change: &dyn Fn() -> PortChange| {
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
                // It may be the first one that a worker has got.
                let states = device.states().into_iter();
                states.for_each(|(worker, is_up)| send(worker, PortChange::Link(is_up)));
            }
            PortChange::Suspend => tell_all(device, &|| PortChange::Suspend),
            PortChange::Address(mac) => tell_all(device, &|| PortChange::Address(mac)),
            PortChange::Purpose { accepts, leaves_group } => {
                tell_all(device, &|| PortChange::Purpose { accepts, leaves_group });
            }
            PortChange::Gone => {
                device.is_up = false;
                tell_all(device, &|| PortChange::Gone);
            }
            PortChange::Remove => {
                tell_all(device, &|| PortChange::Remove);
                ports.remove(&port);
            }
        }
    }
}

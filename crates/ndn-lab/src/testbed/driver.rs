//! Consumers and producers of a testbed on the sockets of its forwarders: one thread.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;

use ndn_sys::clock::Clock;
use ndn_traffic::io::Endpoint;
use ndn_types::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::network::{Clients, NetworkCounts};

/// Longest wait, so that the limit of time and other threads are noticed.
const WAIT_MAX: Duration = Duration::from_millis(20);
/// Reads of a socket before the others get their turn.
const READS_MAX: usize = 8;

/// The face of the consumers, or of the producer, of a node.
#[derive(Debug)]
pub(super) struct ClientFace {
    node: usize,
    is_producer: bool,
    endpoint: Endpoint,
}

impl ClientFace {
    /// Takes over the connection to the forwarder of a node.
    pub(super) fn new(node: usize, is_producer: bool, stream: UnixStream) -> io::Result<Self> {
        Ok(Self { node, is_producer, endpoint: Endpoint::stream(stream.into())? })
    }
}

/// Channels to the thread that reads the counts of the forwarders at the end of the warm-up.
#[derive(Debug)]
pub(super) struct WarmUp {
    /// A message requests the counts.
    pub(super) request: Sender<()>,
    /// The counts.
    pub(super) counts: Receiver<NetworkCounts>,
}

/// Runs the load until all requests are complete.
pub(super) struct Driver<'c, 'n> {
    clients: &'c mut Clients<'n>,
    faces: Vec<ClientFace>,
    /// By node: the face of its consumers.
    consumers: BTreeMap<usize, usize>,
    /// Times of wake-ups of fetches.
    wakes: BinaryHeap<Reverse<(Duration, usize)>>,
    clock: Clock,
    limit: Duration,
}

impl<'c, 'n> Driver<'c, 'n> {
    pub(super) fn new(
        clients: &'c mut Clients<'n>,
        faces: Vec<ClientFace>,
        clock: &Clock,
        limit: Duration,
    ) -> Self {
        let consumers = faces.iter().enumerate().filter(|(_, face)| !face.is_producer);
        let consumers = consumers.map(|(number, face)| (face.node, number)).collect();
        let (wakes, clock) = (BinaryHeap::new(), clock.clone());
        Self { clients, faces, consumers, wakes, clock, limit }
    }

    fn now(&self) -> Duration {
        self.clock.now().since(Timestamp::ZERO)
    }

    /// Performs the requests, which are in the order of time, and continues until `may_end`, which is called once they are complete.
    ///
    /// # Errors
    /// A forwarder closes a connection, or requests are not complete at the limit of time.
    pub(super) fn run(
        &mut self,
        requests: &[ndn_cache_sim::trace::Request],
        warm_up: &WarmUp,
        mut may_end: impl FnMut() -> bool,
    ) -> Result<(), String> {
        let mut requests = requests.iter().peekable();
        let mut is_requested = false;
        while !(self.clients.is_done() && self.clients.is_warm() && may_end()) {
            let now = self.now();
            if now >= self.limit {
                self.clients.check_complete("at the end of run-time")?;
                return Err("the other hosts were not done at the end of run-time".to_owned());
            }
            while let Some(request) =
                requests.next_if(|request| self.clients.begin_of(request) <= now)
            {
                let fetch = self.clients.begin(now, *request);
                self.transmit(now, fetch);
            }
            while let Some(Reverse((at, fetch))) = self.wakes.peek().copied()
                && at <= now
            {
                self.wakes.pop();
                self.clients.wake(now, fetch);
                self.transmit(now, fetch);
            }
            if !self.clients.is_warm() {
                if !is_requested && now >= self.clients.warm_up_end() {
                    is_requested = true;
                    // The other thread ends only after this one.
                    let _ = warm_up.request.send(());
                }
                match warm_up.counts.try_recv() {
                    Ok(counts) => self.clients.end_warm_up(counts),
                    Err(TryRecvError::Empty) => {}
                    Err(TryRecvError::Disconnected) => {
                        return Err(
                            "the counts at the end of the warm-up cannot be read".to_owned()
                        );
                    }
                }
            }
            let begin = requests.peek().map(|request| self.clients.begin_of(request));
            let wake = self.wakes.peek().map(|Reverse((at, _))| *at);
            let next = begin.into_iter().chain(wake).min();
            self.exchange(next.map_or(WAIT_MAX, |at| at.saturating_sub(now).min(WAIT_MAX)))?;
        }
        Ok(())
    }

    fn transmit(&mut self, now: Duration, fetch: usize) {
        let (faces, consumers) = (&mut self.faces, &self.consumers);
        let wake = self.clients.transmit(now, fetch, |node, frame| {
            if let Some(face) = consumers.get(&node) {
                faces[*face].endpoint.push(|out| out.extend_from_slice(&frame));
            }
        });
        if let Some(at) = wake {
            self.wakes.push(Reverse((at, fetch)));
        }
    }

    /// Sends what is to be sent, waits, and handles what arrives.
    fn exchange(&mut self, wait: Duration) -> Result<(), String> {
        let failed = |error: io::Error| format!("clients: {error}");
        let mut descriptors = Vec::new();
        for face in &mut self.faces {
            let is_sent = face.endpoint.flush().map_err(failed)?;
            let flags = if is_sent { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
            descriptors.push(flags);
        }
        let mut descriptors: Vec<PollFd<'_>> = self
            .faces
            .iter()
            .zip(descriptors)
            .map(|(face, flags)| PollFd::from_borrowed_fd(face.endpoint.fd(), flags))
            .collect();
        let wait = Timespec::try_from(wait).map_err(|error| format!("clients: {error}"))?;
        match poll(&mut descriptors, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed(error.into())),
        }
        let ready: Vec<usize> = (0..descriptors.len())
            .filter(|number| !descriptors[*number].revents().is_empty())
            .collect();
        for number in ready {
            for _ in 0..READS_MAX {
                if !self.receive(number).map_err(failed)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Reads once, and handles the packets. Returns whether there may be more.
    fn receive(&mut self, number: usize) -> io::Result<bool> {
        let now = self.now();
        let ClientFace { node, is_producer, endpoint } = &mut self.faces[number];
        let (node, clients) = (*node, &mut *self.clients);
        if *is_producer {
            return endpoint.receive(|frame, output| {
                if let Some(data) = clients.produce(node, frame) {
                    output.push(|out| out.extend_from_slice(&data));
                }
            });
        }
        let mut fetches = Vec::new();
        let is_read = endpoint.receive(|frame, _| {
            for fetch in clients.consume(now, node, frame) {
                if fetches.last() != Some(&fetch) {
                    fetches.push(fetch);
                }
            }
        })?;
        for fetch in fetches {
            self.transmit(now, fetch);
        }
        Ok(is_read)
    }
}

//! Producers of the fast engine: departures follow from the stream of arrivals alone.

use super::pauses::{Pauses, Processor};
use crate::network::{self, Network, Peer, QueueRecord};

/// A station with one queue, from which it takes one packet at a time.
#[derive(Debug)]
pub(super) struct Producer {
    pub station: usize,
    pub queue: usize,
    processor: Processor,
    poll_ps: u64,
    capacity: usize,
    free_ps: u64,
    /// When the packets that may still be in the queue leave it, in a ring: a power of two.
    starts_ps: Vec<u64>,
    /// Positions in the ring, which rise without end.
    head: usize,
    end: usize,
    record: QueueRecord,
}

impl Producer {
    /// Those of a network, in the order of their faces.
    pub(super) fn all(network: &Network) -> Vec<Self> {
        let queues = network.faces.iter().filter_map(|face| match face.peer {
            Peer::Producer(queue) => Some(queue),
            Peer::Consumer(_) => None,
        });
        let pauses = Pauses::new(network);
        let producer = |queue: usize| {
            let spec = &network.queues[queue];
            let processor = pauses.of_station(spec.station);
            Self { processor, ..Self::new(queue, spec, network.stations[spec.station].poll_ps) }
        };
        queues.map(producer).collect()
    }

    fn new(queue: usize, spec: &network::Queue, poll_ps: u64) -> Self {
        Self {
            station: spec.station,
            queue,
            processor: None,
            poll_ps,
            capacity: spec.capacity,
            free_ps: 0,
            // It grows soon, so that tests reach its growth.
            starts_ps: vec![0; 2],
            head: 0,
            end: 0,
            record: QueueRecord::default(),
        }
    }

    pub(super) fn reset(&mut self) {
        (self.free_ps, self.head, self.end) = (0, 0, 0);
        self.record = QueueRecord::default();
    }

    pub(super) const fn record(&self) -> &QueueRecord {
        &self.record
    }

    /// A packet arrives, no earlier than the one before; returns when its answer leaves. None if the queue is full.
    #[inline]
    pub(super) fn take(
        &mut self,
        time_ps: u64,
        service_ps: u64,
        pauses: &mut Pauses<'_>,
    ) -> Option<u64> {
        let mask = self.starts_ps.len() - 1;
        if self.free_ps < time_ps {
            self.head = self.end;
        }
        // A packet that leaves the queue at this instant is still in it.
        while self.head < self.end && self.starts_ps[self.head & mask] < time_ps {
            self.head += 1;
        }
        let length = self.end - self.head;
        if length >= self.capacity {
            self.record.dropped += 1;
            return None;
        }
        if length == self.starts_ps.len() {
            self.grow();
        }
        let start_ps = pauses.resume_ps(self.processor, self.free_ps.max(time_ps));
        let mask = self.starts_ps.len() - 1;
        self.starts_ps[self.end & mask] = start_ps;
        self.end += 1;
        self.record.entered += 1;
        self.record.length_max = self.record.length_max.max(length + 1);
        self.record.waited_ps += u128::from(start_ps - time_ps);
        self.free_ps = pauses.work_ps(self.processor, start_ps, self.poll_ps + service_ps);
        Some(self.free_ps)
    }

    #[cold]
    fn grow(&mut self) {
        let mask = self.starts_ps.len() - 1;
        let mut starts_ps: Vec<u64> =
            (self.head..self.end).map(|place| self.starts_ps[place & mask]).collect();
        (self.head, self.end) = (0, starts_ps.len());
        starts_ps.resize(2 * self.starts_ps.len(), 0);
        self.starts_ps = starts_ps;
    }
}

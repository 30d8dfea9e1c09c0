//! Queue management of Interests that have waited for too long.

use std::sync::Arc;

use ndn_counters::WorkerCounters;
use ndn_face::{ChannelId, SocketDelay};
use ndn_forwarding::{Burst, Counters, DropReason};
use ndn_types::{PrincipalKey, Timestamp};

use crate::overload::{InterestQueue, OverloadOptions, QueueVerdict};

/// Maximum number of marks that wait for a Data; further ones are forgotten.
const MARKS_DUE_MAX: usize = 64;

/// The queue management of one worker: the Interests of its sockets, and the counters of all its queues.
#[derive(Debug)]
pub(crate) struct Overload {
    options: OverloadOptions,
    /// By number of the socket; made for the first Interest that has waited. The queue is that of the socket which is
    /// the last one with this number, by the number of sockets opened until it.
    sockets: Vec<(u32, InterestQueue)>,
    /// Congestion marks that are still to be put on Data.
    marks_due: usize,
    counters: Arc<WorkerCounters>,
    shard_counters: Arc<Counters>,
}

impl Overload {
    pub(crate) fn new(
        options: OverloadOptions,
        counters: Arc<WorkerCounters>,
        shard_counters: Arc<Counters>,
    ) -> Self {
        Self { options, sockets: Vec::new(), marks_due: 0, counters, shard_counters }
    }

    /// Whether Data and Nacks go before Interests.
    pub(super) fn answers_first(&self) -> bool {
        self.options.answers_first
    }

    /// The verdict on an Interest that was read from a socket.
    #[cold]
    pub(super) fn dequeue_from_socket(
        &mut self,
        now: Timestamp,
        waited: SocketDelay,
    ) -> QueueVerdict {
        let number = waited.channel.number();
        let new = || (waited.opened, InterestQueue::new(&self.options));
        if number >= self.sockets.len() {
            self.sockets.resize(number + 1, new());
        }
        let (opened, queue) = &mut self.sockets[number];
        if *opened != waited.opened {
            (*opened, *queue) = new();
        }
        // Peers of a socket are not distinguished.
        queue.dequeue(now, waited.since, false, || Some(PrincipalKey::OTHER))
    }

    /// Notes that a read of a socket has found the end of its queue.
    #[inline]
    pub(super) fn socket_is_empty(&mut self, channel: ChannelId) {
        // Most have never had a queue at all.
        if let Some((_, queue)) = self.sockets.get_mut(channel.number()) {
            queue.note_empty();
        }
    }

    /// Counts the verdict on an Interest. For a marked Interest, a Data is marked, too, so that consumers
    /// learn of the queue even if the producer does not copy marks.
    #[cold]
    pub(super) fn count(&mut self, verdict: QueueVerdict) {
        match verdict {
            QueueVerdict::Pass => {}
            QueueVerdict::Mark => {
                self.counters.marked_interests.increment();
                self.marks_due = MARKS_DUE_MAX.min(self.marks_due + 1);
            }
            QueueVerdict::Nack => self.counters.shed_interests.increment(),
            QueueVerdict::Drop => {
                self.counters.shed_interests.increment();
                // It does not enter the shard.
                self.shard_counters.in_interests.increment();
                self.shard_counters.drop_packet(DropReason::Overload);
            }
        }
    }

    /// Puts marks that are due on the Data of a burst.
    #[inline]
    pub(super) fn mark_data(&mut self, burst: &mut Burst) {
        if self.marks_due > 0 {
            let marked = burst.mark_data(self.marks_due);
            self.marks_due -= marked;
            self.counters.marked_data.add(marked as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use ndn_face::{Datagrams, FaceSet, FaceSetOptions};
    use ndn_sys::udp::{UdpOptions, UdpSocket};

    use super::*;

    #[test]
    fn drained_socket_ends_signalling() {
        let mut faces = FaceSet::new(&FaceSetOptions::default()).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let socket = UdpSocket::new(&UdpOptions::bound_to(address)).unwrap();
        let (channel, _) = faces.transport_mut::<Datagrams>().add_channel(socket, false).unwrap();
        for is_emptied in [true, false] {
            let options = OverloadOptions::default();
            let mut overload = Overload::new(options, Arc::default(), Arc::default());
            overload.socket_is_empty(channel);
            let mut verdicts = Vec::new();
            for millis in (1000..2000).step_by(90) {
                let since = Timestamp::from_millis(millis - 30);
                let waited = SocketDelay { channel, opened: 1, since };
                verdicts.push(overload.dequeue_from_socket(Timestamp::from_millis(millis), waited));
                if is_emptied {
                    overload.socket_is_empty(channel);
                }
            }
            let are_all_passed = verdicts.iter().all(|verdict| *verdict == QueueVerdict::Pass);
            assert_eq!(are_all_passed, is_emptied, "{verdicts:?}");
        }
    }

    #[test]
    fn socket_with_the_number_of_a_closed_one_has_a_queue_of_its_own() {
        let mut faces = FaceSet::new(&FaceSetOptions::default()).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let socket = UdpSocket::new(&UdpOptions::bound_to(address)).unwrap();
        let (channel, _) = faces.transport_mut::<Datagrams>().add_channel(socket, false).unwrap();
        for (opened, passes) in [(1, false), (2, true)] {
            let options = OverloadOptions::default();
            let mut overload = Overload::new(options, Arc::default(), Arc::default());
            let mut dequeue = |opened, millis: u64| {
                let since = Timestamp::from_millis(millis - 30);
                let waited = SocketDelay { channel, opened, since };
                overload.dequeue_from_socket(Timestamp::from_millis(millis), waited)
            };
            let verdicts: Vec<_> =
                (1000..2000).step_by(10).map(|millis| dequeue(1, millis)).collect();
            assert!(verdicts.iter().any(|verdict| *verdict != QueueVerdict::Pass), "{verdicts:?}");
            assert_eq!(dequeue(opened, 5000) == QueueVerdict::Pass, passes);
        }
    }
}

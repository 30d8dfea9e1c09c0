//! The time that the worker of a node takes for packets.

use std::time::Duration;

use ndn_model::assembly::Placement;
use ndn_model::calibrate::{Calibration, PacketTime, PacketTimes, Setting};
use ndn_model::random::{StreamId, TraceRandom};

use crate::network::Network;

/// Stream of the random numbers that are times of packets.
const TIMES: StreamId = StreamId(4);

/// Packets that a forwarder has handled since its start.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handled {
    /// Interests that its Content Store did not answer, and Nacks.
    pub(super) interests: u64,
    pub(super) data: u64,
    /// Interests that its Content Store answered.
    pub(super) hits: u64,
}

/// The worker of a node: it handles a burst of the packets that wait, and reads further packets when their time is over.
#[derive(Debug)]
pub(super) struct Server {
    times: PacketTimes,
    random: TraceRandom,
    handled: Handled,
    busy_until: Duration,
    /// Time that it has worked, and the part of it for sleeps.
    busy: Duration,
    slept: Duration,
}

impl Server {
    /// A worker with these times, of a forwarder that has handled `handled` before.
    pub(super) fn new(times: PacketTimes, seed: u64, node: usize, handled: Handled) -> Self {
        let random = TraceRandom::new(seed, node as u32);
        let (busy_until, busy, slept) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        Self { times, random, handled, busy_until, busy, slept }
    }

    /// The end of its work at `now`; `None` if it is idle.
    pub(super) fn busy_until(&self, now: Duration) -> Option<Duration> {
        Some(self.busy_until).filter(|until| *until > now)
    }

    /// Takes the time for what the forwarder has handled at `now` since the last call. Returns the end of the work; `None` if it
    /// handled no packet.
    pub(super) fn work(&mut self, now: Duration, handled: Handled) -> Option<Duration> {
        let before = std::mem::replace(&mut self.handled, handled);
        let time = self.time_of(&self.times.interest, before.interests, handled.interests, 0)
            + self.time_of(&self.times.data, before.data, handled.data, 1)
            + self.time_of(&self.times.hit, before.hits, handled.hits, 2);
        if handled == before {
            return None;
        }
        // A worker that has nothing to do waits in the kernel.
        let has_slept = now > self.busy_until;
        let sleep_ns = if has_slept { self.times.sleep_ns } else { 0.0 };
        let sleep = Duration::from_nanos(sleep_ns as u64);
        let time = time + sleep;
        self.slept += sleep;
        self.busy += time;
        self.busy_until = now + time;
        Some(self.busy_until)
    }

    /// The time for the packets of a kind with the numbers `from..until`.
    fn time_of(&self, time: &PacketTime, from: u64, until: u64, kind: u64) -> Duration {
        let of = |number: u64| time.sample_ps(&mut self.random.draw(TIMES, 3 * number + kind));
        Duration::from_nanos((from..until).map(of).sum::<u64>() / 1000)
    }

    /// Time that it has worked.
    pub(super) fn busy(&self) -> Duration {
        self.busy
    }

    /// The part of that time for sleeps: one each time that it was idle before.
    pub(super) fn slept(&self) -> Duration {
        self.slept
    }
}

/// By node: the setting of whose packets a calibration gives the times.
#[must_use]
pub(crate) fn settings(calibration: &Calibration, network: &Network<'_>) -> Vec<Setting> {
    let payload = network.payload_bytes() as usize;
    let setting = |node: usize| Setting {
        workers: 1,
        components: network.name_components,
        payload,
        // Neither has an influence on times.
        hit_ratio: calibration.ranges.hit_ratio.0,
        rate: 0.0,
        // Fewer than were measured take no less time.
        routes: network.prefix_count(node).max(calibration.ranges.routes.0),
        placement: Placement::P1,
    };
    (0..network.topology.nodes.len()).map(setting).collect()
}

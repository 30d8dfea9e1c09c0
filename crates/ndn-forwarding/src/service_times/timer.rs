//! The stop watch of one worker.

use std::sync::Arc;

use ndn_table::Timestamp;

use super::sampler::Sampler;
use super::{ServiceTimes, StageTimes};
use crate::{BURST_SIZE, PacketKind};

/// Readings of the clock of which the shortest distance is taken for what one costs.
const CALIBRATION_READINGS: usize = 1000;

/// Measures some of the bursts of one worker.
///
/// For the burst that is being received, the worker asks [`is_measuring`](Self::is_measuring); if
/// so, it says of each packet when it was [`received`](Self::received). Then, twice: it
/// [begins](Self::begin), says what is done for one packet alone ([`lap`](Self::lap)), and ends with
/// [`finish_dispatch`](Self::finish_dispatch) or [`finish_forwarding`](Self::finish_forwarding).
#[derive(Debug)]
pub struct ServiceTimer {
    times: Arc<ServiceTimes>,
    clock: NanosecondClock,
    /// What one reading of it costs.
    reading_ns: u64,
    sampler: Sampler,
    is_measuring: bool,
    begin_ns: u64,
    last_ns: u64,
    /// What each packet took until it was in the burst.
    arrival_ns: Box<[u64; BURST_SIZE]>,
    laps: Laps,
}

/// Nanoseconds on any clock that does not run backwards.
struct NanosecondClock(Box<dyn Fn() -> u64 + Send>);

impl std::fmt::Debug for NanosecondClock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("NanosecondClock")
    }
}

/// What packets took in the stage that is being measured.
#[derive(Debug)]
struct Laps {
    kinds: Box<[Option<PacketKind>; BURST_SIZE]>,
    nanos: Box<[u64; BURST_SIZE]>,
}

impl ServiceTimer {
    /// A timer that writes into `times`. `clock` gives nanoseconds.
    #[must_use]
    pub fn new(times: Arc<ServiceTimes>, clock: impl Fn() -> u64 + Send + 'static) -> Self {
        let mut last = clock();
        let now = Timestamp::from_nanos(last);
        let distances = (0..CALIBRATION_READINGS).map(|_| {
            let before = std::mem::replace(&mut last, clock());
            last.saturating_sub(before)
        });
        let reading_ns = distances.min().unwrap_or(0);
        Self {
            times,
            clock: NanosecondClock(Box::new(clock)),
            reading_ns,
            sampler: Sampler::new(now),
            is_measuring: false,
            begin_ns: 0,
            last_ns: 0,
            arrival_ns: Box::new([0; BURST_SIZE]),
            laps: Laps { kinds: Box::new([None; BURST_SIZE]), nanos: Box::new([0; BURST_SIZE]) },
        }
    }

    /// Whether the burst that is being received is measured.
    #[inline]
    #[must_use]
    pub fn is_measuring(&self) -> bool {
        self.is_measuring
    }

    /// Decides whether the burst that is received next is measured.
    #[inline]
    pub fn next_burst(&mut self, now: Timestamp) {
        self.is_measuring = self.sampler.choose(now);
    }

    /// Decides whether a burst is measured that other workers have received and dispatched.
    #[inline]
    pub fn choose(&mut self, now: Timestamp) -> bool {
        self.sampler.choose(now)
    }

    /// Reads the clock, nanoseconds.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        (self.clock.0)()
    }

    /// Packet `index` of the burst has been parsed and put there since `begin_ns`.
    pub fn received(&mut self, index: usize, begin_ns: u64) {
        let nanos = self.now_ns().saturating_sub(begin_ns);
        if let Some(arrival_ns) = self.arrival_ns.get_mut(index) {
            *arrival_ns = nanos.saturating_sub(self.reading_ns);
        }
    }

    /// A stage of a burst begins.
    pub fn begin(&mut self) {
        self.laps.kinds.fill(None);
        self.begin_ns = self.now_ns();
        self.last_ns = self.begin_ns;
    }

    /// What was done up to now, all packets share.
    pub fn begin_laps(&mut self) {
        self.last_ns = self.now_ns();
    }

    /// What was done since the last lap, packet `index` has for itself.
    #[inline]
    pub fn lap(&mut self, index: usize, kind: PacketKind) {
        let now = self.now_ns();
        let nanos = now.saturating_sub(self.last_ns).saturating_sub(self.reading_ns);
        if let Some(place) = self.laps.kinds.get_mut(index) {
            *place = Some(kind);
            self.laps.nanos[index] = nanos;
        }
        self.last_ns = now;
    }

    /// The burst is dispatched: counts its packets, with what they took until they were in it.
    pub fn finish_dispatch(&mut self) {
        for (nanos, arrival_ns) in self.laps.nanos.iter_mut().zip(self.arrival_ns.iter_mut()) {
            *nanos = nanos.saturating_add(std::mem::take(arrival_ns));
        }
        self.laps.count(&self.times.dispatch, 0);
    }

    /// The burst is forwarded, and its packets are released: counts them, each with its part of what
    /// they shared.
    pub fn finish_forwarding(&mut self) {
        let total_ns = self.now_ns().saturating_sub(self.begin_ns);
        let (packets, own_ns) = self.laps.sum();
        let readings_ns = (packets + 1).saturating_mul(self.reading_ns);
        let shared_ns = total_ns.saturating_sub(own_ns.saturating_add(readings_ns));
        self.laps.count(&self.times.forwarding, shared_ns);
    }
}

impl Laps {
    fn iter(&self) -> impl Iterator<Item = (PacketKind, u64)> {
        let laps = self.kinds.iter().zip(self.nanos.iter());
        laps.filter_map(|(kind, &nanos)| Some(((*kind)?, nanos)))
    }

    /// Packets, and the nanoseconds that they had for themselves.
    fn sum(&self) -> (u64, u64) {
        self.iter().fold((0, 0), |(packets, sum), (_, nanos)| (packets + 1, sum + nanos))
    }

    /// Counts the packets and their burst.
    fn count(&self, times: &StageTimes, shared_ns: u64) {
        let (packets, own_ns) = self.sum();
        let Some(share_ns) = shared_ns.checked_div(packets) else { return };
        let mut interests = 0;
        for (kind, nanos) in self.iter() {
            interests += u64::from(kind == PacketKind::Interest);
            times.record_packet(kind, nanos + share_ns);
        }
        times.record_burst(packets, interests, own_ns + shared_ns);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(1_000_000_000) };
    }

    /// A reading takes 5 ns.
    fn clock() -> u64 {
        NOW.with(|now| now.replace(now.get() + 5))
    }

    fn pass(nanos: u64) {
        NOW.with(|now| now.set(now.get() + nanos));
    }

    fn times_of(histogram: &super::super::Histogram) -> Vec<(u64, u64)> {
        histogram.snapshot().buckets().map(|bucket| (bucket.from_ns, bucket.count)).collect()
    }

    #[test]
    fn a_packet_takes_its_own_time_and_its_part_of_what_is_shared() {
        let times = Arc::new(ServiceTimes::default());
        let mut timer = ServiceTimer::new(Arc::clone(&times), clock);
        timer.begin();
        pass(100);
        timer.begin_laps();
        for (index, kind, own) in [(0, PacketKind::Interest, 200), (2, PacketKind::Data, 400)] {
            pass(own);
            timer.lap(index, kind);
        }
        pass(300);
        timer.finish_forwarding();
        // 400 ns, and one reading, are shared by two.
        let forwarding = &times.forwarding;
        assert_eq!(times_of(&forwarding.interests), [(400, 1)], "200 + 200 and a reading's half");
        assert_eq!(times_of(&forwarding.data), [(592, 1)]);
        let size = forwarding.snapshot().by_burst_size[2];
        assert_eq!((size.bursts, size.interests), (1, 1));
        assert!((1000..1010).contains(&size.sum_ns), "{size:?}");
        assert_eq!(times.dispatch.snapshot(), StageTimes::default().snapshot());
    }

    #[test]
    fn dispatch_begins_with_parsing() {
        let times = Arc::new(ServiceTimes::default());
        let mut timer = ServiceTimer::new(Arc::clone(&times), clock);
        for index in 0..2 {
            let begin = timer.now_ns();
            pass(20);
            timer.received(index, begin);
        }
        timer.begin();
        for (index, kind) in [(0, PacketKind::Data), (1, PacketKind::Nack)] {
            pass(7);
            timer.lap(index, kind);
        }
        timer.finish_dispatch();
        assert_eq!(times_of(&times.dispatch.data), [(27, 1)]);
        assert_eq!(times_of(&times.dispatch.interests), []);
        assert_eq!(times.dispatch.snapshot().by_burst_size[2].sum_ns, 54);
        timer.begin();
        timer.lap(0, PacketKind::Data);
        timer.finish_dispatch();
        assert_eq!(times_of(&times.dispatch.data), [(0, 1), (27, 1)], "arrivals count once");
    }
}

//! Measures the service times of one worker.

use std::sync::Arc;

use ndn_types::Timestamp;

use super::sampler::Sampler;
use super::{ServiceTimes, StageTimes};
use crate::{BURST_SIZE, PacketKind};

/// Number of clock readings for calibration; the shortest difference is taken as the cost of one.
const CALIBRATION_READINGS: usize = 1000;

/// Measures some of the bursts of one worker.
///
/// While receiving a burst, the worker tests [`is_measuring`](Self::is_measuring); if true, it
/// reports each packet to [`received`](Self::received). Then, for each of two stages, it calls
/// [`begin`](Self::begin), [`lap`](Self::lap) after the work for each packet, and
/// [`finish_dispatch`](Self::finish_dispatch) or [`finish_forwarding`](Self::finish_forwarding).
#[derive(Debug)]
pub struct ServiceTimer {
    times: Arc<ServiceTimes>,
    clock: NanosecondClock,
    /// The cost of one clock reading.
    reading_ns: u64,
    sampler: Sampler,
    is_measuring: bool,
    begin_ns: u64,
    last_ns: u64,
    /// Time that each packet took until it was in the burst.
    arrival_ns: Box<[u64; BURST_SIZE]>,
    laps: PacketTimes,
}

/// A monotonic clock, in nanoseconds.
struct NanosecondClock(Box<dyn Fn() -> u64 + Send>);

impl std::fmt::Debug for NanosecondClock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("NanosecondClock")
    }
}

/// Time that packets took in the current stage.
#[derive(Debug)]
struct PacketTimes {
    kinds: Box<[Option<PacketKind>; BURST_SIZE]>,
    nanos: Box<[u64; BURST_SIZE]>,
}

impl ServiceTimer {
    /// A timer that records into `times`. `clock` returns nanoseconds.
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
            laps: PacketTimes {
                kinds: Box::new([None; BURST_SIZE]),
                nanos: Box::new([0; BURST_SIZE]),
            },
        }
    }

    /// Whether the burst being received is measured.
    #[inline]
    #[must_use]
    pub fn is_measuring(&self) -> bool {
        self.is_measuring
    }

    /// Decides whether the next received burst is measured.
    #[inline]
    pub fn next_burst(&mut self, now: Timestamp) {
        self.is_measuring = self.sampler.choose(now);
    }

    /// Decides whether to measure a burst that other workers received and dispatched.
    #[inline]
    pub fn choose(&mut self, now: Timestamp) -> bool {
        self.sampler.choose(now)
    }

    /// Reads the clock, in nanoseconds.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        (self.clock.0)()
    }

    /// Packet `index` of the burst has been parsed and appended; parsing began at `begin_ns`.
    pub fn received(&mut self, index: usize, begin_ns: u64) {
        let nanos = self.now_ns().saturating_sub(begin_ns);
        if let Some(arrival_ns) = self.arrival_ns.get_mut(index) {
            *arrival_ns = nanos.saturating_sub(self.reading_ns);
        }
    }

    /// Begins a stage of a burst.
    pub fn begin(&mut self) {
        self.laps.kinds.fill(None);
        self.begin_ns = self.now_ns();
        self.last_ns = self.begin_ns;
    }

    /// Attributes the time since `begin` to all packets together.
    pub fn begin_laps(&mut self) {
        self.last_ns = self.now_ns();
    }

    /// Attributes the time since the last lap to packet `index`.
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

    /// Ends the dispatch stage: records its packets, with the time until they were in the burst.
    pub fn finish_dispatch(&mut self) {
        for (nanos, arrival_ns) in self.laps.nanos.iter_mut().zip(self.arrival_ns.iter_mut()) {
            *nanos = nanos.saturating_add(std::mem::take(arrival_ns));
        }
        self.laps.count(&self.times.dispatch, 0);
    }

    /// Ends the forwarding stage, after the packets are released: records them, each with its share
    /// of the common time.
    pub fn finish_forwarding(&mut self) {
        let total_ns = self.now_ns().saturating_sub(self.begin_ns);
        let (packets, own_ns) = self.laps.sum();
        let readings_ns = (packets + 1).saturating_mul(self.reading_ns);
        let shared_ns = total_ns.saturating_sub(own_ns.saturating_add(readings_ns));
        self.laps.count(&self.times.forwarding, shared_ns);
    }
}

impl PacketTimes {
    fn iter(&self) -> impl Iterator<Item = (PacketKind, u64)> {
        let laps = self.kinds.iter().zip(self.nanos.iter());
        laps.filter_map(|(kind, &nanos)| Some(((*kind)?, nanos)))
    }

    /// Number of packets, and the sum of their own times in nanoseconds.
    fn sum(&self) -> (u64, u64) {
        self.iter().fold((0, 0), |(packets, sum), (_, nanos)| (packets + 1, sum + nanos))
    }

    /// Records the packets and their burst.
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
    fn packet_time_includes_its_share_of_common_time() {
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
        // 400 ns and one clock reading are shared by two packets.
        let forwarding = &times.forwarding;
        assert_eq!(times_of(&forwarding.interests), [(400, 1)], "200 + 200 and a reading's half");
        assert_eq!(times_of(&forwarding.data), [(592, 1)]);
        let size = forwarding.snapshot().by_burst_size[2];
        assert_eq!((size.bursts, size.interests), (1, 1));
        assert!((1000..1010).contains(&size.sum_ns), "{size:?}");
        assert_eq!(times.dispatch.snapshot(), StageTimes::default().snapshot());
    }

    #[test]
    fn dispatch_time_includes_parsing() {
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

//! Service times: how long packets take to be dispatched and to be forwarded.
//!
//! When disabled, a worker tests a flag once per burst and once per received packet. When enabled,
//! some bursts, chosen at random ([`sampler`]), are measured packet by packet. Work shared by the
//! packets of a burst, such as the prefetch stages, is divided evenly among them. Nacks take a
//! share of the common work but are not recorded.

mod histogram;
mod sampler;
mod timer;

pub use histogram::{Bucket, Histogram, HistogramSnapshot};
pub use timer::ServiceTimer;

use ndn_types::Counter;

use crate::{BURST_SIZE, PacketKind};

/// Service times of one worker: written by that worker, read by any thread. Never reset: a reader
/// subtracts an earlier snapshot.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ServiceTimes {
    /// From the network packet in the receive buffer to the burst or the ring of its shard:
    /// parsing, hashing, the dispatch table.
    pub dispatch: StageTimes,
    /// From the burst to the sink of the outgoing face: tables, pipelines, strategies.
    pub forwarding: StageTimes,
}

/// Service times of one stage.
#[derive(Debug)]
pub struct StageTimes {
    /// Interests.
    pub interests: Histogram,
    /// Data.
    pub data: Histogram,
    /// Whole bursts, by their number of packets.
    by_burst_size: Box<[BurstTimes; BURST_SIZE + 1]>,
}

/// Bursts of one size.
#[derive(Debug, Default)]
struct BurstTimes {
    bursts: Counter,
    interests: Counter,
    nanos: Counter,
}

impl BurstTimes {
    const fn new() -> Self {
        Self { bursts: Counter::new(), interests: Counter::new(), nanos: Counter::new() }
    }
}

/// Counts of [`StageTimes`] at one time, or the difference of two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StageSnapshot {
    /// Service times of Interests.
    pub interests: HistogramSnapshot,
    /// Service times of Data.
    pub data: HistogramSnapshot,
    /// Element `n` covers bursts of `n` packets.
    pub by_burst_size: Vec<BurstFigures>,
}

/// Measured bursts of one size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BurstFigures {
    /// Number of bursts.
    pub bursts: u64,
    /// Number of Interests in them.
    pub interests: u64,
    /// Their total duration, in nanoseconds.
    pub sum_ns: u64,
}

impl Default for StageTimes {
    fn default() -> Self {
        Self {
            interests: Histogram::default(),
            data: Histogram::default(),
            by_burst_size: Box::new([const { BurstTimes::new() }; BURST_SIZE + 1]),
        }
    }
}

impl StageTimes {
    /// Records one packet.
    fn record_packet(&self, kind: PacketKind, nanos: u64) {
        match kind {
            PacketKind::Interest => self.interests.record(nanos),
            PacketKind::Data => self.data.record(nanos),
            PacketKind::Nack => {}
        }
    }

    /// Records one burst.
    fn record_burst(&self, packets: u64, interests: u64, nanos: u64) {
        let size = usize::try_from(packets).unwrap_or(BURST_SIZE);
        if let Some(times) = self.by_burst_size.get(size) {
            times.bursts.increment();
            times.interests.add(interests);
            times.nanos.add(nanos);
        }
    }

    /// A copy of the counts.
    #[must_use]
    pub fn snapshot(&self) -> StageSnapshot {
        let figures = |times: &BurstTimes| BurstFigures {
            bursts: times.bursts.value(),
            interests: times.interests.value(),
            sum_ns: times.nanos.value(),
        };
        StageSnapshot {
            interests: self.interests.snapshot(),
            data: self.data.snapshot(),
            by_burst_size: self.by_burst_size.iter().map(figures).collect(),
        }
    }
}

impl StageSnapshot {
    /// The difference from an earlier snapshot.
    #[must_use]
    pub fn since(self, earlier: &Self) -> Self {
        let bursts = self.by_burst_size.iter().zip(&earlier.by_burst_size);
        let by_burst_size = bursts
            .map(|(now, before)| BurstFigures {
                bursts: now.bursts.wrapping_sub(before.bursts),
                interests: now.interests.wrapping_sub(before.interests),
                sum_ns: now.sum_ns.wrapping_sub(before.sum_ns),
            })
            .collect();
        Self {
            interests: self.interests.since(&earlier.interests),
            data: self.data.since(&earlier.data),
            by_burst_size,
        }
    }
}

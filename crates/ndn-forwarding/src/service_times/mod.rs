//! How long packets take: to be dispatched, and to be forwarded.
//!
//! Off, a worker asks once per burst whether it is on, and once per received packet. On, some bursts
//! are measured packet by packet, chosen at random ([`sampler`]). What all packets of a burst share,
//! such as the stages that fetch ahead, is divided evenly among them. Nacks are not told: they take
//! their part of what is shared, and that is all.

mod histogram;
mod sampler;
mod timer;

pub use histogram::{Bucket, Histogram, HistogramSnapshot};
pub use timer::ServiceTimer;

use crate::{BURST_SIZE, Counter, PacketKind};

/// What the service times of one worker are counted in: written by that worker alone, read by
/// anyone. Never reset: a reader subtracts what it saw first.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ServiceTimes {
    /// From the network packet in the receive buffer to the burst or the ring of its shard: parsing,
    /// hashing, the dispatch table.
    pub dispatch: StageTimes,
    /// From the burst to the sink of the outgoing face: tables, pipelines, strategies.
    pub forwarding: StageTimes,
}

/// Service times of one stage.
#[derive(Debug)]
pub struct StageTimes {
    /// Those of Interests.
    pub interests: Histogram,
    /// Those of Data.
    pub data: Histogram,
    /// Whole bursts, by the number of packets in them.
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

/// What [`StageTimes`] held at one time, or gathered between two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StageSnapshot {
    /// Service times of Interests.
    pub interests: HistogramSnapshot,
    /// Service times of Data.
    pub data: HistogramSnapshot,
    /// Element `n` is about bursts of `n` packets.
    pub by_burst_size: Vec<BurstFigures>,
}

/// Measured bursts of one size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BurstFigures {
    /// How many.
    pub bursts: u64,
    /// Interests in them.
    pub interests: u64,
    /// How long they took together, nanoseconds.
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
    /// Counts one packet.
    fn record_packet(&self, kind: PacketKind, nanos: u64) {
        match kind {
            PacketKind::Interest => self.interests.record(nanos),
            PacketKind::Data => self.data.record(nanos),
            PacketKind::Nack => {}
        }
    }

    /// Counts one burst.
    fn record_burst(&self, packets: u64, interests: u64, nanos: u64) {
        let size = usize::try_from(packets).unwrap_or(BURST_SIZE);
        if let Some(times) = self.by_burst_size.get(size) {
            times.bursts.increment();
            times.interests.add(interests);
            times.nanos.add(nanos);
        }
    }

    /// What was counted so far.
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
    /// What has come since `earlier`.
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

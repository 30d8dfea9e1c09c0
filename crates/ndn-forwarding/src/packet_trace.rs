//! Trace of the decisions of a shard about single packets.
//!
//! A traced packet takes the same way as every other one: the pipelines have no code for the trace. What they decided
//! follows from the counters before and after, and from the packets that they sent meanwhile.

use std::fmt::Debug;
use std::sync::Arc;

use ndn_packet::{Name, NameRef};
use ndn_table::FaceIndex;
use ndn_types::Timestamp;

use crate::tables::Tables;
use crate::{
    Counters, DropReason, PacketKind, ServiceTimer, ShardValues, TxKind, TxPacket, TxSink,
};

/// Maximum number of packets that a worker traces per second. Further ones are reported as lost.
const TRACED_PER_SECOND_MAX: u32 = 10_000;

const SECOND_NS: u64 = 1_000_000_000;

/// The packets to trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFilter {
    /// Their names have this prefix.
    pub prefix: Name,
    /// One of this number of packets, counted by each worker; at least 1.
    pub sample: u32,
}

/// The decisions about one packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketTrace {
    /// The worker's shard.
    pub shard: u8,
    /// Time of the burst.
    pub time: Timestamp,
    /// The face that received the packet; 0 if it was destroyed meanwhile.
    pub face_id: u64,
    /// Kind of packet.
    pub kind: PacketKind,
    /// Its name.
    pub name: Name,
    /// The decisions, in order.
    pub decisions: Vec<Decision>,
}

/// A decision about a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// An Interest was answered by the Content Store.
    CsHit,
    /// A Data was inserted into the Content Store.
    CsInserted,
    /// An Interest has a new PIT entry.
    PitInserted,
    /// An Interest joined the PIT entry of a pending one.
    PitAggregated,
    /// An Interest renewed the in-record of its face.
    PitRenewed,
    /// The packet ended this number of PIT entries as satisfied.
    PitSatisfied(u64),
    /// The route of an Interest that is in the PIT.
    Route {
        /// The FIB prefix that sets the next hops.
        prefix: Name,
        /// FaceIds of the next hops, cheapest first.
        next_hops: Vec<u64>,
        /// The strategy that chose among them.
        strategy: Name,
    },
    /// A packet was handed to a face.
    Sent {
        /// The kind of packet.
        kind: TxKind,
        /// The face; 0 if it was destroyed meanwhile.
        face_id: u64,
    },
    /// The packet went on to the shard that owns its name.
    PassedOn,
    /// The packet was dropped, or this number of packets that it caused.
    Dropped(DropReason, u64),
    /// This number of records of other Interests gave way to the Interest.
    Evicted(DropReason, u64),
}

/// Where the trace of all workers goes.
pub trait TraceSink: Debug + Send + Sync {
    /// Takes the decisions about a packet, or counts it as lost. Must not block: the caller is a worker.
    fn record(&self, trace: PacketTrace);

    /// Counts a packet that is not traced because the limit per second is reached.
    fn lose(&self);
}

/// Chooses the packets that a worker traces.
#[derive(Debug)]
pub struct PacketTracer {
    filter: TraceFilter,
    sink: Arc<dyn TraceSink>,
    /// Packets that had the prefix.
    matching: u32,
    /// Begin of the current second, and the packets traced in it.
    second: Timestamp,
    in_second: u32,
}

impl PacketTracer {
    /// A tracer of the packets that `filter` matches.
    #[must_use]
    pub fn new(filter: TraceFilter, sink: Arc<dyn TraceSink>) -> Self {
        Self { filter, sink, matching: 0, second: Timestamp::ZERO, in_second: 0 }
    }

    /// Whether to trace the packet with this name.
    fn chooses(&mut self, now: Timestamp, name: NameRef<'_>) -> bool {
        if !name.starts_with(self.filter.prefix.as_ref()) {
            return false;
        }
        let is_sampled = self.matching.is_multiple_of(self.filter.sample.max(1));
        self.matching = self.matching.wrapping_add(1);
        if !is_sampled {
            return false;
        }
        if now.since(self.second).as_nanos() >= u128::from(SECOND_NS) {
            (self.second, self.in_second) = (now, 0);
        }
        self.in_second += 1;
        if self.in_second > TRACED_PER_SECOND_MAX {
            self.sink.lose();
            return false;
        }
        true
    }
}

/// Observers of a burst while it goes through a shard.
#[derive(Debug, Default)]
pub struct Observers<'a> {
    /// Measures service times.
    pub timer: Option<&'a mut ServiceTimer>,
    /// Traces decisions.
    pub tracer: Option<&'a mut PacketTracer>,
}

impl Observers<'_> {
    /// The tracer, if it traces the packet with this name.
    pub(crate) fn tracer_of(
        &mut self,
        now: Timestamp,
        name: NameRef<'_>,
    ) -> Option<&mut PacketTracer> {
        let tracer = self.tracer.as_deref_mut()?;
        tracer.chooses(now, name).then_some(tracer)
    }
}

impl PacketTracer {
    pub(crate) fn record(&self, trace: PacketTrace) {
        self.sink.record(trace);
    }
}

/// The counters of a shard before a packet.
#[derive(Debug)]
pub(crate) struct Before {
    values: ShardValues,
    drops: [u64; DropReason::COUNT],
    cs_insertions: u64,
}

fn drops(counters: &Counters) -> [u64; DropReason::COUNT] {
    DropReason::ALL.map(|reason| counters.dropped(reason))
}

impl Before {
    pub(crate) fn of(tables: &Tables) -> Self {
        let (counters, cs_insertions) = (&tables.counters, tables.pcct.cs_counters().insertions);
        Self { values: counters.values(), drops: drops(counters), cs_insertions }
    }

    /// The decisions that the counters show since then, except the route of an Interest. The second value is whether an
    /// Interest is in the PIT.
    pub(crate) fn decisions(&self, kind: PacketKind, tables: &Tables) -> (Vec<Decision>, bool) {
        let (counters, cs_insertions) = (&tables.counters, tables.pcct.cs_counters().insertions);
        let (before, after) = (&self.values, counters.values());
        let dropped: Vec<(DropReason, u64)> = DropReason::ALL
            .into_iter()
            .zip(self.drops.iter().zip(drops(counters)))
            .map(|(reason, (before, after))| (reason, after - before))
            .filter(|(_, count)| *count > 0)
            .collect();
        let is_refused =
            dropped.iter().any(|(reason, _)| DropReason::REFUSED_INTEREST.contains(reason));
        let is_hit = after.cs_hits != before.cs_hits;
        let is_passed_on = after.passed_on_interests != before.passed_on_interests
            || after.passed_on_nacks != before.passed_on_nacks;
        let is_pending = kind == PacketKind::Interest && !is_refused && !is_hit && !is_passed_on;
        let mut decisions = Vec::new();
        if is_passed_on {
            decisions.push(Decision::PassedOn);
        }
        if is_hit {
            decisions.push(Decision::CsHit);
        }
        if is_pending {
            decisions.push(if after.pit_inserts != before.pit_inserts {
                Decision::PitInserted
            } else if after.in_record_refreshes != before.in_record_refreshes {
                Decision::PitRenewed
            } else {
                Decision::PitAggregated
            });
        }
        if cs_insertions != self.cs_insertions {
            decisions.push(Decision::CsInserted);
        }
        let satisfied = after.satisfied_interests - before.satisfied_interests;
        if kind == PacketKind::Data && satisfied > 0 {
            decisions.push(Decision::PitSatisfied(satisfied));
        }
        let evicted = [DropReason::Evicted, DropReason::OutRecordEvicted];
        decisions.extend(dropped.into_iter().map(|(reason, count)| {
            if evicted.contains(&reason) {
                Decision::Evicted(reason, count)
            } else {
                Decision::Dropped(reason, count)
            }
        }));
        (decisions, is_pending)
    }
}

/// Passes packets to another sink, and notes where they went.
pub(crate) struct NotingSink<'a, S> {
    pub(crate) tx: &'a mut S,
    pub(crate) sent: Vec<(TxKind, FaceIndex)>,
}

impl<S: TxSink> TxSink for NotingSink<'_, S> {
    fn send(&mut self, face: FaceIndex, packet: &TxPacket<'_>) {
        self.sent.push((packet.kind, face));
        self.tx.send(face, packet);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct Lost(AtomicU32);

    impl TraceSink for Lost {
        fn record(&self, _: PacketTrace) {}

        fn lose(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn name(uri: &str) -> Name {
        Name::from_uri(uri).unwrap()
    }

    #[test]
    fn one_packet_of_the_sample_with_the_prefix_is_chosen() {
        let filter = TraceFilter { prefix: name("/a"), sample: 3 };
        let mut tracer = PacketTracer::new(filter, Arc::new(Lost::default()));
        let now = Timestamp::from_nanos(5);
        let chosen = (0..7).map(|_| tracer.chooses(now, name("/a/b").as_ref()));
        assert_eq!(chosen.filter(|is_chosen| *is_chosen).count(), 3);
        assert!(!tracer.chooses(now, name("/b/a").as_ref()));
    }

    #[test]
    fn packets_beyond_the_rate_are_counted_as_lost() {
        let filter = TraceFilter { prefix: Name::default(), sample: 1 };
        let lost = Arc::new(Lost::default());
        let mut tracer = PacketTracer::new(filter, Arc::<Lost>::clone(&lost));
        let packets = |tracer: &mut PacketTracer, now| {
            let name = name("/a");
            let chosen = (0..TRACED_PER_SECOND_MAX + 5).map(|_| tracer.chooses(now, name.as_ref()));
            chosen.filter(|is_chosen| *is_chosen).count()
        };
        let maximum = TRACED_PER_SECOND_MAX as usize;
        assert_eq!(packets(&mut tracer, Timestamp::from_nanos(SECOND_NS)), maximum);
        assert_eq!(packets(&mut tracer, Timestamp::from_nanos(2 * SECOND_NS)), maximum);
        assert_eq!(lost.0.load(Ordering::Relaxed), 10);
    }
}

//! Trace of the decisions about packets: `trace.packets`.

use std::fmt;
use std::fmt::Write as _;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use ndn_forwarding::{Decision, PacketKind, PacketTrace, TxKind};
use ndn_packet::Name;
use serde::{Deserialize, Serialize};

/// Maximum length of a name in a trace, bytes of its URI. Longer ones are cut and end with `…`.
pub(crate) const TRACED_NAME_MAX: usize = 512;

/// A line of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceLine {
    /// The decisions about one packet.
    Packet(TracedPacket),
    /// Packets that were not reported so far, because there were too many.
    Lost(u64),
}

/// The decisions about one packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedPacket {
    /// The worker whose shard decided.
    pub worker: u8,
    /// Time of the burst, nanoseconds since 1970.
    pub unix_ns: u64,
    /// The face that received the packet; 0 if it was destroyed meanwhile.
    pub face_id: u64,
    /// `Interest`, `Data` or `Nack`.
    pub packet: String,
    /// Its name, as a URI of at most 512 bytes.
    pub name: String,
    /// The decisions, in order.
    pub decisions: Vec<TracedDecision>,
}

/// A decision about a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum TracedDecision {
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
    /// The packet ended PIT entries as satisfied.
    PitSatisfied {
        /// Their number.
        entries: u64,
    },
    /// The route of an Interest that is in the PIT.
    Route {
        /// The FIB prefix that sets the next hops.
        prefix: String,
        /// FaceIds of the next hops, cheapest first.
        next_hops: Vec<u64>,
        /// The strategy that chose among them.
        strategy: String,
    },
    /// A packet was handed to a face.
    Sent {
        /// `Interest`, `Data` or `Nack`.
        packet: String,
        /// The reason of a Nack.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nack_reason: Option<String>,
        /// The face; 0 if it was destroyed meanwhile.
        face_id: u64,
    },
    /// The packet went on to the worker whose shard owns its name.
    PassedOn,
    /// The packet was dropped, or this number of packets that it caused.
    Dropped {
        /// Name of the drop reason.
        reason: String,
        /// Number of packets.
        count: u64,
    },
    /// This number of records of other Interests gave way to the Interest.
    Evicted {
        /// Name of the drop reason.
        reason: String,
        /// Number of records.
        count: u64,
    },
}

impl TracedPacket {
    /// The form of a trace on the control socket.
    #[must_use]
    pub fn new(trace: PacketTrace, unix_ns: u64) -> Self {
        let PacketTrace { shard, time: _, face_id, kind, name, decisions } = trace;
        let packet = match kind {
            PacketKind::Interest => "Interest",
            PacketKind::Data => "Data",
            PacketKind::Nack => "Nack",
        };
        Self {
            worker: shard,
            unix_ns,
            face_id,
            packet: packet.to_owned(),
            name: uri(&name),
            decisions: decisions.into_iter().map(TracedDecision::from).collect(),
        }
    }

    /// The memory that it takes, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of_decisions: usize = self.decisions.iter().map(TracedDecision::bytes).sum();
        size_of::<Self>() + self.packet.len() + self.name.len() + of_decisions
    }
}

impl TracedDecision {
    fn bytes(&self) -> usize {
        let texts = match self {
            Self::Route { prefix, next_hops, strategy } => {
                prefix.len() + strategy.len() + size_of_val(next_hops.as_slice())
            }
            Self::Sent { packet, nack_reason, .. } => {
                packet.len() + nack_reason.as_ref().map_or(0, String::len)
            }
            Self::Dropped { reason, .. } | Self::Evicted { reason, .. } => reason.len(),
            Self::CsHit
            | Self::CsInserted
            | Self::PitInserted
            | Self::PitAggregated
            | Self::PitRenewed
            | Self::PitSatisfied { .. }
            | Self::PassedOn => 0,
        };
        size_of::<Self>() + texts
    }
}

/// The URI of a name, cut at `TRACED_NAME_MAX`. What is cut is not formatted.
fn uri(name: &Name) -> String {
    struct Cut(String);

    impl fmt::Write for Cut {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = TRACED_NAME_MAX - self.0.len();
            self.0.push_str(&text[..text.floor_char_boundary(room)]);
            if text.len() > room { Err(fmt::Error) } else { Ok(()) }
        }
    }

    let mut cut = Cut(String::new());
    if write!(cut, "{name}").is_err() {
        cut.0.push('…');
    }
    cut.0
}

impl From<Decision> for TracedDecision {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::CsHit => Self::CsHit,
            Decision::CsInserted => Self::CsInserted,
            Decision::PitInserted => Self::PitInserted,
            Decision::PitAggregated => Self::PitAggregated,
            Decision::PitRenewed => Self::PitRenewed,
            Decision::PitSatisfied(entries) => Self::PitSatisfied { entries },
            Decision::Route { prefix, next_hops, strategy } => {
                Self::Route { prefix: uri(&prefix), next_hops, strategy: uri(&strategy) }
            }
            Decision::Sent { kind, face_id } => {
                let (packet, nack_reason) = match kind {
                    TxKind::Interest => ("Interest", None),
                    TxKind::Data => ("Data", None),
                    TxKind::Nack(reason) => ("Nack", Some(reason.to_string())),
                };
                Self::Sent { packet: packet.to_owned(), nack_reason, face_id }
            }
            Decision::PassedOn => Self::PassedOn,
            Decision::Dropped(reason, count) => {
                Self::Dropped { reason: reason.name().to_owned(), count }
            }
            Decision::Evicted(reason, count) => {
                Self::Evicted { reason: reason.name().to_owned(), count }
            }
        }
    }
}

impl fmt::Display for TracedDecision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CsHit => formatter.write_str("CS hit"),
            Self::CsInserted => formatter.write_str("CS inserted"),
            Self::PitInserted => formatter.write_str("PIT new"),
            Self::PitAggregated => formatter.write_str("PIT aggregated"),
            Self::PitRenewed => formatter.write_str("PIT renewed"),
            Self::PitSatisfied { entries } => write!(formatter, "PIT satisfied {entries}"),
            Self::Route { prefix, next_hops, strategy } => {
                let next_hops: Vec<String> = next_hops.iter().map(u64::to_string).collect();
                let next_hops =
                    if next_hops.is_empty() { "none".to_owned() } else { next_hops.join(" ") };
                write!(formatter, "FIB {prefix} next hops {next_hops} strategy {strategy}")
            }
            Self::Sent { packet, nack_reason: None, face_id } => {
                write!(formatter, "sent {packet} to face {face_id}")
            }
            Self::Sent { packet, nack_reason: Some(reason), face_id } => {
                write!(formatter, "sent {packet} {reason} to face {face_id}")
            }
            Self::PassedOn => formatter.write_str("passed on to another worker"),
            Self::Dropped { reason, count: 1 } => write!(formatter, "dropped {reason}"),
            Self::Dropped { reason, count } => write!(formatter, "dropped {count} {reason}"),
            Self::Evicted { reason, count } => write!(formatter, "{reason} {count}"),
        }
    }
}

/// Returns the next traced packet, and waits for it for this time at most.
pub type NextPacket = Box<dyn Fn(Duration) -> Result<TracedPacket, RecvTimeoutError> + Send>;

/// An active trace. Dropping it ends the trace.
pub struct PacketTraceStream {
    /// Returns the next traced packet of any worker, and waits for it for this time at most.
    pub packets: NextPacket,
    /// Returns the number of packets that were not reported, because the stream was full or their rate too high.
    pub lost: Box<dyn Fn() -> u64 + Send>,
    /// Ends the trace when it is dropped.
    pub end: Box<dyn Send>,
}

impl fmt::Debug for PacketTraceStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = (self.lost)();
        formatter.debug_struct("PacketTraceStream").field("lost", &lost).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use ndn_types::Timestamp;

    use super::*;

    #[test]
    fn long_name_is_cut_in_traces() {
        let traced = |name: Name| {
            let trace = PacketTrace {
                shard: 0,
                time: Timestamp::ZERO,
                face_id: 300,
                kind: PacketKind::Interest,
                name,
                decisions: Vec::new(),
            };
            TracedPacket::new(trace, 1).name
        };
        let name = |length: usize| {
            let mut name = Name::default();
            name.push_generic(vec![b'a'; length]);
            name
        };
        assert_eq!(traced(name(TRACED_NAME_MAX - 1)), name(TRACED_NAME_MAX - 1).to_string());
        let mut escaped = Name::default();
        escaped.push_generic(vec![0; 8000]);
        for long in [name(TRACED_NAME_MAX), escaped] {
            let text = traced(long.clone());
            let kept = text.strip_suffix('…').unwrap();
            assert!(kept.len() <= TRACED_NAME_MAX && long.to_string().starts_with(kept), "{kept}");
        }
    }
}

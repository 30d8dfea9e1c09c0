//! Packets received and sent by faces, as a capture file.

mod kind;
mod pcapng;
mod reader;
mod summary;

use ndn_packet::Name;
use ndn_types::random::mix;

pub use kind::{CapturedKind, CapturedKinds};
pub use pcapng::{ETHERTYPE_NDN, PcapngWriter};
pub use reader::{CaptureRecord, CapturedFrame, PCAPNG_MAGIC, PcapngReader};
pub use summary::{PacketIdentity, PacketSummary};

/// Direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The face received it.
    Received,
    /// The face sent it.
    Sent,
}

/// One packet as it was on the link, NDNLPv2 header included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// FaceId.
    pub face_id: u64,
    /// Direction.
    pub direction: Direction,
    /// Nanoseconds since 1970.
    pub unix_ns: u64,
    /// Bytes of the packet, possibly truncated to the snap length.
    pub bytes: Vec<u8>,
    /// Original length in bytes.
    pub original_len: usize,
}

/// The peer of a face.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedPeer {
    /// Its URI.
    pub uri: String,
    /// The process of an application on this host, for people.
    pub application: Option<String>,
}

impl<T: Into<String>> From<T> for CapturedPeer {
    fn from(uri: T) -> Self {
        Self { uri: uri.into(), application: None }
    }
}

/// Upper limit of the snap length: any NDN packet is shorter.
pub const SNAP_LEN_MAX: usize = 65_536;

/// Selects the packets to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureFilter {
    /// Only this face; `None` captures all faces.
    pub face_id: Option<u64>,
    /// Only names with this prefix.
    pub name: Option<Name>,
    /// Only these types; all if there are none.
    pub types: CapturedKinds,
    /// Maximum bytes captured per packet.
    pub snap_len: usize,
    /// One of this number of selected packets, at least 1.
    pub sample: u32,
}

impl CaptureFilter {
    /// A filter of all names and types with a snap length of 65,536 bytes at most. Without `sample`, all packets are captured.
    #[must_use]
    pub fn new(face_id: Option<u64>, snap_len: usize, sample: Option<u32>) -> Self {
        let (name, types) = (None, CapturedKinds::default());
        let (snap_len, sample) = (snap_len.min(SNAP_LEN_MAX), sample.unwrap_or(1).max(1));
        Self { face_id, name, types, snap_len, sample }
    }

    /// Whether it selects packets by what is in them.
    #[must_use]
    pub const fn reads_packets(&self) -> bool {
        self.name.is_some() || !self.types.is_empty()
    }

    /// Whether a packet has a selected name and type.
    #[must_use]
    pub fn selects(&self, packet: &PacketIdentity<'_>) -> bool {
        let PacketIdentity { kind, name } = *packet;
        let has_prefix = |prefix: &Name| name.is_some_and(|name| name.starts_with(prefix.as_ref()));
        (self.types.is_empty() || self.types.contains(kind))
            && self.name.as_ref().is_none_or(has_prefix)
    }

    /// Whether the packet with this number belongs to the sample. The order is that of a hash: of every second packet, all
    /// may be Interests.
    #[must_use]
    pub const fn is_sampled(&self, number: u64) -> bool {
        mix(number).is_multiple_of(self.sample as u64)
    }
}

#[cfg(test)]
mod tests {
    use ndn_packet::InterestBuilder;

    use super::*;

    #[test]
    fn packets_are_selected_by_name_and_type() {
        let interest =
            |name: &str| InterestBuilder::new(&name.parse().unwrap()).nonce(1).to_vec().unwrap();
        let all = CaptureFilter::new(None, 9, None);
        let selects =
            |filter: &CaptureFilter, wire: &[u8]| filter.selects(&PacketIdentity::of(wire));
        assert!(!all.reads_packets() && selects(&all, &interest("/a")) && selects(&all, &[1, 2]));
        let of = |name: &str, types: &[CapturedKind]| CaptureFilter {
            name: Some(name.parse().unwrap()),
            types: types.iter().copied().collect(),
            ..all.clone()
        };
        let filter = of("/a/b", &[CapturedKind::Interest]);
        assert!(filter.reads_packets() && selects(&filter, &interest("/a/b/c")));
        for other in [&interest("/a/c")[..], &interest("/a"), &[1, 2], &[]] {
            assert!(!selects(&filter, other), "{other:?}");
        }
        let others = of("/a", &[CapturedKind::Data, CapturedKind::Nack]);
        assert!(!selects(&others, &interest("/a/b")));
    }

    #[test]
    fn sample_has_its_part_of_packets_in_any_position() {
        assert!((0..100).all(|number| CaptureFilter::new(None, 9, None).is_sampled(number)));
        let filter = CaptureFilter::new(None, 9, Some(4));
        for (first, step) in [(0, 1), (0, 2), (1, 2), (3, 4)] {
            let count = (0..10_000).filter(|at| filter.is_sampled(first + at * step)).count();
            assert!((2300..2700).contains(&count), "{count} of 10000 from {first} by {step}");
        }
    }
}

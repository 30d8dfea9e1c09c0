//! Packets received and sent by faces, as a capture file.

mod pcapng;
mod reader;
mod summary;

use ndn_types::random::mix;

pub use pcapng::{ETHERTYPE_NDN, PcapngWriter, truncated_packet};
pub use reader::{CaptureRecord, CapturedFrame, PCAPNG_MAGIC, PcapngReader};
pub use summary::{CapturedKind, PacketSummary};

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

/// Upper limit of the snap length: any NDN packet is shorter.
pub const SNAP_LEN_MAX: usize = 65_536;

/// Selects the packets to capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureFilter {
    /// Only this face; `None` captures all faces.
    pub face_id: Option<u64>,
    /// Maximum bytes captured per packet.
    pub snap_len: usize,
    /// One of this number of packets, at least 1.
    pub sample: u32,
}

impl CaptureFilter {
    /// A filter with a snap length of 65,536 bytes at most. Without `sample`, all packets are captured.
    #[must_use]
    pub fn new(face_id: Option<u64>, snap_len: usize, sample: Option<u32>) -> Self {
        Self { face_id, snap_len: snap_len.min(SNAP_LEN_MAX), sample: sample.unwrap_or(1).max(1) }
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
    use super::*;

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

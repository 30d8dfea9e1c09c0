//! Packets received and sent by faces, as a capture file.

mod pcapng;
mod reader;
mod summary;

pub use pcapng::{ETHERTYPE_NDN, PcapngWriter};
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

/// Upper limit of the snap length.
const SNAP_LEN_MAX: usize = 65_536;

/// Selects the packets to capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureFilter {
    /// Only this face; `None` captures all faces.
    pub face_id: Option<u64>,
    /// Maximum bytes captured per packet.
    pub snap_len: usize,
}

impl CaptureFilter {
    /// A filter with a snap length of 65,536 bytes at most.
    #[must_use]
    pub fn new(face_id: Option<u64>, snap_len: usize) -> Self {
        Self { face_id, snap_len: snap_len.min(SNAP_LEN_MAX) }
    }
}

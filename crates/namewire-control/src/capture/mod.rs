//! What faces receive and send, as a capture file.

mod pcapng;

pub use pcapng::{ETHERTYPE_NDN, PcapngWriter};

/// Which way a packet went.
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
    /// The face's number in management.
    pub face_id: u64,
    /// Which way it went.
    pub direction: Direction,
    /// Nanoseconds since 1970.
    pub unix_ns: u64,
    /// Its bytes, possibly cut at the snap length.
    pub bytes: Vec<u8>,
    /// How many bytes it had.
    pub original_len: usize,
}

/// Which packets to capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureFilter {
    /// Only this face; none captures all.
    pub face_id: Option<u64>,
    /// Bytes kept of each packet.
    pub snap_len: usize,
}

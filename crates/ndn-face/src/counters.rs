//! What a face counts.

use ndn_forwarding::Counter;

use crate::LinkDropReason;

/// Counters of one face: written by its worker alone, read by anyone.
#[derive(Debug, Default)]
pub struct FaceCounters {
    /// Interests received.
    pub in_interests: Counter,
    /// Data received.
    pub in_data: Counter,
    /// Nacks received.
    pub in_nacks: Counter,
    /// Frames received: link-layer packets, of which several may carry one network packet.
    pub in_frames: Counter,
    /// Bytes of all frames received.
    pub in_bytes: Counter,
    /// Interests given to the transport.
    pub out_interests: Counter,
    /// Data given to the transport.
    pub out_data: Counter,
    /// Nacks given to the transport.
    pub out_nacks: Counter,
    /// Frames given to the transport.
    pub out_frames: Counter,
    /// Bytes of all frames given to the transport.
    pub out_bytes: Counter,
    /// Packets that left with a congestion mark of this face's making.
    pub out_marked: Counter,
    drops: [Counter; LinkDropReason::ALL.len()],
}

impl FaceCounters {
    /// Counts one drop.
    #[inline]
    pub fn count_drop(&self, reason: LinkDropReason) {
        self.drops[reason as usize].increment();
    }

    /// Drops so far for `reason`.
    #[must_use]
    pub fn drops(&self, reason: LinkDropReason) -> u64 {
        self.drops[reason as usize].value()
    }
}

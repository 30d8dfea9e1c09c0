//! What a listener counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows, written by the thread of the service and read by any.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What happens at the listeners, and on all sessions together.
#[derive(Debug, Default)]
pub struct Counters {
    /// Sessions that were accepted.
    pub accepted: Count,
    /// Sessions that have ended.
    pub ended: Count,
    /// Connections rejected because a limit, in total or of one peer, was reached.
    pub refused_full: Count,
    /// Connections that had to prove their address first, because many handshakes were in progress.
    pub retried: Count,
    /// Requests for another path.
    pub refused_path: Count,
    /// Requests of pages whose origin may not connect.
    pub refused_origin: Count,
    /// Peers that take no datagrams, or too short ones.
    pub refused_datagrams: Count,
    /// Connections that did not become a session: no HTTP/3, a broken or unfinished handshake.
    pub failed: Count,
    /// Received datagrams that are not one whole TLV element. They are dropped.
    pub malformed_datagrams: Count,
    /// Packets that came by streams of their own.
    pub received_streams: Count,
    /// Packets that were sent so.
    pub sent_streams: Count,
    /// Packets sent so that the peer's QUIC did not take, or did not confirm before the session ended.
    pub lost_streams: Count,
    /// Received streams that are not one whole TLV element, or were taken back. They are dropped.
    pub malformed_streams: Count,
    /// Received streams that took too long. They are dropped.
    pub overdue_streams: Count,
    /// Frames that were longer than the path takes at that moment. They are dropped.
    pub oversized_frames: Count,
}

impl Counters {
    /// Each with its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 15] {
        [
            ("accepted", self.accepted.value()),
            ("ended", self.ended.value()),
            ("refused_full", self.refused_full.value()),
            ("retried", self.retried.value()),
            ("refused_path", self.refused_path.value()),
            ("refused_origin", self.refused_origin.value()),
            ("refused_datagrams", self.refused_datagrams.value()),
            ("failed", self.failed.value()),
            ("malformed_datagrams", self.malformed_datagrams.value()),
            ("received_streams", self.received_streams.value()),
            ("sent_streams", self.sent_streams.value()),
            ("lost_streams", self.lost_streams.value()),
            ("malformed_streams", self.malformed_streams.value()),
            ("overdue_streams", self.overdue_streams.value()),
            ("oversized_frames", self.oversized_frames.value()),
        ]
    }
}

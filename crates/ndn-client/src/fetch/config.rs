//! What a fetch may do.

use super::congestion::WindowMode;
use super::rtt::RtoBounds;

/// What a fetch may do.
#[derive(Debug, Clone, Copy)]
pub struct FetchConfig {
    /// Size of the window.
    pub window: WindowMode,
    /// Bounds of the retransmission time-out.
    pub rto: RtoBounds,
    /// How often one segment is asked for again before the fetch fails.
    pub retransmissions_max: u32,
    /// Segments between the first not yet consumed and the last asked for: bounds the memory that
    /// waits for its turn.
    pub buffer_segments: u32,
    /// No segment behind this one is asked for, and the fetch is complete when it is there; `None`:
    /// all up to the final segment.
    pub last_wanted: Option<u64>,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self {
            window: WindowMode::default(),
            rto: RtoBounds::default(),
            retransmissions_max: 15,
            buffer_segments: 4096,
            last_wanted: None,
        }
    }
}

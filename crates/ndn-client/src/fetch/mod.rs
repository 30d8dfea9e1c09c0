//! Fetching segmented objects: the state machine, its congestion control, and the driver.

mod rtt;
mod state;
mod window;

use std::time::Duration;

use thiserror::Error;

pub use rtt::{RtoBounds, RttEstimator};
pub use state::{DataOutcome, DeadlineReason, FetchConfig, FetchState, Transmit};
pub use window::{Answer, Window, WindowMode};

/// Why a fetch cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FetchFailure {
    /// A segment was asked for too often without an answer.
    #[error("segment {segment} was not answered in {attempts} attempts")]
    Timeout {
        /// Segment number.
        segment: u64,
        /// How often it was asked for.
        attempts: u32,
    },
    /// A segment was refused too often with a Nack.
    #[error("segment {segment} was refused with a Nack again and again")]
    Nack {
        /// Segment number.
        segment: u64,
    },
    /// Two segments state different final segments.
    #[error("segments disagree on the final segment: {known}, then {now}")]
    FinalBlockIdChanged {
        /// Stated first.
        known: u64,
        /// Stated now.
        now: u64,
    },
    /// A segment beyond the stated final one was received.
    #[error("segment {segment} lies beyond the final segment {last}")]
    BeyondFinalBlock {
        /// Segment number.
        segment: u64,
        /// Stated final segment.
        last: u64,
    },
    /// The producer answered a segment with an application Nack.
    #[error("the producer answered segment {segment} with an application Nack")]
    ApplicationNack {
        /// Segment number.
        segment: u64,
    },
    /// A segment did not verify.
    #[error("segment {segment} does not verify: {reason}")]
    Verification {
        /// Segment number.
        segment: u64,
        /// Why.
        reason: String,
    },
}

/// Counters and estimates of a fetch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FetchProgress {
    /// Content bytes received, duplicates not counted.
    pub bytes: u64,
    /// Segments received, duplicates not counted.
    pub segments: u64,
    /// Final segment, once known.
    pub final_segment: Option<u64>,
    /// Interests sent.
    pub interests: u64,
    /// Interests among them that were sent again.
    pub retransmissions: u64,
    /// Interests given up because later ones were answered.
    pub losses: u64,
    /// Interests given up after the retransmission time-out.
    pub timeouts: u64,
    /// Interests given up although their answer was still to come.
    pub spurious_losses: u64,
    /// Nacks received.
    pub nacks: u64,
    /// Data received with a congestion mark.
    pub congestion_marks: u64,
    /// Times that the window was decreased.
    pub window_decreases: u64,
    /// Segments that may be outstanding now.
    pub window: usize,
    /// Segments that are outstanding now.
    pub in_flight: usize,
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Retransmission time-out.
    pub rto: Duration,
}

#[cfg(test)]
mod simulation;

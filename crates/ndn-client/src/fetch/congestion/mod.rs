//! Congestion control: the number of Interests that may be outstanding.

mod cubic;
mod delay;

use std::time::Duration;

pub use cubic::Cubic;
pub use delay::Delay;

/// Minimum window, in segments.
const WINDOW_MIN: f64 = 2.0;

/// The controller of a fetch and its initial state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WindowMode {
    /// A constant window.
    Fixed(u32),
    /// Fills queues until they overflow, like most traffic on the internet: [`Cubic`].
    Cubic {
        /// Initial window, in segments.
        initial: u32,
        /// Maximum window, in segments.
        max: u32,
    },
    /// Keeps queues short, and ignores a few losses: [`Delay`].
    Delay {
        /// Initial window, in segments.
        initial: u32,
        /// Maximum window, in segments.
        max: u32,
    },
}

impl WindowMode {
    /// CUBIC with defaults.
    pub const CUBIC: Self = Self::Cubic { initial: 10, max: 16_384 };
    /// The delay-based controller with defaults.
    pub const DELAY: Self = Self::Delay { initial: 10, max: 16_384 };

    /// Creates the controller.
    #[must_use]
    pub fn controller(self) -> Box<dyn Controller> {
        match self {
            Self::Fixed(size) => Box::new(Fixed::new(size)),
            Self::Cubic { initial, max } => Box::new(Cubic::new(initial, max)),
            Self::Delay { initial, max } => Box::new(Delay::new(initial, max)),
        }
    }

    /// The same mode with another maximum window.
    #[must_use]
    pub fn with_max(self, max: u32) -> Self {
        match self {
            Self::Fixed(size) => Self::Fixed(size.min(max)),
            Self::Cubic { initial, .. } => Self::Cubic { initial: initial.min(max), max },
            Self::Delay { initial, .. } => Self::Delay { initial: initial.min(max), max },
        }
    }
}

impl Default for WindowMode {
    fn default() -> Self {
        Self::CUBIC
    }
}

/// A congestion signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Congestion {
    /// A loss, detected by later answers, or a Nack.
    Loss,
    /// Retransmission time-out.
    Timeout,
    /// A congestion mark.
    Mark,
}

/// An answered transmission, as controllers see it.
#[derive(Debug, Clone, Copy)]
pub struct AnsweredSegment {
    /// Time of the answer.
    pub now: Duration,
    /// Sequence number of the answered transmission.
    pub sequence: u64,
    /// Sequence number of the next transmission.
    pub next_sequence: u64,
    /// Round-trip time, unless the segment was retransmitted.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Whether the window, not the application, limited sending.
    pub window_limited: bool,
}

/// A window as a state machine over answers and congestion signals.
pub trait Controller: std::fmt::Debug + Send {
    /// Window, in segments.
    fn size(&self) -> usize;

    /// An answer without a congestion mark.
    fn on_answer(&mut self, answer: &AnsweredSegment);

    /// A transmission declared lost.
    fn on_lost(&mut self) {}

    /// A congestion signal, at most once per round trip.
    fn on_congestion(&mut self, congestion: Congestion);

    /// A transmission declared lost was answered after all.
    fn on_spurious_loss(&mut self) {}
}

/// A constant number of Interests.
#[derive(Debug, Clone)]
pub struct Fixed {
    size: usize,
}

impl Fixed {
    /// A window of `size` segments, at least one.
    #[must_use]
    pub fn new(size: u32) -> Self {
        Self { size: usize::try_from(size).unwrap_or(usize::MAX).max(1) }
    }
}

impl Controller for Fixed {
    fn size(&self) -> usize {
        self.size
    }

    fn on_answer(&mut self, _answer: &AnsweredSegment) {}

    fn on_congestion(&mut self, _congestion: Congestion) {}
}

/// A size as a number of segments.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes lie between 1 and u32::MAX"
)]
fn whole(size: f64) -> usize {
    size as usize
}

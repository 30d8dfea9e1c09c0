//! Congestion control: how many Interests may be outstanding.

mod cubic;
mod delay;
mod fixed;

use std::time::Duration;

pub use cubic::Cubic;
pub use delay::Delay;
pub use fixed::Fixed;

/// A window never shrinks below this many segments.
const WINDOW_MIN: f64 = 2.0;

/// Which controller a fetch has, and how it begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WindowMode {
    /// Always this many.
    Fixed(u32),
    /// Fills queues until they overflow, as most others on the internet do: [`Cubic`].
    Cubic {
        /// At the start.
        initial: u32,
        /// Never more.
        max: u32,
    },
    /// Keeps queues short, and takes a few losses for noise: [`Delay`].
    Delay {
        /// At the start.
        initial: u32,
        /// Never more.
        max: u32,
    },
}

impl WindowMode {
    /// CUBIC as it is by default.
    pub const CUBIC: Self = Self::Cubic { initial: 10, max: 16_384 };
    /// The delay-aware controller as it is by default.
    pub const DELAY: Self = Self::Delay { initial: 10, max: 16_384 };

    /// The controller at its start.
    #[must_use]
    pub fn controller(self) -> Box<dyn Controller> {
        match self {
            Self::Fixed(size) => Box::new(Fixed::new(size)),
            Self::Cubic { initial, max } => Box::new(Cubic::new(initial, max)),
            Self::Delay { initial, max } => Box::new(Delay::new(initial, max)),
        }
    }

    /// The same with another largest window.
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

/// What told of congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Congestion {
    /// A loss that later answers told of, or a Nack.
    Loss,
    /// Nothing came for the retransmission time-out.
    Timeout,
    /// A congestion mark.
    Mark,
}

/// One answered transmission, as a controller sees it.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// Time of the answer.
    pub now: Duration,
    /// Sequence number of the transmission that was answered.
    pub sequence: u64,
    /// Sequence number that the next transmission will have.
    pub next_sequence: u64,
    /// Round-trip time, unless the segment was retransmitted.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time.
    pub smoothed_rtt: Duration,
    /// Whether the window, and not the application, limited the sending.
    pub window_limited: bool,
}

/// A window as a state machine over answers and congestion.
pub trait Controller: std::fmt::Debug + Send {
    /// Segments that may be outstanding.
    fn size(&self) -> usize;

    /// Takes an answer without a congestion mark.
    fn on_answer(&mut self, answer: &Answer);

    /// Takes every transmission that is given up for lost.
    fn on_lost(&mut self) {}

    /// Takes congestion, at most once per round trip.
    fn on_congestion(&mut self, congestion: Congestion);

    /// A transmission that was given up was not lost.
    fn on_spurious_loss(&mut self) {}
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

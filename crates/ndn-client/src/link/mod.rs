//! A link model without I/O and clock: rate, delay, queue, loss, reordering, duplication. Tests and
//! benches run it in virtual time, a relay can run it in real time.

mod simulation;

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub use simulation::{FlowResult, SimulatedFlow, SimulationResult, simulate};

/// One direction of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatedLinkOptions {
    /// Bits per second.
    pub rate: u64,
    /// Propagation delay.
    pub delay: Duration,
    /// Queue length in bytes; a packet that does not fit is dropped.
    pub queue_bytes: u64,
    /// Fraction of packets lost at random.
    pub loss: f64,
    /// Fraction of packets delayed by [`Self::reordering_delay`].
    pub reordering: f64,
    /// Additional delay of reordered packets.
    pub reordering_delay: Duration,
    /// Fraction of packets that arrive twice.
    pub duplication: f64,
    /// Queueing time above which packets are marked.
    pub mark_above: Option<Duration>,
    /// Seed of the random generator.
    pub seed: u64,
}

impl Default for SimulatedLinkOptions {
    fn default() -> Self {
        Self {
            rate: 1_000_000_000,
            delay: Duration::ZERO,
            queue_bytes: 1 << 20,
            loss: 0.0,
            reordering: 0.0,
            reordering_delay: Duration::from_millis(1),
            duplication: 0.0,
            mark_above: None,
            seed: 1,
        }
    }
}

/// Outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// It arrives.
    Arrives {
        /// Arrival time.
        at: Duration,
        /// Arrival time of a duplicate.
        again_at: Option<Duration>,
        /// Queueing time.
        waited: Duration,
        /// Whether it is marked.
        marked: bool,
    },
    /// Dropped: the queue was full.
    Overflow,
    /// Lost at random.
    Lost,
}

/// One direction of a link, as a state machine.
#[derive(Debug)]
pub struct SimulatedLink {
    options: SimulatedLinkOptions,
    random: StdRng,
    /// Time at which all accepted packets will have been sent.
    free_at: Duration,
}

impl SimulatedLink {
    /// An idle link.
    #[must_use]
    pub fn new(options: SimulatedLinkOptions) -> Self {
        Self { random: StdRng::seed_from_u64(options.seed), options, free_at: Duration::ZERO }
    }

    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.random.random_bool(share.clamp(0.0, 1.0))
    }

    /// Transmission time of `bytes`.
    fn sending(&self, bytes: u64) -> Duration {
        let nanoseconds = u128::from(bytes) * 8_000_000_000 / u128::from(self.options.rate.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Sends a packet of `bytes` bytes at `now`; times must not decrease.
    pub fn send(&mut self, now: Duration, bytes: u64) -> Passage {
        let waited = self.free_at.saturating_sub(now);
        if waited > Duration::ZERO
            && waited + self.sending(bytes) > self.sending(self.options.queue_bytes)
        {
            return Passage::Overflow;
        }
        self.free_at = now + waited + self.sending(bytes);
        // A packet lost on the way has used the link.
        if self.happens(self.options.loss) {
            return Passage::Lost;
        }
        let late = if self.happens(self.options.reordering) {
            self.options.reordering_delay
        } else {
            Duration::ZERO
        };
        let at = self.free_at + self.options.delay + late;
        let again_at = self.happens(self.options.duplication).then_some(at);
        let marked = self.options.mark_above.is_some_and(|limit| waited > limit);
        Passage::Arrives { at, again_at, waited, marked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn arrival(passage: Passage) -> Option<Duration> {
        match passage {
            Passage::Arrives { at, .. } => Some(at),
            Passage::Overflow | Passage::Lost => None,
        }
    }

    #[test]
    fn packets_are_serialized_on_the_link() {
        // 1 MB/s: a packet of 1000 bytes takes 1 ms.
        let options = SimulatedLinkOptions {
            rate: 8_000_000,
            delay: 5 * MS,
            ..SimulatedLinkOptions::default()
        };
        let mut link = SimulatedLink::new(options);
        assert_eq!(arrival(link.send(Duration::ZERO, 1000)), Some(6 * MS));
        assert_eq!(arrival(link.send(Duration::ZERO, 1000)), Some(7 * MS));
        assert_eq!(arrival(link.send(10 * MS, 500)), Some(15 * MS + MS / 2));
    }

    #[test]
    fn full_link_queue_drops_packets() {
        let options = SimulatedLinkOptions {
            rate: 8_000_000,
            queue_bytes: 3000,
            ..SimulatedLinkOptions::default()
        };
        let mut link = SimulatedLink::new(options);
        let passed = (0..10).filter(|_| link.send(MS, 1000) != Passage::Overflow).count();
        assert_eq!(passed, 3);
        // One has left.
        assert!(arrival(link.send(2 * MS, 1000)).is_some());
        assert_eq!(link.send(2 * MS, 1000), Passage::Overflow);
    }

    #[test]
    fn loss_shares_hold_and_seeds_repeat() {
        let options = SimulatedLinkOptions {
            loss: 0.1,
            reordering: 0.2,
            duplication: 0.3,
            mark_above: Some(Duration::from_micros(1)),
            queue_bytes: 1 << 40,
            ..SimulatedLinkOptions::default()
        };
        let run = |seed| {
            let mut link = SimulatedLink::new(SimulatedLinkOptions { seed, ..options });
            (0..10_000).map(|_| link.send(Duration::ZERO, 1000)).collect::<Vec<_>>()
        };
        let passages = run(7);
        assert_eq!(passages, run(7));
        assert_ne!(passages, run(8));
        let count = |what: fn(&Passage) -> bool| passages.iter().filter(|p| what(p)).count();
        assert!((900..1100).contains(&count(|p| *p == Passage::Lost)));
        let twice = count(|p| matches!(p, Passage::Arrives { again_at: Some(_), .. }));
        assert!((2500..2900).contains(&twice), "{twice}");
        assert_eq!(
            count(|p| matches!(p, Passage::Arrives { marked: false, .. })),
            usize::from(arrival(passages[0]).is_some())
        );
        let arrivals: Vec<_> = passages.iter().filter_map(|passage| arrival(*passage)).collect();
        let late = arrivals.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(late > 1000, "{late}");
    }
}

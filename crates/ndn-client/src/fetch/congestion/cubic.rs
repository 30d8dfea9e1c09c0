//! CUBIC (RFC 9438) with HyStart++ (RFC 9406).

use std::time::Duration;

use super::{AnsweredSegment, Congestion, Controller, WINDOW_MIN, whole};

/// CUBIC's constant C in segments per second cubed.
const CUBIC_C: f64 = 0.4;
/// Factor of a decrease after a loss.
const BETA: f64 = 0.7;
/// Factor of a decrease after a congestion mark, which comes from a short queue (RFC 8511).
const BETA_MARK: f64 = 0.85;
/// Growth in segments per round trip of the Reno-friendly estimate.
const RENO_ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// HyStart++: samples of a round before it is judged.
const ROUND_SAMPLES_MIN: u32 = 8;
/// HyStart++: smallest and largest rise of the round-trip time that ends slow start.
const RTT_RISE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));
/// HyStart++: rounds of conservative slow start before congestion avoidance.
const CONSERVATIVE_ROUNDS: u32 = 5;
/// The window does not grow while round trips exceed the shortest one by this factor and by this
/// time: longer queues help no flow, and on a single machine the outstanding packets no longer fit
/// its caches.
const STANDING_QUEUE: (u32, Duration) = (8, Duration::from_millis(3));
/// Smaller windows grow regardless: round trips may be long because processors are busy.
const STANDING_QUEUE_SIZE_MIN: f64 = 256.0;
/// HyStart++: divisor of the growth in conservative slow start.
const CONSERVATIVE_DIVISOR: f64 = 4.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    SlowStart,
    /// Conservative slow start: round trips became longer; counts rounds, stores the previous
    /// minimum.
    Conservative {
        rounds: u32,
        baseline: Duration,
    },
    Avoidance,
}

/// Minimum round-trip times of the current and the previous round (HyStart++).
#[derive(Debug, Clone, Copy)]
struct Rounds {
    /// The round ends when the transmission with this sequence number is answered.
    end_sequence: u64,
    last_min: Option<Duration>,
    current_min: Option<Duration>,
    samples: u32,
}

/// State before a decrease, to undo it if the loss was spurious.
#[derive(Debug, Clone, Copy)]
struct Undo {
    size: f64,
    phase: Phase,
    max_size: f64,
}

/// Growth since the last decrease, in the terms of RFC 9438, section 4.2.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    start: Duration,
    /// K: seconds from the start to the plateau.
    k: f64,
    /// W_max: size of the plateau.
    plateau: f64,
}

/// CUBIC controller.
#[derive(Debug, Clone)]
pub struct Cubic {
    size: f64,
    max: f64,
    phase: Phase,
    rounds: Rounds,
    /// Window before the last decrease (W_max).
    max_size: f64,
    epoch: Option<Epoch>,
    reno_size: f64,
    /// Shortest round trip so far.
    shortest: Duration,
    undo: Option<Undo>,
}

impl Cubic {
    /// A window of `initial` segments, at most `max`.
    #[must_use]
    pub fn new(initial: u32, max: u32) -> Self {
        Self {
            size: f64::from(initial).max(WINDOW_MIN),
            max: f64::from(max).max(WINDOW_MIN),
            phase: Phase::SlowStart,
            rounds: Rounds { end_sequence: 0, last_min: None, current_min: None, samples: 0 },
            max_size: 0.0,
            epoch: None,
            reno_size: 0.0,
            shortest: Duration::MAX,
            undo: None,
        }
    }

    /// Whether the window is in slow start.
    #[must_use]
    pub fn in_slow_start(&self) -> bool {
        self.phase != Phase::Avoidance
    }

    fn judge_round(&mut self, answer: &AnsweredSegment) {
        if answer.sequence >= self.rounds.end_sequence {
            self.rounds = Rounds {
                end_sequence: answer.next_sequence,
                last_min: self.rounds.current_min.or(self.rounds.last_min),
                current_min: None,
                samples: 0,
            };
            if let Phase::Conservative { rounds, .. } = &mut self.phase {
                *rounds += 1;
                if *rounds >= CONSERVATIVE_ROUNDS {
                    self.phase = Phase::Avoidance;
                    self.max_size = self.size;
                    self.epoch = None;
                }
            }
        }
        let Some(rtt) = answer.rtt else {
            return;
        };
        let current = self.rounds.current_min.map_or(rtt, |min| min.min(rtt));
        self.rounds.current_min = Some(current);
        self.rounds.samples += 1;
        if self.rounds.samples < ROUND_SAMPLES_MIN {
            return;
        }
        match (self.phase, self.rounds.last_min) {
            (Phase::SlowStart, Some(last)) => {
                let rise = (last / 8).clamp(RTT_RISE.0, RTT_RISE.1);
                if current >= last + rise {
                    self.phase = Phase::Conservative { rounds: 0, baseline: current };
                }
            }
            (Phase::Conservative { baseline, .. }, _) if current < baseline => {
                self.phase = Phase::SlowStart;
            }
            _ => {}
        }
    }

    fn is_queue_standing(&self, answer: &AnsweredSegment) -> bool {
        let (factor, excess) = STANDING_QUEUE;
        let shortest = self.shortest.min(Duration::from_secs(1));
        let bound = (shortest * factor).max(shortest + excess);
        self.size >= STANDING_QUEUE_SIZE_MIN && answer.smoothed_rtt > bound
    }

    fn grow_cubic(&mut self, answer: &AnsweredSegment) {
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.reno_size = self.size;
            let plateau = self.max_size.max(self.size);
            let k = ((plateau - self.size) / CUBIC_C).cbrt();
            Epoch { start: answer.now, k, plateau }
        });
        let elapsed = answer.now.saturating_sub(epoch.start) + answer.smoothed_rtt;
        let offset = elapsed.as_secs_f64() - epoch.k;
        let target = (CUBIC_C * offset.powi(3) + epoch.plateau).clamp(self.size, 1.5 * self.size);
        self.reno_size += RENO_ALPHA / self.size;
        self.size = (self.size + (target - self.size) / self.size).max(self.reno_size);
    }
}

impl Controller for Cubic {
    fn size(&self) -> usize {
        whole(self.size)
    }

    fn on_answer(&mut self, answer: &AnsweredSegment) {
        if self.phase != Phase::Avoidance {
            self.judge_round(answer);
        }
        self.shortest = self.shortest.min(answer.rtt.unwrap_or(Duration::MAX));
        if !answer.window_limited || self.is_queue_standing(answer) {
            return;
        }
        match self.phase {
            Phase::SlowStart => self.size += 1.0,
            Phase::Conservative { .. } => self.size += 1.0 / CONSERVATIVE_DIVISOR,
            Phase::Avoidance => self.grow_cubic(answer),
        }
        self.size = self.size.min(self.max).max(WINDOW_MIN);
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        let beta = match congestion {
            Congestion::Loss | Congestion::Timeout => BETA,
            Congestion::Mark => BETA_MARK,
        };
        self.undo = Some(Undo { size: self.size, phase: self.phase, max_size: self.max_size });
        // Fast convergence: a flow still below its last maximum decreases further.
        self.max_size =
            if self.size < self.max_size { self.size * (1.0 + beta) / 2.0 } else { self.size };
        self.size = (self.size * beta).max(WINDOW_MIN);
        self.phase = Phase::Avoidance;
        self.epoch = None;
    }

    fn on_spurious_loss(&mut self) {
        if let Some(undo) = self.undo.take() {
            self.size = self.size.max(undo.size);
            self.max_size = undo.max_size;
            self.phase = undo.phase;
            self.epoch = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    fn answer(now: Duration, sequence: u64, rtt: Duration) -> AnsweredSegment {
        AnsweredSegment {
            now,
            sequence,
            next_sequence: sequence + 64,
            rtt: Some(rtt),
            smoothed_rtt: rtt,
            window_limited: true,
        }
    }

    fn cubic() -> Cubic {
        Cubic::new(10, 10_000)
    }

    #[test]
    fn slow_start_doubles_per_round_trip() {
        let mut window = cubic();
        for sequence in 0..10 {
            window.on_answer(&answer(RTT, sequence, RTT));
        }
        assert_eq!(window.size(), 20);
    }

    #[test]
    fn window_does_not_grow_while_application_limited() {
        let mut window = cubic();
        window.on_answer(&AnsweredSegment { window_limited: false, ..answer(RTT, 0, RTT) });
        assert_eq!(window.size(), 10);
    }

    #[test]
    fn rising_round_trips_end_slow_start_before_loss() {
        let mut window = cubic();
        let mut sequence = 0;
        let mut rounds = 0;
        while window.in_slow_start() && rounds < 100 {
            let rtt = RTT + Duration::from_millis(10) * rounds;
            for _ in 0..64 {
                window.on_answer(&answer(RTT * rounds, sequence, rtt));
                sequence += 1;
            }
            rounds += 1;
        }
        assert!(rounds < 10, "ended after {rounds} rounds");
        assert!(window.size() < 1000, "{}", window.size());
    }

    #[test]
    fn decrease_uses_beta_and_recovery_takes_k_seconds() {
        let mut window = Cubic::new(1000, 100_000);
        window.on_congestion(Congestion::Loss);
        assert_eq!(window.size(), 700);
        // K = cbrt(300 / 0.4) = 9.1 s. Answers at one window per round trip.
        let rtt = Duration::from_millis(200);
        let mut now = Duration::ZERO;
        while window.size() < 995 {
            for sequence in 0..u64::try_from(window.size()).unwrap() {
                window.on_answer(&answer(now, sequence, rtt));
            }
            now += rtt;
            assert!(now < Duration::from_secs(12), "{} after {now:?}", window.size());
        }
        assert!(now > Duration::from_secs(6), "reached after {now:?}");
    }

    #[test]
    fn mark_decreases_less_than_a_loss() {
        let mut window = Cubic::new(1000, 100_000);
        window.on_congestion(Congestion::Mark);
        assert_eq!(window.size(), 850);
    }

    #[test]
    fn short_round_trips_grow_at_least_like_reno() {
        let mut window = Cubic::new(100, 100_000);
        window.on_congestion(Congestion::Loss);
        let rtt = Duration::from_millis(1);
        for round in 0..100u32 {
            for sequence in 0..u64::try_from(window.size()).unwrap() {
                window.on_answer(&answer(rtt * round, sequence, rtt));
            }
        }
        assert!(window.size() >= 70 + 45, "{}", window.size());
    }

    #[test]
    fn spurious_loss_restores_the_window_once() {
        let mut window = cubic();
        window.on_congestion(Congestion::Loss);
        assert_eq!(window.size(), 7);
        window.on_spurious_loss();
        assert_eq!(window.size(), 10);
        assert!(window.in_slow_start());
        window.on_spurious_loss();
        assert_eq!(window.size(), 10);
    }

    #[test]
    fn window_does_not_grow_while_a_queue_stands() {
        let (short, long) = (Duration::from_micros(200), Duration::from_millis(10));
        for (initial, rtt, grows) in [(300, short, true), (300, long, false), (100, long, true)] {
            let mut window = Cubic::new(initial, 10_000);
            window.on_answer(&answer(RTT, 0, short));
            let before = window.size();
            for sequence in 1..10 {
                window.on_answer(&answer(RTT, sequence, rtt));
            }
            assert_eq!(window.size() > before, grows, "{initial} {rtt:?}");
        }
        // Long paths have long queues.
        let mut window = Cubic::new(300, 10_000);
        window.on_answer(&answer(RTT, 0, RTT));
        window.on_answer(&answer(RTT, 1, RTT * 4));
        assert_eq!(window.size(), 302);
    }

    #[test]
    fn window_stays_within_bounds() {
        let mut window = Cubic::new(10, 12);
        for sequence in 0..100 {
            window.on_answer(&answer(RTT, sequence, RTT));
        }
        assert_eq!(window.size(), 12);
        for _ in 0..100 {
            window.on_congestion(Congestion::Loss);
        }
        assert_eq!(window.size(), 2);
        let mut fixed = super::super::Fixed::new(5);
        fixed.on_congestion(Congestion::Loss);
        fixed.on_answer(&answer(RTT, 0, RTT));
        assert_eq!(fixed.size(), 5);
    }
}

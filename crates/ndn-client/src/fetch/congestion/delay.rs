//! Delay-based controller: aims at a short queue.
//!
//! It follows Swift (Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in
//! the Datacenter", SIGCOMM 2020): the window grows by a fixed step per round trip while round
//! trips are below a target, and shrinks by a factor that depends on their excess over it. Three
//! rules come from elsewhere, because paths are longer here, queues may be shorter than the target,
//! and links may lose packets at random. Slow start ends when round trips rise, as in HyStart++
//! (RFC 9406). Losses count only above 2 % of a round, as in BBR (Cardwell et al.,
//! draft-ietf-ccwg-bbr). And when the shortest round trip has not been measured for a while, the
//! window is halved briefly to measure it, as in ProbeRTT there: otherwise a later flow would take
//! the queue of the others for the path.

use std::time::Duration;

use super::{AnsweredSegment, Congestion, Controller, WINDOW_MIN, whole};

/// Minimum target for the time in the queue: shorter times are noise of schedulers and batches.
const TARGET_MIN: Duration = Duration::from_millis(2);
/// The target as a part of the shortest round trip, where that is longer.
const TARGET_DIVISOR: u32 = 8;
/// The step is one segment per round trip and this part of the path, so that long paths fill as
/// fast.
const STEP_TIME: Duration = Duration::from_millis(2);
/// Swift's β: weight of the excess over the target in a decrease.
const BETA: f64 = 0.8;
/// Smallest factor of a decrease.
const FACTOR_MIN: f64 = 0.5;
/// Factor of a decrease after too many losses: the queue is short then, and most of the window is
/// on the path.
const LOSS_FACTOR: f64 = 0.85;
/// Factor of a decrease after a congestion mark.
const MARK_FACTOR: f64 = 0.85;
/// Share of a round that may be lost at random.
const LOSS_SHARE_MAX: f64 = 0.02;
/// Number of losses in a round that are ignored, whatever their share.
const LOSSES_MIN: u32 = 2;
/// Lifetime of the shortest round trip.
const BASE_LIFETIME: Duration = Duration::from_secs(5);
/// Rounds with half a window; the shortest round trip is measured in the last.
const PROBE_ROUNDS: u32 = 3;
/// Samples of a round before it can end slow start.
const ROUND_SAMPLES_MIN: u32 = 8;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    SlowStart,
    Avoidance,
    /// With half a window, which is restored afterwards.
    Probe {
        rounds: u32,
        size: f64,
    },
}

/// One round trip.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    /// The round ends when the transmission with this sequence number is answered.
    end_sequence: u64,
    rtt: Option<Duration>,
    samples: u32,
    answers: u32,
    lost: u32,
}

/// Delay-based controller.
#[derive(Debug, Clone)]
pub struct Delay {
    size: f64,
    max: f64,
    phase: Phase,
    round: Round,
    /// Shortest round trip, and the time of its measurement.
    base: Option<(Duration, Duration)>,
    /// Whether the round trips of the last round were below the target.
    growing: bool,
}

impl Delay {
    /// A window of `initial` segments, at most `max`.
    #[must_use]
    pub fn new(initial: u32, max: u32) -> Self {
        let max = f64::from(max).max(WINDOW_MIN);
        Self {
            size: f64::from(initial).clamp(WINDOW_MIN, max),
            max,
            phase: Phase::SlowStart,
            round: Round::default(),
            base: None,
            growing: true,
        }
    }

    fn base(&self) -> Duration {
        self.base.map_or(Duration::ZERO, |(base, _)| base)
    }

    /// Target for the time in the queue.
    fn queue_target(&self) -> Duration {
        TARGET_MIN.max(self.base() / TARGET_DIVISOR)
    }

    fn sample(&mut self, now: Duration, rtt: Duration) {
        self.round.samples += 1;
        let shortest = self.round.rtt.map_or(rtt, |shortest| shortest.min(rtt));
        self.round.rtt = Some(shortest);
        if self.base.is_none_or(|(base, _)| rtt <= base) {
            self.base = Some((rtt, now));
        }
        let rise = self.queue_target() / 2;
        if self.phase == Phase::SlowStart
            && self.round.samples >= ROUND_SAMPLES_MIN
            && shortest > self.base() + rise
        {
            // Packets that exceed the capacity of the path are in the queue.
            self.phase = Phase::Avoidance;
            self.shrink(self.base().as_secs_f64() / shortest.as_secs_f64());
        }
    }

    fn shrink(&mut self, factor: f64) {
        self.size = (self.size * factor).max(WINDOW_MIN);
    }

    fn end_round(&mut self, now: Duration, next_sequence: u64) {
        let round = std::mem::replace(
            &mut self.round,
            Round { end_sequence: next_sequence, ..Round::default() },
        );
        let lost = f64::from(round.lost) / f64::from(round.lost + round.answers).max(1.0);
        if round.lost > LOSSES_MIN && lost > LOSS_SHARE_MAX {
            if let Phase::Probe { size, .. } = &mut self.phase {
                *size *= LOSS_FACTOR;
            } else {
                self.phase = Phase::Avoidance;
                self.shrink(LOSS_FACTOR);
            }
            self.growing = false;
            return;
        }
        match self.phase {
            Phase::SlowStart => {}
            Phase::Avoidance => self.judge(now, round.rtt),
            Phase::Probe { rounds, size } if rounds >= PROBE_ROUNDS => {
                self.base = round.rtt.map(|rtt| (rtt, now)).or(self.base);
                self.size = size.min(self.max).max(WINDOW_MIN);
                self.phase = Phase::Avoidance;
            }
            Phase::Probe { rounds, size } => {
                self.phase = Phase::Probe { rounds: rounds + 1, size };
            }
        }
    }

    fn judge(&mut self, now: Duration, rtt: Option<Duration>) {
        let Some(rtt) = rtt else { return };
        if self.base.is_some_and(|(_, seen)| now.saturating_sub(seen) >= BASE_LIFETIME) {
            self.phase = Phase::Probe { rounds: 0, size: self.size };
            self.shrink(0.5);
            return;
        }
        let target = self.base() + self.queue_target();
        self.growing = rtt <= target;
        if !self.growing {
            let excess = (rtt - target).as_secs_f64() / rtt.as_secs_f64();
            self.shrink((1.0 - BETA * excess).max(FACTOR_MIN));
        }
    }
}

impl Controller for Delay {
    fn size(&self) -> usize {
        whole(self.size)
    }

    fn on_answer(&mut self, answer: &AnsweredSegment) {
        self.round.answers += 1;
        if let Some(rtt) = answer.rtt {
            self.sample(answer.now, rtt);
        }
        if answer.sequence >= self.round.end_sequence {
            self.end_round(answer.now, answer.next_sequence);
        }
        if !answer.window_limited {
            return;
        }
        match self.phase {
            Phase::SlowStart => self.size += 1.0,
            Phase::Avoidance if self.growing => {
                let step = 1.0 + self.base().as_secs_f64() / STEP_TIME.as_secs_f64();
                self.size += step / self.size;
            }
            Phase::Avoidance | Phase::Probe { .. } => {}
        }
        self.size = self.size.min(self.max);
    }

    fn on_lost(&mut self) {
        self.round.lost += 1;
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        let factor = match congestion {
            // Counted per round.
            Congestion::Loss => return,
            Congestion::Timeout => FACTOR_MIN,
            Congestion::Mark => MARK_FACTOR,
        };
        if self.phase == Phase::SlowStart {
            self.phase = Phase::Avoidance;
        }
        self.shrink(factor);
    }

    fn on_spurious_loss(&mut self) {
        self.round.lost = self.round.lost.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Answers of one round, with a round-trip time of `rtt`.
    fn round(window: &mut Delay, sequence: &mut u64, now: &mut Duration, rtt: Duration) {
        let count = u64::try_from(window.size()).unwrap();
        *now += rtt;
        for _ in 0..count {
            window.on_answer(&AnsweredSegment {
                now: *now,
                sequence: *sequence,
                next_sequence: *sequence + count,
                rtt: Some(rtt),
                smoothed_rtt: rtt,
                window_limited: true,
            });
            *sequence += 1;
        }
    }

    fn in_avoidance() -> (Delay, u64, Duration) {
        let (mut window, mut sequence, mut now) = (Delay::new(10, 10_000), 0, Duration::ZERO);
        for _ in 0..4 {
            round(&mut window, &mut sequence, &mut now, 50 * MS);
        }
        round(&mut window, &mut sequence, &mut now, 60 * MS);
        assert_eq!(window.phase, Phase::Avoidance);
        (window, sequence, now)
    }

    #[test]
    fn slow_start_ends_when_round_trips_rise() {
        let (window, ..) = in_avoidance();
        assert!((100..200).contains(&window.size()), "{}", window.size());
    }

    #[test]
    fn window_grows_below_the_target_and_shrinks_above() {
        let (mut window, mut sequence, mut now) = in_avoidance();
        let before = window.size();
        for _ in 0..5 {
            round(&mut window, &mut sequence, &mut now, 52 * MS);
        }
        let grown = window.size();
        assert!(grown > before + 60, "{before} {grown}");
        for _ in 0..4 {
            round(&mut window, &mut sequence, &mut now, 100 * MS);
        }
        assert!(window.size() < grown / 2, "{}", window.size());
    }

    #[test]
    fn few_losses_are_ignored_and_many_are_not() {
        let (mut window, mut sequence, mut now) = in_avoidance();
        for _ in 0..3 {
            round(&mut window, &mut sequence, &mut now, 52 * MS);
        }
        let before = window.size();
        window.on_lost();
        round(&mut window, &mut sequence, &mut now, 52 * MS);
        assert!(window.size() >= before);
        let before = window.size();
        for _ in 0..before / 20 {
            window.on_lost();
        }
        round(&mut window, &mut sequence, &mut now, 52 * MS);
        round(&mut window, &mut sequence, &mut now, 52 * MS);
        assert!(window.size() < before, "{before} {}", window.size());
    }

    #[test]
    fn shortest_round_trip_is_probed_again() {
        let (mut window, mut sequence, mut now) = in_avoidance();
        let mut smallest = usize::MAX;
        for _ in 0..150 {
            // The path has become longer.
            round(&mut window, &mut sequence, &mut now, 90 * MS);
            smallest = smallest.min(window.size());
        }
        assert_eq!(window.base(), 90 * MS);
        assert!(window.size() > smallest * 2, "{smallest} {}", window.size());
    }
}

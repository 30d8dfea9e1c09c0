//! Round-trip time and retransmission time-out (RFC 6298).

use std::time::Duration;

/// Minimum tolerance for reordering: threads of a producer or a forwarder that share a processor
/// overtake each other by a time slice.
const REORDERING_MIN: Duration = Duration::from_millis(4);
/// Smallest variance term of the time-out.
const GRANULARITY: Duration = Duration::from_millis(1);

/// Bounds of the retransmission time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtoBounds {
    /// Before the first sample.
    pub initial: Duration,
    /// Minimum.
    pub min: Duration,
    /// Maximum, backed off or not.
    pub max: Duration,
}

impl Default for RtoBounds {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            min: Duration::from_millis(200),
            max: Duration::from_secs(20),
        }
    }
}

/// Smoothed round-trip time, its variation, and the time-out derived from them.
#[derive(Debug, Clone)]
pub struct RttEstimator {
    bounds: RtoBounds,
    smoothed: Option<Duration>,
    variation: Duration,
    min: Duration,
    rto: Duration,
    backoff: u32,
}

impl RttEstimator {
    /// An estimator without samples.
    #[must_use]
    pub fn new(bounds: RtoBounds) -> Self {
        Self {
            bounds,
            smoothed: None,
            variation: Duration::ZERO,
            min: Duration::MAX,
            rto: bounds.initial,
            backoff: 1,
        }
    }

    /// Adds a sample, which must not come from a retransmitted Interest (Karn's rule), and ends the
    /// back-off. `in_flight` is the number of samples per round trip, so that the estimate covers
    /// several round trips (RFC 7323, appendix G).
    pub fn add_sample(&mut self, sample: Duration, in_flight: usize) {
        self.min = self.min.min(sample);
        self.backoff = 1;
        match self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.variation = sample / 2;
            }
            Some(smoothed) => {
                let samples = u32::try_from(in_flight.div_ceil(2)).unwrap_or(u32::MAX).max(1);
                let deviation = smoothed.abs_diff(sample);
                self.variation = blend(self.variation, deviation, samples.saturating_mul(4));
                self.smoothed = Some(blend(smoothed, sample, samples.saturating_mul(8)));
            }
        }
        let base = self.smoothed.unwrap_or(sample) + (self.variation * 4).max(GRANULARITY);
        self.rto = base.clamp(self.bounds.min, self.bounds.max);
    }

    /// Ends the back-off after an answer to a retransmission, which gives no sample.
    pub fn end_back_off(&mut self) {
        self.backoff = 1;
    }

    /// Doubles the time-out until the next sample.
    pub fn back_off(&mut self) {
        if self.rto() < self.bounds.max {
            self.backoff = self.backoff.saturating_mul(2);
        }
    }

    /// The retransmission time-out, with back-off.
    #[must_use]
    pub fn rto(&self) -> Duration {
        self.rto.saturating_mul(self.backoff).min(self.bounds.max)
    }

    /// Smoothed round-trip time, once there is a sample.
    #[must_use]
    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Smallest sample, once there is one.
    #[must_use]
    pub fn min(&self) -> Option<Duration> {
        self.smoothed.map(|_| self.min)
    }

    /// Time after its sending at which an Interest counts as lost if later ones were answered: one
    /// round trip plus a tolerance for reordering, which is a quarter of a round trip or the
    /// variation, at least a time slice, times `timeout` (RFC 8985, section 6.2).
    #[must_use]
    pub fn loss_delay(&self, timeout: u32) -> Duration {
        let Some(smoothed) = self.smoothed else {
            return self.rto();
        };
        let tolerance = (smoothed / 4).max(self.variation * 2).max(REORDERING_MIN);
        let tolerance = tolerance.saturating_mul(timeout);
        (smoothed + tolerance).max(GRANULARITY).min(self.rto())
    }
}

/// `old + (new - old) / divisor`.
fn blend(old: Duration, new: Duration, divisor: u32) -> Duration {
    if new >= old { old + (new - old) / divisor } else { old - (old - new) / divisor }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn estimate_follows_rfc_6298_with_one_sample_in_flight() {
        let mut rtt = RttEstimator::new(RtoBounds { min: MS, ..RtoBounds::default() });
        assert_eq!(rtt.rto(), Duration::from_secs(1));
        rtt.add_sample(100 * MS, 1);
        assert_eq!(rtt.smoothed(), Some(100 * MS));
        assert_eq!(rtt.rto(), 300 * MS);
        rtt.add_sample(180 * MS, 1);
        assert_eq!(rtt.smoothed(), Some(110 * MS));
        // Variation 3/4 · 50 + 1/4 · 80 = 57.5.
        assert_eq!(rtt.rto(), 340 * MS);
        assert_eq!(rtt.min(), Some(100 * MS));
    }

    #[test]
    fn large_window_slows_the_estimate_down() {
        let mut rtt = RttEstimator::new(RtoBounds::default());
        rtt.add_sample(100 * MS, 1);
        rtt.add_sample(180 * MS, 200);
        assert_eq!(rtt.smoothed(), Some(Duration::from_micros(100_100)));
    }

    #[test]
    fn back_off_doubles_until_the_bound_and_ends_with_a_sample() {
        let mut rtt = RttEstimator::new(RtoBounds::default());
        rtt.add_sample(10 * MS, 1);
        assert_eq!(rtt.rto(), 200 * MS);
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.rto(), 800 * MS);
        for _ in 0..100 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), Duration::from_secs(20));
        rtt.add_sample(10 * MS, 1);
        assert_eq!(rtt.rto(), 200 * MS);
    }
}

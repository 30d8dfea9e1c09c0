//! The retransmission timeout, from round-trip times (RFC 6298).

use std::time::Duration;

/// Until the first measurement.
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// NFD's bounds.
const TIMEOUT_MIN: Duration = Duration::from_millis(200);
const TIMEOUT_MAX: Duration = Duration::from_mins(1);

/// Smoothed round-trip time and its variation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RttEstimator {
    smoothed: Option<Duration>,
    variation: Duration,
}

impl RttEstimator {
    /// Takes the round-trip time of a frame that was sent once: of one that was sent again, it is
    /// not known which one was acknowledged.
    pub(super) fn add(&mut self, sample: Duration) {
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(sample);
            self.variation = sample / 2;
            return;
        };
        self.variation = (self.variation * 3 + smoothed.abs_diff(sample)) / 4;
        self.smoothed = Some((smoothed * 7 + sample) / 8);
    }

    /// How long to wait for an acknowledgement.
    pub(super) fn timeout(&self) -> Duration {
        self.smoothed.map_or(INITIAL_TIMEOUT, |smoothed| {
            (smoothed + self.variation * 4).clamp(TIMEOUT_MIN, TIMEOUT_MAX)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_round_trip_time_within_bounds() {
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.timeout(), Duration::from_secs(1));
        rtt.add(Duration::from_millis(1));
        assert_eq!(rtt.timeout(), TIMEOUT_MIN);
        let mut rtt = RttEstimator::default();
        rtt.add(Duration::from_millis(400));
        // 400 + 4 * 200.
        assert_eq!(rtt.timeout(), Duration::from_millis(1200));
        rtt.add(Duration::from_millis(400));
        // 400 + 4 * 150.
        assert_eq!(rtt.timeout(), Duration::from_millis(1000));
        rtt.add(Duration::from_millis(800));
        // (400 * 7 + 800) / 8 + 4 * (150 * 3 + 400) / 4.
        assert_eq!(rtt.timeout(), Duration::from_millis(450 + 850));
        rtt.add(Duration::from_hours(1));
        assert_eq!(rtt.timeout(), TIMEOUT_MAX);
    }
}

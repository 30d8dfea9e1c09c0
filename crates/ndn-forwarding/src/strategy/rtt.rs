//! Round-trip time estimation (RFC 6298).

/// Smoothed round-trip time and its variation, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RttEstimate {
    smoothed_ns: u64,
    variation_ns: u64,
    /// 0 before the first measurement.
    rto_ns: u64,
}

const INITIAL_RTO_NS: u64 = 1_000_000_000;
const MIN_RTO_NS: u64 = 200_000_000;
const MAX_RTO_NS: u64 = 60_000_000_000;

impl RttEstimate {
    /// No measurement yet.
    pub(crate) const UNKNOWN: Self = Self { smoothed_ns: 0, variation_ns: 0, rto_ns: 0 };

    /// Adds a measurement, capped at the maximum timeout.
    pub(crate) fn add(&mut self, rtt_ns: u64) {
        let rtt_ns = rtt_ns.min(MAX_RTO_NS);
        if self.rto_ns == 0 {
            self.smoothed_ns = rtt_ns;
            self.variation_ns = rtt_ns / 2;
        } else {
            // Weights of 1/4 for the variation and 1/8 for the mean.
            self.variation_ns = (3 * self.variation_ns + self.smoothed_ns.abs_diff(rtt_ns)) / 4;
            self.smoothed_ns = (7 * self.smoothed_ns + rtt_ns) / 8;
        }
        self.rto_ns = (self.smoothed_ns + 4 * self.variation_ns).clamp(MIN_RTO_NS, MAX_RTO_NS);
    }

    /// Smoothed round-trip time; 0 before the first measurement.
    pub(crate) fn smoothed_ns(&self) -> u64 {
        self.smoothed_ns
    }

    /// Retransmission timeout.
    pub(crate) fn timeout_ns(&self) -> u64 {
        if self.rto_ns == 0 { INITIAL_RTO_NS } else { self.rto_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    #[test]
    fn estimate_follows_measurements_within_limits() {
        let mut estimate = RttEstimate::UNKNOWN;
        assert_eq!(estimate.timeout_ns(), INITIAL_RTO_NS);
        estimate.add(400 * MILLI);
        assert_eq!(estimate.timeout_ns(), (400 + 4 * 200) * MILLI);
        estimate.add(400 * MILLI);
        assert_eq!(estimate.timeout_ns(), (400 + 4 * 150) * MILLI);
        (0..100).for_each(|_| estimate.add(MILLI));
        assert_eq!(estimate.timeout_ns(), MIN_RTO_NS);
        estimate.add(u64::MAX);
        assert_eq!(estimate.timeout_ns(), MAX_RTO_NS);
    }
}

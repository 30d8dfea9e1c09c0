//! How many Interests a face may send.

use std::num::NonZeroU32;

use ndn_table::Timestamp;

/// Part of a second that a face may be ahead of its rate: what comes in one burst, after a pause.
const AHEAD_NS: u64 = 250_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Counts the Interests of one face against a rate: a bucket that holds what comes in a quarter of a
/// second, written down as the time at which it will be full again.
#[derive(Debug, Default)]
pub(super) struct InterestRate {
    full_at: Timestamp,
}

impl InterestRate {
    /// Whether an Interest that arrives now is within the rate; counts it if so.
    #[inline]
    pub(super) fn admit(&mut self, now: Timestamp, per_second: NonZeroU32) -> bool {
        let full_at = self.full_at.max(now).as_nanos();
        if full_at > now.as_nanos() + AHEAD_NS {
            return false;
        }
        self.full_at = Timestamp::from_nanos(full_at + SECOND_NS / u64::from(per_second.get()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `offered` Interests at each millisecond from `from_ms` to `to_ms` are admitted.
    fn admitted(rate: &mut InterestRate, from_ms: u64, to_ms: u64, offered: u32) -> u32 {
        let per_second = NonZeroU32::new(10_000).unwrap();
        let mut count = 0;
        for ms in from_ms..to_ms {
            let now = Timestamp::from_nanos(ms * 1_000_000);
            count += (0..offered).map(|_| u32::from(rate.admit(now, per_second))).sum::<u32>();
        }
        count
    }

    #[test]
    fn what_is_within_the_rate_passes_and_no_more() {
        let mut rate = InterestRate::default();
        assert_eq!(admitted(&mut rate, 0, 10_000, 10), 100_000, "all, at the rate itself");
        let twice = admitted(&mut rate, 10_000, 20_000, 20);
        // The last come at 19.999 s.
        assert_eq!(twice, 102_491, "the rate and a quarter of a second");
        assert_eq!(admitted(&mut rate, 20_000, 30_000, 10), 100_000, "the rate still passes");
    }

    #[test]
    fn a_pause_allows_one_burst() {
        let mut rate = InterestRate::default();
        let burst = admitted(&mut rate, 60_000, 60_001, 10_000);
        assert!((2_500..2_502).contains(&burst), "{burst}");
        assert_eq!(admitted(&mut rate, 60_000, 60_001, 10), 0);
        assert_eq!(admitted(&mut rate, 60_100, 60_101, 10_000), 1_000);
    }
}

//! Random sampling of bursts.

use ndn_types::Timestamp;

/// Approximate number of bursts measured per second. Each costs two or three clock readings per
/// packet, so measurement takes at most half a percent of a processor, whatever the load.
const BURSTS_PER_SECOND: u64 = 1000;
/// Number of times per second that the mean gap is adapted.
const PERIODS_PER_SECOND: u64 = 10;
const PERIOD_NANOS: u64 = 1_000_000_000 / PERIODS_PER_SECOND;
/// The gap before the load is known.
const FIRST_GAP: u64 = 16;

/// Chooses bursts at random, with equal probability during a tenth of a second, so that neither
/// long bursts nor bursts after a pause are over-represented.
#[derive(Debug)]
pub(super) struct Sampler {
    /// Bursts until the next one is chosen.
    left: u64,
    /// Mean number of bursts from one to the next.
    gap: u64,
    /// Bursts in this period.
    seen: u64,
    period_end: Timestamp,
    /// State of a xorshift generator.
    random: u64,
}

impl Sampler {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            left: FIRST_GAP,
            gap: FIRST_GAP,
            seen: 0,
            period_end: Timestamp::from_nanos(now.as_nanos() + PERIOD_NANOS),
            random: now.as_nanos() | 1,
        }
    }

    /// Whether the next burst is measured.
    #[inline]
    pub(super) fn choose(&mut self, now: Timestamp) -> bool {
        self.seen += 1;
        if now >= self.period_end {
            self.adapt(now);
        }
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return false;
        }
        self.left = self.next_gap();
        true
    }

    /// Begins a period, with the load of the last one.
    #[cold]
    fn adapt(&mut self, now: Timestamp) {
        let overdue = now.nanos_since(self.period_end);
        // After a pause, the last period was a long one.
        let periods = 1 + overdue / PERIOD_NANOS;
        self.gap = (self.seen * PERIODS_PER_SECOND / (BURSTS_PER_SECOND * periods)).max(1);
        self.left = self.left.min(2 * self.gap);
        self.seen = 0;
        self.period_end = Timestamp::from_nanos(now.as_nanos() + PERIOD_NANOS);
    }

    /// Uniform from 1 to twice the mean less one.
    fn next_gap(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        1 + self.random % (2 * self.gap - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of bursts chosen in two seconds at one burst every `gap_ns`, after one second of
    /// warm-up.
    fn chosen(gap_ns: u64) -> usize {
        let mut sampler = Sampler::new(Timestamp::from_nanos(1));
        let bursts = 3_000_000_000 / gap_ns;
        let is_chosen = (0..bursts).map(|number| {
            let now = number * gap_ns;
            sampler.choose(Timestamp::from_nanos(now)) && now >= 1_000_000_000
        });
        is_chosen.filter(|&is_chosen| is_chosen).count()
    }

    #[test]
    fn few_bursts_are_all_chosen_and_many_are_sampled() {
        assert_eq!(chosen(10_000_000), 200, "all of a hundred in a second");
        for gap_ns in [1000, 20_000, 100_000] {
            let count = chosen(gap_ns);
            assert!((1500..2500).contains(&count), "{count} of a burst every {gap_ns} ns");
        }
    }

    #[test]
    fn alternating_bursts_are_chosen_equally() {
        let mut sampler = Sampler::new(Timestamp::from_nanos(1));
        let mut counts = [0; 8];
        for number in 0..2_000_000_usize {
            if sampler.choose(Timestamp::from_nanos(number as u64 * 10_000)) {
                counts[number % 8] += 1;
            }
        }
        let mean = counts.iter().sum::<usize>() / 8;
        assert!(counts.iter().all(|count| count.abs_diff(mean) < mean / 5), "{counts:?}");
    }

    #[test]
    fn sampling_rate_recovers_after_a_pause() {
        let mut sampler = Sampler::new(Timestamp::from_nanos(1));
        for number in 0..100_000_u64 {
            sampler.choose(Timestamp::from_nanos(number * 1000));
        }
        let later = 3_600_000_000_000;
        let chosen =
            (0..100).filter(|n| sampler.choose(Timestamp::from_nanos(later + n * 1_000_000)));
        assert!(chosen.count() > 50);
    }
}

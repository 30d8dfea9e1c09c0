//! Patterns of reads: one after the other, or at distances that repeat, as those of a table's rows or columns.

use std::collections::VecDeque;

/// Reads in order before a fetch of all that follows begins.
const SEQUENTIAL_READS_MIN: u32 = 2;
/// Maximum number of reads of one row or column: after as many, their distances repeat.
const PERIOD_MAX: usize = 16;
/// Periods of equal distances before further reads are fetched ahead; and one read more.
const PERIODS_MIN: usize = 2;
/// Maximum number of reads fetched ahead.
const AHEAD_MAX: usize = 16;

/// A common property of the reads of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Nothing that is known.
    Random,
    /// Each begins about where the one before it ended.
    Sequential,
    /// After some reads, the next ones are the same at a constant distance.
    Periodic(Ahead),
}

/// The reads that are expected next: offsets and lengths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// The reads of one period, the next one first.
    period: Vec<(u64, u64)>,
    /// Bytes from a period to the next one.
    distance: u64,
    next: usize,
    count: usize,
}

impl Iterator for Ahead {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        if self.next == self.count {
            return None;
        }
        let (offset, length) = self.period[self.next % self.period.len()];
        let periods = u64::try_from(self.next / self.period.len() + 1).ok()?;
        self.next += 1;
        let offset = self.distance.checked_mul(periods)?.checked_add(offset)?;
        offset.checked_add(length).map(|_| (offset, length))
    }
}

/// Recognises the pattern of the reads of one file.
#[derive(Debug, Default)]
pub(crate) struct Detector {
    /// The last reads, up to [`PERIOD_MAX`]: offsets and lengths.
    last: VecDeque<(u64, u64)>,
    sequential: u32,
    /// For each period, the distance of the last read to the one a period before it, and the number of reads in a row that had it.
    periods: [(u64, usize); PERIOD_MAX],
}

impl Detector {
    /// Notes a read of `length` bytes at `offset`. `slack` is the distance in bytes of reads that count as neighbours.
    pub(crate) fn note(&mut self, offset: u64, length: u64, slack: u64) {
        self.note_neighbours(offset, slack);
        for (period, noted) in self.periods.iter_mut().enumerate() {
            let former = self.last.len().checked_sub(period + 1).map(|index| self.last[index].0);
            let distance = former.map_or(0, |former| offset.saturating_sub(former));
            *noted = match distance > 0 && distance == noted.0 {
                true => (distance, noted.1.saturating_add(1)),
                false => (distance, usize::from(distance > 0)),
            };
        }
        if self.last.len() == PERIOD_MAX {
            self.last.pop_front();
        }
        self.last.push_back((offset, length));
    }

    /// The pattern of the reads that were noted.
    pub(crate) fn pattern(&self) -> Pattern {
        if self.sequential >= SEQUENTIAL_READS_MIN {
            return Pattern::Sequential;
        }
        let is_next = self.sequential > 0;
        match is_next && self.period() == Some(1) {
            true => Pattern::Random,
            false => self.ahead().map_or(Pattern::Random, Pattern::Periodic),
        }
    }

    /// Counts reads in order: those that begin about where the one before them ended.
    fn note_neighbours(&mut self, offset: u64, slack: u64) {
        let Some((last_offset, last_length)) = self.last.back() else {
            // Most files are read from the beginning to the end.
            self.sequential = u32::from(offset == 0);
            return;
        };
        let last_end = last_offset.saturating_add(*last_length);
        let is_next =
            offset.saturating_add(slack) >= last_end && offset <= last_end.saturating_add(slack);
        self.sequential = if is_next { self.sequential.saturating_add(1) } else { 0 };
    }

    /// The smallest number of reads after which their distances repeat.
    fn period(&self) -> Option<usize> {
        let repeats = |period: &usize| self.periods[period - 1].1 > PERIODS_MIN * period;
        (1..=PERIOD_MAX).find(repeats)
    }

    /// The reads after this one: twice as many with each read that the pattern foretold.
    fn ahead(&self) -> Option<Ahead> {
        let period = self.period()?;
        let (distance, repeated) = self.periods[period - 1];
        let beyond = u32::try_from(repeated - PERIODS_MIN * period).unwrap_or(u32::MAX);
        let count = 2_usize.saturating_pow(beyond).min(AHEAD_MAX);
        let first = self.last.len().checked_sub(period)?;
        let period = self.last.range(first..).copied().collect();
        Some(Ahead { period, distance, next: 0, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(reads: &[(u64, u64)]) -> Vec<Pattern> {
        let mut detector = Detector::default();
        let pattern_after = |(offset, length): &(u64, u64)| {
            detector.note(*offset, *length, 100);
            detector.pattern()
        };
        reads.iter().map(pattern_after).collect()
    }

    fn ahead(pattern: &Pattern) -> Vec<(u64, u64)> {
        match pattern {
            Pattern::Periodic(ahead) => ahead.clone().collect(),
            Pattern::Random | Pattern::Sequential => Vec::new(),
        }
    }

    #[test]
    fn reads_in_order_are_sequential() {
        let from_start = patterns(&[(0, 1000), (1000, 1000), (2000, 1000), (50_000, 10)]);
        assert_eq!(from_start[0], Pattern::Random);
        assert_eq!(from_start[1..3], [Pattern::Sequential, Pattern::Sequential]);
        assert_eq!(from_start[3], Pattern::Random);
        let from_within = patterns(&[(5000, 1000), (6000, 1000), (7050, 1000), (7950, 1000)]);
        assert_eq!(from_within[1], Pattern::Random);
        assert_eq!(from_within[2..], [Pattern::Sequential, Pattern::Sequential]);
    }

    #[test]
    fn reads_at_a_constant_distance_are_expected() {
        let found = patterns(&[(10, 50), (9010, 50), (18_010, 50), (27_010, 50), (36_010, 70)]);
        assert_eq!(found[..3], [Pattern::Random, Pattern::Random, Pattern::Random]);
        assert_eq!(ahead(&found[3]), [(36_010, 50), (45_010, 50)]);
        let more = [(45_010, 70), (54_010, 70), (63_010, 70), (72_010, 70)];
        assert_eq!(ahead(&found[4]), more);
        let irregular = patterns(&[(0, 5), (9000, 5), (18_000, 5), (27_001, 5), (36_000, 5)]);
        assert!(irregular.iter().all(|pattern| *pattern == Pattern::Random));
        let backwards = patterns(&[(90_000, 5), (80_000, 5), (70_000, 5), (60_000, 5)]);
        assert!(backwards.iter().all(|pattern| *pattern == Pattern::Random));
    }

    #[test]
    fn reads_of_columns_are_expected_in_their_order() {
        // Three columns of each row group, of different lengths, the second one before the first.
        let group = |row: u64| {
            [(40_000, 300), (10_000, 20), (70_000, 500)]
                .map(|(offset, length)| (row * 100_000 + offset, length))
        };
        let reads: Vec<_> = (0..4).flat_map(group).collect();
        let found = patterns(&reads);
        // Two groups after the first one have its distances, and so has the next read.
        assert!(found[..9].iter().all(|pattern| *pattern == Pattern::Random));
        assert_eq!(ahead(&found[9]), reads[10..12]);
        let after: Vec<_> = (4..9).flat_map(group).collect();
        assert_eq!(ahead(&found[10]), [&reads[11..], &after[..3]].concat());
        assert_eq!(ahead(&found[11]), after[..8]);
        // A read of something else ends it.
        let disturbed = [&reads[..11], &[(5_000_000, 7), reads[11]]].concat();
        assert_eq!(patterns(&disturbed)[11..], [Pattern::Random, Pattern::Random]);
    }

    #[test]
    fn reads_ahead_are_bounded() {
        let reads: Vec<_> = (0..100).map(|index| (index * 9000, 5)).collect();
        assert_eq!(ahead(patterns(&reads).last().unwrap()).len(), AHEAD_MAX);
        // Beyond what offsets can express.
        let far = u64::MAX / 8;
        let reads: Vec<_> = (0..7).map(|index| (index * far, 50)).collect();
        assert_eq!(ahead(&patterns(&reads)[6]), [(7 * far, 50)]);
    }
}

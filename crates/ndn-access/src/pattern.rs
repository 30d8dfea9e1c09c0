//! Patterns of reads: one after the other, or at distances that repeat.

use std::collections::VecDeque;
use std::ops::Range;

/// Reads in order before a fetch of all that follows begins.
const SEQUENTIAL_READS_MIN: usize = 2;
/// Maximum number of distances after which they repeat, as those between the columns of a table that are read from each of its
/// groups of rows.
const PERIOD_MAX: usize = 16;
/// Times that all distances of a period are read before further reads are fetched ahead, beside the first one.
const REPETITIONS_MIN: usize = 2;
/// Maximum number of reads fetched ahead.
const READS_AHEAD_MAX: usize = 16;

/// A common property of the reads of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Nothing that is known.
    Random,
    /// Each begins about where the one before it ended.
    Sequential,
    /// The distances between them repeat: these reads are worth fetching.
    Repeated(Vec<Range<u64>>),
}

/// Recognises the pattern of the reads of one file.
#[derive(Debug, Default)]
pub(crate) struct Detector {
    /// The latest reads, the last one last: as many as a period has, and the one before.
    reads: VecDeque<Range<u64>>,
    sequential: usize,
    /// For each number of distances from 1 on: how many of the latest distances equal the one that is this
    /// number of reads before them.
    repeated: [usize; PERIOD_MAX],
}

impl Detector {
    /// Notes a read of `length` bytes at `offset`. `slack` is the distance in bytes of reads that count as neighbours.
    pub(crate) fn note(&mut self, offset: u64, length: u64, slack: u64) -> Pattern {
        let read = offset..offset.saturating_add(length);
        let Some(last) = self.reads.back() else {
            // Most files are read from the beginning to the end.
            self.sequential = usize::from(offset == 0);
            self.reads.push_back(read);
            return Pattern::Random;
        };
        let is_next =
            offset.saturating_add(slack) >= last.end && offset <= last.end.saturating_add(slack);
        self.sequential = if is_next { self.sequential.saturating_add(1) } else { 0 };
        let distance = i128::from(offset) - i128::from(last.start);
        for period in 1..=PERIOD_MAX {
            let repeats = self.distance_before(period) == Some(distance);
            let repeated = &mut self.repeated[period - 1];
            *repeated = if repeats { repeated.saturating_add(1) } else { 0 };
        }
        self.reads.push_back(read);
        if self.reads.len() > PERIOD_MAX + 1 {
            self.reads.pop_front();
        }
        let repeats = |period: &usize| self.repeated[period - 1] >= REPETITIONS_MIN * period;
        // Reads in order repeat their distances, too, and are neighbours for longer than a period.
        match (1..=PERIOD_MAX).find(repeats).filter(|period| self.sequential < *period) {
            Some(period) => self.ahead(period),
            None if self.sequential >= SEQUENTIAL_READS_MIN => Pattern::Sequential,
            None => Pattern::Random,
        }
    }

    /// The distance between two reads, of which the later one is `before` reads before the next.
    fn distance_before(&self, before: usize) -> Option<i128> {
        let later = self.reads.len().checked_sub(before)?;
        let earlier = later.checked_sub(1)?;
        Some(i128::from(self.reads[later].start) - i128::from(self.reads[earlier].start))
    }

    /// The next reads at distances that repeat after `period` reads: more, the longer they do.
    fn ahead(&self, period: usize) -> Pattern {
        let first = self.reads.len() - period;
        let of_period = self.reads.range(first..);
        let length = i128::from(self.reads[self.reads.len() - 1].start)
            - i128::from(self.reads[first - 1].start);
        if length <= 0 {
            return Pattern::Random;
        }
        let beyond = self.repeated[period - 1] - REPETITIONS_MIN * period;
        let count = 2_usize.saturating_pow(u32::try_from(beyond + 1).unwrap_or(u32::MAX));
        let rounds = (1_i128..).flat_map(|round| {
            of_period.clone().map(move |read| {
                let moved = |at: u64| u64::try_from(i128::from(at) + round * length).ok();
                Some(moved(read.start)?..moved(read.end)?)
            })
        });
        Pattern::Repeated(rounds.take(count.min(READS_AHEAD_MAX)).map_while(|read| read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(reads: &[(u64, u64)]) -> Vec<Pattern> {
        let mut detector = Detector::default();
        reads.iter().map(|(offset, length)| detector.note(*offset, *length, 100)).collect()
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
        // Heads and bodies of records.
        let records = (0..20).flat_map(|index| [(index * 5000, 16), (index * 5000 + 16, 4984)]);
        let found = patterns(&records.collect::<Vec<_>>());
        assert!(found[2..].iter().all(|pattern| *pattern == Pattern::Sequential), "{found:?}");
    }

    #[test]
    fn reads_at_a_constant_distance_repeat_it() {
        let found = patterns(&[(10, 50), (9010, 50), (18_010, 50), (27_010, 50), (36_010, 70)]);
        assert!(found[..3].iter().all(|pattern| *pattern == Pattern::Random));
        assert_eq!(found[3], Pattern::Repeated(vec![36_010..36_060, 45_010..45_060]));
        let next = [45_010..45_080, 54_010..54_080, 63_010..63_080, 72_010..72_080];
        assert_eq!(found[4], Pattern::Repeated(next.to_vec()));
        let irregular = patterns(&[(0, 5), (9000, 5), (18_000, 5), (27_001, 5), (36_000, 5)]);
        assert!(irregular[1..].iter().all(|pattern| *pattern == Pattern::Random));
        let backwards = patterns(&[(90_000, 5), (80_000, 5), (70_000, 5), (60_000, 5)]);
        assert!(backwards.iter().all(|pattern| *pattern == Pattern::Random));
    }

    #[test]
    fn columns_of_groups_of_rows_repeat_their_distances() {
        // Three columns, of which two are neighbours, and one that is read before those in front of it.
        let columns = [(9000_u64, 40), (2000, 30), (2030, 70), (5000, 20)];
        let reads =
            (0..6).flat_map(|group| columns.map(|(at, length)| (group * 50_000 + at, length)));
        let found = patterns(&reads.collect::<Vec<_>>());
        // The distances of the first group, and twice the same ones.
        let first = found.iter().position(|pattern| *pattern != Pattern::Random).unwrap();
        assert_eq!(first, 12);
        assert_eq!(found[12], Pattern::Repeated(vec![152_000..152_030, 152_030..152_100]));
        let expected = [155_000..155_020, 209_000..209_040, 202_000..202_030, 202_030..202_100];
        let Pattern::Repeated(ahead) = &found[14] else { panic!("{found:?}") };
        assert_eq!(ahead[..4], expected);
        assert!(
            found[12..].iter().all(|pattern| matches!(pattern, Pattern::Repeated(_))),
            "{found:?}"
        );
        // Another column, and the pattern is gone.
        let mut reads: Vec<_> = (0..4)
            .flat_map(|group| columns.map(|(at, length)| (group * 50_000 + at, length)))
            .collect();
        reads.push((207_000, 10));
        assert_eq!(*patterns(&reads).last().unwrap(), Pattern::Random);
    }

    #[test]
    fn reads_ahead_are_bounded() {
        let reads: Vec<_> = (0..100).map(|index| (index * 9000, 5)).collect();
        let Some(Pattern::Repeated(ahead)) = patterns(&reads).pop() else { panic!("no pattern") };
        let expected: Vec<_> = (100..116).map(|index| index * 9000..index * 9000 + 5).collect();
        assert_eq!(ahead, expected);
        let at_the_end = [3, 2, 1, 0].map(|index| (u64::MAX - 5 - index * 9000, 5));
        assert_eq!(patterns(&at_the_end).pop(), Some(Pattern::Repeated(Vec::new())));
    }
}

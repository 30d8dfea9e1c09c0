//! Patterns of reads: one after the other, or at a constant distance.

/// Reads in order before a fetch of all that follows begins.
const SEQUENTIAL_READS_MIN: u32 = 2;
/// Reads at a constant distance before further ones are fetched ahead.
const STRIDED_READS_MIN: u32 = 3;
/// Maximum number of reads fetched ahead.
const STRIDES_AHEAD_MAX: u64 = 16;

/// A common property of the reads of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Nothing that is known.
    Random,
    /// Each begins about where the one before it ended.
    Sequential,
    /// Each begins `distance` bytes after the one before it; the next `ahead` reads are worth fetching.
    Strided { distance: u64, ahead: u64 },
}

/// Recognises the pattern of the reads of one file.
#[derive(Debug, Default)]
pub(crate) struct Detector {
    last: Option<(u64, u64)>,
    sequential: u32,
    distance: u64,
    strided: u32,
}

impl Detector {
    /// Notes a read of `length` bytes at `offset`. `slack` is the distance in bytes of reads that count as neighbours.
    pub(crate) fn note(&mut self, offset: u64, length: u64, slack: u64) -> Pattern {
        let Some((last_offset, last_end)) = self.last.replace((offset, offset + length)) else {
            // Most files are read from the beginning to the end.
            self.sequential = u32::from(offset == 0);
            return Pattern::Random;
        };
        let is_next = offset + slack >= last_end && offset <= last_end + slack;
        self.sequential = if is_next { self.sequential.saturating_add(1) } else { 0 };
        let distance = offset.saturating_sub(last_offset);
        if distance > 0 && distance == self.distance {
            self.strided = self.strided.saturating_add(1);
        } else {
            (self.distance, self.strided) = (distance, 1);
        }
        if self.sequential >= SEQUENTIAL_READS_MIN {
            Pattern::Sequential
        } else if self.strided >= STRIDED_READS_MIN && !is_next {
            let beyond = self.strided - STRIDED_READS_MIN;
            let ahead = 2_u64.saturating_pow(beyond.saturating_add(1)).min(STRIDES_AHEAD_MAX);
            Pattern::Strided { distance, ahead }
        } else {
            Pattern::Random
        }
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
        assert_eq!(from_start[1..3], [Pattern::Sequential; 2]);
        assert_eq!(from_start[3], Pattern::Random);
        let from_within = patterns(&[(5000, 1000), (6000, 1000), (7050, 1000), (7950, 1000)]);
        assert_eq!(from_within[1], Pattern::Random);
        assert_eq!(from_within[2..], [Pattern::Sequential; 2]);
    }

    #[test]
    fn reads_at_a_constant_distance_are_strided() {
        let found = patterns(&[(10, 50), (9010, 50), (18_010, 50), (27_010, 50), (36_010, 70)]);
        assert_eq!(found[..3], [Pattern::Random; 3]);
        assert_eq!(found[3], Pattern::Strided { distance: 9000, ahead: 2 });
        assert_eq!(found[4], Pattern::Strided { distance: 9000, ahead: 4 });
        let irregular = patterns(&[(0, 5), (9000, 5), (18_000, 5), (27_001, 5), (36_000, 5)]);
        assert_eq!(irregular[1..], [Pattern::Random; 4]);
        let backwards = patterns(&[(90_000, 5), (80_000, 5), (70_000, 5), (60_000, 5)]);
        assert_eq!(backwards, [Pattern::Random; 4]);
    }

    #[test]
    fn reads_ahead_are_bounded() {
        let reads: Vec<_> = (0..100).map(|index| (index * 9000, 5)).collect();
        let last = *patterns(&reads).last().unwrap();
        assert_eq!(last, Pattern::Strided { distance: 9000, ahead: STRIDES_AHEAD_MAX });
    }
}

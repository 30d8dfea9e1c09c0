//! Patterns of reads.

use std::fmt::Write as _;
use std::ops::Range;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Reads of a file, one after the other. A read has one part, or several that are requested together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) pattern: String,
    pub(crate) reads: Vec<Vec<Range<u64>>>,
}

impl Plan {
    /// The patterns of a bench: in order by 1 MiB; 4 KiB and 1 MiB at random; and a column of a table, which is 64 KiB of each
    /// MiB, eight of these together.
    pub(super) fn all(size: u64, reads: u64) -> Vec<Self> {
        let plan = |pattern: &str, reads: Vec<Vec<Range<u64>>>| Self {
            pattern: pattern.to_owned(),
            reads,
        };
        let blocks = size / MIB;
        let single = |range: Range<u64>| vec![range];
        let sequential = (0..blocks).map(|block| single(block * MIB..(block + 1) * MIB)).collect();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |length: u64, count: u64| {
            let offset = |state: &mut u64| {
                // xorshift64*
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                let drawn = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16;
                // As a database does: at multiples of the length.
                drawn % (size / length) * length
            };
            (0..count)
                .map(|_| offset(&mut state))
                .map(|at| single(at..at + length))
                .collect::<Vec<_>>()
        };
        let small = random(4 * KIB, reads);
        let large = random(MIB, (reads / 8).max(1));
        let parts: Vec<_> = (0..blocks).map(|block| block * MIB..block * MIB + 64 * KIB).collect();
        let columnar = parts.chunks(8).map(<[_]>::to_vec).collect();
        vec![
            plan("sequential", sequential),
            plan("random 4 KiB", small),
            plan("random 1 MiB", large),
            plan("columnar", columnar),
        ]
    }

    /// The number of bytes of all reads.
    pub(super) fn bytes(&self) -> u64 {
        self.reads.iter().flatten().map(|part| part.end - part.start).sum()
    }

    /// The plan for another process: a line for each read, of `offset+length` with commas between them.
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        for read in &self.reads {
            for (index, part) in read.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                let _ = write!(text, "{comma}{}+{}", part.start, part.end - part.start);
            }
            text.push('\n');
        }
        text
    }

    /// Reads what [`Self::to_text`] wrote.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let part = |text: &str| {
            let (offset, length) = text.split_once('+')?;
            let offset: u64 = offset.parse().ok()?;
            Some(offset..offset.checked_add(length.parse().ok()?)?)
        };
        let reads = text.lines().map(|line| line.split(',').map(part).collect());
        Some(Self { pattern: String::new(), reads: reads.collect::<Option<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_stay_within_the_file_and_survive_their_text() {
        let size = 32 * MIB;
        let plans = Plan::all(size, 100);
        assert_eq!(plans.iter().map(|plan| plan.reads.len()).collect::<Vec<_>>(), [32, 100, 12, 4]);
        assert_eq!(plans[0].bytes(), size);
        assert_eq!(plans[3].bytes(), 32 * 64 * KIB);
        for plan in &plans {
            assert!(
                plan.reads.iter().flatten().all(|part| part.start < part.end && part.end <= size)
            );
            let read = Plan::from_text(&plan.to_text()).unwrap();
            assert_eq!(read.reads, plan.reads);
        }
        assert_eq!(Plan::from_text("1+2\nx"), None);
    }
}

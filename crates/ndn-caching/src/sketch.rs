//! Frequency sketch of W-TinyLFU: a count-min sketch of 4-bit counters that are halved periodically
//! (Einziger, Friedman, Manes: "TinyLFU: A Highly Efficient Cache Admission Policy", ACM Transactions on
//! Storage 13(4), 2017).

use ndn_types::random::mix;

/// Number of rows.
pub const ROWS: usize = 4;
/// Largest value of a counter.
pub const COUNT_MAX: u8 = 15;
/// Requests between two halvings, per counter of a row.
pub const SAMPLE_PER_COUNTER: u64 = 10;

/// Column of `key` in `row` of a sketch with `columns` columns (a power of two).
#[inline]
#[must_use]
pub const fn column(key: u64, row: usize, columns: u64) -> u64 {
    mix(key ^ (row as u64) << 61) & (columns - 1)
}

/// Approximate numbers of recent requests by key.
#[derive(Debug)]
pub(crate) struct Sketch {
    /// Sixteen counters a word; row after row.
    words: Vec<u64>,
    columns: u64,
    requests: u64,
    /// Requests between two halvings.
    sample: u64,
}

impl Sketch {
    /// A sketch for a cache of `entries` objects.
    pub(crate) fn new(entries: u32) -> Self {
        let columns = u64::from(entries).next_power_of_two().max(16);
        let words = ROWS * usize::try_from(columns / 16).unwrap_or(usize::MAX);
        let sample = SAMPLE_PER_COUNTER * columns;
        Self { words: vec![0; words], columns, requests: 0, sample }
    }

    /// Halves the counters as often as in a sketch for a cache of `entries` objects, of at most as many as this one.
    pub(crate) fn set_sample(&mut self, entries: u64) {
        let columns = entries.min(self.columns).next_power_of_two().max(16);
        self.sample = SAMPLE_PER_COUNTER * columns;
    }

    /// Counts a request for `key`.
    pub(crate) fn count(&mut self, key: u64) {
        for row in 0..ROWS {
            let (word, shift) = self.cell(key, row);
            if (self.words[word] >> shift) & 0xf < u64::from(COUNT_MAX) {
                self.words[word] += 1 << shift;
            }
        }
        self.requests += 1;
        if self.requests >= self.sample {
            self.requests /= 2;
            for word in &mut self.words {
                *word = (*word >> 1) & 0x7777_7777_7777_7777;
            }
        }
    }

    /// The estimate for `key`: between two halvings never too small, up to [`COUNT_MAX`].
    pub(crate) fn estimate(&self, key: u64) -> u64 {
        let counter = |row| {
            let (word, shift) = self.cell(key, row);
            (self.words[word] >> shift) & 0xf
        };
        (0..ROWS).map(counter).min().unwrap_or_default()
    }

    #[inline]
    fn cell(&self, key: u64, row: usize) -> (usize, u64) {
        let counter = row as u64 * self.columns + column(key, row, self.columns);
        (usize::try_from(counter / 16).unwrap_or(usize::MAX), counter % 16 * 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_count_up_to_the_limit() {
        let mut sketch = Sketch::new(64);
        assert_eq!(sketch.estimate(5), 0);
        sketch.count(5);
        sketch.count(5);
        assert_eq!(sketch.estimate(5), 2);
        (0..40).for_each(|_| sketch.count(5));
        assert_eq!(sketch.estimate(5), u64::from(COUNT_MAX));
    }

    #[test]
    fn counters_are_halved_after_a_sample() {
        let mut sketch = Sketch::new(16);
        (0..8).for_each(|_| sketch.count(1));
        (8..SAMPLE_PER_COUNTER * 16 - 1).for_each(|_| sketch.count(2));
        let before = sketch.estimate(1);
        sketch.count(2);
        assert_eq!(sketch.estimate(1), before / 2);
        assert_eq!(sketch.requests, SAMPLE_PER_COUNTER * 8);
    }
}

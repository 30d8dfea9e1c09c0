//! Histogram of fixed size: one thread writes it, any thread reads it.

use ndn_types::Counter;

/// Buckets per power of two: the relative error of a value is at most 1/32.
const BUCKETS_PER_OCTAVE: usize = 32;
const OCTAVE_BITS: u32 = BUCKETS_PER_OCTAVE.trailing_zeros();
/// Values of 2^36 ns (69 s) and more share the last bucket.
const VALUE_BITS: u32 = 36;
/// Buckets of one nanosecond, then [`BUCKETS_PER_OCTAVE`] for each power of two.
const BUCKET_COUNT: usize = BUCKETS_PER_OCTAVE * (VALUE_BITS - OCTAVE_BITS + 1) as usize;

/// Histogram of durations: exact below 32 ns, then 32 buckets for each power of two.
#[derive(Debug)]
pub struct Histogram {
    counts: Box<[Counter; BUCKET_COUNT]>,
    sum_ns: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: Box::new([const { Counter::new() }; BUCKET_COUNT]),
            sum_ns: Counter::default(),
        }
    }
}

impl Histogram {
    /// Records one duration. Only one thread may call this.
    #[inline]
    pub fn record(&self, nanos: u64) {
        self.counts[bucket_of(nanos)].increment();
        self.sum_ns.add(nanos);
    }

    /// A copy of the counts. Concurrent records may or may not be included.
    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            counts: self.counts.iter().map(Counter::value).collect(),
            sum_ns: self.sum_ns.value(),
        }
    }
}

/// Counts of a [`Histogram`] at one time, or the difference of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramSnapshot {
    counts: Vec<u64>,
    sum_ns: u64,
}

impl Default for HistogramSnapshot {
    fn default() -> Self {
        Self { counts: vec![0; BUCKET_COUNT], sum_ns: 0 }
    }
}

/// A bucket that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Lower bound, in nanoseconds, inclusive.
    pub from_ns: u64,
    /// Upper bound, in nanoseconds, exclusive; `u64::MAX` for the last bucket.
    pub below_ns: u64,
    /// Number of values.
    pub count: u64,
}

impl HistogramSnapshot {
    /// The difference from an earlier snapshot.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        for (count, before) in self.counts.iter_mut().zip(&earlier.counts) {
            *count = count.wrapping_sub(*before);
        }
        self.sum_ns = self.sum_ns.wrapping_sub(earlier.sum_ns);
        self
    }

    /// Adds the counts of another snapshot.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.wrapping_add(*more);
        }
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all values, in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The buckets that are not empty, in order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        let counts = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        counts.map(|(index, &count)| Bucket {
            from_ns: first_of(index),
            below_ns: if index + 1 == BUCKET_COUNT { u64::MAX } else { first_of(index + 1) },
            count,
        })
    }
}

/// The bucket of a value.
#[inline]
fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.min((1 << VALUE_BITS) - 1);
    let octave = (u64::BITS - nanos.leading_zeros()).saturating_sub(OCTAVE_BITS + 1);
    // The bits below the highest one, as many as select a bucket, after the number of the octave.
    let bucket = (u64::from(octave) << OCTAVE_BITS) + (nanos >> octave);
    usize::try_from(bucket).unwrap_or(BUCKET_COUNT - 1) % BUCKET_COUNT
}

/// Lower bound of a bucket.
fn first_of(bucket: usize) -> u64 {
    let (octave, place) = (bucket / BUCKETS_PER_OCTAVE, bucket % BUCKETS_PER_OCTAVE);
    match octave.checked_sub(1) {
        None => place as u64,
        Some(shift) => ((BUCKETS_PER_OCTAVE + place) as u64) << shift,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_are_contiguous() {
        for bucket in 0..BUCKET_COUNT - 1 {
            let (first, next) = (first_of(bucket), first_of(bucket + 1));
            assert!(first < next);
            assert_eq!((bucket_of(first), bucket_of(next - 1)), (bucket, bucket));
            let width = next - first;
            assert!(width == 1 || width * 32 <= first, "{width} at {first}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKET_COUNT - 1);
        assert_eq!(first_of(BUCKET_COUNT), 1 << VALUE_BITS);
    }

    proptest! {
        #[test]
        fn snapshot_equals_recorded_values(
            early in proptest::collection::vec(0..1_u64 << 38, 0..50),
            late in proptest::collection::vec(0..1_u64 << 20, 0..50),
        ) {
            let histogram = Histogram::default();
            early.iter().for_each(|&nanos| histogram.record(nanos));
            let before = histogram.snapshot();
            late.iter().for_each(|&nanos| histogram.record(nanos));
            let gathered = histogram.snapshot().since(&before);
            prop_assert_eq!(gathered.count(), late.len() as u64);
            prop_assert_eq!(gathered.sum_ns(), late.iter().sum::<u64>());
            for bucket in gathered.buckets() {
                let range = bucket.from_ns..bucket.below_ns;
                let expected = late.iter().filter(|&nanos| range.contains(nanos)).count();
                prop_assert_eq!(bucket.count, expected as u64);
            }
            let mut all = before;
            all.merge(&gathered);
            prop_assert_eq!(all, histogram.snapshot());
        }
    }
}

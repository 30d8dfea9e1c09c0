//! Service times of packets, as transferred over the control socket and printed by `namewire trace --json`.
//!
//! All times are in nanoseconds and lie between two readings of the clock: they include interrupts and other activity
//! of the machine.

use std::collections::BTreeMap;
use std::fmt;

use ndn_forwarding::{BurstFigures, HistogramSnapshot, ServiceTimes, StageSnapshot};
use serde::{Deserialize, Serialize};

use crate::declare::results;

results! {
    SERVICE_TIMES_RESULTS;

    /// Measurements of an interval.
    pub struct ServiceTimesReport {
        /// Length of the interval.
        pub nanoseconds: u64,
        /// One per worker.
        pub workers: Vec<WorkerServiceTimes>,
    }

    /// Service times of one worker, or of all workers together.
    pub struct WorkerServiceTimes {
        /// Forwarded bursts, measured or not.
        pub bursts: u64,
        /// Packets in them.
        pub packets: u64,
        /// Parsing, hashing and dispatching an Interest.
        pub interest_dispatch: TimeHistogram,
        /// Parsing, hashing and dispatching a Data.
        pub data_dispatch: TimeHistogram,
        /// Forwarding an Interest: tables, pipelines, strategy, and its share of the work per burst.
        pub interest_forwarding: TimeHistogram,
        /// Forwarding a Data.
        pub data_forwarding: TimeHistogram,
        /// Dispatching a whole burst, by burst size.
        pub dispatch_by_burst_size: Vec<BurstTimes>,
        /// Forwarding a whole burst, by burst size.
        pub forwarding_by_burst_size: Vec<BurstTimes>,
    }

    /// Histogram of times.
    pub struct TimeHistogram {
        /// Packets measured.
        pub count: u64,
        /// Sum of all times.
        pub sum_ns: u64,
        /// Non-empty buckets, in order.
        pub buckets: Vec<TimeBucket>,
    }

    /// Packets that took `from_ns` or longer, and less than `below_ns`.
    #[derive(Copy)]
    pub struct TimeBucket {
        /// Lower bound, inclusive.
        pub from_ns: u64,
        /// Upper bound, exclusive.
        pub below_ns: u64,
        /// Number of packets.
        pub count: u64,
    }

    /// Measured bursts of one size.
    #[derive(Copy)]
    pub struct BurstTimes {
        /// Packets in each of them.
        pub packets: u64,
        /// Number of bursts.
        pub bursts: u64,
        /// Interests in all bursts.
        pub interests: u64,
        /// Sum of all times.
        pub sum_ns: u64,
    }
}

impl TimeHistogram {
    /// Returns the given quantile: the middle of its bucket.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counts are far below 2^53"
        )]
        let rank = ((self.count as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.buckets.iter().find(|bucket| {
            seen += bucket.count;
            seen >= rank
        })?;
        let width = bucket.below_ns.saturating_sub(bucket.from_ns);
        // The last bucket has no upper bound.
        Some(if bucket.below_ns == u64::MAX { bucket.from_ns } else { bucket.from_ns + width / 2 })
    }

    /// Returns the mean.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        let mut all: BTreeMap<u64, TimeBucket> = BTreeMap::new();
        for bucket in self.buckets.iter().chain(&other.buckets) {
            all.entry(bucket.from_ns).or_insert(TimeBucket { count: 0, ..*bucket }).count +=
                bucket.count;
        }
        self.buckets = all.into_values().collect();
    }
}

impl WorkerServiceTimes {
    /// Adds the measurements of another worker.
    pub fn add(&mut self, other: &Self) {
        self.bursts += other.bursts;
        self.packets += other.packets;
        self.interest_dispatch.add(&other.interest_dispatch);
        self.data_dispatch.add(&other.data_dispatch);
        self.interest_forwarding.add(&other.interest_forwarding);
        self.data_forwarding.add(&other.data_forwarding);
        add_bursts(&mut self.dispatch_by_burst_size, &other.dispatch_by_burst_size);
        add_bursts(&mut self.forwarding_by_burst_size, &other.forwarding_by_burst_size);
    }
}

fn add_bursts(sum: &mut Vec<BurstTimes>, others: &[BurstTimes]) {
    for other in others {
        match sum.binary_search_by_key(&other.packets, |one| one.packets) {
            Ok(index) => {
                sum[index].bursts += other.bursts;
                sum[index].interests += other.interests;
                sum[index].sum_ns += other.sum_ns;
            }
            Err(index) => sum.insert(index, *other),
        }
    }
}

/// An active measurement of service times. Dropping it ends the measurement.
pub struct ServiceTimesStream {
    /// Duration of the measurement.
    pub milliseconds: u64,
    /// The measurement.
    pub trace: Box<dyn ServiceTimesTrace>,
}

impl fmt::Debug for ServiceTimesStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = &self.milliseconds;
        let mut fields = formatter.debug_struct("ServiceTimesStream");
        fields.field("milliseconds", milliseconds).finish_non_exhaustive()
    }
}

/// An active measurement of service times.
pub trait ServiceTimesTrace: Send {
    /// Returns the measurements since the start.
    fn report(&self) -> ServiceTimesReport;
}

/// Snapshot of a worker's service times at the start of a measurement.
#[derive(Debug)]
pub struct ServiceTimesBefore {
    dispatch: StageSnapshot,
    forwarding: StageSnapshot,
}

impl ServiceTimesBefore {
    /// Takes a snapshot.
    #[must_use]
    pub fn of(times: &ServiceTimes) -> Self {
        Self { dispatch: times.dispatch.snapshot(), forwarding: times.forwarding.snapshot() }
    }

    /// Returns the measurements since the snapshot, with the given numbers of bursts and packets.
    #[must_use]
    pub fn until_now(&self, times: &ServiceTimes, bursts: u64, packets: u64) -> WorkerServiceTimes {
        let dispatch = times.dispatch.snapshot().since(&self.dispatch);
        let forwarding = times.forwarding.snapshot().since(&self.forwarding);
        WorkerServiceTimes {
            bursts,
            packets,
            interest_dispatch: histogram(&dispatch.interests),
            data_dispatch: histogram(&dispatch.data),
            interest_forwarding: histogram(&forwarding.interests),
            data_forwarding: histogram(&forwarding.data),
            dispatch_by_burst_size: burst_times(&dispatch.by_burst_size),
            forwarding_by_burst_size: burst_times(&forwarding.by_burst_size),
        }
    }
}

fn histogram(snapshot: &HistogramSnapshot) -> TimeHistogram {
    let buckets = snapshot.buckets().map(|bucket| TimeBucket {
        from_ns: bucket.from_ns,
        below_ns: bucket.below_ns,
        count: bucket.count,
    });
    TimeHistogram { count: snapshot.count(), sum_ns: snapshot.sum_ns(), buckets: buckets.collect() }
}

fn burst_times(sizes: &[BurstFigures]) -> Vec<BurstTimes> {
    let sizes = (0_u64..).zip(sizes).filter(|(_, figures)| figures.bursts > 0);
    sizes
        .map(|(packets, figures)| BurstTimes {
            packets,
            bursts: figures.bursts,
            interests: figures.interests,
            sum_ns: figures.sum_ns,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(from_ns: u64, below_ns: u64, count: u64) -> TimeBucket {
        TimeBucket { from_ns, below_ns, count }
    }

    #[test]
    fn quantiles_match_the_counts() {
        let mut times = TimeHistogram::default();
        assert_eq!((times.quantile_ns(0.5), times.mean_ns()), (None, None));
        times.add(&TimeHistogram {
            count: 100,
            sum_ns: 13_000,
            buckets: vec![bucket(100, 104, 90), bucket(400, 416, 10)],
        });
        assert_eq!(times.quantile_ns(0.5), Some(102));
        assert_eq!((times.quantile_ns(0.9), times.quantile_ns(0.901)), (Some(102), Some(408)));
        assert_eq!((times.quantile_ns(0.0), times.mean_ns()), (Some(102), Some(130.0)));
        let more = TimeHistogram {
            count: 101,
            sum_ns: 0,
            buckets: vec![bucket(400, 416, 100), bucket(1 << 36, u64::MAX, 1)],
        };
        times.add(&more);
        assert_eq!(times.buckets[1], bucket(400, 416, 110));
        assert_eq!(times.quantile_ns(1.0), Some(1 << 36));
    }

    #[test]
    fn add_sums_the_histograms_of_workers() {
        let of = |packets, bursts| BurstTimes { packets, bursts, interests: 1, sum_ns: 10 };
        let mut total = WorkerServiceTimes::default();
        for sizes in [vec![of(1, 2), of(64, 1)], vec![of(1, 1), of(3, 1)]] {
            total.add(&WorkerServiceTimes {
                bursts: 5,
                dispatch_by_burst_size: sizes,
                ..WorkerServiceTimes::default()
            });
        }
        let ones = BurstTimes { packets: 1, bursts: 3, interests: 2, sum_ns: 20 };
        assert_eq!(total.dispatch_by_burst_size, [ones, of(3, 1), of(64, 1)]);
        assert_eq!(total.bursts, 10);
    }
}

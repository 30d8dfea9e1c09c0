//! When a face marks packets because its output queue stays long.
//!
//! The rule is NFD's, which took it from CoDel: the queue must have been longer than a threshold
//! for one interval before the first mark; as long as it stays so, the marks come closer together
//! with the square root of their number.

/// When to mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CongestionOptions {
    /// `BaseCongestionMarkingInterval`.
    pub interval_ns: u64,
    /// `DefaultCongestionThreshold`: bytes in the output queue.
    pub threshold_bytes: usize,
}

impl Default for CongestionOptions {
    fn default() -> Self {
        Self { interval_ns: 100_000_000, threshold_bytes: 65_536 }
    }
}

/// Decides for each packet whether to mark it.
#[derive(Debug)]
pub struct CongestionMarker {
    options: CongestionOptions,
    next_mark_ns: Option<u64>,
    marked: u32,
}

impl CongestionMarker {
    /// A marker that has seen no queue yet.
    #[must_use]
    pub fn new(options: CongestionOptions) -> Self {
        Self { options, next_mark_ns: None, marked: 0 }
    }

    /// Whether the packet sent now, with `queued_bytes` before it, gets a mark.
    #[inline]
    pub fn marks(&mut self, now_ns: u64, queued_bytes: usize) -> bool {
        if queued_bytes <= self.options.threshold_bytes {
            self.next_mark_ns = None;
            return false;
        }
        self.marks_long_queue(now_ns)
    }

    #[cold]
    fn marks_long_queue(&mut self, now_ns: u64) -> bool {
        let Some(next) = self.next_mark_ns else {
            self.next_mark_ns = Some(now_ns.saturating_add(self.options.interval_ns));
            self.marked = 0;
            return false;
        };
        if now_ns < next {
            return false;
        }
        self.marked = self.marked.saturating_add(1);
        let interval = divided_by_root(self.options.interval_ns, self.marked.saturating_add(1));
        self.next_mark_ns = Some(next.saturating_add(interval));
        true
    }
}

/// `interval / sqrt(count)` in whole nanoseconds.
fn divided_by_root(interval: u64, count: u32) -> u64 {
    let square = u128::from(interval) * u128::from(interval) / u128::from(count.max(1));
    u64::try_from(square.isqrt()).unwrap_or(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: CongestionOptions = CongestionOptions { interval_ns: 100, threshold_bytes: 10 };

    #[test]
    fn a_short_burst_is_not_marked() {
        let mut marker = CongestionMarker::new(OPTIONS);
        assert!(!marker.marks(0, 11));
        assert!(!marker.marks(99, 11));
        assert!(!marker.marks(100, 10), "the queue is short again");
        assert!(!marker.marks(101, 11));
        assert!(!marker.marks(200, 11));
        assert!(marker.marks(201, 11));
    }

    #[test]
    fn marks_come_closer_while_the_queue_stays_long() {
        let mut marker = CongestionMarker::new(OPTIONS);
        let times: Vec<u64> = (0..1000).filter(|&now| marker.marks(now, 1000)).collect();
        assert_eq!(times[0], 100);
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.windows(2).all(|pair| pair[0] >= pair[1]), "{gaps:?}");
        assert!(*gaps.last().unwrap() <= gaps[0] / 3, "{gaps:?}");
    }
}

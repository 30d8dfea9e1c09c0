//! When to mark packets (NDNLPv2, "Congestion Marking"; the schedule is CoDel's).

use ndn_types::Timestamp;

use crate::options::LinkOptions;

/// Decides which packets of one output queue are marked.
///
/// The first packet that finds the queue above its threshold starts a waiting time of one
/// interval. While the queue stays above it, the first packet after the waiting time is marked,
/// and the next one `interval / sqrt(n + 1)` later, where n is the number of marks so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CongestionMarker {
    /// When the next packet is to be marked. `None` while the queue is below the threshold.
    next_mark: Option<Timestamp>,
    marks: u32,
}

impl CongestionMarker {
    /// Whether to mark a packet that finds `queued_bytes` in the queue.
    #[inline]
    pub(crate) fn marks(
        &mut self,
        now: Timestamp,
        queued_bytes: usize,
        options: &LinkOptions,
    ) -> bool {
        if !options.congestion_marking || queued_bytes <= options.congestion_threshold {
            self.next_mark = None;
            self.marks = 0;
            return false;
        }
        let Some(due) = self.next_mark else {
            self.next_mark = Some(now.plus(options.congestion_interval));
            return false;
        };
        if now < due {
            return false;
        }
        self.marks = self.marks.saturating_add(1);
        let wait = options.congestion_interval.div_f64((f64::from(self.marks) + 1.0).sqrt());
        self.next_mark = Some(due.plus(wait));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 65_537;

    /// Milliseconds at which a packet that comes every millisecond is marked.
    fn marks(queue: impl Fn(u64) -> usize) -> Vec<u64> {
        let options = LinkOptions::stream();
        let mut marker = CongestionMarker::default();
        (0..1000)
            .filter(|ms| marker.marks(Timestamp::from_millis(*ms), queue(*ms), &options))
            .collect()
    }

    #[test]
    fn mark_interval_shrinks_while_the_queue_stays_long() {
        let marks = marks(|_| LONG);
        // 100, then + 100 / sqrt(2), + 100 / sqrt(3), ...
        assert_eq!(marks[..5], [100, 171, 229, 279, 324]);
    }

    #[test]
    fn queue_that_drains_within_the_interval_is_not_marked() {
        assert_eq!(marks(|ms| if ms % 100 == 99 { 65_536 } else { LONG }), [0_u64; 0]);
        // After a break it starts from the beginning.
        let marks = marks(|ms| if ms == 500 { 0 } else { LONG });
        assert!(marks.contains(&601) && !marks.iter().any(|ms| (500..601).contains(ms)));
    }

    #[test]
    fn face_without_congestion_marking_never_marks() {
        let options = LinkOptions { congestion_marking: false, ..LinkOptions::stream() };
        let mut marker = CongestionMarker::default();
        assert!((0..1000).all(|ms| !marker.marks(Timestamp::from_millis(ms), LONG, &options)));
    }
}

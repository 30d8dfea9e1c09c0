//! Queue management of Interests under overload.
//!
//! Data and Nacks are always forwarded first: dropping one wastes the work that was done for it. In a
//! queue of Interests that has been long for some time, some are first marked, and then some are refused.
//! Interests that arrive faster than that are lost in the queue, where it costs least.

mod codel;

use std::time::Duration;

use ndn_types::{Timestamp, duration_ns};

pub(crate) use codel::Codel;

/// Queue management of Interests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverloadOptions {
    /// Waiting time above which Interests are marked.
    pub mark_after: Duration,
    /// Waiting time above which Interests are refused.
    pub shed_after: Duration,
    /// Time for which the waiting time has to be above a limit.
    pub interval: Duration,
    /// The way in which Interests are refused.
    pub shed: ShedAction,
    /// Whether Data and Nacks go before Interests. Otherwise packets are taken in the order of arrival, for
    /// comparison in benches.
    pub answers_first: bool,
}

/// The way in which Interests are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShedAction {
    /// With a Nack of reason Congestion.
    Nack,
    /// By dropping them.
    Drop,
    /// Not at all: they are only marked.
    Never,
}

impl Default for OverloadOptions {
    fn default() -> Self {
        Self {
            mark_after: Duration::from_millis(5),
            shed_after: Duration::from_millis(20),
            interval: Duration::from_millis(100),
            shed: ShedAction::Nack,
            answers_first: true,
        }
    }
}

/// The verdict on an Interest that leaves its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueVerdict {
    /// Forward it.
    Pass,
    /// It gets a congestion mark.
    Mark,
    /// It gets a Nack.
    Nack,
    /// It is dropped.
    Drop,
}

/// The controllers of one queue of Interests.
#[derive(Debug, Clone)]
pub(crate) struct InterestQueue {
    marks: Codel,
    sheds: Codel,
    shed_after_ns: u64,
    shed: ShedAction,
}

impl InterestQueue {
    pub(crate) fn new(options: &OverloadOptions) -> Self {
        let shed_after_ns = duration_ns(options.shed_after);
        Self {
            marks: Codel::new(options.mark_after, options.interval),
            sheds: Codel::new(options.shed_after, options.interval),
            shed_after_ns,
            shed: options.shed,
        }
    }

    /// An Interest leaves the queue and has waited since `since`. Returns the verdict on it. A full queue counts as one
    /// in which Interests wait for too long: it drops them at its tail.
    #[inline]
    pub(crate) fn dequeue(
        &mut self,
        now: Timestamp,
        since: Timestamp,
        is_full: bool,
    ) -> QueueVerdict {
        let mut sojourn_ns = now.nanos_since(since);
        if is_full {
            sojourn_ns = sojourn_ns.max(self.shed_after_ns);
        }
        let marks = self.marks.dequeue(now, sojourn_ns);
        if self.sheds.dequeue(now, sojourn_ns) {
            match self.shed {
                ShedAction::Nack => return QueueVerdict::Nack,
                ShedAction::Drop => return QueueVerdict::Drop,
                ShedAction::Never => {}
            }
        }
        if marks { QueueVerdict::Mark } else { QueueVerdict::Pass }
    }

    /// Notes that the queue is empty.
    #[inline]
    pub(crate) fn note_empty(&mut self) {
        self.marks.note_short_queue();
        self.sheds.note_short_queue();
    }
}

#[cfg(test)]
mod harness;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_queue_is_signalled_at_any_rate() {
        let options = OverloadOptions { shed: ShedAction::Drop, ..OverloadOptions::default() };
        for (is_full, expected) in [(true, QueueVerdict::Drop), (false, QueueVerdict::Pass)] {
            let mut queue = InterestQueue::new(&options);
            let mut last = QueueVerdict::Pass;
            for millis in (1000..=1100).step_by(20) {
                let now = Timestamp::from_millis(millis);
                last = queue.dequeue(now, now, is_full);
            }
            assert_eq!(last, expected);
        }
    }

    #[test]
    fn empty_queue_resets_the_controllers() {
        let mut queue = InterestQueue::new(&OverloadOptions::default());
        let old = Timestamp::from_millis(1);
        for millis in (1000..2000).step_by(90) {
            assert_eq!(
                queue.dequeue(Timestamp::from_millis(millis), old, true),
                QueueVerdict::Pass
            );
            queue.note_empty();
        }
    }
}

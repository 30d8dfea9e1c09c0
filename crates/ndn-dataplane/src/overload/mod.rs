//! What a worker does when it cannot keep up.
//!
//! Data and Nacks are always forwarded first: dropping one wastes all the work that was done for it.
//! What has to give way are Interests, early: a queue of Interests that has been long for some time is
//! first marked, and if that does not help, some of its Interests are refused. What comes faster than
//! that stays where it is cheapest to lose, in the queue.

mod codel;

use std::time::Duration;

use ndn_table::Timestamp;
use ndn_types::duration_ns;

pub(crate) use codel::Codel;

/// How workers treat queues of Interests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverloadOptions {
    /// How long Interests may wait, before some of them are marked.
    pub mark_after: Duration,
    /// How long they may wait, before some of them are refused.
    pub shed_after: Duration,
    /// For how long the wait has to be too long.
    pub interval: Duration,
    /// What becomes of those that are refused.
    pub shed: ShedAction,
    /// Whether answers go before Interests. Without, packets are taken as they come: only to
    /// measure what it is good for.
    pub answers_first: bool,
}

/// What becomes of Interests for which there is no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShedAction {
    /// They are answered with a Nack of reason Congestion.
    Nack,
    /// They are dropped.
    Drop,
    /// None are refused: they are only marked.
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

/// What is to become of an Interest that leaves its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing special.
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

    /// An Interest leaves the queue after it has waited since `since`. A queue that is full counts
    /// like one in which packets wait for too long: it loses them at its other end.
    #[inline]
    pub(crate) fn leaves(&mut self, now: Timestamp, since: Timestamp, is_full: bool) -> Verdict {
        let mut sojourn_ns = now.nanos_since(since);
        if is_full {
            sojourn_ns = sojourn_ns.max(self.shed_after_ns);
        }
        let marks = self.marks.leaves(now, sojourn_ns);
        if self.sheds.leaves(now, sojourn_ns) {
            match self.shed {
                ShedAction::Nack => return Verdict::Nack,
                ShedAction::Drop => return Verdict::Drop,
                ShedAction::Never => {}
            }
        }
        if marks { Verdict::Mark } else { Verdict::Pass }
    }

    /// Nothing waits.
    #[inline]
    pub(crate) fn note_empty(&mut self) {
        self.marks.is_short();
        self.sheds.is_short();
    }
}

#[cfg(test)]
mod harness;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_full_is_too_long_however_fast_it_moves() {
        let options = OverloadOptions { shed: ShedAction::Drop, ..OverloadOptions::default() };
        for (is_full, expected) in [(true, Verdict::Drop), (false, Verdict::Pass)] {
            let mut queue = InterestQueue::new(&options);
            let mut last = Verdict::Pass;
            for millis in (1000..=1100).step_by(20) {
                let now = Timestamp::from_millis(millis);
                last = queue.leaves(now, now, is_full);
            }
            assert_eq!(last, expected);
        }
    }

    #[test]
    fn an_empty_queue_begins_anew() {
        let mut queue = InterestQueue::new(&OverloadOptions::default());
        let old = Timestamp::from_millis(1);
        for millis in (1000..2000).step_by(90) {
            assert_eq!(queue.leaves(Timestamp::from_millis(millis), old, true), Verdict::Pass);
            queue.note_empty();
        }
    }
}

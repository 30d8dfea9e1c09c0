//! Queue management of Interests under overload.
//!
//! Data and Nacks are always forwarded first: dropping one wastes the work that was done for it. In a
//! queue of Interests that has been long for some time, some are first marked, and then some are refused.
//! Interests that arrive faster than that are lost in the queue, where it costs least.

mod codel;

use std::time::Duration;

use ndn_types::{PrincipalIndex, Timestamp, duration_ns};

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
    /// Refusals that are due, and whose Interests they are.
    due: u32,
    majority: Majority,
}

impl InterestQueue {
    /// Maximum number of refusals that wait for an Interest of the majority; further ones are forgotten.
    const DUE_MAX: u32 = 64;

    pub(crate) fn new(options: &OverloadOptions) -> Self {
        let shed_after_ns = duration_ns(options.shed_after);
        Self {
            marks: Codel::new(options.mark_after, options.interval),
            sheds: Codel::new(options.shed_after, options.interval),
            shed_after_ns,
            shed: options.shed,
            due: 0,
            majority: Majority::default(),
        }
    }

    /// An Interest leaves the queue and has waited since `since`. Returns the verdict on it. A full queue counts as one
    /// in which Interests wait for too long: it drops them at its tail. `principal` is that of the Interest; none if it cannot be
    /// refused.
    #[inline]
    pub(crate) fn dequeue(
        &mut self,
        now: Timestamp,
        since: Timestamp,
        is_full: bool,
        principal: impl FnOnce() -> Option<PrincipalIndex>,
    ) -> QueueVerdict {
        let mut sojourn_ns = now.nanos_since(since);
        if is_full {
            sojourn_ns = sojourn_ns.max(self.shed_after_ns);
        }
        let marks = self.marks.dequeue(now, sojourn_ns);
        if sojourn_ns < self.shed_after_ns {
            self.sheds.note_short_queue();
        } else if self.refuses(now, sojourn_ns, principal()) {
            match self.shed {
                ShedAction::Nack => return QueueVerdict::Nack,
                ShedAction::Drop => return QueueVerdict::Drop,
                ShedAction::Never => {}
            }
        }
        if marks { QueueVerdict::Mark } else { QueueVerdict::Pass }
    }

    /// Whether to refuse an Interest of a queue that is too long. What one principal sends makes no other one pay: a refusal
    /// waits for an Interest of the principal that most Interests are of.
    #[cold]
    fn refuses(
        &mut self,
        now: Timestamp,
        sojourn_ns: u64,
        principal: Option<PrincipalIndex>,
    ) -> bool {
        if !self.sheds.is_long() {
            (self.due, self.majority) = (0, Majority::default());
        }
        let is_due = self.sheds.dequeue(now, sojourn_ns);
        self.due = Self::DUE_MAX.min(self.due + u32::from(is_due));
        let Some(principal) = principal else { return false };
        self.majority.count(principal);
        let refuses = self.due > 0 && self.majority.is_of(principal);
        self.due -= u32::from(refuses);
        refuses
    }

    /// Notes that the queue is empty.
    #[inline]
    pub(crate) fn note_empty(&mut self) {
        self.marks.note_short_queue();
        self.sheds.note_short_queue();
    }
}

/// The principal that most of the latest Interests are of, if there is one (Boyer and Moore, "MJRTY - A Fast Majority Vote
/// Algorithm", 1991): else one of those that many are of.
#[derive(Debug, Clone, Default)]
struct Majority {
    principal: PrincipalIndex,
    votes: u32,
}

impl Majority {
    /// Votes that count at most, so that another principal can become the majority.
    const VOTES_MAX: u32 = 1024;

    fn count(&mut self, principal: PrincipalIndex) {
        if self.votes == 0 {
            self.principal = principal;
        }
        let is_for = principal == self.principal;
        self.votes = if is_for { Self::VOTES_MAX.min(self.votes + 1) } else { self.votes - 1 };
    }

    fn is_of(&self, principal: PrincipalIndex) -> bool {
        self.votes > 0 && self.principal == principal
    }
}

#[cfg(test)]
mod harness;

#[cfg(test)]
mod tests {
    use ndn_types::{Capacity, Ledger, PrincipalKey, Reserves};

    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "the argument of a queue")]
    fn one_principal() -> Option<PrincipalIndex> {
        Some(PrincipalIndex::OTHER)
    }

    #[test]
    fn full_queue_is_signalled_at_any_rate() {
        let options = OverloadOptions { shed: ShedAction::Drop, ..OverloadOptions::default() };
        for (is_full, expected) in [(true, QueueVerdict::Drop), (false, QueueVerdict::Pass)] {
            let mut queue = InterestQueue::new(&options);
            let mut last = QueueVerdict::Pass;
            for millis in (1000..=1100).step_by(20) {
                let now = Timestamp::from_millis(millis);
                last = queue.dequeue(now, now, is_full, one_principal);
            }
            assert_eq!(last, expected);
        }
    }

    ndn_types::resource! {
        /// Nothing that is held.
        struct Nothing = "nothing";
    }

    #[test]
    fn refused_interests_are_those_of_the_principal_that_sends_most() {
        let mut ledger = Ledger::<Nothing, 1>::new([Capacity::of(1)], Reserves::NONE);
        let [attacker, bystander] = [1, 2]
            .map(|host| ledger.attach(PrincipalKey::remote(([192, 0, 2, host], 6363).into())));
        let options = OverloadOptions { shed: ShedAction::Drop, ..OverloadOptions::default() };
        let mut queue = InterestQueue::new(&options);
        // Every tenth Interest is of the other one, also the first.
        let refused = |queue: &mut InterestQueue, most, few, millis: std::ops::Range<u64>| {
            let mut refused = [0, 0];
            for millis in millis {
                let now = Timestamp::from_millis(millis);
                let since = Timestamp::from_millis(millis - 30);
                let principal = if millis % 10 == 0 { few } else { most };
                let verdict = queue.dequeue(now, since, false, || Some(principal));
                refused[usize::from(principal == few)] += u32::from(verdict == QueueVerdict::Drop);
            }
            refused
        };
        let [of_most, of_few] = refused(&mut queue, attacker, bystander, 1000..4000);
        assert!(of_most > 100 && of_few == 0, "{of_most} {of_few}");
        // What they send is the other way round: so is who pays, after a while.
        refused(&mut queue, bystander, attacker, 4000..6000);
        let [of_most, of_few] = refused(&mut queue, bystander, attacker, 6000..9000);
        assert!(of_most > 100 && of_few == 0, "{of_most} {of_few}");
        // What cannot be refused does not end what is due.
        for millis in 9000..9100 {
            let now = Timestamp::from_millis(millis);
            let verdict = queue.dequeue(now, Timestamp::from_millis(millis - 30), false, || None);
            assert!(matches!(verdict, QueueVerdict::Pass | QueueVerdict::Mark), "{verdict:?}");
        }
        let [of_most, _] = refused(&mut queue, bystander, attacker, 9101..9105);
        assert_eq!(of_most, 4);
    }

    #[test]
    fn empty_queue_resets_the_controllers() {
        let mut queue = InterestQueue::new(&OverloadOptions::default());
        let old = Timestamp::from_millis(1);
        for millis in (1000..2000).step_by(90) {
            assert_eq!(
                queue.dequeue(Timestamp::from_millis(millis), old, true, one_principal),
                QueueVerdict::Pass
            );
            queue.note_empty();
        }
    }
}

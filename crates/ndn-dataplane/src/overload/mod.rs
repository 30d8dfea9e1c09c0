//! Queue management of Interests under overload.
//!
//! Data and Nacks are always forwarded first: dropping one wastes the work that was done for it. In a
//! queue of Interests that has been long for some time, some are first marked, and then some are refused.
//! Interests that arrive faster than that are lost in the queue, where it costs least.

mod codel;

use std::time::Duration;

use ndn_types::{PrincipalKey, Timestamp, duration_ns};

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
    /// Refusals that are due, and the account that they wait for.
    due: u32,
    majority: Majority,
}

impl InterestQueue {
    /// Maximum number of refusals that wait; further ones are forgotten.
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
    /// in which Interests wait for too long: it drops them at its tail. `account` is that of the principal that has sent the
    /// Interest; none if it cannot be refused.
    #[inline]
    pub(crate) fn dequeue(
        &mut self,
        now: Timestamp,
        since: Timestamp,
        is_full: bool,
        account: impl FnOnce() -> Option<PrincipalKey>,
    ) -> QueueVerdict {
        let mut sojourn_ns = now.nanos_since(since);
        if is_full {
            sojourn_ns = sojourn_ns.max(self.shed_after_ns);
        }
        let marks = self.marks.dequeue(now, sojourn_ns);
        if sojourn_ns < self.shed_after_ns {
            self.sheds.note_short_queue();
        } else if self.refuses(now, sojourn_ns, account()) {
            match self.shed {
                ShedAction::Nack => return QueueVerdict::Nack,
                ShedAction::Drop => return QueueVerdict::Drop,
                ShedAction::Never => {}
            }
        }
        if marks { QueueVerdict::Mark } else { QueueVerdict::Pass }
    }

    /// Whether to refuse an Interest of a queue that is too long. A refusal waits for an Interest of the account that sends more than
    /// half, if there is one: others do not pay for it.
    #[cold]
    fn refuses(&mut self, now: Timestamp, sojourn_ns: u64, account: Option<PrincipalKey>) -> bool {
        if !self.sheds.is_long() {
            (self.due, self.majority) = (0, Majority::default());
        }
        let is_due = self.sheds.dequeue(now, sojourn_ns);
        // A signal for what cannot be refused is used up: it is not paid by those whose Interests can.
        let Some(account) = account else { return is_due };
        self.due = Self::DUE_MAX.min(self.due + u32::from(is_due));
        self.majority.count(account);
        let refuses = self.due > 0 && self.majority.is_of(account);
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

/// The account that more than half of the latest Interests are of (Boyer and Moore, "MJRTY - A Fast Majority Vote Algorithm", 1991).
/// Without such an account, it is any of them, about as often as it sends.
#[derive(Debug, Clone)]
struct Majority {
    account: PrincipalKey,
    votes: u32,
}

impl Default for Majority {
    fn default() -> Self {
        Self { account: PrincipalKey::OTHER, votes: 0 }
    }
}

impl Majority {
    /// Votes that count at most, so that another account can become the majority.
    const VOTES_MAX: u32 = 128;

    fn count(&mut self, account: PrincipalKey) {
        if self.votes == 0 {
            self.account = account;
        }
        let is_for = account == self.account;
        self.votes = if is_for { Self::VOTES_MAX.min(self.votes + 1) } else { self.votes - 1 };
    }

    fn is_of(&self, account: PrincipalKey) -> bool {
        self.votes > 0 && self.account == account
    }
}

#[cfg(test)]
mod harness;

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "the argument of a queue")]
    fn one_account() -> Option<PrincipalKey> {
        Some(PrincipalKey::OTHER)
    }

    /// The account of a host.
    fn host(number: u8) -> PrincipalKey {
        PrincipalKey::remote(([192, 0, 2, number], 6363).into()).account()
    }

    /// The verdict on an Interest that leaves at this time after 30 ms.
    fn verdict(queue: &mut InterestQueue, millis: u64, of: Option<PrincipalKey>) -> QueueVerdict {
        let now = Timestamp::from_millis(millis);
        queue.dequeue(now, Timestamp::from_millis(millis - 30), false, || of)
    }

    fn queue_that_drops() -> InterestQueue {
        InterestQueue::new(&OverloadOptions {
            shed: ShedAction::Drop,
            ..OverloadOptions::default()
        })
    }

    #[test]
    fn full_queue_is_signalled_at_any_rate() {
        let options = OverloadOptions { shed: ShedAction::Drop, ..OverloadOptions::default() };
        for (is_full, expected) in [(true, QueueVerdict::Drop), (false, QueueVerdict::Pass)] {
            let mut queue = InterestQueue::new(&options);
            let mut last = QueueVerdict::Pass;
            for millis in (1000..=1100).step_by(20) {
                let now = Timestamp::from_millis(millis);
                last = queue.dequeue(now, now, is_full, one_account);
            }
            assert_eq!(last, expected);
        }
    }

    #[test]
    fn refused_interests_are_those_of_the_account_that_sends_most() {
        let (attacker, bystander) = (host(1), host(2));
        let mut queue = queue_that_drops();
        // Every tenth Interest is of the other one, also the first.
        let refused = |queue: &mut InterestQueue, most, few, times: std::ops::Range<u64>| {
            let mut refused = [0, 0];
            for millis in times {
                let account = if millis % 10 == 0 { few } else { most };
                let is_refused = verdict(queue, millis, Some(account)) == QueueVerdict::Drop;
                refused[usize::from(account == few)] += u32::from(is_refused);
            }
            refused
        };
        let [of_most, of_few] = refused(&mut queue, attacker, bystander, 1000..4000);
        assert!(of_most > 100 && of_few == 0, "{of_most} {of_few}");
        // What they send is the other way round: so is who pays, after a while.
        refused(&mut queue, bystander, attacker, 4000..4400);
        let [of_most, of_few] = refused(&mut queue, bystander, attacker, 4400..6000);
        assert!(of_most > 100 && of_few == 0, "{of_most} {of_few}");
    }

    /// An attacker whose Interests cannot be refused any more does not make others pay for them.
    #[test]
    fn signals_for_what_cannot_be_refused_are_used_up() {
        let mut queue = queue_that_drops();
        let mut signals = [0, 0];
        for millis in 1000..11_000 {
            let of = (millis % 10 == 0).then_some(host(2));
            let is_signal = verdict(&mut queue, millis, of) == QueueVerdict::Drop;
            signals[usize::from(of.is_some())] += u32::from(is_signal);
        }
        let [of_others, refused] = signals;
        assert!(of_others > 1000 && refused * 5 < of_others, "{signals:?}");
    }

    #[test]
    fn short_queue_forgets_what_was_due() {
        let mut queue = queue_that_drops();
        for millis in 1000..4000 {
            verdict(&mut queue, millis, Some(host(1)));
        }
        // Refusals are due that wait for the first one.
        for millis in 4000..4100 {
            assert_ne!(verdict(&mut queue, millis, Some(host(2))), QueueVerdict::Drop);
        }
        assert!((10..=InterestQueue::DUE_MAX).contains(&queue.due), "{}", queue.due);
        let now = Timestamp::from_millis(4100);
        assert_eq!(queue.dequeue(now, now, false, one_account), QueueVerdict::Pass);
        let mut refused = (4101..4210)
            .filter(|millis| verdict(&mut queue, *millis, Some(host(1))) == QueueVerdict::Drop);
        assert_eq!(refused.next(), Some(4201));
    }

    #[test]
    fn empty_queue_resets_the_controllers() {
        let mut queue = InterestQueue::new(&OverloadOptions::default());
        let old = Timestamp::from_millis(1);
        for millis in (1000..2000).step_by(90) {
            assert_eq!(
                queue.dequeue(Timestamp::from_millis(millis), old, true, one_account),
                QueueVerdict::Pass
            );
            queue.note_empty();
        }
    }
}

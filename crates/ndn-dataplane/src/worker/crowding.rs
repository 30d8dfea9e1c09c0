//! Use of the rings to other workers while these have little room, by principal.
//!
//! Packets that are not read wait in the kernel, which holds back the sender of a stream. What has to wait is what fills
//! the rings: an eighth of each is kept for principals, and sockets or ports that several share. Each may send an eighth of it, but
//! a burst at least, or half of what is left if that is less, and is then not read again until there is more room. All others go on, and so do
//! their packets for workers that have room. With the longest rings, some fourteen that send as much as they can use it up.

use std::collections::HashMap;
use std::time::Duration;

use ndn_forwarding::BURST_SIZE;
use ndn_types::{PrincipalKey, Timestamp};

/// Time for which parts of the room are counted at least.
const PERIOD: Duration = Duration::from_millis(100);
/// Time for which a worker waits for another one that takes nothing, in all of its reads in this time: long enough for
/// another thread to have its turn on the processor of that one. All faces wait meanwhile.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// The origin of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RingUser {
    /// A user and a site are one, whatever the number of processes or networks.
    Principal(PrincipalKey),
    /// The peers of a shared socket or port, by its poll token.
    Shared(u64),
}

impl RingUser {
    /// The principal of a face, or else the socket or port with this token.
    pub(super) fn new(principal: Option<PrincipalKey>, token: u64) -> Self {
        match principal {
            Some(principal) => Self::Principal(principal.account()),
            None => Self::Shared(token),
        }
    }
}

/// A wait for room during a read.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoomWait {
    /// The least room that was missing.
    missing: usize,
    /// Since when others have taken nothing.
    since: Timestamp,
}

impl RoomWait {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { missing: usize::MAX, since: now }
    }

    /// Notes the room that is missing now.
    pub(super) fn note_missing(&mut self, now: Timestamp, missing: usize) {
        if missing < self.missing {
            *self = Self { missing, since: now };
        }
    }

    /// Time for which others have taken nothing.
    pub(super) fn time_stuck(&self, now: Timestamp) -> Duration {
        now.since(self.since)
    }
}

/// Messages for which there was no other room in the current period.
#[derive(Debug)]
pub(super) struct Crowding {
    /// Messages to be divided.
    room: usize,
    messages: HashMap<RingUser, usize>,
    /// Messages of all users.
    total: usize,
    /// Time of waits that have ended without room, while others took nothing.
    waited: Duration,
    /// Beginning of the period.
    since: Option<Timestamp>,
}

impl Crowding {
    pub(super) fn new(room: usize) -> Self {
        Self { room, messages: HashMap::new(), total: 0, waited: Duration::ZERO, since: None }
    }

    /// Begins a period, unless one is in progress: the rings have little room.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.since.get_or_insert(now);
    }

    /// Ends the period if it is over: the rings have room.
    #[inline]
    pub(super) fn end(&mut self, now: Timestamp) {
        if self.since.is_some_and(|since| now.since(since) >= PERIOD) {
            self.since = None;
            self.messages.clear();
            self.total = 0;
            self.waited = Duration::ZERO;
        }
    }

    /// Notes messages of a user.
    pub(super) fn note(&mut self, user: RingUser, messages: usize) {
        if messages > 0 {
            *self.messages.entry(user).or_default() += messages;
            self.total += messages;
        }
    }

    /// Messages that a user may still send: an eighth of the room or a burst, and leaving as many to others as it has sent.
    pub(super) fn part_left(&self, user: RingUser) -> usize {
        let sent = self.messages.get(&user).copied().unwrap_or_default();
        let left = self.room.saturating_sub(self.total);
        let half = left.saturating_sub(sent).div_ceil(2);
        half.min((self.room / 8).max(BURST_SIZE).saturating_sub(sent))
    }

    /// Whether to wait longer. If not, the wait is counted; one that ends because there is room is not.
    pub(super) fn may_wait(&mut self, now: Timestamp, wait: &RoomWait) -> bool {
        let waited = self.waited + wait.time_stuck(now);
        let may_wait = waited < WAIT_MAX;
        if !may_wait {
            self.waited = waited;
        }
        may_wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_send_an_eighth_or_half_of_what_is_left() {
        let [first, second, idle] = [1, 2, 3].map(RingUser::Shared);
        let mut crowding = Crowding::new(640);
        let start = Timestamp::from_millis(7);
        crowding.begin(start);
        crowding.note(first, 72);
        assert_eq!((crowding.part_left(first), crowding.part_left(second)), (8, 80));
        crowding.note(first, 8);
        crowding.note(idle, 0);
        assert_eq!((crowding.part_left(first), crowding.part_left(second)), (0, 80));
        // 528 of all.
        crowding.note(RingUser::Shared(4), 448);
        assert_eq!((crowding.part_left(second), crowding.part_left(idle)), (56, 56));
        crowding.note(second, 24);
        assert_eq!((crowding.part_left(second), crowding.part_left(idle)), (32, 44));
        crowding.end(start.plus(PERIOD / 2));
        assert_eq!(crowding.part_left(first), 0, "the rings fill and empty within a period");
        crowding.end(start.plus(PERIOD));
        assert_eq!(crowding.part_left(first), 80);
        assert_eq!(Crowding::new(160).part_left(first), BURST_SIZE);
        assert_eq!(Crowding::new(64).part_left(first), BURST_SIZE / 2);
    }

    #[test]
    fn first_messages_of_another_user_find_room_after_those_of_others() {
        let mut crowding = Crowding::new(512);
        crowding.begin(Timestamp::from_millis(7));
        let served = (0..).map(RingUser::Shared).take_while(|user| {
            let is_served = crowding.part_left(*user) > 0;
            while crowding.part_left(*user) > 0 {
                crowding.note(*user, 1);
            }
            is_served
        });
        assert_eq!(served.count(), 14);
    }

    #[test]
    fn waits_in_which_nothing_is_taken_are_limited_together_until_the_period_ends() {
        let mut crowding = Crowding::new(100);
        let start = Timestamp::from_millis(7);
        crowding.begin(start);
        let mut wait = RoomWait::new(start);
        let progress = start.plus(WAIT_MAX / 2);
        assert!(crowding.may_wait(progress, &wait));
        wait.note_missing(progress, 64);
        let stuck = progress.plus(WAIT_MAX);
        wait.note_missing(stuck, 64);
        assert!(crowding.may_wait(start.plus(WAIT_MAX), &wait), "others have taken something");
        assert!(!crowding.may_wait(stuck, &wait));
        assert!(!crowding.may_wait(stuck, &RoomWait::new(stuck)), "a further read");
        crowding.end(start.plus(PERIOD / 2));
        assert!(!crowding.may_wait(stuck, &RoomWait::new(stuck)));
        crowding.end(start.plus(PERIOD));
        assert!(crowding.may_wait(stuck, &RoomWait::new(stuck)));
    }

    #[test]
    fn waits_that_end_with_room_leave_the_time_for_others() {
        let mut crowding = Crowding::new(100);
        let mut now = Timestamp::from_millis(7);
        crowding.begin(now);
        for _ in 0..100 {
            let mut wait = RoomWait::new(now);
            assert!(crowding.may_wait(now, &wait));
            wait.note_missing(now, 64);
            now = now.plus_millis(1);
            assert!(crowding.may_wait(now, &wait));
            // All that was missing, taken at once.
            wait.note_missing(now, 0);
        }
        let wait = RoomWait::new(now);
        assert!(crowding.may_wait(now.plus(WAIT_MAX / 50 * 49), &wait));
        assert!(!crowding.may_wait(now.plus(WAIT_MAX), &wait));
    }

    #[test]
    fn processes_of_a_user_are_one() {
        let user = |pid| RingUser::new(Some(PrincipalKey::LocalApplication { uid: 1, pid }), 5);
        assert_eq!(user(7), user(8));
        assert_ne!(RingUser::new(None, 5), RingUser::new(None, 6));
    }
}

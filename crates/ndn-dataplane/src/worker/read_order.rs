//! The order in which a worker reads what is ready.
//!
//! Faces and sockets that mostly bring Data and Nacks come first, and are read until they are empty: work
//! was done for each of those packets, and the kernel drops at the end of its queue whatever comes. Their
//! number is bounded by that of the Interests sent, or by a limit where a peer sends unsolicited Data.
//! Interests are read in batches, and upstream sockets are read between batches. A batch is as large as
//! what is written at a time, and shrinks while the kernel drops Data: then the socket buffer is short
//! for what a batch causes.
//!
//! Everything that is ready is read once before anything is read again. So that a thousand connections of one
//! principal do not have a thousand turns between two turns of others, the faces of each principal bring a
//! limited number of frames between two waits. The next time, the first face that had no turn comes first.

use std::collections::HashMap;

use ndn_face::ReadCounts;
use ndn_types::PrincipalKey;

/// Interests read before the upstream sockets are read again: as many as are written at a time.
const BATCH_MAX: usize = 512;
/// The smallest batch, where the kernel drops Data.
const BATCH_MIN: usize = 32;
/// Growth of the batch with each poll of the upstream sockets that finds datagrams and no drops.
const BATCH_GROWTH: usize = 8;
/// Rounds that read something but nothing from a UDP socket upstream, until the batch is the largest again.
const ROUNDS_WITHOUT_MAX: usize = 64;
/// Upstream faces and sockets that are polled again in the middle of a round.
const UPSTREAMS_MAX: usize = 16;
/// Events of one wait up to which faces are read without regard to their principals: it does not take long.
const EVENTS_WITHOUT_TURNS: usize = 16;
/// Frames after which the turn of a principal is over, until the next wait.
const TURN_FRAMES: u64 = 256;
/// A read that brings fewer frames counts as this many: it takes a system call.
pub(super) const READ_FRAMES_MIN: u64 = 8;

/// Number of Interests read in a row. It depends on drops by UDP sockets upstream; on streams the sender
/// waits and nothing is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InterestBatch {
    packets: usize,
    /// Result of the current poll of the upstream sockets so far.
    found: ReadCounts,
    /// A poll of this round has found something.
    is_answered: bool,
    /// Rounds since the last such round.
    rounds_without: usize,
}

impl InterestBatch {
    fn new() -> Self {
        let found = ReadCounts::default();
        Self { packets: BATCH_MAX, found, is_answered: false, rounds_without: 0 }
    }

    /// Current size, packets.
    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    /// Notes a read upstream, as part of a poll.
    pub(super) fn note(&mut self, received: ReadCounts) {
        self.found.datagrams += received.datagrams;
        self.found.drops += received.drops;
    }

    /// Ends a poll: everything that waited upstream has been read.
    pub(super) fn end_poll(&mut self) {
        let ReadCounts { datagrams, drops } = std::mem::take(&mut self.found);
        self.is_answered |= datagrams > 0 || drops > 0;
        self.packets = match (drops, datagrams) {
            (0, 0) => self.packets,
            (0, _) => BATCH_MAX.min(self.packets + BATCH_GROWTH),
            (_, _) => BATCH_MIN.max(self.packets / 2),
        };
    }

    /// Ends a round; `has_read` if it has read anything.
    pub(super) fn end_round(&mut self, has_read: bool) {
        if std::mem::take(&mut self.is_answered) {
            self.rounds_without = 0;
        } else if has_read {
            self.rounds_without += 1;
            if self.rounds_without >= ROUNDS_WITHOUT_MAX {
                (self.packets, self.rounds_without) = (BATCH_MAX, 0);
            }
        }
    }
}

/// The frames that principals have brought since the last wait.
#[derive(Debug)]
struct Turns(HashMap<PrincipalKey, u64>);

impl Turns {
    /// Users and sites have one turn, whatever the number of their processes or networks.
    fn owner(principal: PrincipalKey) -> PrincipalKey {
        principal.group().unwrap_or(principal)
    }

    fn is_over(&self, principal: PrincipalKey) -> bool {
        self.0.get(&Self::owner(principal)).is_some_and(|frames| *frames >= TURN_FRAMES)
    }

    fn note(&mut self, principal: PrincipalKey, frames: u64) {
        *self.0.entry(Self::owner(principal)).or_default() += frames;
    }
}

/// The order in which the events of a wait are handled.
#[derive(Debug)]
pub(crate) struct ReadOrder {
    /// Maximum number of events.
    events_max: usize,
    /// Positions among the events; the upstream ones first.
    order: Vec<u16>,
    /// Number of upstream ones.
    upstreams: usize,
    /// Interests to read before the upstream sockets are polled again.
    pub(super) batch: InterestBatch,
    /// Tokens of recent upstream faces and sockets, which may have become readable since the wait.
    recent: Vec<u64>,
    /// The next of them to be replaced.
    next_replaced: usize,
    /// Token of a face or socket that was not read for lack of room or because the turn of its principal was over: it comes
    /// first the next time.
    held_back: Option<u64>,
    /// Number of orders that began with any event.
    beginning: usize,
    turns: Turns,
}

impl ReadOrder {
    /// For up to `events_max` events at a time.
    pub(crate) fn new(events_max: usize) -> Self {
        Self {
            events_max,
            order: Vec::with_capacity(events_max),
            upstreams: 0,
            batch: InterestBatch::new(),
            recent: Vec::with_capacity(UPSTREAMS_MAX),
            next_replaced: 0,
            held_back: None,
            beginning: 0,
            turns: Turns(HashMap::with_capacity(events_max)),
        }
    }

    /// Orders the events of a wait, upstream ones first; of these, and of the others, the one that was held back is the first.
    /// `token` returns the token of an event.
    pub(super) fn plan(
        &mut self,
        count: usize,
        token: impl Fn(usize) -> u64,
        mut is_upstream: impl FnMut(u64) -> bool,
    ) {
        self.turns.0.clear();
        self.arrange(count, |position| is_upstream(token(position)));
        if let Some(held_back) = self.held_back.take()
            && !self.begin_with(|position| token(position) == held_back)
        {
            // More is ready than a wait returns. The kernel returns it in the same order each time.
            self.begin_anywhere();
        }
        for place in 0..self.upstreams {
            self.remember(token(self.event(place)));
        }
    }

    /// Whether principals take turns: there are many events.
    #[inline]
    pub(super) fn has_turns(&self) -> bool {
        self.order.len() > EVENTS_WITHOUT_TURNS
    }

    /// Whether the faces of a principal have brought enough since the last wait.
    pub(super) fn is_turn_over(&self, principal: PrincipalKey) -> bool {
        self.turns.is_over(principal)
    }

    /// Notes the frames that a read of a face of a principal has brought.
    pub(super) fn note_turn(&mut self, principal: PrincipalKey, frames: u64) {
        self.turns.note(principal, frames);
    }

    /// Whether the event at this place is of an upstream face or socket.
    pub(super) fn is_upstream(&self, place: usize) -> bool {
        place < self.upstreams
    }

    /// The position among the events of the one at this place of the order.
    pub(super) fn event(&self, place: usize) -> usize {
        self.order.get(place).copied().map_or(place, usize::from)
    }

    /// Token `number` of the recent upstream faces and sockets.
    pub(super) fn recent(&self, number: usize) -> Option<u64> {
        self.recent.get(number).copied()
    }

    /// Makes this face or socket be read first in the next round, unless another one comes first already.
    pub(super) fn hold_back(&mut self, token: u64) {
        self.held_back.get_or_insert(token);
    }

    /// Moves the event for which `is_first` holds before the others that are upstream, if it is, or not. Returns whether
    /// there is one.
    fn begin_with(&mut self, mut is_first: impl FnMut(usize) -> bool) -> bool {
        let (upstream, rest) = self.order.split_at_mut(self.upstreams);
        [rest, upstream].into_iter().any(|part| {
            let place = part.iter().position(|&position| is_first(usize::from(position)));
            part.rotate_left(place.unwrap_or(0));
            place.is_some()
        })
    }

    /// Begins with another event each time.
    fn begin_anywhere(&mut self) {
        self.beginning = self.beginning.wrapping_add(1);
        let (upstream, rest) = self.order.split_at_mut(self.upstreams);
        for part in [upstream, rest] {
            part.rotate_left(self.beginning % part.len().max(1));
        }
    }

    /// Orders `count` events.
    fn arrange(&mut self, count: usize, mut is_upstream: impl FnMut(usize) -> bool) {
        let count = count.min(self.events_max);
        let (order, positions) = (&mut self.order, 0..u16::try_from(count).unwrap_or(0));
        order.clear();
        order.extend(positions);
        self.upstreams = 0;
        for place in 0..count {
            if is_upstream(usize::from(order[place])) {
                // Upstream ones keep their order; of the others, it does not matter.
                order.swap(place, self.upstreams);
                self.upstreams += 1;
            }
        }
    }

    /// Adds an upstream face or socket to the recent ones.
    fn remember(&mut self, token: u64) {
        if self.recent.contains(&token) {
            return;
        }
        if self.recent.len() < UPSTREAMS_MAX {
            self.recent.push(token);
            return;
        }
        self.next_replaced = (self.next_replaced + 1) % UPSTREAMS_MAX;
        self.recent[self.next_replaced] = token;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: ReadCounts = ReadCounts { datagrams: 0, drops: 0 };
    const DATA: ReadCounts = ReadCounts { datagrams: 20, drops: 0 };
    const DROPS: ReadCounts = ReadCounts { datagrams: 20, drops: 3 };

    /// A poll that takes these reads.
    fn poll(batch: &mut InterestBatch, reads: &[ReadCounts]) {
        reads.iter().for_each(|received| batch.note(*received));
        batch.end_poll();
    }

    #[test]
    fn batch_shrinks_while_data_is_dropped_and_grows_again() {
        let mut batch = InterestBatch::new();
        (0..100).for_each(|_| poll(&mut batch, &[DATA]));
        assert_eq!(batch.packets, BATCH_MAX);
        poll(&mut batch, &[DROPS]);
        assert_eq!(batch.packets, BATCH_MAX / 2);
        (0..100).for_each(|_| poll(&mut batch, &[DROPS]));
        assert_eq!(batch.packets, BATCH_MIN);
        (0..100).for_each(|_| poll(&mut batch, &[DATA]));
        assert_eq!(batch.packets, BATCH_MAX, "and larger again");
    }

    #[test]
    fn round_is_counted_once_and_a_drop_takes_precedence() {
        let mut batch = InterestBatch { packets: 100, ..InterestBatch::new() };
        poll(&mut batch, &[NOTHING; 16]);
        poll(&mut batch, &[]);
        assert_eq!(batch.packets, 100, "nothing came");
        poll(&mut batch, &[NOTHING, DATA, DATA, NOTHING, DATA]);
        assert_eq!(batch.packets, 100 + BATCH_GROWTH);
        poll(&mut batch, &[DATA, DROPS, DATA, DROPS, DATA, NOTHING]);
        assert_eq!(batch.packets, (100 + BATCH_GROWTH) / 2);
        poll(&mut batch, &[NOTHING]);
        assert_eq!(batch.packets, (100 + BATCH_GROWTH) / 2, "a drop counts once");
    }

    #[test]
    fn batch_is_the_largest_again_when_upstream_is_silent() {
        let mut batch = InterestBatch { packets: BATCH_MIN, ..InterestBatch::new() };
        let mut rounds = |count, received: ReadCounts, has_read| {
            for _ in 0..count {
                poll(&mut batch, &[received, NOTHING]);
                batch.end_round(has_read);
            }
            batch.packets
        };
        assert_eq!(rounds(1000, NOTHING, false), BATCH_MIN, "nothing was read");
        assert_eq!(rounds(1000, DROPS, true), BATCH_MIN, "Data is still being dropped");
        assert_eq!(rounds(ROUNDS_WITHOUT_MAX - 1, NOTHING, true), BATCH_MIN);
        assert_eq!(rounds(1, DROPS, true), BATCH_MIN, "and again");
        assert_eq!(rounds(ROUNDS_WITHOUT_MAX - 1, NOTHING, true), BATCH_MIN);
        assert_eq!(rounds(1, NOTHING, true), BATCH_MAX);
    }

    #[test]
    fn recent_upstreams_are_kept_once_each_and_the_oldest_is_replaced() {
        let mut order = ReadOrder::new(512);
        for token in (0..UPSTREAMS_MAX as u64 * 3).flat_map(|token| [token; 3]) {
            order.remember(token);
            assert_eq!(order.recent.iter().filter(|one| **one == token).count(), 1);
            assert!(order.recent.len() <= UPSTREAMS_MAX);
        }
    }

    /// A thousand faces of one user are always ready, and some of other principals. Each wait returns as many of them as
    /// fit, those that were returned last at the end, as the kernel does.
    #[test]
    fn faces_of_one_user_have_one_turn_between_two_turns_of_others() {
        let user = |pid| PrincipalKey::LocalApplication { uid: 7, pid };
        let others = (0..4).map(|face_id| PrincipalKey::Neighbour { face_id });
        for (faces, is_upstream) in [(1000, false), (1000, true), (40, false), (40, true)] {
            let mut order = ReadOrder::new(512);
            let ready = (0..faces).map(user).chain(others.clone()).enumerate();
            let mut ready: std::collections::VecDeque<_> = ready.collect();
            let (mut reads, mut of_user) = (vec![0_u64; ready.len()], 0);
            for _ in 0..4000 {
                let batch: Vec<_> = ready.drain(..ready.len().min(256)).collect();
                order.plan(batch.len(), |position| batch[position].0 as u64, |_| is_upstream);
                let before = of_user;
                for place in 0..batch.len() {
                    let (number, principal) = batch[order.event(place)];
                    assert!(order.has_turns());
                    if order.is_turn_over(principal) {
                        order.hold_back(number as u64);
                        continue;
                    }
                    reads[number] += 1;
                    order.note_turn(principal, 100);
                    of_user += u64::from(principal.group() == user(1).group());
                }
                assert!(of_user - before <= TURN_FRAMES.div_ceil(100));
                ready.extend(batch);
            }
            let (of_faces, of_others) = reads.split_at(faces as usize);
            let waits = 4000 / (reads.len() as u64).div_ceil(256);
            assert!(of_others.iter().all(|reads| *reads + 1 >= waits), "{of_others:?}");
            assert!(of_faces.iter().all(|reads| *reads > 0), "{of_faces:?}");
        }
    }

    #[test]
    fn upstream_events_come_first_and_each_event_once() {
        let mut order = ReadOrder::new(512);
        for mask in 0..256_usize {
            for count in 0..=8 {
                order.arrange(count, |position| mask >> position & 1 == 1);
                let found: Vec<usize> = (0..count).map(|place| order.event(place)).collect();
                let upstream: Vec<usize> =
                    (0..count).filter(|position| mask >> position & 1 == 1).collect();
                assert_eq!(found[..order.upstreams], upstream);
                let mut sorted = found;
                sorted.sort_unstable();
                assert_eq!(sorted, (0..count).collect::<Vec<_>>());
            }
        }
    }
}

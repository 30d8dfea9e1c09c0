//! The order in which a worker reads what is ready.
//!
//! Faces and sockets that mostly bring Data and Nacks come first, and are read until they are empty: work
//! was done for each of those packets, and the kernel drops at the end of its queue whatever comes. Their
//! number is bounded by that of the Interests sent, or by a limit where a peer sends unsolicited Data.
//! Interests are read in batches, and upstream sockets are read between batches. A batch has as many
//! packets as a worker that never waits writes at a time, and shrinks while the kernel drops Data: then the
//! socket buffer is short for what a batch causes.
//!
//! Everything that is ready is read once before anything is read again. So that a thousand connections of one
//! principal do not have a thousand turns between two turns of others, the faces of each principal bring a
//! limited number of frames in a turn. The next turn begins with the first face that was not read, when a wait returns it
//! again: the kernel returns everything else that is ready before, in several waits if it is much.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use ndn_face::ReadCounts;
use ndn_types::PrincipalKey;

use super::EVENTS_PER_ROUND;

/// Interests read before the upstream sockets are read again: as many as a worker that never waits writes at a time.
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
/// Frames after which the turn of a principal is over.
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

/// The turn of a principal.
#[derive(Debug)]
struct Turn {
    /// Frames that its faces have brought.
    frames: u64,
    is_over: bool,
    /// Token of the face with which the next turn begins: the first one that was not read, or else the first one that was.
    next: u64,
    /// The wait that returned that face.
    wait: u64,
}

/// The turns of principals. Users and sites have one, whatever the number of their processes or networks.
#[derive(Debug)]
struct Turns {
    turns: HashMap<PrincipalKey, Turn>,
    /// Number of waits.
    waits: u64,
}

impl Turns {
    fn owner(principal: PrincipalKey) -> PrincipalKey {
        principal.account()
    }

    /// Begins with the events of a wait. The waits in a row of this number return everything that is ready.
    fn begin_wait(&mut self, waits_for_all: u64) {
        self.waits += 1;
        // Faces close, or are read without an event.
        if self.waits.is_multiple_of(waits_for_all) {
            self.turns.retain(|_, turn| self.waits - turn.wait <= waits_for_all);
        }
    }

    /// Whether the face of a principal with this token has a turn.
    fn has_turn(&mut self, principal: PrincipalKey, token: u64) -> bool {
        let new = Turn { frames: 0, is_over: false, next: token, wait: self.waits };
        match self.turns.entry(Self::owner(principal)) {
            Entry::Vacant(entry) => {
                entry.insert(new);
                true
            }
            Entry::Occupied(entry) => {
                let turn = entry.into_mut();
                if turn.next == token {
                    *turn = new;
                } else if turn.frames >= TURN_FRAMES && !turn.is_over {
                    *turn = Turn { frames: turn.frames, is_over: true, ..new };
                }
                !turn.is_over
            }
        }
    }

    fn is_over(&self, principal: PrincipalKey) -> bool {
        let turn = self.turns.get(&Self::owner(principal));
        turn.is_some_and(|turn| turn.frames >= TURN_FRAMES)
    }

    fn note(&mut self, principal: PrincipalKey, frames: u64) {
        if let Some(turn) = self.turns.get_mut(&Self::owner(principal)) {
            turn.frames += frames;
        }
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
    /// Token of a face or socket that was not read for lack of room: it comes first the next time.
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
            turns: Turns { turns: HashMap::with_capacity(events_max), waits: 0 },
        }
    }

    /// Orders the events of a wait, upstream ones first; of these, and of the others, the one that was held back is the first.
    /// `token` returns the token of an event. Each of this number of `faces` may be ready.
    pub(super) fn plan(
        &mut self,
        faces: usize,
        count: usize,
        token: impl Fn(usize) -> u64,
        mut is_upstream: impl FnMut(u64) -> bool,
    ) {
        let is_full = count >= EVENTS_PER_ROUND;
        // Sockets that accept connections or are shared take part of one wait more.
        self.turns.begin_wait(if is_full { faces / EVENTS_PER_ROUND + 2 } else { 1 } as u64);
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

    /// Whether it is the turn of the face of a principal with this token, which a wait has returned.
    pub(super) fn has_turn(&mut self, principal: PrincipalKey, token: u64) -> bool {
        self.turns.has_turn(principal, token)
    }

    /// Whether the faces of a principal have brought the frames of a turn.
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

    /// Faces that are always ready. Those that were returned last are at the end, as in the kernel.
    struct Ready {
        order: ReadOrder,
        faces: std::collections::VecDeque<(usize, PrincipalKey)>,
    }

    impl Ready {
        fn new(principals: impl Iterator<Item = PrincipalKey>) -> Self {
            Self { order: ReadOrder::new(512), faces: principals.enumerate().collect() }
        }

        /// Reads what a wait returns, `frames` from each face. Returns the faces that were read, and the others.
        fn read(&mut self, is_upstream: bool, frames: u64) -> [Vec<usize>; 2] {
            let Self { order, faces } = self;
            let batch: Vec<_> = faces.iter().copied().take(256).collect();
            order.plan(
                faces.len(),
                batch.len(),
                |position| batch[position].0 as u64,
                |_| is_upstream,
            );
            faces.rotate_left(batch.len());
            assert!(order.has_turns());
            let (read, unread): (Vec<_>, Vec<_>) = (0..batch.len()).partition(|&place| {
                let (token, principal) = batch[order.event(place)];
                let has_turn = order.has_turn(principal, token as u64);
                if has_turn {
                    order.note_turn(principal, frames);
                }
                has_turn
            });
            let token = |place| batch[order.event(place)].0;
            [read, unread].map(|places| places.into_iter().map(token).collect())
        }
    }

    fn faces_of_user(count: u32) -> impl Iterator<Item = PrincipalKey> {
        (0..count).map(|pid| PrincipalKey::LocalApplication { uid: 7, pid })
    }

    /// Thousands of faces of one user are always ready, and some of other principals.
    #[test]
    fn faces_of_one_user_have_one_turn_between_two_turns_of_others() {
        const WAITS: u64 = 4000;
        const READ: u64 = 20;
        for (count, is_upstream) in
            [(3000, false), (3000, true), (300, false), (300, true), (40, false), (40, true)]
        {
            let others = (0..4).map(|face_id| PrincipalKey::Neighbour { face_id });
            let mut ready = Ready::new(faces_of_user(count).chain(others));
            let all = ready.faces.len() as u64;
            let (mut reads, mut of_user) = (vec![0_u64; ready.faces.len()], 0);
            let mut before = vec![0; ready.faces.len()];
            for _ in 0..WAITS {
                let [read, _] = ready.read(is_upstream, READ);
                for face in read {
                    let is_of_user = face < count as usize;
                    reads[face] += 1;
                    of_user += u64::from(is_of_user);
                    let since = of_user - std::mem::replace(&mut before[face], of_user);
                    // A turn may begin, and the one after it, between two reads of another face.
                    assert!(is_of_user || since <= 2 * TURN_FRAMES.div_ceil(READ), "{since}");
                }
            }
            let (of_faces, of_others) = reads.split_at(count as usize);
            let waits = WAITS / all.div_ceil(256);
            assert!(of_others.iter().all(|reads| *reads + 1 >= waits), "{of_others:?}");
            // A turn that begins at the end of a wait is over in the next one.
            let turns = waits / 2 * TURN_FRAMES.div_ceil(READ) / u64::from(count);
            assert!(of_faces.iter().all(|reads| *reads >= turns.max(1)), "{turns}: {of_faces:?}");
        }
    }

    /// The next turn would begin with a face that has closed.
    #[test]
    fn turns_begin_without_faces_that_close() {
        for count in [40, 1000] {
            let mut ready = Ready::new(faces_of_user(count));
            let mut waits = 0;
            while ready.faces.len() > EVENTS_WITHOUT_TURNS {
                let [read, unread] = ready.read(false, TURN_FRAMES);
                waits = if read.is_empty() { waits + 1 } else { 0 };
                assert!(waits <= 2 * (count / 256 + 2), "{waits}");
                let next = unread.first().copied().filter(|_| !read.is_empty());
                ready.faces.retain(|(token, _)| Some(*token) != next);
            }
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

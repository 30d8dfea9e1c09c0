//! In which order a worker reads what is ready.
//!
//! Faces and sockets that mostly bring Data and Nacks come first, and are read until there is no more:
//! an answer that is lost was paid for, and the queue that it waits in belongs to the kernel, which
//! drops without looking. The number of answers is bounded by that of the Interests sent, or, where a
//! peer sends what nobody asked for, by a limit. Interests are read in portions, and the answers in
//! between. A portion is as large as a burst that is worth its system calls, and becomes smaller where
//! the kernel drops answers in the meantime: then their queue is short for what a portion brings about.

use ndn_face::ReadCounts;
use ndn_forwarding::PacketKind;
use ndn_sys::poll::{Event as PollEvent, Events};
use ndn_table::Timestamp;

use super::{COMMAND_TOKEN, EVENTS_MAX, PACKETS_PER_FLUSH, PACKETS_PER_ROUND, Worker};

/// Packets read from one upstream face in a row at most.
const ANSWERS_IN_A_ROW: usize = 4096;

/// Interests read before the answers are looked at again: as many as are written at a time.
const PORTION_MAX: usize = PACKETS_PER_FLUSH;
/// The least of them, where answers are being dropped.
const PORTION_MIN: usize = 32;
/// How much a portion grows with each look at the answers that finds some, and none dropped.
const PORTION_GROWTH: usize = 8;
/// Rounds that read something, but no answer from a UDP socket, until portions are the largest again:
/// nothing says any more that they have to be small.
const ROUNDS_WITHOUT_MAX: usize = 64;
/// Upstream faces and sockets that are looked at again in the middle of a round.
const UPSTREAMS_MAX: usize = 16;

/// How many Interests are read in a row, and what that depends on: what UDP sockets upstream tell.
/// Where the answers come by streams, the sender waits, and nothing is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Portion {
    packets: usize,
    /// What the present look at the answers has found so far.
    look: ReadCounts,
    /// A look of this round has found something.
    is_answered: bool,
    /// Rounds since one did.
    rounds_without: usize,
}

impl Portion {
    fn new() -> Self {
        let look = ReadCounts::default();
        Self { packets: PORTION_MAX, look, is_answered: false, rounds_without: 0 }
    }

    /// Something upstream has been read, as part of a look at the answers.
    fn note(&mut self, heard: ReadCounts) {
        self.look.datagrams += heard.datagrams;
        self.look.drops += heard.drops;
    }

    /// Ends a look at the answers: all that waited upstream has been read.
    fn end_look(&mut self) {
        let ReadCounts { datagrams, drops } = std::mem::take(&mut self.look);
        self.is_answered |= datagrams > 0 || drops > 0;
        self.packets = match (drops, datagrams) {
            (0, 0) => self.packets,
            (0, _) => PORTION_MAX.min(self.packets + PORTION_GROWTH),
            (_, _) => PORTION_MIN.max(self.packets / 2),
        };
    }

    /// Ends a round, which has read something or not.
    fn end_round(&mut self, has_read: bool) {
        if std::mem::take(&mut self.is_answered) {
            self.rounds_without = 0;
        } else if has_read {
            self.rounds_without += 1;
            if self.rounds_without >= ROUNDS_WITHOUT_MAX {
                (self.packets, self.rounds_without) = (PORTION_MAX, 0);
            }
        }
    }
}

/// The order in which the events of a wait are handled.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Positions among the events; the upstream ones first.
    order: Vec<u16>,
    /// How many are upstream.
    upstreams: usize,
    /// Packets of the round when the upstream ones were last read.
    read_at: usize,
    /// Interests to read before the answers are looked at again.
    portion: Portion,
    /// Tokens of what was upstream of late. It may have become readable since the wait.
    recent: Vec<u64>,
    /// The next of them to be forgotten for another one.
    next_forgotten: usize,
    /// Token of what was not read for lack of room: it comes first the next time.
    held_back: Option<u64>,
}

impl Agenda {
    pub(crate) fn new() -> Self {
        Self {
            order: Vec::with_capacity(EVENTS_MAX),
            upstreams: 0,
            read_at: 0,
            portion: Portion::new(),
            recent: Vec::with_capacity(UPSTREAMS_MAX),
            next_forgotten: 0,
            held_back: None,
        }
    }

    /// Lets the event at which `is_first` says so come before the others that are not upstream.
    fn begin_with(&mut self, mut is_first: impl FnMut(usize) -> bool) {
        let rest = self.order.get_mut(self.upstreams..).unwrap_or_default();
        let place = rest.iter().position(|&position| is_first(usize::from(position)));
        rest.rotate_left(place.unwrap_or(0));
    }

    /// Puts `count` events in order.
    fn arrange(&mut self, count: usize, mut is_upstream: impl FnMut(usize) -> bool) {
        let count = count.min(EVENTS_MAX);
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

    /// Notes what is upstream.
    fn remember(&mut self, token: u64) {
        if self.recent.contains(&token) {
            return;
        }
        if self.recent.len() < UPSTREAMS_MAX {
            self.recent.push(token);
            return;
        }
        self.next_forgotten = (self.next_forgotten + 1) % UPSTREAMS_MAX;
        self.recent[self.next_forgotten] = token;
    }

    /// Which event comes at this place.
    fn event(&self, place: usize) -> usize {
        self.order.get(place).copied().map_or(place, usize::from)
    }
}

impl Worker {
    /// Puts the events of a wait in order.
    pub(super) fn plan(&mut self, events: &Events) {
        let Self { agenda, faces, overload, .. } = self;
        let is_face = |token: u64| token < COMMAND_TOKEN;
        let answers_first = overload.answers_first();
        agenda.arrange(events.len(), |position| {
            let token = events.event(position).token;
            answers_first && is_face(token) && faces.is_upstream(token)
        });
        if let Some(token) = agenda.held_back.take() {
            agenda.begin_with(|position| events.event(position).token == token);
        }
        for place in 0..agenda.upstreams {
            agenda.remember(events.event(agenda.event(place)).token);
        }
    }

    /// Reads what is ready, until enough has been read for a round.
    pub(super) fn receive_ready(&mut self, now: Timestamp, events: &Events) {
        self.agenda.read_at = 0;
        self.state.held_back = false;
        let seen = self.state.packets + self.burst.len();
        while self.state.next_event < events.len() && self.state.packets < PACKETS_PER_ROUND {
            let place = self.state.next_event;
            let event = events.event(self.agenda.event(place));
            self.state.next_event += 1;
            if event.token >= COMMAND_TOKEN {
                continue;
            }
            let is_upstream = place < self.agenda.upstreams;
            let kind = if is_upstream { PacketKind::Data } else { PacketKind::Interest };
            if event.readable && self.holds_back(now, kind) {
                self.state.held_back = true;
                if !is_upstream {
                    self.agenda.held_back.get_or_insert(event.token);
                }
                // It comes again, but what waits to be sent need not wait.
                if event.writable {
                    self.receive(now, &PollEvent { readable: false, ..event });
                }
                continue;
            }
            if is_upstream {
                self.receive_all(now, &event);
                self.agenda.read_at = self.state.packets;
                continue;
            }
            // The first look, if it found anything; none has been begun since another one.
            self.end_look();
            self.receive_once(now, &event);
            if self.state.packets - self.agenda.read_at >= self.agenda.portion.packets {
                self.receive_answers(now);
            }
        }
        self.end_look();
        self.agenda.portion.end_round(self.state.packets + self.burst.len() > seen);
        self.faces.set_frames_per_event(self.agenda.portion.packets);
    }

    /// Reads all that there is, within a limit.
    fn receive_all(&mut self, now: Timestamp, event: &PollEvent) {
        let end = self.state.packets + ANSWERS_IN_A_ROW;
        loop {
            self.receive_once(now, event);
            self.agenda.portion.note(self.faces.read_counts());
            if !self.faces.has_more() || self.state.starved || self.state.packets >= end {
                return;
            }
            if self.holds_back(now, PacketKind::Data) {
                self.state.held_back = true;
                return;
            }
        }
    }

    /// Takes the answers that have come since the round began.
    fn receive_answers(&mut self, now: Timestamp) {
        self.state.has_crossed |= self.trade(now);
        for place in 0..self.agenda.recent.len() {
            let Some(&token) = self.agenda.recent.get(place) else { break };
            // It may be another connection by now.
            if self.faces.is_upstream(token) {
                let readable = PollEvent { token, readable: true, writable: false, closed: false };
                self.receive_all(now, &readable);
            }
        }
        self.end_look();
        self.agenda.read_at = self.state.packets;
    }

    /// Goes by what a look at the answers has found, if it has found any.
    fn end_look(&mut self) {
        self.agenda.portion.end_look();
        self.faces.set_frames_per_event(self.agenda.portion.packets);
    }

    /// Reads once, and notes what the face or socket has brought last, if it has brought anything.
    fn receive_once(&mut self, now: Timestamp, event: &PollEvent) {
        let seen = self.state.packets + self.burst.len();
        self.receive(now, event);
        if self.state.packets + self.burst.len() > seen
            && let Some(kind) = self.last_kind()
        {
            self.faces.note_direction(event.token, kind != PacketKind::Interest);
        }
    }

    /// Kind of the last packet of the burst.
    pub(super) fn last_kind(&self) -> Option<PacketKind> {
        self.burst.len().checked_sub(1).map(|last| self.burst.kind(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: ReadCounts = ReadCounts { datagrams: 0, drops: 0 };
    const ANSWERS: ReadCounts = ReadCounts { datagrams: 20, drops: 0 };
    const LOSS: ReadCounts = ReadCounts { datagrams: 20, drops: 3 };

    /// A look at the answers that took so many reads.
    fn look(portion: &mut Portion, reads: &[ReadCounts]) {
        reads.iter().for_each(|heard| portion.note(*heard));
        portion.end_look();
    }

    #[test]
    fn portions_become_smaller_while_answers_are_dropped() {
        let mut portion = Portion::new();
        (0..100).for_each(|_| look(&mut portion, &[ANSWERS]));
        assert_eq!(portion.packets, PORTION_MAX);
        look(&mut portion, &[LOSS]);
        assert_eq!(portion.packets, PORTION_MAX / 2);
        (0..100).for_each(|_| look(&mut portion, &[LOSS]));
        assert_eq!(portion.packets, PORTION_MIN);
        (0..100).for_each(|_| look(&mut portion, &[ANSWERS]));
        assert_eq!(portion.packets, PORTION_MAX, "and larger again");
    }

    /// However many reads a look takes, and however many of them find nothing.
    #[test]
    fn a_look_counts_once_and_a_loss_in_it_wins() {
        let mut portion = Portion { packets: 100, ..Portion::new() };
        look(&mut portion, &[NOTHING; 16]);
        look(&mut portion, &[]);
        assert_eq!(portion.packets, 100, "nothing came");
        look(&mut portion, &[NOTHING, ANSWERS, ANSWERS, NOTHING, ANSWERS]);
        assert_eq!(portion.packets, 100 + PORTION_GROWTH);
        look(&mut portion, &[ANSWERS, LOSS, ANSWERS, LOSS, ANSWERS, NOTHING]);
        assert_eq!(portion.packets, (100 + PORTION_GROWTH) / 2);
        look(&mut portion, &[NOTHING]);
        assert_eq!(portion.packets, (100 + PORTION_GROWTH) / 2, "a loss is told once");
    }

    #[test]
    fn portions_are_the_largest_again_when_answers_stop() {
        let mut portion = Portion { packets: PORTION_MIN, ..Portion::new() };
        let mut rounds = |count, heard: ReadCounts, has_read| {
            for _ in 0..count {
                look(&mut portion, &[heard, NOTHING]);
                portion.end_round(has_read);
            }
            portion.packets
        };
        assert_eq!(rounds(1000, NOTHING, false), PORTION_MIN, "nobody asks for anything either");
        assert_eq!(rounds(1000, LOSS, true), PORTION_MIN, "they are still being dropped");
        assert_eq!(rounds(ROUNDS_WITHOUT_MAX - 1, NOTHING, true), PORTION_MIN);
        assert_eq!(rounds(1, LOSS, true), PORTION_MIN, "and again");
        assert_eq!(rounds(ROUNDS_WITHOUT_MAX - 1, NOTHING, true), PORTION_MIN);
        assert_eq!(rounds(1, NOTHING, true), PORTION_MAX);
    }

    #[test]
    fn what_is_upstream_is_remembered_once_and_the_newest_always() {
        let mut agenda = Agenda::new();
        for token in (0..UPSTREAMS_MAX as u64 * 3).flat_map(|token| [token; 3]) {
            agenda.remember(token);
            assert_eq!(agenda.recent.iter().filter(|one| **one == token).count(), 1);
            assert!(agenda.recent.len() <= UPSTREAMS_MAX);
        }
    }

    #[test]
    fn upstream_events_come_first_and_each_event_once() {
        let mut agenda = Agenda::new();
        for mask in 0..256_usize {
            for count in 0..=8 {
                agenda.arrange(count, |position| mask >> position & 1 == 1);
                let order: Vec<usize> = (0..count).map(|place| agenda.event(place)).collect();
                let upstream: Vec<usize> =
                    (0..count).filter(|position| mask >> position & 1 == 1).collect();
                assert_eq!(order[..agenda.upstreams], upstream);
                let mut sorted = order;
                sorted.sort_unstable();
                assert_eq!(sorted, (0..count).collect::<Vec<_>>());
            }
        }
    }
}

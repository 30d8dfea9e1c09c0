//! Queues of the fast engine, with the packets that are on their way to them.

use super::packet::{Form, NEVER, Packet};
use crate::codel::Codel;
use crate::network::{self, CodelReset, Kind, QueueManagement, QueueRecord, Shed, Stage, order};

/// Places of a new ring. With assertions it begins small, so that tests reach its growth.
const RING_PLACES: usize = if cfg!(debug_assertions) { 2 } else { 128 };

/// A queue and, behind its packets in the same ring, those that will arrive: in order of time, at one instant in
/// order of where they come from. What it accepts and drops is decided when it is served: until then it only grows.
#[derive(Debug)]
pub(super) struct Queue {
    /// Its number in the network.
    pub id: usize,
    /// The station that polls it.
    pub station: usize,
    pub stage: Stage,
    pub class: u8,
    /// Its position at the station.
    pub position: usize,
    pub burst: usize,
    capacity: usize,
    full_at: usize,
    /// Management takes notice of packets that waited as long as this.
    target_ps: u64,
    manager: Option<Manager>,
    pub record: QueueRecord,
    /// Each length above all before; kept where it is asked for.
    pub peaks: Option<Vec<Peak>>,
    /// Packets that it has accepted and that have not left.
    length: usize,
    /// A power of two.
    ring: Vec<Packet>,
    /// Positions in the ring, which rise without end: the first packet, the first that has not arrived, the end.
    head: usize,
    arrived: usize,
    end: usize,
}

/// A length of a queue above all before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peak {
    /// The length.
    pub length: usize,
    /// The poll that found it.
    pub time_ps: u64,
    /// The Interests, or their answers, that wait then, with the [`order`] of their next
    /// random number.
    pub waiting: Vec<(u32, u8)>,
}

/// CoDel on a queue.
#[derive(Debug)]
struct Manager {
    spec: QueueManagement,
    reset: CodelReset,
    marks: Option<Codel>,
    sheds: Option<Codel>,
    /// The shortest of their targets.
    target_ps: u64,
    /// Whether no controller has seen a packet that waited too long since it was reset.
    is_calm: bool,
}

/// The verdict of queue management on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Pass,
    Mark,
    Refuse,
    Drop,
}

impl Queue {
    pub(super) fn new(id: usize, station: usize, position: usize, spec: &network::Queue) -> Self {
        let manager = spec.management.map(|management| Manager::new(management, spec.reset));
        Self {
            id,
            station,
            stage: spec.stage,
            class: spec.class,
            position,
            burst: spec.burst,
            capacity: spec.capacity,
            full_at: spec.full_at.unwrap_or(usize::MAX),
            target_ps: manager.as_ref().map_or(NEVER, Manager::noticed_ps),
            manager,
            record: QueueRecord::default(),
            peaks: None,
            length: 0,
            ring: vec![Packet::NONE; RING_PLACES],
            head: 0,
            arrived: 0,
            end: 0,
        }
    }

    pub(super) fn reset(&mut self) {
        self.record = QueueRecord::default();
        self.peaks.iter_mut().for_each(Vec::clear);
        (self.length, self.head, self.arrived, self.end) = (0, 0, 0, 0);
        if let Some(manager) = &mut self.manager {
            *manager = Manager::new(manager.spec, manager.reset);
            self.target_ps = manager.noticed_ps();
        }
    }

    /// Adds a packet that arrives at its time, which is not before the last poll.
    #[inline]
    pub(super) fn push(&mut self, packet: Packet) {
        if self.end - self.head == self.ring.len() {
            self.grow();
        }
        let mask = self.ring.len() - 1;
        let mut place = self.end;
        while place > self.arrived {
            let before = self.ring[(place - 1) & mask];
            if !packet.is_before(before) {
                break;
            }
            self.ring[place & mask] = before;
            place -= 1;
        }
        self.ring[place & mask] = packet;
        self.end += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let mask = self.ring.len() - 1;
        let mut ring: Vec<Packet> =
            (self.head..self.end).map(|place| self.ring[place & mask]).collect();
        (self.arrived, self.end) = (self.arrived - self.head, self.end - self.head);
        self.head = 0;
        ring.resize(2 * self.ring.len(), Packet::NONE);
        self.ring = ring;
    }

    /// When a station that is free finds packets in it: 0 if some wait.
    #[inline]
    pub(super) fn ready_ps(&self) -> u64 {
        if self.length > 0 {
            0
        } else if self.arrived < self.end {
            self.ring[self.arrived & (self.ring.len() - 1)].time_ps
        } else {
            NEVER
        }
    }

    /// Accepts what arrives until `now_ps`, as far as there is room; `dropped` gets the others. Returns how many
    /// packets are in the queue.
    #[inline]
    pub(super) fn admit(&mut self, now_ps: u64, mut dropped: impl FnMut(usize, Packet)) -> usize {
        let mask = self.ring.len() - 1;
        let before = self.length;
        while self.arrived < self.end {
            let packet = self.ring[self.arrived & mask];
            if packet.time_ps > now_ps {
                break;
            }
            if self.length < self.capacity {
                self.length += 1;
            } else {
                self.record.dropped += 1;
                dropped(self.id, packet);
                self.ring[self.arrived & mask] = packet.with_form(Form::GONE);
            }
            self.arrived += 1;
        }
        self.record.entered += (self.length - before) as u64;
        if self.length > self.record.length_max {
            self.record.length_max = self.length;
            self.note_peak(now_ps);
        }
        self.length
    }

    #[inline(never)]
    fn note_peak(&mut self, time_ps: u64) {
        let Some(peaks) = &mut self.peaks else { return };
        let mask = self.ring.len() - 1;
        let waiting = (self.head..self.arrived).map(|place| self.ring[place & mask]);
        let waiting = waiting.filter(|packet| packet.form() != Form::GONE);
        let order = |packet: Packet| order::service(self.stage, packet.form().kind());
        let waiting = waiting.map(|packet| (packet.id(), order(packet))).collect();
        peaks.push(Peak { length: self.length, time_ps, waiting });
    }

    /// Takes the packet that has arrived by `now_ps` if it is the only one and management takes no notice of it: the
    /// usual case, without what bursts need.
    #[inline]
    pub(super) fn take_only(&mut self, now_ps: u64) -> Option<Packet> {
        let mask = self.ring.len() - 1;
        let next = self.arrived + 1;
        let is_only = next == self.end || self.ring[next & mask].time_ps > now_ps;
        if self.length != 0 || !is_only {
            return None;
        }
        let packet = self.ring[self.arrived & mask];
        let sojourn_ps = now_ps - packet.time_ps;
        if self.is_noticed(sojourn_ps, self.is_full(1)) {
            return None;
        }
        self.record.entered += 1;
        self.record.length_max = self.record.length_max.max(1);
        self.record.waited_ps += u128::from(sojourn_ps);
        // Those before it were dropped.
        (self.head, self.arrived) = (next, next);
        self.rewind();
        Some(packet)
    }

    /// Takes the first of the packets that were admitted and not dropped.
    #[inline]
    pub(super) fn pop(&mut self) -> Packet {
        let mask = self.ring.len() - 1;
        self.length -= 1;
        loop {
            let packet = self.ring[self.head & mask];
            self.head += 1;
            if packet.form() != Form::GONE {
                return packet;
            }
        }
    }

    /// Uses the beginning of the ring again if nothing is left: it stays in the processor's cache.
    #[inline]
    pub(super) const fn rewind(&mut self) {
        if self.length == 0 && self.arrived == self.end {
            (self.head, self.arrived, self.end) = (0, 0, 0);
        }
    }

    /// Whether management may do anything about a packet that waited for this time.
    #[inline]
    pub(super) const fn is_noticed(&self, sojourn_ps: u64, is_full: bool) -> bool {
        sojourn_ps >= self.target_ps || is_full
    }

    /// Management of a packet that leaves. `is_full`: all packets count as late. Also returns
    /// whether the controllers are calm now.
    pub(super) fn manage(
        &mut self,
        packet: Packet,
        now_ps: u64,
        is_full: bool,
    ) -> (Decision, bool) {
        let is_empty = self.length == 0;
        let Some(manager) = &mut self.manager else { return (Decision::Pass, true) };
        let sojourn_ps = now_ps - packet.time_ps;
        let decision = manager.decide(packet.form(), now_ps, sojourn_ps, is_empty, is_full);
        self.target_ps = manager.noticed_ps();
        (decision, manager.is_calm)
    }

    /// A poll, or one since the last packet left, found the queue empty.
    pub(super) fn note_empty_poll(&mut self) {
        if let Some(manager) = &mut self.manager {
            manager.note_empty_poll();
            self.target_ps = manager.noticed_ps();
        }
    }

    pub(super) fn is_calm(&self) -> bool {
        self.manager.as_ref().is_none_or(|manager| manager.is_calm)
    }

    /// Whether a poll that finds `length` packets regards them as late.
    #[inline]
    pub(super) const fn is_full(&self, length: usize) -> bool {
        length >= self.full_at
    }
}

impl Manager {
    fn new(spec: QueueManagement, reset: CodelReset) -> Self {
        let codel = |after_ps: u64| Codel::new(after_ps, spec.interval_ps);
        let shed_after_ps = spec.shed_after_ps.map(|(after_ps, _)| after_ps);
        Self {
            spec,
            reset,
            marks: spec.mark_after_ps.map(codel),
            sheds: shed_after_ps.map(codel),
            target_ps: spec.mark_after_ps.unwrap_or(NEVER).min(shed_after_ps.unwrap_or(NEVER)),
            is_calm: true,
        }
    }

    fn note_empty_poll(&mut self) {
        if !self.is_calm && self.reset == CodelReset::EmptyPoll {
            self.marks.iter_mut().chain(&mut self.sheds).for_each(Codel::note_empty);
            self.is_calm = true;
        }
    }

    /// Calm controllers do not change by packets that waited less; others do by each.
    fn noticed_ps(&self) -> u64 {
        if self.is_calm { self.target_ps } else { 0 }
    }

    /// A packet of this form leaves the queue. `is_empty`: it is the last one.
    fn decide(
        &mut self,
        form: Form,
        now_ps: u64,
        mut sojourn_ps: u64,
        is_empty: bool,
        is_full: bool,
    ) -> Decision {
        let is_last = self.reset == CodelReset::LastPacket && is_empty;
        if let (true, Some((after_ps, _))) = (is_full, self.spec.shed_after_ps) {
            sojourn_ps = sojourn_ps.max(after_ps);
        }
        let signals = |codel: &mut Option<Codel>| {
            codel.as_mut().is_some_and(|codel| codel.leave(now_ps, sojourn_ps, is_last))
        };
        let marks = signals(&mut self.marks);
        let sheds = form == Form::new(Kind::Interest) && signals(&mut self.sheds);
        self.is_calm = self.marks.iter().chain(&self.sheds).all(Codel::is_calm);
        match (sheds, self.spec.shed_after_ps) {
            (true, Some((_, Shed::Drop))) => Decision::Drop,
            (true, Some((_, Shed::Nack))) => Decision::Refuse,
            _ if marks => Decision::Mark,
            _ => Decision::Pass,
        }
    }
}

//! Eviction from the Content Store: queues, timers, and the cursors that run ahead.

use super::CsPolicy;
use super::cs::Cs;
use super::cs_entry::{QUEUE_KINDS, QueueKind};
use crate::Timestamp;
use crate::arena::NONE;
use crate::hash_index::HashIndex;
use crate::timer_wheel::Step;

/// Records in the timer wheel for one slot at most (priority FIFO).
pub(super) const TIMERS_PER_ENTRY_MAX: u8 = 2;

/// No record of the wheel lies further ahead. A longer freshness is reached in several steps, so
/// that an entry that already has [`TIMERS_PER_ENTRY_MAX`] records is found stale at most this late.
const TIMER_AHEAD_MAX_NANOS: u64 = 64_000_000_000;

/// How far ahead of the eviction the lines of the victims are asked for, in evictions: first the
/// header, then what the header leads to.
const HEADER_AHEAD: u32 = 24;
const LINES_AHEAD: u32 = 12;

impl Cs {
    #[inline]
    pub(super) fn enqueue(&mut self, place: u32, solicited: bool, now: Timestamp) {
        let kind = match self.policy {
            CsPolicy::Lru => QueueKind::Main,
            CsPolicy::PriorityFifo if !solicited => QueueKind::Unsolicited,
            CsPolicy::PriorityFifo if !self.entries[place].is_fresh(now) => QueueKind::Stale,
            CsPolicy::PriorityFifo => {
                self.schedule_stale(place, now);
                QueueKind::Main
            }
        };
        self.queues.push(&mut self.entries, place, kind);
    }

    pub(super) fn requeue(&mut self, place: u32, kind: QueueKind) {
        self.forget_cursor(place);
        self.queues.unlink(&mut self.entries, place);
        self.queues.push(&mut self.entries, place, kind);
    }

    fn schedule_stale(&mut self, place: u32, now: Timestamp) {
        let entry = &mut self.entries[place];
        let deadline = entry.fresh_until.plus_nanos(1).min(now.plus_nanos(TIMER_AHEAD_MAX_NANOS));
        if entry.timer_count < TIMERS_PER_ENTRY_MAX
            && self.wheel.schedule(u64::from(place), deadline).is_ok()
        {
            entry.timer_count += 1;
        }
    }

    /// Evicts the next victim; false when the store is empty.
    #[inline]
    pub(super) fn evict(&mut self, index: &mut HashIndex) -> bool {
        let Some(victim) = self.queues.victim() else { return false };
        self.counters.evictions += 1;
        self.remove(index, victim);
        true
    }

    /// Takes an entry out of everything and frees its memory.
    #[inline]
    pub(super) fn remove(&mut self, index: &mut HashIndex, place: u32) {
        self.forget_cursor(place);
        self.queues.unlink(&mut self.entries, place);
        self.tree.unlink(&mut self.entries, place);
        let entry = &mut self.entries[place];
        entry.is_in_use = false;
        let removed = index.remove(entry.hash, place);
        debug_assert!(removed);
        self.blocks.release(entry.block);
        self.entries.release(place);
    }

    /// Gives back the block that was kept for the next Data.
    pub(super) fn end_burst(&mut self) {
        self.blocks.release_spare();
    }

    /// Moves entries whose freshness has run out, and evicts what is above the capacity, in at
    /// most `limit` steps; whether more is to do.
    pub(super) fn poll(&mut self, index: &mut HashIndex, now: Timestamp, limit: usize) -> bool {
        for _ in 0..limit {
            let is_above = self.entries.len() > self.capacity || self.blocks.is_over_limit();
            if is_above && self.evict(index) {
                self.blocks.release_spare();
                continue;
            }
            match self.wheel.step(now) {
                Step::Record(key, _) => self.on_timer(key, now),
                Step::Moved => {}
                Step::Nothing => return false,
            }
        }
        true
    }

    fn on_timer(&mut self, key: u64, now: Timestamp) {
        let Ok(place) = u32::try_from(key) else { return };
        let entry = &mut self.entries[place];
        entry.timer_count -= 1;
        if !entry.is_in_use || entry.queue != QueueKind::Main {
            return;
        }
        if entry.is_fresh(now) {
            self.schedule_stale(place, now);
        } else {
            self.requeue(place, QueueKind::Stale);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.wheel.next_deadline()
    }

    /// One step of the cursors that run ahead of the eviction: by the time an entry is the victim,
    /// its header, its bucket and its neighbours have been asked for long ago.
    #[inline]
    pub(super) fn look_ahead(&mut self, index: &HashIndex) {
        if self.entries.len() + 1 < self.capacity && !self.blocks.is_over_limit() {
            return;
        }
        if self.header_cursor == NONE || self.lines_cursor == NONE {
            self.place_cursors();
            return;
        }
        self.header_cursor = self.entries[self.header_cursor].newer;
        if self.header_cursor != NONE {
            let next = self.entries[self.header_cursor].newer;
            self.prefetch(next);
        }
        let entry = &self.entries[self.lines_cursor];
        index.prefetch(entry.hash);
        self.tree.prefetch_node(entry.node);
        if entry.is_filed {
            self.tree.index.prefetch(entry.edge);
        }
        self.prefetch(entry.sibling_newer);
        // The next Data is written where the victim lies.
        for line in 0..usize::from(entry.wire_length).div_ceil(64) {
            self.blocks.prefetch(entry.block, line);
        }
        self.lines_cursor = entry.newer;
    }

    #[cold]
    fn place_cursors(&mut self) {
        let Some(victim) = self.queues.victim() else { return };
        let mut place = victim;
        for distance in 0..HEADER_AHEAD {
            if distance == LINES_AHEAD {
                self.lines_cursor = place;
            }
            if place != NONE {
                place = self.entries[place].newer;
            }
        }
        self.header_cursor = place;
    }

    /// An entry leaves its place in the queue: a cursor there is lost, and both start again.
    #[inline]
    pub(super) fn forget_cursor(&mut self, place: u32) {
        if place == self.header_cursor || place == self.lines_cursor {
            self.header_cursor = NONE;
            self.lines_cursor = NONE;
        }
    }

    /// Every packet in the order of eviction.
    pub(super) fn packets(&self) -> impl Iterator<Item = &[u8]> {
        QUEUE_KINDS.into_iter().flat_map(|kind| {
            let oldest = self.queues.queue(kind).oldest;
            let follow = |place: &u32| Some(self.entries[*place].newer).filter(|&p| p != NONE);
            std::iter::successors(Some(oldest).filter(|&place| place != NONE), follow)
                .map(|place| self.packet(place))
        })
    }

    /// Lengths of the queues: unsolicited, stale, main.
    pub(super) fn queue_lengths(&self) -> [u32; 3] {
        QUEUE_KINDS.map(|kind| self.queues.queue(kind).len)
    }
}

//! The closed loop: outstanding exchanges with their start times, and outcomes of the others.

use hdrhistogram::Histogram;

/// Longest latency that the histogram holds, in nanoseconds.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// One slot of the window.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    sequence: u64,
    sent_ns: u64,
    outstanding: bool,
}

/// Counters of the loop since the last reset.
#[derive(Debug)]
pub(super) struct Tally {
    /// Exchanges satisfied by Data.
    pub(super) satisfied: u64,
    /// Exchanges ended by a Nack.
    pub(super) nacked: u64,
    /// Exchanges that timed out.
    pub(super) lost: u64,
    /// Latency of the satisfied exchanges, in nanoseconds.
    pub(super) latency_ns: Histogram<u64>,
}

impl Tally {
    fn new() -> Self {
        let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
            .unwrap_or_else(|_| unreachable!("the bounds are valid constants"));
        Self { satisfied: 0, nacked: 0, lost: 0, latency_ns }
    }
}

/// A window of exchanges spread round robin over faces: slot `s` belongs to face `s % faces`.
#[derive(Debug)]
pub(super) struct Window {
    slots: Vec<Slot>,
    free: Vec<u32>,
    next_sequence: u64,
    oldest_check: usize,
    tally: Tally,
}

impl Window {
    /// `size` exchanges in flight; the first sequence is `first`.
    pub(super) fn new(size: u32, first: u64) -> Self {
        Self {
            slots: vec![Slot::default(); size as usize],
            free: (0..size).rev().collect(),
            next_sequence: first,
            oldest_check: 0,
            tally: Tally::new(),
        }
    }

    /// Takes a free slot and a fresh sequence, if the window has room.
    pub(super) fn open(&mut self, now_ns: u64) -> Option<(u32, u64)> {
        let slot = self.free.pop()?;
        let sequence = ndn_types::random::mix(self.next_sequence);
        self.next_sequence += 1;
        self.slots[slot as usize] = Slot { sequence, sent_ns: now_ns, outstanding: true };
        Some((slot, sequence))
    }

    /// Ends an exchange; false when it is not (or no longer) outstanding.
    pub(super) fn close(&mut self, slot: u32, sequence: u64, nack: bool, now_ns: u64) -> bool {
        let Some(entry) = self.slots.get_mut(slot as usize) else { return false };
        if !entry.outstanding || entry.sequence != sequence {
            return false;
        }
        entry.outstanding = false;
        self.free.push(slot);
        if nack {
            self.tally.nacked += 1;
        } else {
            self.tally.satisfied += 1;
            self.tally.latency_ns.saturating_record((now_ns - entry.sent_ns).max(1));
        }
        true
    }

    /// Ends exchanges older than `timeout_ns`; checks a bounded part of the window per call.
    pub(super) fn expire(&mut self, now_ns: u64, timeout_ns: u64) {
        for _ in 0..self.slots.len().min(256) {
            let index = self.oldest_check % self.slots.len();
            self.oldest_check = index + 1;
            let slot = &mut self.slots[index];
            if slot.outstanding && now_ns.saturating_sub(slot.sent_ns) > timeout_ns {
                slot.outstanding = false;
                self.tally.lost += 1;
                self.free.push(u32::try_from(index).unwrap_or(u32::MAX));
            }
        }
    }

    /// Exchanges opened so far, including those before the last reset.
    pub(super) fn opened(&self) -> u64 {
        self.next_sequence
    }

    /// Maximum exchanges in flight.
    pub(super) fn size(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Exchanges that have ended since the last [`take_tally`](Self::take_tally).
    pub(super) fn ended(&self) -> u64 {
        self.tally.satisfied + self.tally.nacked + self.tally.lost
    }

    /// Resets the counters and returns their values.
    pub(super) fn take_tally(&mut self) -> Tally {
        std::mem::replace(&mut self.tally, Tally::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_keeps_its_size_and_ends_each_exchange_once() {
        let mut window = Window::new(2, 0);
        let (a, first) = window.open(10).unwrap();
        let (b, second) = window.open(11).unwrap();
        assert!(window.open(12).is_none());
        assert!(window.close(a, first, false, 110));
        assert!(!window.close(a, first, false, 111), "ended twice");
        assert!(!window.close(b, first, false, 111), "wrong sequence");
        assert!(window.close(b, second, true, 112));
        let tally = window.take_tally();
        assert_eq!((tally.satisfied, tally.nacked, tally.lost), (1, 1, 0));
        assert!(tally.latency_ns.max() >= 100);
    }

    #[test]
    fn unanswered_exchange_is_lost_once() {
        let mut window = Window::new(1, 0);
        let (slot, sequence) = window.open(0).unwrap();
        window.expire(50, 100);
        assert!(window.open(60).is_none());
        window.expire(101, 100);
        assert!(!window.close(slot, sequence, false, 102));
        assert!(window.open(103).is_some());
        assert_eq!(window.take_tally().lost, 1);
    }
}

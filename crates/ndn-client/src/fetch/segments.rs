//! State of each segment: a window of slots that advances as its first segments are received.

use std::collections::VecDeque;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// Outstanding.
    InFlight,
    /// To be sent, for the first time or again.
    Waiting,
    Received,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) status: Status,
    /// Number of transmissions.
    pub(super) attempts: u32,
    /// Number of Nacks, without those of an outage.
    pub(super) nacks: u32,
    /// Number of answers that failed verification.
    pub(super) refused: u32,
    /// Whether the last of them was an application Nack.
    pub(super) refused_nack: bool,
    /// Sequence number and time of the last transmission.
    pub(super) sequence: u64,
    pub(super) sent_at: Duration,
    /// The first transmission since an answer.
    pub(super) unanswered_since: Option<Duration>,
    /// Sequence number and time of the last transmission declared lost.
    pub(super) given_up: Option<(u64, Duration)>,
}

/// Slots of the segments `base..next`. All before `base` were received, none from `next` on was
/// requested.
#[derive(Debug)]
pub(super) struct Segments {
    slots: VecDeque<Slot>,
    base: u64,
    next: u64,
    in_flight: usize,
}

impl Segments {
    pub(super) fn new(first: u64) -> Self {
        Self { slots: VecDeque::new(), base: first, next: first, in_flight: 0 }
    }

    /// First segment not received.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// First segment without a slot.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn index(&self, segment: u64) -> Option<usize> {
        usize::try_from(segment.checked_sub(self.base)?).ok()
    }

    pub(super) fn slot(&self, segment: u64) -> Option<&Slot> {
        self.slots.get(self.index(segment)?)
    }

    /// Changes the slot of `segment`, if it exists, and returns its previous value.
    pub(super) fn update(&mut self, segment: u64, change: impl FnOnce(&mut Slot)) -> Option<Slot> {
        let index = self.index(segment)?;
        let slot = self.slots.get_mut(index)?;
        let before = *slot;
        change(slot);
        self.in_flight += usize::from(slot.status == Status::InFlight);
        self.in_flight -= usize::from(before.status == Status::InFlight);
        self.drop_received_front();
        Some(before)
    }

    /// Adds the slot of the next segment.
    pub(super) fn push(&mut self, status: Status) {
        let slot = Slot {
            status,
            attempts: 0,
            nacks: 0,
            refused: 0,
            refused_nack: false,
            sequence: 0,
            sent_at: Duration::ZERO,
            unanswered_since: None,
            given_up: None,
        };
        self.slots.push_back(slot);
        self.next += 1;
        self.drop_received_front();
    }

    /// Removes the segments from `end` on.
    pub(super) fn truncate(&mut self, end: u64) {
        while self.next > end.max(self.base) {
            let removed = self.slots.pop_back();
            let in_flight = removed.is_some_and(|slot| slot.status == Status::InFlight);
            self.in_flight -= usize::from(in_flight);
            self.next -= 1;
        }
    }

    /// Whether any segment from `end` on was received.
    pub(super) fn received_from(&self, end: u64) -> bool {
        let from = usize::try_from(end.saturating_sub(self.base)).unwrap_or(usize::MAX);
        self.base > end || self.slots.iter().skip(from).any(|slot| slot.status == Status::Received)
    }

    fn drop_received_front(&mut self) {
        while self.slots.front().is_some_and(|slot| slot.status == Status::Received) {
            self.slots.pop_front();
            self.base += 1;
        }
    }
}

//! A notification stream (NFD wiki, `Notification`): Data `<prefix>/seq=<n>`, one per event.
//!
//! A subscriber requests the prefix and then one sequence number after the other. The Interest for the next number is pending
//! in the PIT until the event occurs, so that a stream sends each Data once, and keeps a few for late subscribers. Without
//! such an Interest the Data would be unsolicited, and is not sent.

use std::collections::VecDeque;

use ndn_packet::{ComponentType, DataBuilder, Interest, Name};
use ndn_types::{Now, Timestamp};

use crate::publisher::{FRESHNESS, FRESHNESS_MS};

/// One notification, ready to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// With the sequence number.
    pub name: Name,
    /// One block.
    pub content: Vec<u8>,
    made_at: Timestamp,
}

impl Notification {
    /// The Data to be signed.
    #[must_use]
    pub fn data(&self) -> DataBuilder<'_> {
        DataBuilder::new(&self.name).freshness_ms(FRESHNESS_MS).content(&self.content)
    }
}

/// Numbers the events of one stream and keeps the last few.
#[derive(Debug)]
pub struct NotificationStream {
    prefix: Name,
    next_sequence_num: u64,
    /// One more than the greatest number that an Interest has requested before its event.
    awaited_end: u64,
    recent: VecDeque<Notification>,
    recent_max: usize,
}

impl NotificationStream {
    /// Notifications kept by default.
    pub const RECENT_MAX_DEFAULT: usize = 256;

    /// A stream under `prefix` that keeps the last `recent_max` notifications (at least one).
    #[must_use]
    pub const fn new(prefix: Name, recent_max: usize) -> Self {
        Self { prefix, next_sequence_num: 0, awaited_end: 0, recent: VecDeque::new(), recent_max }
    }

    /// Adds the next notification, and returns it if an Interest for it, or for a later one, was here before.
    pub fn post(&mut self, now: Now, content: Vec<u8>) -> Option<&Notification> {
        let is_awaited = self.next_sequence_num < self.awaited_end;
        let mut name = self.prefix.clone();
        name.push_sequence_num(self.next_sequence_num);
        self.next_sequence_num += 1;
        if self.recent.len() >= self.recent_max.max(1) {
            self.recent.pop_front();
        }
        self.recent.push_back(Notification { name, content, made_at: now.monotonic });
        self.recent.back().filter(|_| is_awaited)
    }

    /// The kept notification that answers `interest`: the one with its number, or for the prefix
    /// the latest, if it is still fresh or need not be. If there is none, a coming one that answers
    /// it is sent ([`Self::post`]).
    #[must_use]
    pub fn find(&mut self, now: Now, interest: &Interest<'_>) -> Option<&Notification> {
        let name = interest.name();
        let rest =
            name.starts_with(self.prefix.as_ref()).then(|| name.suffix(self.prefix.len()))?;
        let (found, awaited) = match rest.last() {
            None if interest.can_be_prefix() => {
                (self.recent.len().checked_sub(1), self.next_sequence_num)
            }
            Some(component) if rest.len() == 1 => {
                let requested = component.number_of_type(ComponentType::SEQUENCE_NUM)?;
                (self.index_of(requested), requested)
            }
            _ => return None,
        };
        let is_fresh = |found: &Notification| {
            !interest.must_be_fresh() || now.monotonic - found.made_at < FRESHNESS
        };
        let found = found.filter(|&index| self.recent.get(index).is_some_and(is_fresh));
        if found.is_none() {
            // An Interest for a number far ahead expires before it is given.
            let awaited = awaited.min(self.next_sequence_num + self.recent_max as u64);
            self.awaited_end = self.awaited_end.max(awaited + 1);
        }
        self.recent.get(found?)
    }

    /// The position of this number among the kept notifications. That of the next one is after the last.
    fn index_of(&self, number: u64) -> Option<usize> {
        let behind = usize::try_from(self.next_sequence_num.checked_sub(number)?).ok()?;
        self.recent.len().checked_sub(behind)
    }
}

#[cfg(test)]
mod tests;

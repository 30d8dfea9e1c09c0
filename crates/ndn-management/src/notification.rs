//! A notification stream (NFD wiki, `Notification`): Data `<prefix>/seq=<n>`, one per event.
//!
//! A subscriber requests the prefix and then one sequence number after the other. The Interest for the next number is pending
//! in the PIT until the event occurs, so that a stream sends each Data once, and keeps a few for late subscribers.

use std::collections::VecDeque;

use ndn_packet::{ComponentType, DataBuilder, Interest, Name};

use crate::Now;
use crate::publisher::FRESHNESS_MS;

/// One notification, ready to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// With the sequence number.
    pub name: Name,
    /// One block.
    pub content: Vec<u8>,
    made_ns: u64,
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
    recent: VecDeque<Notification>,
    recent_max: usize,
}

impl NotificationStream {
    /// Notifications kept by default.
    pub const RECENT_MAX_DEFAULT: usize = 256;

    /// A stream under `prefix` that keeps the last `recent_max` notifications (at least one).
    #[must_use]
    pub const fn new(prefix: Name, recent_max: usize) -> Self {
        Self { prefix, next_sequence_num: 0, recent: VecDeque::new(), recent_max }
    }

    /// Adds the next notification.
    pub fn post(&mut self, now: Now, content: Vec<u8>) -> &Notification {
        let mut name = self.prefix.clone();
        name.push_sequence_num(self.next_sequence_num);
        self.next_sequence_num += 1;
        if self.recent.len() >= self.recent_max.max(1) {
            self.recent.pop_front();
        }
        self.recent.push_back(Notification { name, content, made_ns: now.monotonic_ns });
        &self.recent[self.recent.len() - 1]
    }

    /// The kept notification that answers `interest`: the one with its number, or for the prefix
    /// the latest, if it is still fresh or need not be.
    #[must_use]
    pub fn find(&self, now: Now, interest: &Interest<'_>) -> Option<&Notification> {
        let name = interest.name();
        let rest =
            name.starts_with(self.prefix.as_ref()).then(|| name.suffix(self.prefix.len()))?;
        let found = match rest.last() {
            None if interest.can_be_prefix() => self.recent.back()?,
            Some(component) if rest.len() == 1 => {
                let requested = component.number_of_type(ComponentType::SEQUENCE_NUM)?;
                let behind =
                    usize::try_from(self.next_sequence_num.checked_sub(requested)?).ok()?;
                self.recent.get(self.recent.len().checked_sub(behind)?)?
            }
            _ => return None,
        };
        let age_ns = now.monotonic_ns.saturating_sub(found.made_ns);
        (!interest.must_be_fresh() || age_ns < FRESHNESS_MS * 1_000_000).then_some(found)
    }
}

#[cfg(test)]
mod tests;

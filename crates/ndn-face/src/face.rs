//! One face, and the table of all faces of a worker.

use std::sync::Arc;

use ndn_forwarding::RxFace;
use ndn_table::FaceIndex;
use ndn_types::{Persistency, Timestamp};

use crate::counters::{FaceCounters, LinkDropReason};
use crate::link::LinkService;
use crate::memory::Holder;
use crate::options::FaceOptions;

/// Reads of the other kind that change the direction of a source.
const DIRECTION_LIMIT: i8 = 8;

/// Whether a face or a socket has recently brought mostly Data and Nacks (it leads upstream), or Interests.
///
/// A saturating counter, with one sample for each read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TrafficDirection(i8);

impl TrafficDirection {
    /// A read has brought a Data or Nack (`is_answer`), or an Interest.
    #[inline]
    pub(crate) fn note(&mut self, is_answer: bool) {
        self.0 = if is_answer {
            DIRECTION_LIMIT.min(self.0 + 1)
        } else {
            (-DIRECTION_LIMIT).max(self.0 - 1)
        };
    }

    /// Whether it mostly brings Data and Nacks.
    #[inline]
    pub(crate) fn is_upstream(self) -> bool {
        self.0 > 0
    }
}

/// Interests that a face was sent at most, before those beyond are taken for lost.
const UNANSWERED_MAX: u64 = 1 << 16;

/// Distinguishes answers from Data and Nacks that nobody has asked for: there are no more answers than Interests sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unanswered {
    /// Totals of the last call.
    sent: u64,
    received: u64,
    /// Interests that may still be answered.
    count: u64,
}

impl Unanswered {
    /// Takes the total numbers of Interests sent, and of Data and Nacks received. Returns whether those that arrived since
    /// the last call can be answers.
    #[inline]
    pub(crate) fn note(&mut self, sent: u64, received: u64) -> bool {
        let asked = self.count + sent.saturating_sub(self.sent);
        let arrived = received.saturating_sub(self.received);
        let count = asked.saturating_sub(arrived).min(UNANSWERED_MAX);
        *self = Self { sent, received, count };
        arrived <= asked
    }
}

/// The part of a face that all kinds have: a link service, options and a place in the worker's lists.
///
/// Ten thousand faces may be idle, so a face stays small: buffers that it needs only while it is active belong to the
/// transport kind.
#[derive(Debug)]
pub(crate) struct Face {
    pub(crate) index: FaceIndex,
    /// Accompanies each received packet.
    pub(crate) rx: RxFace,
    pub(crate) link: LinkService,
    pub(crate) options: FaceOptions,
    /// Its account in the memory of the worker.
    pub(crate) holder: Holder,
    /// The entry of the face in the deadlines of the worker.
    pub(crate) deadline: Option<Timestamp>,
    /// The face is listed for the next flush.
    pub(crate) listed: bool,
    /// The direction of the traffic of its own descriptor.
    pub(crate) direction: TrafficDirection,
    unanswered: Unanswered,
    /// When [`FaceChange::Unreachable`](crate::FaceChange::Unreachable) was reported, until
    /// [`FaceChange::Reached`](crate::FaceChange::Reached) is.
    pub(crate) unreachable_since: Option<Timestamp>,
}

impl Face {
    /// `first_sequence` numbers its first fragment.
    pub(crate) fn new(
        now: Timestamp,
        index: FaceIndex,
        options: &FaceOptions,
        holder: Holder,
        first_sequence: u64,
    ) -> Self {
        let counters = Arc::new(FaceCounters::default());
        counters.last_received_ns.set(now.as_nanos());
        Self {
            index,
            rx: RxFace::new(index, &options.properties),
            link: LinkService::new(options.link, counters, first_sequence),
            options: *options,
            holder,
            deadline: None,
            listed: false,
            direction: TrafficDirection::default(),
            unanswered: Unanswered::default(),
            unreachable_since: None,
        }
    }

    /// Notes that a read has brought a Data or Nack (`is_answer`), or an Interest. Data that nobody has asked for does not
    /// come before the Interests of others.
    pub(crate) fn note_direction(&mut self, is_answer: bool) {
        let counters = self.link.counters();
        let received = || counters.in_data.value() + counters.in_nacks.value();
        let is_answer =
            is_answer && self.unanswered.note(counters.out_interests.value(), received());
        self.direction.note(is_answer);
    }

    /// Gives the link service its options. `frame_length_max` is the transport's own limit, if it has one.
    pub(crate) fn set_link_options(&mut self, frame_length_max: Option<usize>) {
        let mut options = self.options.link;
        if let (Some(mtu), Some(longest)) = (options.mtu, frame_length_max) {
            options.mtu = Some(mtu.min(longest));
        }
        self.link.set_options(options);
    }

    pub(crate) fn is_permanent(&self) -> bool {
        self.options.persistency == Persistency::Permanent
    }

    /// Lists the face for the next flush, once.
    #[inline]
    pub(crate) fn list_unflushed(&mut self, unflushed: &mut Vec<FaceIndex>) {
        if !self.listed {
            self.listed = true;
            unflushed.push(self.index);
        }
    }

    /// Something was received; `drop` says why it is no packet.
    pub(crate) fn note_arrival(&self, now: Timestamp, drop: Option<LinkDropReason>) {
        let counters = self.link.counters();
        counters.last_received_ns.set(now.as_nanos());
        if let Some(reason) = drop {
            counters.in_frames.increment();
            counters.dropped(reason).increment();
        }
    }

    /// The next deadline of the link service or of the idle timeout. The transport may have an earlier one.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        [self.link.next_deadline(), self.idle_deadline()].into_iter().flatten().min()
    }

    /// When an on-demand face closes if it receives nothing.
    pub(crate) fn idle_deadline(&self) -> Option<Timestamp> {
        let timeout = self.options.idle_timeout?;
        let last = Timestamp::from_nanos(self.link.counters().last_received_ns.value());
        (self.options.persistency == Persistency::OnDemand).then(|| last.plus(timeout))
    }
}

/// Access to the state that one kind of transport keeps in a face. `T` is the registry's enum of all kinds.
pub trait HasState<S> {
    /// The state, if the face is of this kind.
    fn state_mut(&mut self) -> Option<&mut S>;
}

/// A face and the state of its transport.
#[derive(Debug)]
pub(crate) struct FaceEntry<T> {
    pub(crate) face: Face,
    pub(crate) transport: T,
}

/// All faces of a worker, by slot of their index. Generic in the transport state, so that the kinds of transport need
/// not know each other.
#[derive(Debug)]
pub(crate) struct TransportFaces<T> {
    slots: Vec<Option<Box<FaceEntry<T>>>>,
}

impl<T> TransportFaces<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new() }
    }

    /// The face `index`, if it still exists.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: FaceIndex) -> Option<&mut FaceEntry<T>> {
        let entry = self.slots.get_mut(index.slot() as usize)?.as_deref_mut()?;
        (entry.face.index == index).then_some(entry)
    }

    /// The part of the face that does not depend on its transport.
    #[inline]
    pub(crate) fn face_mut(&mut self, index: FaceIndex) -> Option<&mut Face> {
        Some(&mut self.get_mut(index)?.face)
    }

    /// As [`face_mut`](Self::face_mut), to read.
    #[inline]
    pub(crate) fn face(&self, index: FaceIndex) -> Option<&Face> {
        let entry = self.slots.get(index.slot() as usize)?.as_deref()?;
        (entry.face.index == index).then_some(&entry.face)
    }

    /// The state of the face's transport, if that is of the kind of `S`.
    #[inline]
    pub(crate) fn state_mut<S>(&mut self, index: FaceIndex) -> Option<&mut S>
    where
        T: HasState<S>,
    {
        self.get_mut(index)?.transport.state_mut()
    }

    pub(crate) fn contains(&self, index: FaceIndex) -> bool {
        let entry = self.slots.get(index.slot() as usize);
        entry.is_some_and(|entry| entry.as_ref().is_some_and(|entry| entry.face.index == index))
    }

    /// Whether another face has the slot of `index`.
    pub(crate) fn is_taken(&self, index: FaceIndex) -> bool {
        self.slots.get(index.slot() as usize).is_some_and(Option::is_some)
    }

    pub(crate) fn insert(&mut self, entry: FaceEntry<T>) -> &mut FaceEntry<T> {
        let slot = entry.face.index.slot() as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot].insert(Box::new(entry))
    }

    pub(crate) fn remove(&mut self, index: FaceIndex) -> Option<Box<FaceEntry<T>>> {
        if !self.contains(index) {
            return None;
        }
        self.slots[index.slot() as usize].take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_answers_than_interests() {
        let mut unanswered = Unanswered::default();
        assert!(!unanswered.note(0, 1));
        assert!(unanswered.note(10, 4), "7 remain");
        assert!(unanswered.note(10, 11));
        assert!(!unanswered.note(10, 12));
        assert!(unanswered.note(11, 13), "more than before does not count twice");
        let many = 10 * UNANSWERED_MAX;
        assert!(unanswered.note(11 + many, 13 + many), "however many between two calls");
        assert!(unanswered.note(11 + 2 * many, 13 + many));
        assert!(!unanswered.note(11 + 2 * many, 13 + 2 * many), "old Interests are forgotten");
    }

    #[test]
    fn direction_follows_recent_reads_with_hysteresis() {
        let mut direction = TrafficDirection::default();
        assert!(!direction.is_upstream());
        (0..1000).for_each(|_| direction.note(true));
        assert!(direction.is_upstream());
        (0..7).for_each(|_| direction.note(false));
        assert!(direction.is_upstream(), "a producer may send an Interest now and then");
        direction.note(false);
        assert!(!direction.is_upstream());
        (0..1000).for_each(|_| direction.note(false));
        (0..8).for_each(|_| direction.note(true));
        assert!(!direction.is_upstream());
        direction.note(true);
        assert!(direction.is_upstream());
    }
}

//! Frames queued until a ring has room.

use std::collections::VecDeque;

use crate::counters::LinkDropReason;
use crate::memory::Account;
use crate::output::Shed;

/// A queue that has become longer than this gives its memory back when it is empty.
const KEPT_BYTES: usize = 1 << 20;

/// Frames, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct FrameQueue {
    bytes: VecDeque<u8>,
    lengths: VecDeque<usize>,
}

impl FrameQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Bytes of all frames.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a frame, or refuses it if it exceeds the limit of the queue, or that of all queues.
    pub(crate) fn push(
        &mut self,
        header: &[u8],
        payload: &[u8],
        account: &mut Account<'_>,
        bytes_max: usize,
    ) -> Result<(), LinkDropReason> {
        let length = header.len() + payload.len();
        if self.bytes.len() + length > bytes_max || !account.take(length) {
            return Err(LinkDropReason::QueueFull);
        }
        self.bytes.extend(header);
        self.bytes.extend(payload);
        self.lengths.push_back(length);
        Ok(())
    }

    /// The first frame, in two parts.
    pub(crate) fn first(&self) -> Option<[&[u8]; 2]> {
        let length = *self.lengths.front()?;
        let (front, back) = self.bytes.as_slices();
        let in_front = length.min(front.len());
        Some([&front[..in_front], &back[..length - in_front]])
    }

    /// Removes the first frame.
    pub(crate) fn pop(&mut self, account: &mut Account<'_>) {
        let Some(length) = self.lengths.pop_front() else { return };
        self.bytes.drain(..length);
        account.give_back(length);
        if self.lengths.is_empty() && self.bytes.capacity() > KEPT_BYTES {
            *self = Self::default();
        }
    }

    /// Drops the last frames while the principal of the face holds more than `keeps` bytes.
    pub(crate) fn shed(&mut self, account: &mut Account<'_>, keeps: u32) -> Shed {
        let mut dropped = 0;
        while account.principal_exceeds(keeps)
            && let Some(length) = self.lengths.pop_back()
        {
            self.bytes.truncate(self.bytes.len() - length);
            account.give_back(length);
            dropped += 1;
        }
        self.bytes.shrink_to(KEPT_BYTES);
        Shed { dropped, has_more: !self.lengths.is_empty() }
    }

    /// Drops all frames; returns their number.
    pub(crate) fn clear(&mut self, account: &mut Account<'_>) -> u64 {
        account.give_back(self.bytes.len());
        std::mem::take(self).lengths.len() as u64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use ndn_types::Reserves;

    use crate::memory::{FaceMemory, Holder, MemoryKind};

    fn account(budget: &mut FaceMemory) -> Account<'_> {
        budget.output(Holder::UNACCOUNTED)
    }

    #[test]
    fn frames_leave_in_order() {
        let (mut queue, mut budget) =
            (FrameQueue::default(), FaceMemory::new(1 << 20, 1 << 20, Reserves::NONE));
        let mut expected = VecDeque::new();
        for round in 0..1000_usize {
            for number in 0..round % 7 {
                let frame = vec![u8::try_from(round % 251).unwrap(); round * 13 % 700 + number];
                let (header, payload) = frame.split_at(frame.len() / 4);
                queue.push(header, payload, &mut account(&mut budget), usize::MAX).unwrap();
                expected.push_back(frame);
            }
            for _ in 0..round % 5 {
                assert_eq!(queue.first().map(|parts| parts.concat()), expected.pop_front());
                queue.pop(&mut account(&mut budget));
            }
            assert_eq!(queue.bytes(), expected.iter().map(Vec::len).sum::<usize>());
            assert_eq!(budget.used(MemoryKind::Output), queue.bytes());
        }
        queue.clear(&mut account(&mut budget));
        assert!(queue.is_empty() && budget.used(MemoryKind::Output) == 0);
    }

    #[test]
    fn queue_and_budget_limits_hold() {
        let (mut queue, mut budget) =
            (FrameQueue::default(), FaceMemory::new(100, 100, Reserves::NONE));
        assert!(queue.push(&[0; 10], &[0; 41], &mut account(&mut budget), 50).is_err());
        queue.push(&[0; 10], &[0; 40], &mut account(&mut budget), 50).unwrap();
        assert!(queue.push(&[], &[0], &mut account(&mut budget), 50).is_err());
        assert!(queue.push(&[], &[0; 51], &mut account(&mut budget), 1000).is_err());
        assert_eq!(budget.used(MemoryKind::Output), 50);
    }
}

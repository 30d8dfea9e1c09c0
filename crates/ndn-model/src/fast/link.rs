//! Links of the fast engine.

use std::collections::VecDeque;

use crate::network;

/// A link in one direction.
#[derive(Debug)]
pub(super) struct Link {
    transmit_ps: [u64; 3],
    delay_ps: u64,
    turns_ps: [u64; 2],
    pub has_loss: bool,
    /// Whether it loses packets or has room for few.
    pub is_limited: bool,
    capacity: usize,
    sent_ps: u64,
    /// Ends of the last transmissions, as many as the link holds packets; kept where that is limited.
    recent_ps: VecDeque<u64>,
}

impl Link {
    pub(super) fn new(spec: &network::Link) -> Self {
        Self {
            transmit_ps: spec.transmit_ps,
            delay_ps: spec.delay_ps,
            turns_ps: spec.turns_ps,
            has_loss: spec.loss > 0.0,
            is_limited: spec.loss > 0.0 || spec.capacity.is_some(),
            capacity: spec.capacity.unwrap_or(usize::MAX),
            sent_ps: 0,
            recent_ps: VecDeque::new(),
        }
    }

    pub(super) fn reset(&mut self) {
        self.sent_ps = 0;
        self.recent_ps.clear();
    }

    pub(super) const fn delay_ps(&self) -> u64 {
        self.delay_ps
    }

    /// Puts a packet of a kind on a link that has room for it at `time_ps`; returns when it comes out.
    #[inline(always)]
    pub(super) fn pass(&mut self, time_ps: u64, kind: usize) -> u64 {
        let [sending, receiving] = self.turns_ps;
        let time_ps = network::Link::turn_after(time_ps, sending);
        self.sent_ps = self.sent_ps.max(time_ps) + self.transmit_ps[kind];
        network::Link::turn_after(self.sent_ps + self.delay_ps, receiving)
    }

    /// As [`pass`](Self::pass); none if the link has no room.
    pub(super) fn pass_limited(&mut self, time_ps: u64, kind: usize) -> Option<u64> {
        if self.capacity == usize::MAX {
            return Some(self.pass(time_ps, kind));
        }
        if self.recent_ps.len() == self.capacity {
            if self.recent_ps[0] > time_ps {
                return None;
            }
            self.recent_ps.pop_front();
        }
        let end_ps = self.pass(time_ps, kind);
        self.recent_ps.push_back(self.sent_ps);
        Some(end_ps)
    }
}

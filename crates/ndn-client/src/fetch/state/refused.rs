//! Segments whose packets did not verify.

use std::cmp::Reverse;

use super::{FetchFailure, FetchState};
use crate::fetch::segments::{Slot, Status};

/// Times that a segment may not verify before the fetch fails.
const REFUSED_MAX: u32 = 3;
/// How often a segment is asked for once more that is asked for past a cache.
const PAST_CACHE_RETRANSMISSIONS_MAX: u32 = 3;
/// Data of a fetch that may not verify: more are no accident.
const REFUSED_ALTOGETHER_MAX: u64 = 256;

impl FetchState {
    /// Takes a Data that did not verify: its segment is asked for again at once, a few times before the
    /// fetch fails with `failure`. Returns whether it was waited for.
    pub fn handle_refused(&mut self, segment: u64, failure: FetchFailure) -> bool {
        let is_out = |slot: &Slot| slot.status != Status::Received;
        if !self.segments.slot(segment).is_some_and(is_out) {
            return false;
        }
        let before = self.segments.update(segment, |slot| {
            slot.status = Status::Waiting;
            slot.refused += 1;
            slot.attempts = 0;
        });
        self.progress.refused += 1;
        if before.is_some_and(|slot| slot.refused >= REFUSED_MAX)
            || self.progress.refused > REFUSED_ALTOGETHER_MAX
        {
            self.fail(failure);
        } else {
            self.refusals.insert(segment, failure);
            self.lost.push(Reverse(segment));
        }
        true
    }

    /// Ends the fetch if nobody answers who has the right packet.
    pub(super) fn give_up_past_cache(&mut self, segment: u64, attempts: u32) {
        if attempts > PAST_CACHE_RETRANSMISSIONS_MAX
            && let Some(refusal) = self.refusals.remove(&segment)
        {
            self.fail(refusal);
        }
    }
}

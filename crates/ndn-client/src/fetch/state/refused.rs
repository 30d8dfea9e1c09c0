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

/// What was refused of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// A Data with content.
    Content,
    /// An application Nack. A segment that there is not has no other answer, so that asking by the digest
    /// alone would end only when time is over.
    Nack,
}

/// How a segment is asked for past a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastCacheBy {
    /// By the digest that its packet must have, where that is known, and otherwise as `Fresh`.
    Digest,
    /// As one that is fresh.
    Fresh,
}

impl FetchState {
    /// Takes a Data that did not verify: its segment is asked for again at once, a few times before the
    /// fetch fails with `failure`. Returns whether it was waited for.
    pub fn handle_refused(
        &mut self,
        segment: u64,
        refused: Refused,
        failure: FetchFailure,
    ) -> bool {
        let is_out = |slot: &Slot| slot.status != Status::Received;
        if !self.segments.slot(segment).is_some_and(is_out) {
            return false;
        }
        let before = self.segments.update(segment, |slot| {
            slot.status = Status::Waiting;
            slot.refused += 1;
            slot.refused_nack = refused == Refused::Nack;
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

impl Slot {
    /// How the segment is asked for next, if what came did not verify: after a Nack, both ways in turn.
    pub(super) fn past_cache(&self) -> Option<PastCacheBy> {
        let by_digest = !self.refused_nack || (self.refused + self.attempts).is_multiple_of(2);
        let by = if by_digest { PastCacheBy::Digest } else { PastCacheBy::Fresh };
        (self.refused > 0).then_some(by)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fetch::FetchConfig;

    const MS: Duration = Duration::from_millis(1);

    /// A segment that there is not has no packet of the digest that one would have: after a Nack that does not
    /// verify, it is asked for in both ways, in turn.
    #[test]
    fn after_a_false_nack_both_ways_past_a_cache_are_tried() {
        let mut state = FetchState::new(FetchConfig::default(), 0, Some(0));
        assert_eq!(state.poll_transmit(Duration::ZERO).unwrap().past_cache, None);
        let failure = FetchFailure::Verification { segment: 0, reason: "nobody".to_owned() };
        for by in [PastCacheBy::Fresh, PastCacheBy::Digest, PastCacheBy::Fresh] {
            assert!(state.handle_refused(0, Refused::Nack, failure.clone()));
            assert_eq!(state.poll_transmit(MS).unwrap().past_cache, Some(by));
        }
        state.handle_refused(0, Refused::Nack, failure.clone());
        assert_eq!(state.failure(), Some(&failure));
        // Where nobody answers one way, the other is tried.
        let mut state = FetchState::new(FetchConfig::default(), 0, Some(0));
        state.poll_transmit(Duration::ZERO).unwrap();
        state.handle_refused(0, Refused::Nack, failure.clone());
        let mut ways = Vec::new();
        while state.failure().is_none() {
            while let Some(transmit) = state.poll_transmit(MS) {
                ways.push(transmit.past_cache.unwrap());
            }
            let (at, _) = state.poll_timeout().unwrap();
            state.handle_timeout(at);
        }
        let (fresh, digest) = (PastCacheBy::Fresh, PastCacheBy::Digest);
        assert_eq!(ways, [fresh, digest, fresh, digest]);
        assert_eq!(state.failure(), Some(&failure));
    }
}

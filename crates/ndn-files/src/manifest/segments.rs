//! Digests of segments while they are computed: by the threads that answer segments, make leaves and build the manifest. Each
//! segment is hashed by the thread that has its content first. It is hashed again if the threads do not share its digest:
//! there is no room for those of so large a file (above 8 GiB at the default length), or they were evicted.

use std::ops::{Range, RangeInclusive};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use ndn_security::{SHA256_LEN, Sha256Digest};

use crate::packet::{Hashed, Layout};

/// State of the digests of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Missing,
    /// A thread is hashing it.
    Claimed,
    Known,
}

/// Digests of a range of the segments of a version.
#[derive(Debug)]
pub(crate) struct SegmentDigests {
    first: u64,
    progress: Mutex<Progress>,
    /// A claim has ended.
    ended: Condvar,
}

#[derive(Debug)]
struct Progress {
    states: Vec<State>,
    hashed: Hashed,
    known: usize,
    /// Whether somebody knows that they are complete.
    is_reported: bool,
    /// Number of times that a thread checked whether it must wait.
    #[cfg(test)]
    checks: usize,
}

impl SegmentDigests {
    /// None of the digests yet; `None` if there are more than memory could hold.
    pub(crate) fn new(segments: Range<u64>) -> Option<Self> {
        let count = usize::try_from(segments.end.checked_sub(segments.start)?).ok()?;
        // Memory that is not written to yet is not taken.
        let none = || vec![[0; SHA256_LEN]; count];
        let progress = Progress {
            states: vec![State::Missing; count],
            hashed: (none(), none()),
            known: 0,
            is_reported: false,
            #[cfg(test)]
            checks: 0,
        };
        Some(Self { first: segments.start, progress: Mutex::new(progress), ended: Condvar::new() })
    }

    /// Bytes of memory for the digests of a file.
    pub(crate) fn weight(layout: &Layout) -> usize {
        usize::try_from(layout.final_segment + 1)
            .map_or(usize::MAX, |segments| segments.saturating_mul(2 * SHA256_LEN + 1))
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        // No invariant spans a panic.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn index(&self, segment: u64) -> Option<usize> {
        usize::try_from(segment.checked_sub(self.first)?).ok()
    }

    /// First and last of these segments whose digests are missing and that no thread is hashing.
    pub(crate) fn missing(&self, segments: RangeInclusive<u64>) -> Option<RangeInclusive<u64>> {
        let progress = self.progress();
        let is_missing = |segment: &u64| {
            let index = self.index(*segment);
            index.and_then(|index| progress.states.get(index)) == Some(&State::Missing)
        };
        let first = segments.clone().find(is_missing)?;
        let last = (first..=*segments.end()).rev().find(is_missing)?;
        Some(first..=last)
    }

    /// Claims those of these segments whose digests are missing and that no thread is hashing. The caller has their content
    /// and hashes them at once, as other threads wait for it.
    pub(crate) fn claim(&self, segments: impl IntoIterator<Item = u64>) -> Claim<'_> {
        let mut progress = self.progress();
        let (mut positions, mut indexes) = (Vec::new(), Vec::new());
        for (position, segment) in segments.into_iter().enumerate() {
            let Some(index) = self.index(segment) else { continue };
            if let Some(state) = progress.states.get_mut(index)
                && *state == State::Missing
            {
                *state = State::Claimed;
                positions.push(position);
                indexes.push(index);
            }
        }
        drop(progress);
        Claim { digests: self, positions, indexes }
    }

    /// DigestSha256 of each of these segments, once no thread is hashing any of them; `None` if one is missing then.
    pub(crate) fn signatures(
        &self,
        segments: impl IntoIterator<Item = u64>,
    ) -> Option<Vec<Sha256Digest>> {
        self.once_hashed(segments, |hashed| &hashed.0)
    }

    /// The same for their implicit digests.
    pub(crate) fn digests(
        &self,
        segments: impl IntoIterator<Item = u64>,
    ) -> Option<Vec<Sha256Digest>> {
        self.once_hashed(segments, |hashed| &hashed.1)
    }

    fn once_hashed(
        &self,
        segments: impl IntoIterator<Item = u64>,
        of: impl Fn(&Hashed) -> &Vec<Sha256Digest>,
    ) -> Option<Vec<Sha256Digest>> {
        let indexes: Option<Vec<usize>> =
            segments.into_iter().map(|segment| self.index(segment)).collect();
        let indexes = indexes?;
        let is_any = |progress: &Progress, state: State| {
            indexes.iter().any(|index| progress.states.get(*index) == Some(&state))
        };
        let progress = self
            .ended
            .wait_while(self.progress(), |progress| {
                #[cfg(test)]
                {
                    progress.checks += 1;
                }
                is_any(progress, State::Claimed)
            })
            .unwrap_or_else(PoisonError::into_inner);
        if is_any(&progress, State::Missing) {
            return None;
        }
        let digests = of(&progress.hashed);
        indexes.iter().map(|index| digests.get(*index).copied()).collect()
    }

    /// All digests, if they are known.
    pub(crate) fn all(&self) -> Option<Hashed> {
        let progress = self.progress();
        (progress.known == progress.states.len()).then(|| progress.hashed.clone())
    }

    /// Whether all digests are known; true only once.
    pub(crate) fn is_newly_complete(&self) -> bool {
        let mut progress = self.progress();
        let is_complete = progress.known == progress.states.len();
        is_complete && !std::mem::replace(&mut progress.is_reported, true)
    }
}

/// Segments that a thread hashes. If it does not finish, they are missing again.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    digests: &'a SegmentDigests,
    /// Among the segments from which they were claimed.
    positions: Vec<usize>,
    indexes: Vec<usize>,
}

impl Claim<'_> {
    /// Those of `items` that belong to the claimed segments; there is one for each segment from which they were claimed.
    pub(crate) fn select<T>(&self, items: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
        let mut positions = self.positions.iter().peekable();
        let items = items.into_iter().enumerate();
        let claimed = items.filter(move |(position, _)| positions.next_if_eq(&position).is_some());
        claimed.map(|(_, item)| item)
    }

    /// Sets the digests of the claimed segments.
    pub(crate) fn finish(self, (signatures, digests): Hashed) {
        let mut progress = self.digests.progress();
        for (index, both) in self.indexes.iter().zip(signatures.into_iter().zip(digests)) {
            (progress.hashed.0[*index], progress.hashed.1[*index]) = both;
            progress.states[*index] = State::Known;
            progress.known += 1;
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut progress = self.digests.progress();
        for index in &self.indexes {
            let state = &mut progress.states[*index];
            if *state == State::Claimed {
                *state = State::Missing;
            }
        }
        drop(progress);
        self.digests.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashed(numbers: &[u8]) -> Hashed {
        let of = |kind: u8| numbers.iter().map(|number| [*number + kind; SHA256_LEN]).collect();
        (of(0), of(100))
    }

    #[test]
    fn each_segment_is_claimed_once() {
        let digests = SegmentDigests::new(10..16).unwrap();
        assert_eq!(digests.missing(10..=15), Some(10..=15));
        let claim = digests.claim([11, 12, 12, 14]);
        assert!(claim.select("abcd".chars()).eq("abd".chars()));
        assert_eq!(digests.missing(11..=15), Some(13..=15));
        assert_eq!(digests.claim([12, 14]).select(["a", "b"]).count(), 0);
        claim.finish(hashed(&[11, 12, 14]));
        let (one, other) = ([12; SHA256_LEN], [14; SHA256_LEN]);
        assert_eq!(digests.signatures([12, 14, 12]), Some(vec![one, other, one]));
        assert_eq!(digests.digests([14]), Some(vec![[114; SHA256_LEN]]));
        assert_eq!((digests.signatures([12, 13]), digests.signatures([9])), (None, None));
        assert!(digests.all().is_none() && !digests.is_newly_complete());
        let rest = digests.claim(10..=15);
        assert!(rest.select("abcdef".chars()).eq("adf".chars()));
        rest.finish(hashed(&[10, 13, 15]));
        assert_eq!(digests.all(), Some(hashed(&[10, 11, 12, 13, 14, 15])));
        assert!(digests.is_newly_complete() && !digests.is_newly_complete());
    }

    /// Signature of segment 1 for a thread that waits for it when `end` ends the claim.
    fn signature_after(digests: &SegmentDigests, end: impl FnOnce()) -> Option<Vec<Sha256Digest>> {
        let checks = digests.progress().checks;
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| digests.signatures([1]));
            // A thread that has checked releases the lock only when it waits.
            while digests.progress().checks == checks && !waiting.is_finished() {
                std::thread::yield_now();
            }
            assert!(!waiting.is_finished());
            end();
            waiting.join().unwrap()
        })
    }

    /// A thread that fails leaves its segments to others, which do not wait for it any longer.
    #[test]
    fn abandoned_claim_ends_waits() {
        let digests = SegmentDigests::new(0..3).unwrap();
        let claim = digests.claim(0..3);
        assert_eq!(signature_after(&digests, || drop(claim)), None);
        let claim = digests.claim([1]);
        let signature = signature_after(&digests, || claim.finish(hashed(&[1])));
        assert_eq!(signature, Some(vec![[1; SHA256_LEN]]));
    }
}

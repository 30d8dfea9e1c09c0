//! The tables of one shard.

use std::sync::Arc;

use ndn_packet::MAX_PACKET_SIZE;
use ndn_table::{
    DeadNonceList, FaceIndex, NameHasher, PIT_INTEREST_INLINE_MAX, Pcct, PitIndex, TimerWheel,
    Timestamp,
};

use crate::learning::Learning;
use crate::peers::Peers;
use crate::pipelines::Ending;
use crate::strategy::Measurements;
use crate::{Counters, DropReason, FaceTable};

/// All tables that the pipelines and strategies of a shard read and write, except the FIB, which
/// the control thread owns.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Number of the shard, as in the PIT tokens that it originates.
    pub(crate) shard: u8,
    pub(crate) hasher: NameHasher,
    pub(crate) pcct: Pcct,
    pub(crate) dead_nonces: DeadNonceList,
    pub(crate) dead_nonce_lifetime_ms: u64,
    pub(crate) faces: FaceTable,
    /// Maximum number of PIT entries owned by a face with a quota.
    pub(crate) pending_quota: u32,
    /// Faces that exceeded the quota.
    pub(crate) quota_refusals: QuotaRefusals,
    pub(crate) unsolicited: UnsolicitedPolicy,
    /// Strategy timers, keyed by the token of the PIT entry.
    pub(crate) strategy_timers: TimerWheel,
    pub(crate) measurements: Measurements,
    pub(crate) counters: Arc<Counters>,
    /// Requests and held Data of self-learning.
    pub(crate) learning: Learning,
    /// Communication with other shards; `None` for a single shard.
    pub(crate) peers: Option<Box<Peers>>,
    /// Buffer for an Interest that is changed into a Nack.
    pub(crate) scratch: Box<[u8; MAX_PACKET_SIZE]>,
    /// Buffer for an Interest that a timer sends again.
    pub(crate) timer_scratch: Vec<u8>,
}

/// The reserve of the PIT for faces with few entries: one in this many.
const PIT_RESERVE_DIVISOR: usize = 8;

/// Fair shares of the PIT.
///
/// A face may fill the PIT while no other face needs it, except for the last eighth. That reserve
/// is divided evenly between the faces that own an entry: a face that owns as many entries as its
/// share, in any part of the PIT, gets no more. A face whose Interests are never answered thus
/// cannot block the others. Shares shrink as more faces own entries; entries made under a larger
/// share end within the lifetime of their Interest. The bytes of Interests that are too long for
/// their entry are divided in the same way.
impl Tables {
    /// Whether `face` may insert one more PIT entry, for an Interest of `wire_length` bytes.
    #[inline]
    pub(crate) fn check_pit_share(
        &mut self,
        face: FaceIndex,
        wire_length: usize,
    ) -> Result<(), DropReason> {
        if wire_length > PIT_INTEREST_INLINE_MAX {
            self.check_share_of_bytes(face, wire_length)?;
        }
        if self.faces.has_used_quota(face, self.pending_quota) {
            self.quota_refusals.note(face);
            return Err(DropReason::PendingQuota);
        }
        let (length, capacity) = (self.pcct.pit_len(), self.pcct.pit_capacity());
        let reserve = capacity / PIT_RESERVE_DIVISOR;
        // A full table is reported by the insertion.
        if length < capacity - reserve || length == capacity {
            return Ok(());
        }
        self.check_share_of_entries(face, reserve)
    }

    #[cold]
    fn check_share_of_entries(&self, face: FaceIndex, reserve: usize) -> Result<(), DropReason> {
        let held = self.faces.entries_held(face);
        if held < self.share(reserve, held).max(1) { Ok(()) } else { Err(DropReason::PitShare) }
    }

    #[cold]
    fn check_share_of_bytes(&self, face: FaceIndex, wire_length: usize) -> Result<(), DropReason> {
        let (used, capacity) = self.pcct.pit_bytes();
        let reserve = capacity / PIT_RESERVE_DIVISOR;
        if used < capacity - reserve {
            return Ok(());
        }
        let share = self.share(reserve, self.faces.entries_held(face));
        let held = self.faces.long_bytes_held(face);
        if held + wire_length <= share { Ok(()) } else { Err(DropReason::PitShare) }
    }

    /// The share of a reserve for a face that owns `entries_held` entries: a face without any adds
    /// one to the number of sharers.
    fn share(&self, reserve: usize, entries_held: usize) -> usize {
        let owner_count = self.faces.owner_count() + usize::from(entries_held == 0);
        reserve / owner_count.max(1)
    }

    /// Records that the peer of a face sends PIT tokens, and notifies the other shards.
    #[inline]
    pub(crate) fn note_token(&mut self, face: FaceIndex) {
        let is_news = self.faces.note_token(face);
        if is_news && let Some(peers) = &mut self.peers {
            peers.share_token_sender(face);
        }
    }

    /// Counts a new PIT entry for its owner.
    #[inline]
    pub(crate) fn note_pending(&mut self, entry: PitIndex, face: FaceIndex) {
        let pending = self.pcct.entry_mut(entry);
        pending.owner = face;
        let long_bytes = pending.long_bytes();
        self.faces.add_entry(face);
        if long_bytes > 0 {
            self.faces.add_long_bytes(face, long_bytes);
        }
    }

    /// Counts the outcomes of the in-records of an entry that ends.
    #[inline]
    pub(crate) fn count_closed(&self, entry: PitIndex, ending: Ending, now: Timestamp) {
        let counters = &*self.counters;
        let of_ending = match ending {
            Ending::Data => &counters.in_records_satisfied,
            Ending::Nack => &counters.in_records_nacked,
            Ending::Expiry => &counters.in_records_expired,
            Ending::Rejection => &counters.in_records_rejected,
        };
        for record in self.pcct.in_records(entry) {
            let closed = if self.faces.find(record.face).is_none() {
                &counters.in_records_face_gone
            } else if record.expiry() <= now {
                &counters.in_records_expired
            } else {
                of_ending
            };
            closed.increment();
        }
    }

    /// Erases a PIT entry.
    #[inline]
    pub(crate) fn erase_pending(&mut self, entry: PitIndex) {
        if let Some(peers) = &mut self.peers
            && peers.has_published()
        {
            peers.withdraw(&self.pcct, &self.hasher, entry);
        }
        let pending = self.pcct.entry(entry);
        self.faces.subtract_entry(pending.owner);
        let long_bytes = pending.long_bytes();
        if long_bytes > 0 {
            self.faces.subtract_long_bytes(pending.owner, long_bytes);
        }
        self.pcct.erase(entry);
    }
}

/// Maximum number of faces recorded between two polls. Refusals of further faces are only counted
/// as drops.
const FACES_MAX: usize = 64;

/// Number of refused Interests by face, until polled.
#[derive(Debug)]
pub(crate) struct QuotaRefusals(Vec<(FaceIndex, u64)>);

impl Default for QuotaRefusals {
    fn default() -> Self {
        Self(Vec::with_capacity(FACES_MAX))
    }
}

impl QuotaRefusals {
    /// Records a refused Interest.
    #[cold]
    pub(crate) fn note(&mut self, face: FaceIndex) {
        if let Some((_, count)) = self.0.iter_mut().find(|(known, _)| *known == face) {
            *count += 1;
        } else if self.0.len() < FACES_MAX {
            self.0.push((face, 1));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes one face; returns it with the number of its Interests refused since it was last
    /// returned.
    pub(crate) fn take(&mut self) -> Option<(FaceIndex, u64)> {
        self.0.pop()
    }
}

/// Which unsolicited Data is cached (NFD's unsolicited data policy).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnsolicitedPolicy {
    /// None.
    #[default]
    DropAll,
    /// Data from local faces.
    AdmitLocal,
    /// Data from non-local faces.
    AdmitNetwork,
    /// All.
    AdmitAll,
}

impl UnsolicitedPolicy {
    /// Whether to cache Data from a local (or non-local) face.
    #[must_use]
    pub fn admits(self, from_local: bool) -> bool {
        match self {
            Self::DropAll => false,
            Self::AdmitLocal => from_local,
            Self::AdmitNetwork => !from_local,
            Self::AdmitAll => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_face_is_reported_once_with_all_its_refusals() {
        let mut refusals = QuotaRefusals::default();
        for round in 0..3_u32 {
            for slot in 0..2 * u32::try_from(FACES_MAX).unwrap() {
                (0..=round).for_each(|_| refusals.note(FaceIndex::new(slot, 1)));
            }
            let mut reported: Vec<_> = std::iter::from_fn(|| refusals.take()).collect();
            reported.sort_unstable_by_key(|(face, _)| face.slot());
            assert_eq!(reported.len(), FACES_MAX);
            for (slot, (face, count)) in (0..).zip(reported) {
                assert_eq!((face, count), (FaceIndex::new(slot, 1), u64::from(round) + 1));
            }
        }
    }
}

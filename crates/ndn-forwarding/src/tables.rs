//! What one shard remembers.

use std::sync::Arc;

use ndn_packet::MAX_PACKET_SIZE;
use ndn_table::{
    DeadNonceList, FaceIndex, NameHasher, PIT_INTEREST_INLINE_MAX, Pcct, PitIndex, TimerWheel,
    Timestamp,
};

use crate::learning::Learning;
use crate::peers::Peers;
use crate::pipelines::Ending;
use crate::quota::QuotaRefusals;
use crate::strategy::Measurements;
use crate::{Counters, DropReason, FaceTable, UnsolicitedPolicy};

/// The tables of a shard: everything that its pipelines and strategies read and write, except for
/// the FIB, which the control thread owns.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Number of the shard, as in the PIT tokens that it originates.
    pub(crate) shard: u8,
    pub(crate) hasher: NameHasher,
    pub(crate) pcct: Pcct,
    pub(crate) dead_nonces: DeadNonceList,
    pub(crate) dead_nonce_lifetime_ms: u64,
    pub(crate) faces: FaceTable,
    /// PIT entries that a face with a quota may have made.
    pub(crate) pending_quota: u32,
    /// Those that wanted to make more.
    pub(crate) quota_refusals: QuotaRefusals,
    pub(crate) unsolicited: UnsolicitedPolicy,
    /// Timers of strategies: the PIT entry by its token.
    pub(crate) strategy_timers: TimerWheel,
    pub(crate) measurements: Measurements,
    pub(crate) counters: Arc<Counters>,
    /// What self-learning waits for.
    pub(crate) learning: Learning,
    /// The other shards, unless this one is alone.
    pub(crate) peers: Option<Box<Peers>>,
    /// Where an Interest is copied to be changed into a Nack.
    pub(crate) scratch: Box<[u8; MAX_PACKET_SIZE]>,
    /// Where an Interest is copied that a timer sends again.
    pub(crate) timer_scratch: Vec<u8>,
}

/// The part of the PIT that is kept for faces with few entries: one in this many.
const PIT_RESERVE_DIVISOR: usize = 8;

/// The PIT in fair shares.
///
/// A face may fill the PIT as long as nobody else needs it, but not the last eighth. That is
/// divided evenly between the faces that have an entry: one that holds as many entries as its part,
/// wherever they lie, makes no more. So a face whose Interests nobody answers cannot keep the
/// others from forwarding. Parts shrink as more faces have entries; what was made when they were
/// larger ends within the lifetime of its Interest. The bytes of Interests that are too long for
/// their entry are divided in the same way.
impl Tables {
    /// Whether `face` may make one more PIT entry, for an Interest of so many bytes.
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
        // One that is full says so itself.
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

    /// The part of a reserve for a face that holds so many entries: one without any will be one
    /// more to divide between.
    fn share(&self, reserve: usize, entries_held: usize) -> usize {
        let owner_count = self.faces.owner_count() + usize::from(entries_held == 0);
        reserve / owner_count.max(1)
    }

    /// Takes note that the peer of a face sends PIT tokens; what one shard learns, all know.
    #[inline]
    pub(crate) fn note_token(&mut self, face: FaceIndex) {
        let is_news = self.faces.note_token(face);
        if is_news && let Some(peers) = &mut self.peers {
            peers.share_token_sender(face);
        }
    }

    /// Counts a new PIT entry for the face that made it.
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

    /// Counts what becomes of the in-records of an entry that ends.
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

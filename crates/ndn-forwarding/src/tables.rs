//! What one shard remembers.

use std::sync::Arc;

use ndn_packet::MAX_PACKET_SIZE;
use ndn_table::{DeadNonceList, FaceIndex, NameHasher, Pcct, PitIndex, TimerWheel};

use crate::peers::Peers;
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
    pub(crate) unsolicited: UnsolicitedPolicy,
    /// Timers of strategies: the PIT entry by its token.
    pub(crate) strategy_timers: TimerWheel,
    pub(crate) measurements: Measurements,
    pub(crate) counters: Arc<Counters>,
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
/// larger ends within the lifetime of its Interest.
impl Tables {
    /// Whether `face` may make one more PIT entry.
    #[inline]
    pub(crate) fn check_pit_share(&self, face: FaceIndex) -> Result<(), DropReason> {
        let (length, capacity) = (self.pcct.pit_len(), self.pcct.pit_capacity());
        let reserve = capacity / PIT_RESERVE_DIVISOR;
        // One that is full says so itself.
        if length < capacity - reserve || length == capacity {
            return Ok(());
        }
        self.check_share_of(face, reserve)
    }

    #[cold]
    fn check_share_of(&self, face: FaceIndex, reserve: usize) -> Result<(), DropReason> {
        let (held, owner_count) = self.faces.entries_held(face);
        // A face without entries will be one more to divide between.
        let divisor = owner_count + usize::from(held == 0);
        let share = (reserve / divisor.max(1)).max(1);
        if held < share { Ok(()) } else { Err(DropReason::PitShare) }
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
        self.pcct.entry_mut(entry).owner = face;
        self.faces.add_entry(face);
    }

    /// Erases a PIT entry.
    #[inline]
    pub(crate) fn erase_pending(&mut self, entry: PitIndex) {
        if let Some(peers) = &mut self.peers
            && peers.has_published()
        {
            peers.withdraw(&self.pcct, &self.hasher, entry);
        }
        self.faces.subtract_entry(self.pcct.entry(entry).owner);
        self.pcct.erase(entry);
    }
}

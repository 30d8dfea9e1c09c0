//! The tables of one shard.

use std::sync::Arc;

use ndn_packet::MAX_PACKET_SIZE;
use ndn_table::{DeadNonceList, FaceIndex, NameHasher, Pcct, PitIndex, TimerWheel};
use ndn_types::Timestamp;

use crate::learning::Learning;
use crate::peers::PeerShards;
use crate::pipelines::{Ending, Sweep};
use crate::strategy::Measurements;
use crate::{Counters, FaceTable};

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
    /// The pass over the PIT after faces were removed.
    pub(crate) sweep: Sweep,
    pub(crate) unsolicited: UnsolicitedPolicy,
    /// Strategy timers, keyed by the token of the PIT entry.
    pub(crate) strategy_timers: TimerWheel,
    pub(crate) measurements: Measurements,
    pub(crate) counters: Arc<Counters>,
    /// Requests and held Data of self-learning.
    pub(crate) learning: Learning,
    /// Communication with other shards; `None` for a single shard.
    pub(crate) peers: Option<Box<PeerShards>>,
    /// Buffer for an Interest that is changed into a Nack.
    pub(crate) scratch: Box<[u8; MAX_PACKET_SIZE]>,
    /// Buffer for an Interest that a timer sends again.
    pub(crate) timer_scratch: Vec<u8>,
    /// Buffer for an Interest that is sent with another Nonce.
    pub(crate) probe_scratch: Vec<u8>,
}

impl Tables {
    /// Records that the peer of a face sends PIT tokens, and notifies the other shards.
    #[inline]
    pub(crate) fn note_token(&mut self, face: FaceIndex) {
        let is_news = self.faces.note_token(face);
        if is_news && let Some(peers) = &mut self.peers {
            peers.share_token_sender(face);
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
        if let Some(peers) = &mut self.peers {
            let pending = self.pcct.entry(entry);
            peers.note_end(pending.expiry());
            if pending.is_published() {
                peers.withdraw(&self.pcct, &self.hasher, entry);
            }
        }
        self.pcct.erase(entry);
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

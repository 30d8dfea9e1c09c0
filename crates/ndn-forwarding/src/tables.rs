//! The tables of one shard.

use std::sync::Arc;

use ndn_packet::MAX_PACKET_SIZE;
use ndn_table::{DeadNonceList, FaceIndex, NameHasher, Pcct, PitIndex, TimerWheel};
use ndn_types::Timestamp;

use crate::learning::Learning;
use crate::peers::PeerShards;
use crate::strategy::Measurements;
use crate::{Counters, ShardFaces};

/// A latest expiry that is not further ahead is not worth a pass.
const EXPIRY_AHEAD_MS: u64 = 10_000;
/// Minimum time between the end of a pass and one for the latest expiry.
const PAUSE_MS: u64 = 1000;

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
    pub(crate) faces: ShardFaces,
    /// The pass over the PIT after faces were removed.
    pub(crate) sweep: Sweep,
    pub(crate) unsolicited: UnsolicitedPolicy,
    /// Strategy timers, keyed by the token of the PIT entry.
    pub(crate) strategy_timers: TimerWheel,
    pub(crate) measurements: Measurements,
    pub(crate) counters: Arc<Counters>,
    /// Requests and held Data of self-learning.
    pub(crate) learning: Learning,
    /// Local requests and decisions of VIP.
    #[cfg(feature = "vip")]
    pub(crate) vip: crate::vip::Vip,
    /// Communication with other shards; `None` for a single shard.
    pub(crate) peers: Option<Box<PeerShards>>,
    /// Buffer for an Interest that is changed into a Nack.
    pub(crate) scratch: Box<[u8; MAX_PACKET_SIZE]>,
    /// Buffer for an Interest that a timer sends again.
    pub(crate) timer_scratch: Vec<u8>,
    /// Buffers for an Interest that is sent with another Nonce; one that is sent again may be probed meanwhile.
    pub(crate) nonce_scratch: Vec<Vec<u8>>,
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
        self.note_erasure(entry);
        self.pcct.erase(entry);
    }

    /// Removes what is known of a PIT entry outside of the PIT, before it is erased.
    #[inline(always)]
    pub(crate) fn note_erasure(&mut self, entry: PitIndex) {
        if let Some(peers) = &mut self.peers {
            let pending = self.pcct.entry(entry);
            peers.note_end(pending.expiry());
            if pending.is_published() {
                peers.withdraw(&self.pcct, &self.hasher, entry);
            }
        }
    }

    /// Starts a pass over all entries that exist. If one is in progress, it is completed first: each pass
    /// ends, however often another is asked for.
    pub(crate) fn start_sweep(&mut self) {
        match self.sweep.position {
            Some(_) => self.sweep.is_due_again = true,
            None => self.begin_pass(),
        }
    }

    fn begin_pass(&mut self) {
        self.sweep.position = Some(0);
        self.sweep.latest_expiry = Timestamp::ZERO;
        self.peers.iter_mut().for_each(|peers| peers.begin_pass());
    }

    fn end_pass(&mut self, now: Timestamp) {
        let Self { sweep, peers, .. } = self;
        sweep.position = None;
        sweep.resumes = now.plus_millis(PAUSE_MS);
        peers.iter_mut().for_each(|peers| peers.end_pass(sweep.latest_expiry));
        match std::mem::take(&mut sweep.is_due_again) {
            true => self.begin_pass(),
            false => sweep.sends_again = false,
        }
    }

    /// Starts a pass that also sends Interests again.
    pub(crate) fn start_sending_again(&mut self) {
        self.start_sweep();
        self.sweep.sends_again = true;
    }

    /// Starts a pass for the latest expiry if it is time. Returns whether a pass is in progress.
    pub(crate) fn begin_due_sweep(&mut self, now: Timestamp) -> bool {
        if self.sweep.position.is_some() {
            return true;
        }
        let Self { peers: Some(peers), sweep, .. } = self else { return false };
        if !peers.is_latest_stale() {
            return false;
        }
        if peers.latest_expiry() <= now.plus_millis(EXPIRY_AHEAD_MS) {
            // It passes soon by itself, and must not wake the worker.
            peers.forget_ended();
            return false;
        }
        if now < sweep.resumes {
            return false;
        }
        self.begin_pass();
        true
    }

    /// Whether a pass is in progress.
    pub(crate) fn is_sweeping(&self) -> bool {
        self.sweep.position.is_some()
    }

    /// The next slot of the pass; `None` at its end, after which another may be in progress.
    pub(crate) fn next_sweep_slot(&mut self, now: Timestamp) -> Option<usize> {
        let slot = self.sweep.position?;
        if slot >= self.pcct.pit_slots() {
            self.end_pass(now);
            return None;
        }
        self.sweep.position = Some(slot + 1);
        Some(slot)
    }

    /// Records the expiry of an entry that stays. Returns whether its Interest is to be sent again, if it has lost its
    /// upstreams.
    pub(crate) fn note_swept(&mut self, entry: PitIndex) -> bool {
        let expiry = self.pcct.entry(entry).expiry();
        self.sweep.latest_expiry = self.sweep.latest_expiry.max(expiry);
        self.sweep.sends_again
    }

    /// When a pass continues, or one for the latest expiry starts.
    pub(crate) fn next_sweep(&self) -> Option<Timestamp> {
        if self.sweep.position.is_some() {
            return Some(Timestamp::ZERO);
        }
        let peers = self.peers.as_ref().filter(|peers| peers.is_latest_stale())?;
        let resumes = self.sweep.resumes;
        (peers.latest_expiry() > resumes.plus_millis(EXPIRY_AHEAD_MS)).then_some(resumes)
    }
}

/// A pass over all slots of the PIT. It ends the in-records of faces that have been removed, sends
/// Interests again whose upstreams have lost their links, and finds the latest expiry of the Interests
/// that are pending.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The next slot; `None` between passes.
    position: Option<usize>,
    /// Another pass follows this one: a face was removed since it started.
    is_due_again: bool,
    /// An upstream was lost since the last pass started.
    sends_again: bool,
    /// The latest expiry found in this pass.
    latest_expiry: Timestamp,
    /// When the next pass for the latest expiry may start.
    resumes: Timestamp,
}

/// Why a PIT entry ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Data, from upstream or from a Content Store.
    Data,
    /// A Nack of the last upstream that could have answered.
    Nack,
    /// Expiry.
    Expiry,
    /// The strategy found no next hop.
    Rejection,
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

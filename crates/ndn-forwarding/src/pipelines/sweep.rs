//! Passes over the PIT in the background.

use ndn_table::Timestamp;

use super::finalize::Ending;
use crate::strategy::Context;
use crate::tables::Tables;

/// Maximum number of slots and in-records visited in one call.
const STEPS_PER_POLL_MAX: usize = 128;
/// A latest expiry that is not further ahead is not worth a pass.
const EXPIRY_AHEAD_MS: u64 = 10_000;
/// Minimum time between the end of a pass and one for the latest expiry.
const PAUSE_MS: u64 = 1000;

/// A pass over all slots of the PIT. It ends the in-records of faces that have been removed, and
/// finds the latest expiry of the Interests that are pending.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    position: usize,
    /// Slots still to be visited.
    left: usize,
    /// Number of slots when `left` was set; slots that are added later lie behind them.
    slots: usize,
    /// The latest expiry found in this pass.
    latest_expiry: Timestamp,
    /// When the next pass for the latest expiry may start.
    resumes: Timestamp,
}

impl Tables {
    /// Starts a pass over all entries that exist. A pass in progress goes on until it has visited
    /// all of them again.
    pub(crate) fn start_sweep(&mut self) {
        let Self { sweep, pcct, peers, .. } = self;
        if sweep.left == 0 {
            sweep.latest_expiry = Timestamp::ZERO;
            peers.iter_mut().for_each(|peers| peers.begin_pass());
        }
        sweep.slots = pcct.pit_slots();
        sweep.left = sweep.slots;
    }

    /// When a pass continues, or one for the latest expiry starts.
    pub(crate) fn next_sweep(&self) -> Option<Timestamp> {
        if self.sweep.left > 0 {
            return Some(Timestamp::ZERO);
        }
        let peers = self.peers.as_ref().filter(|peers| peers.is_latest_stale())?;
        let resumes = self.sweep.resumes;
        (peers.latest_expiry() > resumes.plus_millis(EXPIRY_AHEAD_MS)).then_some(resumes)
    }
}

impl Context<'_> {
    /// Continues a pass, or starts one if it is time. Returns whether there is more to visit.
    pub(crate) fn sweep(&mut self) -> bool {
        if self.tables.sweep.left == 0 {
            let Tables { peers: Some(peers), sweep, .. } = &mut *self.tables else { return false };
            if !peers.is_latest_stale() {
                return false;
            }
            if peers.latest_expiry() <= self.now.plus_millis(EXPIRY_AHEAD_MS) {
                // It passes soon by itself, and must not wake the worker.
                peers.forget_ended();
                return false;
            }
            if self.now < sweep.resumes {
                return false;
            }
            self.tables.start_sweep();
        }
        let mut steps = 0;
        while self.tables.sweep.left > 0 && steps < STEPS_PER_POLL_MAX {
            steps += self.visit_next_slot();
        }
        let Tables { sweep, peers, .. } = &mut *self.tables;
        if sweep.left > 0 {
            return true;
        }
        sweep.resumes = self.now.plus_millis(PAUSE_MS);
        if let Some(peers) = peers {
            peers.end_pass(sweep.latest_expiry);
        }
        false
    }

    /// Returns the number of steps that it took.
    fn visit_next_slot(&mut self) -> usize {
        let Tables { sweep, pcct, faces, counters, .. } = &mut *self.tables;
        let slots = pcct.pit_slots();
        sweep.left += slots - sweep.slots;
        sweep.slots = slots;
        sweep.left -= 1;
        let next = sweep.position + 1;
        sweep.position = if next < slots { next } else { 0 };
        let Some(entry) = pcct.entry_in_slot(sweep.position) else { return 1 };
        let record_count = pcct.entry(entry).in_record_count();
        let gone = pcct.retain_in_records(entry, |record| faces.find(record.face).is_some());
        counters.in_records_face_gone.add(gone as u64);
        if gone > 0 && gone == record_count {
            self.finalize_unsatisfied(entry, Ending::Expiry);
        } else {
            sweep.latest_expiry = sweep.latest_expiry.max(pcct.entry(entry).expiry());
        }
        1 + record_count
    }
}

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
    /// The next slot; `None` between passes.
    position: Option<usize>,
    /// Another pass follows this one: a face was removed since it started.
    is_due_again: bool,
    /// The latest expiry found in this pass.
    latest_expiry: Timestamp,
    /// When the next pass for the latest expiry may start.
    resumes: Timestamp,
}

impl Tables {
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
        if std::mem::take(&mut sweep.is_due_again) {
            self.begin_pass();
        }
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

impl Context<'_> {
    /// Continues a pass, or starts one if it is time. Returns whether there is more to visit.
    pub(crate) fn sweep(&mut self) -> bool {
        if self.tables.sweep.position.is_none() {
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
            self.tables.begin_pass();
        }
        let mut steps = 0;
        while steps < STEPS_PER_POLL_MAX
            && let Some(slot) = self.tables.sweep.position
        {
            if slot < self.tables.pcct.pit_slots() {
                self.tables.sweep.position = Some(slot + 1);
                steps += self.visit_slot(slot);
            } else {
                self.tables.end_pass(self.now);
                steps += 1;
            }
        }
        self.tables.sweep.position.is_some()
    }

    /// Returns the number of steps that it took.
    fn visit_slot(&mut self, slot: usize) -> usize {
        let Tables { pcct, faces, counters, .. } = &mut *self.tables;
        let Some(entry) = pcct.entry_in_slot(slot) else { return 1 };
        let record_count = pcct.entry(entry).in_record_count();
        let gone = pcct.retain_in_records(entry, |record| faces.find(record.face).is_some());
        counters.in_records_face_gone.add(gone as u64);
        if gone > 0 && !self.shorten(entry) {
            self.finalize_unsatisfied(entry, Ending::Expiry);
        } else {
            let Tables { sweep, pcct, .. } = &mut *self.tables;
            sweep.latest_expiry = sweep.latest_expiry.max(pcct.entry(entry).expiry());
        }
        1 + record_count
    }
}

//! Passes over the PIT in the background.

use ndn_table::{PitIndex, PitPhase};
use ndn_types::Timestamp;

use super::finalize::Ending;
use crate::face_table::{FaceFlags, LinkState};
use crate::strategy::{Context, DIRECTED, PendingInterest, StrategyTable, other_nonce};
use crate::tables::Tables;

/// Maximum number of slots and records visited in one call.
const STEPS_PER_POLL_MAX: usize = 128;
/// A latest expiry that is not further ahead is not worth a pass.
const EXPIRY_AHEAD_MS: u64 = 10_000;
/// Minimum time between the end of a pass and one for the latest expiry.
const PAUSE_MS: u64 = 1000;

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
    pub(crate) fn sweep(&mut self, strategies: &StrategyTable) -> bool {
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
                steps += self.visit_slot(slot, strategies);
            } else {
                self.tables.end_pass(self.now);
                steps += 1;
            }
        }
        self.tables.sweep.position.is_some()
    }

    /// Returns the number of steps that it took.
    fn visit_slot(&mut self, slot: usize, strategies: &StrategyTable) -> usize {
        let Tables { pcct, faces, counters, .. } = &mut *self.tables;
        let Some(entry) = pcct.entry_in_slot(slot) else { return 1 };
        let record_count =
            pcct.entry(entry).in_record_count() + pcct.entry(entry).out_record_count();
        let gone = pcct.retain_in_records(entry, |_, record| faces.find(record.face).is_some());
        counters.in_records_face_gone.add(gone as u64);
        if gone > 0 && !self.shorten(entry) {
            self.finalize_unsatisfied(entry, Ending::Expiry);
        } else {
            let Tables { sweep, pcct, .. } = &mut *self.tables;
            sweep.latest_expiry = sweep.latest_expiry.max(pcct.entry(entry).expiry());
            if sweep.sends_again && self.has_lost_upstreams(entry) {
                self.send_again(entry, strategies);
            }
        }
        1 + record_count
    }

    /// Whether an Interest whose upstreams were lost may be sent to another next hop, or to one whose link is back.
    fn has_better_next_hop(&self, interest: &PendingInterest<'_>) -> bool {
        interest.next_hops.iter().any(|hop| {
            let flags = self.find_permitted(interest, hop.face);
            match flags.map_or(LinkState::Down, FaceFlags::link_state) {
                LinkState::Down => false,
                LinkState::Doubted => self.out_record(interest.entry, hop.face).is_none(),
                LinkState::Returning | LinkState::Up => true,
            }
        })
    }

    /// Whether the links of all upstreams of a PIT entry were lost, at least one of which a strategy chose.
    fn has_lost_upstreams(&self, entry: PitIndex) -> bool {
        let mut is_lost = false;
        for record in self.out_records(entry) {
            if record.nack_reason.is_some() || record.expiry() <= self.now {
                continue;
            }
            if self.has_upstream(record) {
                return false;
            }
            is_lost |= record.strategy_state != DIRECTED;
        }
        is_lost && self.tables.pcct.entry(entry).phase() == PitPhase::Pending
    }

    /// Passes a pending Interest to its strategy once more, if a next hop can be relied on more than those that it
    /// was sent to. It has another Nonce than before: the next hops may have seen those by way of the lost upstreams.
    fn send_again(&mut self, entry: PitIndex, strategies: &StrategyTable) {
        let sent = self.out_records(entry).map(|record| record.nonce);
        let nonce = other_nonce(sent.fold(0, u32::wrapping_add));
        self.with_pending(entry, strategies, |context, strategy, interest| {
            if context.has_better_next_hop(interest) {
                context.tables.counters.resent_interests.increment();
                context.with_nonce(interest, nonce, |context, interest| {
                    context.choose_next_hops(strategy, interest);
                });
            }
        });
    }
}

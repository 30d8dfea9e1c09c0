//! The interface between a shard and its strategies.

use ndn_packet::NackReason;
use ndn_table::{FaceIndex, FibSnapshot, InRecord, OutRecord, PitIndex, StrategyId};
use ndn_types::{PrincipalIndex, Timestamp};

use super::measurements::Writer;
use super::retransmission::{Retransmission, Suppression};
use super::{ArrivedData, PendingInterest};
use crate::face_table::{FaceFlags, LinkState};
use crate::pipelines::Ending;
use crate::tables::Tables;
use crate::{DropReason, TxSink};

/// State of the out-record of an Interest whose NextHopFaceId named the face: no strategy chose it, and
/// none may choose another.
pub(crate) const DIRECTED: u32 = u32::MAX;

/// State of a shard while it processes a packet, for its pipelines and strategies.
pub struct Context<'a> {
    pub(crate) now: Timestamp,
    pub(crate) tables: &'a mut Tables,
    pub(crate) fib: &'a FibSnapshot,
    pub(crate) tx: &'a mut dyn TxSink,
    /// The strategy instance of the current PIT entry.
    pub(crate) strategy: StrategyId,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Context<'_> {
    /// The time of the burst.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The in-records of a PIT entry.
    pub fn in_records(&self, entry: PitIndex) -> impl Iterator<Item = &InRecord> {
        self.tables.pcct.in_records(entry)
    }

    /// The out-records of a PIT entry.
    pub fn out_records(&self, entry: PitIndex) -> impl Iterator<Item = &OutRecord> {
        self.tables.pcct.out_records(entry)
    }

    /// Whether a PIT entry has out-records.
    #[inline]
    #[must_use]
    pub fn has_out_records(&self, entry: PitIndex) -> bool {
        self.tables.pcct.entry(entry).out_record_count() > 0
    }

    /// The in-record of `face`.
    #[must_use]
    pub fn in_record(&self, entry: PitIndex, face: FaceIndex) -> Option<&InRecord> {
        self.in_records(entry).find(|record| record.face == face)
    }

    /// The out-record of `face`.
    #[must_use]
    pub fn out_record(&self, entry: PitIndex, face: FaceIndex) -> Option<&OutRecord> {
        self.out_records(entry).find(|record| record.face == face)
    }

    /// Whether `face` still exists: records may outlive their faces.
    #[must_use]
    pub fn face_exists(&self, face: FaceIndex) -> bool {
        self.tables.faces.find(face).is_some()
    }

    /// Whether the Interest of an out-record may have reached its upstream: the face exists, and its link
    /// was not lost since.
    #[inline]
    #[must_use]
    pub fn has_upstream(&self, record: &OutRecord) -> bool {
        let faces = &self.tables.faces;
        faces.find(record.face).is_some_and(|flags| match flags.link_state() {
            LinkState::Up => true,
            LinkState::Returning | LinkState::Doubted => {
                faces.uncertain_since(record.face).is_none_or(|since| record.renewed > since)
            }
            LinkState::Down => false,
        })
    }

    /// Whether an upstream may still answer: [`Self::has_upstream`], and it returned no Nack, and its
    /// out-record has not expired.
    #[must_use]
    pub fn is_awaited(&self, record: &OutRecord) -> bool {
        record.nack_reason.is_none() && record.expiry() >= self.now && self.has_upstream(record)
    }

    /// Whether an Interest may be sent to `face`: it exists, scope rules allow it, and the Interest
    /// did not arrive on it, except on an ad-hoc link. A face that is down or in doubt, or that came back and
    /// has not answered since, is eligible only if no next hop can be relied on more.
    #[inline]
    #[must_use]
    pub fn is_eligible(&self, interest: &PendingInterest<'_>, face: FaceIndex) -> bool {
        let Some(flags) = self.find_permitted(interest, face) else { return false };
        match flags.link_state() {
            LinkState::Up => true,
            link_state @ (LinkState::Down | LinkState::Doubted | LinkState::Returning) => {
                self.best_link_state(interest) <= Some(link_state)
            }
        }
    }

    /// The properties of a face to which an Interest may be sent, whether it is up or not.
    pub(crate) fn find_permitted(
        &self,
        interest: &PendingInterest<'_>,
        face: FaceIndex,
    ) -> Option<FaceFlags> {
        let flags = self.tables.faces.find(face)?;
        let violates_scope = interest.is_for_local && !flags.is_local();
        (!violates_scope && (face != interest.face || flags.is_ad_hoc())).then_some(flags)
    }

    /// How far the next hops can be relied on at best; `None` if the Interest may be sent to none.
    #[cold]
    pub(crate) fn best_link_state(&self, interest: &PendingInterest<'_>) -> Option<LinkState> {
        let faces = interest.next_hops.iter().map(|hop| hop.face);
        faces.filter_map(|face| Some(self.find_permitted(interest, face)?.link_state())).max()
    }

    /// Sends the Interest to `face` and records it in the out-record. Returns false if that was not
    /// possible; the drop is counted.
    #[inline]
    pub fn send_interest(&mut self, interest: &PendingInterest<'_>, face: FaceIndex) -> bool {
        match self.outgoing_interest(interest, face) {
            Ok(()) => true,
            Err(reason) => {
                self.count_drop(reason);
                false
            }
        }
    }

    /// Sends a Nack to `face`, if it is a point-to-point downstream of `entry` that still waits, and
    /// removes its in-record.
    pub fn send_nack(
        &mut self,
        entry: PitIndex,
        face: FaceIndex,
        reason: NackReason,
        congestion_mark: u16,
    ) {
        self.outgoing_nack(entry, face, reason, congestion_mark);
    }

    /// Sends a Nack to every point-to-point downstream of `entry` that still waits, and removes the
    /// in-records of all of them.
    pub fn send_nacks(&mut self, entry: PitIndex, reason: NackReason, congestion_mark: u16) {
        // A downstream that takes no Nacks keeps its record, so this iterates by position.
        let mut kept = 0;
        loop {
            let record = self.in_records(entry).nth(kept);
            let Some(face) = record.map(|record| record.face) else { break };
            if !self.outgoing_nack(entry, face, reason, congestion_mark) {
                kept += 1;
            }
        }
    }

    /// Ends a PIT entry without next hop, without notifying its downstreams.
    pub fn reject(&mut self, entry: PitIndex) {
        self.finalize_unsatisfied(entry, Ending::Rejection);
    }

    /// Schedules [`Strategy::on_timer`](super::Strategy::on_timer) at `deadline`. It is not called
    /// if the entry has ended by then, or if all timers are in use.
    pub fn set_timer(&mut self, entry: PitIndex, deadline: Timestamp) {
        self.schedule_strategy_timer(entry, deadline);
    }

    /// Counts an Interest that is not sent.
    pub fn count_drop(&mut self, reason: DropReason) {
        self.tables.counters.drop_packet(reason);
    }

    /// Decides on an Interest that has joined `entry`, from the Interests sent to any upstream.
    pub(super) fn decide_retransmission(
        &mut self,
        suppression: &Suppression,
        entry: PitIndex,
    ) -> Retransmission {
        let now = self.now;
        let mut last_sent = Timestamp::ZERO;
        let mut is_pending = false;
        for record in self.out_records(entry) {
            last_sent = last_sent.max(record.renewed);
            is_pending |= self.is_awaited(record);
        }
        if !is_pending {
            return Retransmission::New;
        }
        let state = &mut self.tables.pcct.entry_mut(entry).strategy_state;
        let mut interval_ms = u32::try_from(*state).unwrap_or(0);
        let decision = suppression.decide(now, last_sent, &mut interval_ms);
        *state = u64::from(interval_ms);
        decision
    }

    /// Decides on an Interest for one upstream, from the last Interest sent there. Returns also the
    /// interval to set once the Interest has been sent.
    pub(super) fn decide_retransmission_to(
        &self,
        suppression: &Suppression,
        entry: PitIndex,
        face: FaceIndex,
    ) -> (Retransmission, u32) {
        let Some(record) = self.out_record(entry, face) else { return (Retransmission::New, 0) };
        let mut interval_ms =
            if record.strategy_state == DIRECTED { 0 } else { record.strategy_state };
        let decision = suppression.decide(self.now, record.renewed, &mut interval_ms);
        (decision, interval_ms)
    }

    /// Sets the suppression interval of an upstream.
    pub(crate) fn set_interval(&mut self, entry: PitIndex, face: FaceIndex, interval_ms: u32) {
        if let Some(record) = self.tables.pcct.out_record_mut(entry, face) {
            record.strategy_state = interval_ms;
        }
    }

    /// The first non-local face at `position` or after it, in arbitrary order, and the position to
    /// continue from.
    pub(super) fn next_remote_face(&self, position: usize) -> Option<(usize, FaceIndex)> {
        self.tables.faces.next_remote(position)
    }

    /// Whether a face exists and is local.
    pub(super) fn is_local(&self, face: FaceIndex) -> bool {
        self.tables.faces.find(face).is_some_and(|flags| flags.is_local())
    }

    /// Sets the strategy state in the in-record of `face`.
    pub(super) fn set_downstream_state(&mut self, entry: PitIndex, face: FaceIndex, state: u8) {
        if let Some(record) = self.tables.pcct.in_record_mut(entry, face) {
            record.strategy_state = state;
        }
    }

    /// The face that last answered under the longest prefix with a measurement, and its timeout in
    /// nanoseconds.
    pub(super) fn last_working(&self, prefix_hashes: &[u64]) -> Option<(FaceIndex, u64)> {
        let measurements = &self.tables.measurements;
        let known = measurements.find_longest_prefix(self.strategy, prefix_hashes, self.now)?;
        Some((known.last_next_hop, known.rtt.timeout_ns()))
    }

    /// The writer of measurements for an Interest that is forwarded: the principal that sent it.
    pub(super) fn asker(&self, interest: &PendingInterest<'_>) -> Writer {
        let principal = self.tables.faces.principal(interest.face);
        let principal = principal.unwrap_or(PrincipalIndex::OTHER);
        Writer { strategy: self.strategy, principal, now: self.now }
    }

    /// The writer of measurements for an answer: the principal that the entry is charged to.
    pub(super) fn writer(&self, entry: PitIndex) -> Writer {
        let principal = self.tables.pcct.entry(entry).principal();
        Writer { strategy: self.strategy, principal, now: self.now }
    }

    /// Records that a face answered `entry` after `rtt_ns`, under the parent of the name of `data`.
    pub(super) fn note_answer(&mut self, entry: PitIndex, data: &ArrivedData<'_>, rtt_ns: u64) {
        let [.., parent_hash, _] = *data.prefix_hashes else { return };
        let by = self.writer(entry);
        let measurements = &mut self.tables.measurements;
        let of_face = measurements.face_mut(by, data.face);
        of_face.rtt.add(rtt_ns);
        let face_rtt = of_face.rtt;
        let of_prefix = measurements.prefix_mut(by, parent_hash);
        if of_prefix.last_next_hop == data.face {
            of_prefix.rtt.add(rtt_ns);
        } else {
            of_prefix.last_next_hop = data.face;
            of_prefix.rtt = face_rtt;
        }
    }
}

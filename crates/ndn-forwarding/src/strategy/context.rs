//! The interface between a shard and its strategies.

use ndn_packet::{Interest, NackReason, NameRef};
use ndn_table::{FaceIndex, InRecord, OutRecord, PREFIX_HASHES_MAX, PitIndex, StrategyId};
use ndn_types::random::finalize;
use ndn_types::{PrincipalIndex, Timestamp};

use super::measurements::{Measurements, Writer};
use super::retransmission::{Retransmission, Suppression};
use crate::DropReason;
use crate::face_table::{FaceFlags, LinkState};
use crate::learning::LearningRequest;
use crate::outgoing::Outgoing;
use crate::packet::RxPacket;
use crate::pending_interest::PendingInterest;
use crate::tables::Ending;

/// State of the out-record of an Interest whose NextHopFaceId named the face: no strategy chose it, and
/// none may choose another.
pub(crate) const DIRECTED: u32 = u32::MAX;

/// State of a shard while a strategy decides: what strategies may read and do.
pub struct Context<'a> {
    pub(crate) outgoing: Outgoing<'a>,
    /// The strategy instance of the current PIT entry.
    pub(crate) strategy: StrategyId,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl Context<'_> {
    /// The time of the burst.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.outgoing.now
    }

    /// The in-records of a PIT entry.
    pub fn in_records(&self, entry: PitIndex) -> impl Iterator<Item = &InRecord> {
        self.outgoing.tables.pcct.in_records(entry)
    }

    /// The out-records of a PIT entry.
    pub fn out_records(&self, entry: PitIndex) -> impl Iterator<Item = &OutRecord> {
        self.outgoing.tables.pcct.out_records(entry)
    }

    /// Whether a PIT entry has out-records.
    #[inline]
    #[must_use]
    pub fn has_out_records(&self, entry: PitIndex) -> bool {
        self.outgoing.tables.pcct.entry(entry).out_record_count() > 0
    }

    /// The in-record of `face`.
    #[must_use]
    pub fn in_record(&self, entry: PitIndex, face: FaceIndex) -> Option<&InRecord> {
        self.outgoing.in_record(entry, face)
    }

    /// The out-record of `face`.
    #[must_use]
    pub fn out_record(&self, entry: PitIndex, face: FaceIndex) -> Option<&OutRecord> {
        self.outgoing.out_record(entry, face)
    }

    /// Whether `face` still exists: records may outlive their faces.
    #[must_use]
    pub fn face_exists(&self, face: FaceIndex) -> bool {
        self.outgoing.tables.faces.find(face).is_some()
    }

    /// Whether the Interest of an out-record may have reached its upstream: the face exists, and its link
    /// was not lost since.
    #[inline]
    #[must_use]
    pub fn has_upstream(&self, record: &OutRecord) -> bool {
        let faces = &self.outgoing.tables.faces;
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
        record.nack_reason.is_none()
            && record.expiry() > self.outgoing.now
            && self.has_upstream(record)
    }

    /// Whether an Interest may be sent to `face`: it exists, scope rules allow it, and the Interest
    /// did not arrive on it, except on an ad-hoc link. A face that is down or in doubt, or that came back and
    /// has not answered since, is eligible only if no next hop can be relied on more.
    #[inline]
    #[must_use]
    pub fn is_eligible(&self, interest: &PendingInterest<'_>, face: FaceIndex) -> bool {
        self.find_eligible(interest, face).is_some()
    }

    /// The properties of an [eligible](Self::is_eligible) face.
    #[inline(always)]
    pub(super) fn find_eligible(
        &self,
        interest: &PendingInterest<'_>,
        face: FaceIndex,
    ) -> Option<FaceFlags> {
        let flags = self.find_permitted(interest, face)?;
        let state = flags.link_state();
        if state != LinkState::Up && self.best_link_state(&{ *interest }) > Some(state) {
            return None;
        }
        Some(flags)
    }

    /// The properties of a face to which an Interest may be sent, whether it is up or not.
    #[inline(always)]
    pub(crate) fn find_permitted(
        &self,
        interest: &PendingInterest<'_>,
        face: FaceIndex,
    ) -> Option<FaceFlags> {
        let flags = self.outgoing.tables.faces.find(face)?;
        let violates_scope = interest.is_for_local && !flags.is_local();
        (!violates_scope && (face != interest.face || flags.is_ad_hoc())).then_some(flags)
    }

    /// The best link state of the next hops; `None` if the Interest may be sent to none.
    #[cold]
    pub(crate) fn best_link_state(&self, interest: &PendingInterest<'_>) -> Option<LinkState> {
        let faces = interest.next_hops.iter().map(|hop| hop.face);
        faces.filter_map(|face| Some(self.find_permitted(interest, face)?.link_state())).max()
    }

    /// Sends the Interest to `face` and records it in the out-record. Returns false if that was not
    /// possible; the drop is counted.
    #[inline(never)]
    pub fn send_interest(&mut self, interest: &PendingInterest<'_>, face: FaceIndex) -> bool {
        let flags = self.outgoing.tables.faces.find(face);
        self.send_to_known(interest, face, flags)
    }

    /// [`Self::send_interest`] with the properties of the face, if it exists.
    #[inline(always)]
    pub(super) fn send_to_known(
        &mut self,
        interest: &PendingInterest<'_>,
        face: FaceIndex,
        flags: Option<FaceFlags>,
    ) -> bool {
        match self.outgoing.outgoing_interest(interest, face, flags) {
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
        self.outgoing.outgoing_nack(entry, face, reason, congestion_mark);
    }

    /// Sends a Nack to every point-to-point downstream of `entry` that still waits, and removes the
    /// in-records of all of them.
    pub fn send_nacks(&mut self, entry: PitIndex, reason: NackReason, congestion_mark: u16) {
        // A downstream that takes no Nacks keeps its record, so this iterates by position.
        let mut kept = 0;
        loop {
            let record = self.in_records(entry).nth(kept);
            let Some(face) = record.map(|record| record.face) else { break };
            if !self.outgoing.outgoing_nack(entry, face, reason, congestion_mark) {
                kept += 1;
            }
        }
    }

    /// Rejects the Interest of a downstream for which there is no next hop: returns a Nack of reason `NoRoute`. The entry
    /// ends, too, unless other downstreams wait for an upstream that may still answer.
    #[cold]
    pub fn reject_downstream(&mut self, entry: PitIndex, face: FaceIndex) {
        self.count_drop(DropReason::NoNextHop);
        self.send_nack(entry, face, NackReason::NO_ROUTE, 0);
        let now = self.now();
        let is_left = self.in_records(entry).any(|record| record.expiry() > now)
            && self.out_records(entry).any(|record| self.is_awaited(record));
        if !is_left {
            self.reject(entry);
        }
    }

    /// Ends a PIT entry without next hop for all of its downstreams, without notifying them.
    pub fn reject(&mut self, entry: PitIndex) {
        self.outgoing.finalize_unsatisfied(entry, Ending::Rejection);
    }

    /// Schedules [`Strategy::on_timer`](super::Strategy::on_timer) at `deadline`. It is not called
    /// if the entry has ended by then, or if all timers are in use.
    pub fn set_timer(&mut self, entry: PitIndex, deadline: Timestamp) {
        self.outgoing.schedule_strategy_timer(entry, deadline);
    }

    /// Counts an Interest that is not sent.
    pub fn count_drop(&mut self, reason: DropReason) {
        self.outgoing.tables.counters.drop_packet(reason);
    }

    /// The table of measurements.
    pub(super) fn measurements(&mut self) -> &mut Measurements {
        &mut self.outgoing.tables.measurements
    }

    /// The FaceId of a face that exists.
    pub(super) fn face_id(&self, face: FaceIndex) -> Option<u64> {
        self.outgoing.tables.faces.face_id(face)
    }

    /// The name of a pending Interest.
    pub(super) fn interest_name(&self, entry: PitIndex) -> NameRef<'_> {
        self.outgoing.tables.pcct.interest_name(entry)
    }

    /// The strategy's word in a PIT entry.
    pub(super) fn strategy_state(&self, entry: PitIndex) -> u64 {
        self.outgoing.tables.pcct.entry(entry).strategy_state
    }

    /// Sets the strategy's word in a PIT entry.
    pub(super) fn set_strategy_state(&mut self, entry: PitIndex, state: u64) {
        self.outgoing.tables.pcct.entry_mut(entry).strategy_state = state;
    }

    /// Queues a request to the control thread.
    pub(super) fn request_control(&mut self, request: LearningRequest) {
        self.outgoing.request_control(request);
    }

    /// Holds a Data from the downstreams of `entry` until its announcement is found.
    pub(super) fn hold_data(&mut self, entry: PitIndex, data: &RxPacket<'_>) {
        self.outgoing.hold_data(entry, data);
    }

    /// Keeps an entry satisfied by a Data of `face` for `wait_ms`, to measure the answers of other upstreams.
    pub(super) fn linger(&mut self, entry: PitIndex, face: FaceIndex, wait_ms: u64) {
        self.outgoing.linger(entry, face, wait_ms);
    }

    /// Decides on an Interest that has joined `entry`, from the Interests sent to any upstream.
    pub(super) fn decide_retransmission(
        &mut self,
        suppression: &Suppression,
        interest: &PendingInterest<'_>,
    ) -> Retransmission {
        let entry = interest.entry;
        let now = self.outgoing.now;
        let mut last_sent = Timestamp::ZERO;
        let mut is_pending = false;
        for record in self.out_records(entry) {
            last_sent = last_sent.max(record.renewed);
            is_pending |= self.is_awaited(record);
        }
        if !is_pending {
            return Retransmission::New;
        }
        let state = &mut self.outgoing.tables.pcct.entry_mut(entry).strategy_state;
        let mut interval_ms = u32::try_from(*state).unwrap_or(0);
        let decision = suppression.decide(now, last_sent, &mut interval_ms);
        *state = u64::from(interval_ms);
        if decision == Retransmission::Suppress && self.insists(interest) {
            return Retransmission::Forward;
        }
        decision
    }

    /// Notes that an Interest is suppressed. Returns whether it is sent nevertheless: the second, fourth, eighth and so on up
    /// to the 128th of a downstream are, if others wait, too. What was sent for them may have had a shorter lifetime, a
    /// smaller HopLimit or another ForwardingHint, and a downstream that repeats such Interests would keep those of others
    /// from being sent at all.
    #[cold]
    pub(super) fn insists(&mut self, interest: &PendingInterest<'_>) -> bool {
        let pcct = &mut self.outgoing.tables.pcct;
        if pcct.entry(interest.entry).in_record_count() < 2 {
            return false;
        }
        let Some(record) = pcct.in_record_mut(interest.entry, interest.face) else { return false };
        record.strategy_state = record.strategy_state.saturating_add(1);
        record.strategy_state > 1 && record.strategy_state.is_power_of_two()
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
        let decision = suppression.decide(self.outgoing.now, record.renewed, &mut interval_ms);
        (decision, interval_ms)
    }

    /// Sets the suppression interval of an upstream.
    pub(crate) fn set_interval(&mut self, entry: PitIndex, face: FaceIndex, interval_ms: u32) {
        if let Some(record) = self.outgoing.tables.pcct.out_record_mut(entry, face) {
            record.strategy_state = interval_ms;
        }
    }

    /// The first non-local face at `position` or after it, in arbitrary order, and the position to
    /// continue from.
    pub(super) fn next_remote_face(&self, position: usize) -> Option<(usize, FaceIndex)> {
        self.outgoing.tables.faces.next_remote(position)
    }

    /// Whether a face exists and is local.
    pub(super) fn is_local(&self, face: FaceIndex) -> bool {
        self.outgoing.tables.faces.find(face).is_some_and(|flags| flags.is_local())
    }

    /// Sets the strategy state in the in-record of `face`.
    pub(super) fn set_downstream_state(&mut self, entry: PitIndex, face: FaceIndex, state: u8) {
        if let Some(record) = self.outgoing.tables.pcct.in_record_mut(entry, face) {
            record.strategy_state = state;
        }
    }

    /// The face that last answered under the longest prefix with a measurement, and its timeout in
    /// nanoseconds.
    pub(super) fn last_working(&self, prefix_hashes: &[u64]) -> Option<(FaceIndex, u64)> {
        let measurements = &self.outgoing.tables.measurements;
        let known =
            measurements.find_longest_prefix(self.strategy, prefix_hashes, self.outgoing.now)?;
        Some((known.last_next_hop, known.rtt.timeout_ns()))
    }

    /// The writer of measurements for an Interest that is forwarded: the principal that sent it.
    pub(super) fn asker(&self, interest: &PendingInterest<'_>) -> Writer {
        let principal = self.outgoing.tables.faces.principal(interest.face);
        let principal = principal.unwrap_or(PrincipalIndex::OTHER);
        Writer { strategy: self.strategy, principal, now: self.outgoing.now }
    }

    /// The writer of measurements for an answer: the principal that the entry is charged to.
    pub(super) fn writer(&self, entry: PitIndex) -> Writer {
        let principal = self.outgoing.tables.pcct.entry(entry).principal();
        Writer { strategy: self.strategy, principal, now: self.outgoing.now }
    }

    /// Notes in the out-record of a face that its answer is measured for the namespace of this Interest.
    pub(super) fn set_namespace(&mut self, interest: &PendingInterest<'_>, face: FaceIndex) {
        if let Some(record) = self.outgoing.tables.pcct.out_record_mut(interest.entry, face) {
            record.measured_depth =
                u8::try_from(interest.next_hops_depth).unwrap_or(OutRecord::UNMEASURED);
        }
    }

    /// The namespace that the answer of a face is measured for, by the hashes of the prefixes of its name: that of the
    /// Interest that was sent to it. Further measurements may exist for prefixes of the same name.
    pub(super) fn namespace_of(
        &self,
        entry: PitIndex,
        face: FaceIndex,
        prefix_hashes: &[u64],
    ) -> Option<u64> {
        let depth = self.out_record(entry, face)?.measured_depth;
        prefix_hashes.get(usize::from(depth)).copied()
    }

    /// Records that a face answered `entry` after `rtt_ns`, under the parent of the name of `data`.
    pub(super) fn note_answer(&mut self, entry: PitIndex, data: &RxPacket<'_>, rtt_ns: u64) {
        let [.., parent_hash, _] = *data.hashes() else { return };
        let by = self.writer(entry);
        let measurements = &mut self.outgoing.tables.measurements;
        let of_face = measurements.face_mut(by, data.face());
        of_face.rtt.add(rtt_ns);
        let face_rtt = of_face.rtt;
        let of_prefix = measurements.prefix_mut(by, parent_hash);
        if of_prefix.last_next_hop == data.face() {
            of_prefix.rtt.add(rtt_ns);
        } else {
            of_prefix.last_next_hop = data.face();
            of_prefix.rtt = face_rtt;
        }
    }

    /// Sends the Interest to `face` with another Nonce, so that it is not dropped as a loop where
    /// the paths meet. Returns false if that was not possible.
    pub(super) fn send_probe(
        &mut self,
        interest: &PendingInterest<'_>,
        face: FaceIndex,
        nonce: u32,
    ) -> bool {
        let mut is_sent = false;
        self.with_nonce(interest, nonce, |context, probe| {
            is_sent = context.send_interest(probe, face);
        });
        is_sent
    }

    /// Calls `act` with a copy of the Interest that has another Nonce.
    pub(crate) fn with_nonce(
        &mut self,
        interest: &PendingInterest<'_>,
        nonce: u32,
        act: impl FnOnce(&mut Self, &PendingInterest<'_>),
    ) {
        let wire = interest.wire;
        let offset = Interest::parse(wire).ok().and_then(|view| view.nonce_offset());
        let Some(place) = offset.map(|offset| offset..offset + 4) else { return };
        let mut copy = self.outgoing.tables.nonce_scratch.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(wire);
        if let Some(place) = copy.get_mut(place) {
            place.copy_from_slice(&nonce.to_be_bytes());
            act(self, &PendingInterest { wire: &copy, handle: None, nonce, ..*interest });
        }
        self.outgoing.tables.nonce_scratch.push(copy);
    }

    /// Sends copies of a new Interest to the next hops that came back or are in doubt, until something arrives on them.
    #[cold]
    pub(crate) fn probe_uncertain(&mut self, interest: &PendingInterest<'_>) {
        for hop in interest.next_hops {
            let face = hop.face;
            let flags = self.find_permitted(interest, face);
            let link_state = flags.map(FaceFlags::link_state);
            if matches!(link_state, Some(LinkState::Returning | LinkState::Doubted))
                && self.out_record(interest.entry, face).is_none()
                && self.outgoing.tables.faces.take_probe(face, self.outgoing.now)
            {
                self.send_probe(interest, face, other_nonce(interest.nonce));
            }
        }
    }

    /// The key of the object that an Interest belongs to, if VIPs were sent for it.
    #[cfg(feature = "vip")]
    pub(super) fn find_vip_object(&self, interest: &PendingInterest<'_>) -> Option<u64> {
        self.outgoing.tables.vip.find_object(interest.prefix_hashes, interest.wire)
    }

    /// VIPs sent to a next hop over the window, in millionths of a request.
    #[cfg(feature = "vip")]
    pub(super) fn vips_sent(&self, object: u64, face: FaceIndex) -> u64 {
        self.outgoing.tables.vip.sent(object, face)
    }

    /// Hashes the prefixes of the name of a pending Interest; returns their number.
    pub(super) fn hash_name_of(
        &self,
        entry: PitIndex,
        hashes: &mut [u64; PREFIX_HASHES_MAX],
    ) -> usize {
        let Ok(interest) = Interest::parse(self.outgoing.tables.pcct.interest(entry)) else {
            return 0;
        };
        self.outgoing.tables.hasher.hash_prefixes(interest.name(), hashes).unwrap_or(0)
    }
}

/// A Nonce for a copy of an Interest.
pub(crate) fn other_nonce(nonce: u32) -> u32 {
    let [.., a, b, c, d] = finalize(u64::from(nonce) | 1 << 32).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

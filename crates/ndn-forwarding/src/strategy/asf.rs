//! ASF strategy, version 5: adaptive forwarding by smoothed round-trip time (Lehman et al., "ASF:
//! An experimental evaluation of the adaptive smoothed round-trip time based forwarding strategy",
//! NFD).

use ndn_table::{FaceIndex, NextHop, PitIndex};
use ndn_types::Timestamp;
use ndn_types::random::finalize;

use super::measurements::Measurement;
use super::parameters::{ParameterError, Parameters};
use super::retransmission::{Retransmission, Suppression};
use super::{ArrivedNack, Context, PendingInterest, Strategy, nack};
use crate::DropReason;
use crate::packet::RxPacket;

/// The first probe of a namespace is sent within this time.
const FIRST_PROBE_MS: u64 = 5000;
/// Minimum probing interval.
const PROBING_INTERVAL_MS_MIN: u64 = 1000;
/// Default lifetime of measurements.
const LIFETIME_MS: u64 = 300_000;
/// A probe is measured if its answer arrives at most this long after another one.
const PROBE_ANSWER_MS: u64 = 50;
/// Maximum number of next hops considered for a probe.
const CANDIDATES_MAX: usize = 32;

/// State of a next hop.
const UNMEASURED: u64 = 0;
const WORKING: u64 = 1;
const TIMED_OUT: u64 = 2;
/// The bits that hold the state; the number of consecutive timeouts is above them.
const KIND_BITS: u64 = 3;
const ONE_TIMEOUT: u64 = KIND_BITS + 1;

/// Sends an Interest to the next hop with the shortest round-trip time among those that answer, and
/// periodically probes another.
#[derive(Debug)]
pub(crate) struct Asf {
    suppression: Suppression,
    probing_interval_ms: u64,
    max_timeouts: u64,
    lifetime_ms: u64,
}

/// Rank of a next hop; lower is better.
type Rank = (u8, u64, u64, u32);

impl Asf {
    pub(super) fn construct(parameters: &mut Parameters) -> Result<Self, ParameterError> {
        let suppression = Suppression::from_parameters(parameters)?;
        let probing_interval_ms = parameters.take_u64("probing-interval", 60_000)?;
        let max_timeouts = parameters.take_u64("max-timeouts", 3)?;
        if probing_interval_ms < PROBING_INTERVAL_MS_MIN {
            return Err(ParameterError::Refused("Probing interval must be >= 1000 milliseconds"));
        }
        // Long enough for the result of a probe, whatever the probing interval.
        let lifetime_ms = LIFETIME_MS.max(probing_interval_ms.saturating_add(FIRST_PROBE_MS));
        let lifetime_ms = parameters.take_u64("measurements-lifetime", lifetime_ms)?;
        if lifetime_ms <= probing_interval_ms {
            return Err(ParameterError::Value {
                name: "measurements-lifetime",
                value: lifetime_ms.to_string(),
                reason: "it must be longer than probing-interval",
            });
        }
        Ok(Self { suppression, probing_interval_ms, max_timeouts, lifetime_ms })
    }

    /// The suppression of retransmissions.
    #[cfg(feature = "vip")]
    pub(super) const fn suppression(&self) -> Suppression {
        self.suppression
    }

    /// The round-trip time of a next hop, `u64::MAX` if it is not known; `None` if the next hop does not answer.
    #[cfg(feature = "vip")]
    pub(super) fn rtt_unless_timed_out(
        &self,
        context: &mut Context<'_>,
        interest: &PendingInterest<'_>,
        face: FaceIndex,
    ) -> Option<u64> {
        let (kind, rtt_ns) = self.state_and_rtt(context, interest, face);
        (kind != TIMED_OUT).then_some(rtt_ns)
    }

    /// Sends an Interest that is not pending to a next hop, and probes another one if it is time.
    pub(super) fn forward_and_probe(
        &self,
        context: &mut Context<'_>,
        interest: &PendingInterest<'_>,
        face: FaceIndex,
    ) {
        self.forward(context, interest, face);
        self.probe(context, interest, face);
    }

    /// Applies a timeout that has passed since the next hop was last checked.
    fn apply_timeout(&self, hop: &mut Measurement, now: Timestamp) {
        if hop.due != Timestamp::ZERO && hop.due <= now {
            hop.due = Timestamp::ZERO;
            self.note_timeout(hop, false);
        }
    }

    fn note_timeout(&self, hop: &mut Measurement, is_nack: bool) {
        let timeouts = hop.state / ONE_TIMEOUT + 1;
        if timeouts < self.max_timeouts && !is_nack {
            hop.state += ONE_TIMEOUT;
        } else {
            hop.state = TIMED_OUT;
        }
    }

    /// State and round-trip time of a next hop.
    fn state_and_rtt(
        &self,
        context: &mut Context<'_>,
        interest: &PendingInterest<'_>,
        face: FaceIndex,
    ) -> (u64, u64) {
        let (now, strategy) = (context.now(), context.strategy);
        let table = context.measurements();
        let Some(hop) = table.find_hop_mut(strategy, interest.namespace(), face, now) else {
            return (UNMEASURED, u64::MAX);
        };
        self.apply_timeout(hop, now);
        match hop.state & KIND_BITS {
            WORKING => (WORKING, hop.rtt.smoothed_ns()),
            kind => (kind, u64::MAX),
        }
    }

    fn best(
        &self,
        context: &mut Context<'_>,
        interest: &PendingInterest<'_>,
        wants_unused: bool,
    ) -> Option<FaceIndex> {
        let mut best: Option<(Rank, FaceIndex)> = None;
        for &NextHop { face, cost } in interest.next_hops {
            let is_used = wants_unused && is_used(context, interest.entry, face);
            if is_used || !context.is_eligible(interest, face) {
                continue;
            }
            let (kind, rtt_ns) = self.state_and_rtt(context, interest, face);
            let priority = match kind {
                WORKING => 1,
                UNMEASURED => 2,
                _ => 3,
            };
            let rank = (priority, rtt_ns, cost, face.to_bits());
            if best.is_none_or(|(other, _)| rank < other) {
                best = Some((rank, face));
            }
        }
        best.map(|(_, face)| face)
    }

    /// Sends an Interest and measures its answer.
    fn forward(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>, face: FaceIndex) {
        if context.send_interest(interest, face) {
            self.await_answer(context, interest, face);
        }
    }

    fn await_answer(
        &self,
        context: &mut Context<'_>,
        interest: &PendingInterest<'_>,
        face: FaceIndex,
    ) {
        context.set_namespace(interest, face);
        let by = context.asker(interest);
        let now = by.now;
        let table = context.measurements();
        table.namespace_mut(by, interest.namespace(), self.lifetime_ms);
        let hop = table.hop_mut(by, interest.namespace(), face, self.lifetime_ms);
        self.apply_timeout(hop, now);
        if hop.due == Timestamp::ZERO {
            hop.due = now.plus_nanos(hop.rtt.timeout_ns());
            hop.mark = name_hash(interest.prefix_hashes);
        }
    }

    fn probe(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>, used: FaceIndex) {
        let by = context.asker(interest);
        let now = by.now;
        let random = finalize(u64::from(interest.nonce) ^ interest.namespace());
        let table = context.measurements();
        let namespace = table.namespace_mut(by, interest.namespace(), self.lifetime_ms);
        if namespace.due == Timestamp::ZERO {
            namespace.due = now.plus_millis(1 + random % FIRST_PROBE_MS);
        }
        if namespace.due > now {
            return;
        }
        let Some(face) = self.face_to_probe(context, interest, used, random) else { return };
        let nonce = u32::try_from(finalize(random) >> 32).unwrap_or_default();
        if context.send_probe(interest, face, nonce) {
            self.await_answer(context, interest, face);
        }
        let table = context.measurements();
        let namespace = table.namespace_mut(by, interest.namespace(), self.lifetime_ms);
        namespace.due = now.plus_millis(self.probing_interval_ms);
    }

    /// The best next hop that is unmeasured; otherwise a random one, with a probability that falls
    /// with its rank.
    fn face_to_probe(
        &self,
        context: &mut Context<'_>,
        interest: &PendingInterest<'_>,
        used: FaceIndex,
        random: u64,
    ) -> Option<FaceIndex> {
        let mut candidates = [((0, 0, 0, 0), used); CANDIDATES_MAX];
        let mut count = 0;
        for &NextHop { face, cost } in interest.next_hops {
            if face == used || count == CANDIDATES_MAX || !context.is_eligible(interest, face) {
                continue;
            }
            let (kind, rtt_ns) = self.state_and_rtt(context, interest, face);
            let priority = match kind {
                UNMEASURED => 1,
                WORKING => 2,
                _ => 3,
            };
            candidates[count] = ((priority, rtt_ns, cost, face.to_bits()), face);
            count += 1;
        }
        let candidates = &mut candidates[..count];
        candidates.sort_unstable_by_key(|(rank, _)| *rank);
        let &((priority, ..), first) = candidates.first()?;
        if priority == 1 {
            return Some(first);
        }
        // Of n candidates, the first has weight n, the last weight 1.
        let chances = (count * (count + 1) / 2) as u64;
        let mut left = random % chances;
        for (index, (_, face)) in candidates.iter().enumerate() {
            let share = (count - index) as u64;
            if left < share {
                return Some(*face);
            }
            left -= share;
        }
        Some(first)
    }

    fn retransmit(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        let unused = self.best(context, interest, true);
        let Some(face) = unused.or_else(|| tried_longest_ago(context, interest)) else {
            context.count_drop(DropReason::NoNextHop);
            return;
        };
        let (decision, interval_ms) =
            context.decide_retransmission_to(&self.suppression, interest.entry, face);
        if decision == Retransmission::Suppress && !context.insists(interest) {
            context.count_drop(DropReason::RetransmissionSuppressed);
            return;
        }
        match unused {
            Some(face) => self.forward(context, interest, face),
            // Its answer is being measured already.
            None => {
                context.send_interest(interest, face);
            }
        }
        if decision == Retransmission::Forward {
            context.set_interval(interest.entry, face, interval_ms);
        }
    }
}

/// Whether an Interest to `face` is pending.
fn is_used(context: &Context<'_>, entry: PitIndex, face: FaceIndex) -> bool {
    context.out_record(entry, face).is_some_and(|record| record.expiry() > context.now())
}

/// The eligible next hop with the oldest out-record.
fn tried_longest_ago(context: &Context<'_>, interest: &PendingInterest<'_>) -> Option<FaceIndex> {
    let eligible =
        interest.next_hops.iter().map(|hop| hop.face).filter(|&f| context.is_eligible(interest, f));
    eligible
        .filter_map(|face| Some((context.out_record(interest.entry, face)?.renewed, face)))
        .min_by_key(|(renewed, _)| *renewed)
        .map(|(_, face)| face)
}

fn name_hash(prefix_hashes: &[u64]) -> u64 {
    prefix_hashes.last().copied().unwrap_or_default()
}

impl Strategy for Asf {
    fn after_receive_interest(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        let is_pending = context.out_records(interest.entry).any(|r| context.is_awaited(r));
        if is_pending {
            return self.retransmit(context, interest);
        }
        match self.best(context, interest, false) {
            Some(face) => self.forward_and_probe(context, interest, face),
            None => context.reject_downstream(interest.entry, interest.face),
        }
    }

    fn before_satisfy(&self, context: &mut Context<'_>, entry: PitIndex, data: &RxPacket<'_>) {
        let (now, strategy) = (context.now(), context.strategy);
        let measured = context.out_record(entry, data.face()).and_then(|record| {
            // As `namespace_of`, without another search for the record.
            let namespace = data.hashes().get(usize::from(record.measured_depth))?;
            Some((record.renewed, *namespace))
        });
        if let Some((sent, namespace)) = measured
            && let Some(hop) =
                context.measurements().find_hop_mut(strategy, namespace, data.face(), now)
        {
            self.apply_timeout(hop, now);
            hop.rtt.add(now.nanos_since(sent));
            hop.state = WORKING;
            if data.hashes().contains(&hop.mark) {
                hop.due = Timestamp::ZERO;
            }
        }
        let mut others = context.out_records(entry).filter(|record| record.face != data.face());
        let awaits_others = others.any(|record| context.is_awaited(record));
        drop(others);
        if awaits_others {
            context.linger(entry, data.face(), PROBE_ANSWER_MS);
        }
    }

    fn after_receive_nack(&self, context: &mut Context<'_>, entry: PitIndex, nack: &ArrivedNack) {
        let (now, strategy) = (context.now(), context.strategy);
        let mut hashes = [0; ndn_table::PREFIX_HASHES_MAX];
        let count = context.hash_name_of(entry, &mut hashes);
        if let Some(namespace) = context.namespace_of(entry, nack.face, &hashes[..count])
            && let Some(hop) =
                context.measurements().find_hop_mut(strategy, namespace, nack.face, now)
        {
            hop.due = Timestamp::ZERO;
            self.note_timeout(hop, true);
        }
        nack::return_nack(context, entry, nack);
    }
}

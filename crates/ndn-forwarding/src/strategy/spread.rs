//! Strategies that spread Interests over next hops: `random` of NFD; `round-robin`, `weighted`,
//! `sequential` and `fast-route` after NDN-DPDK.

use ndn_packet::NackReason;
use ndn_table::{FaceIndex, PitIndex};
use ndn_types::random::finalize;

use super::parameters::{ParameterError, Parameters};
use super::retransmission::{Retransmission, Suppression};
use super::{ArrivedNack, Context, PendingInterest, Strategy, nack};
use crate::DropReason;
use crate::packet::RxPacket;

/// Time for which the turn or choice of a namespace is kept without traffic.
const LIFETIME_MS: u64 = 3_600_000;
/// Maximum number of weights.
const WEIGHTS_MAX: usize = 32;

/// The first eligible next hop at `position` or after it, cyclically, with its position.
fn from_position(
    context: &Context<'_>,
    interest: &PendingInterest<'_>,
    position: usize,
) -> Option<(usize, FaceIndex)> {
    let count = interest.next_hops.len();
    (0..count)
        .map(|step| (position + step) % count)
        .map(|at| (at, interest.next_hops[at].face))
        .find(|&(_, face)| context.is_eligible(interest, face))
}

/// Random strategy, version 1: sends every Interest to a random eligible next hop.
#[derive(Debug)]
pub(crate) struct Random;

impl Random {
    pub(super) fn construct(_: &mut Parameters) -> Result<Self, ParameterError> {
        Ok(Self)
    }
}

impl Strategy for Random {
    fn after_receive_interest(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        let eligible = |context: &Context<'_>| {
            let faces = interest.next_hops.iter().map(|hop| hop.face);
            faces.filter(|&face| context.is_eligible(interest, face)).count()
        };
        let count = eligible(context);
        if count == 0 {
            return context.reject_downstream(interest.entry, interest.face);
        }
        // Consumers choose Nonces at random; the time distinguishes those that do not.
        let random = finalize(u64::from(interest.nonce) ^ context.now().as_nanos());
        let chosen = usize::try_from(random % count as u64).unwrap_or_default();
        let faces = interest.next_hops.iter().map(|hop| hop.face);
        let mut eligible = faces.filter(|&face| context.is_eligible(interest, face));
        if let Some(face) = eligible.nth(chosen) {
            context.send_interest(interest, face);
        }
    }

    fn after_receive_nack(&self, context: &mut Context<'_>, entry: PitIndex, nack: &ArrivedNack) {
        nack::return_nack(context, entry, nack);
    }
}

/// Round-robin and weighted strategies, version 1: next hops take turns for the Interests of a FIB
/// prefix.
#[derive(Debug)]
pub(crate) struct RoundRobin {
    suppression: Suppression,
    /// Turns of each next hop in a round, by ascending cost; 1 where no weight is given.
    weights: Vec<u32>,
}

impl RoundRobin {
    pub(super) fn construct(parameters: &mut Parameters) -> Result<Self, ParameterError> {
        let suppression = Suppression::from_parameters(parameters)?;
        Ok(Self { suppression, weights: Vec::new() })
    }

    /// `weights~5,2`: the cheapest next hop has five turns, the second two, all others one each.
    pub(super) fn construct_weighted(parameters: &mut Parameters) -> Result<Self, ParameterError> {
        let suppression = Suppression::from_parameters(parameters)?;
        let text = parameters.take_text("weights", "1")?;
        let weights = text.split(',').map(|weight| {
            let weight = weight.parse::<u32>().ok();
            weight.filter(|weight| (1..=1000).contains(weight))
        });
        match weights.collect::<Option<Vec<u32>>>() {
            Some(weights) if weights.len() <= WEIGHTS_MAX => Ok(Self { suppression, weights }),
            Some(_) | None => Err(ParameterError::Value {
                name: "weights",
                value: text,
                reason: "up to 32 numbers between 1 and 1000 are expected, with commas between",
            }),
        }
    }

    /// Position of the next hop of a turn.
    fn position(&self, turn: u64, count: usize) -> usize {
        let weight = |at: usize| u64::from(self.weights.get(at).copied().unwrap_or(1));
        let round: u64 = (0..count).map(weight).sum();
        let mut left = turn % round.max(1);
        for at in 0..count {
            if left < weight(at) {
                return at;
            }
            left -= weight(at);
        }
        0
    }
}

impl Strategy for RoundRobin {
    fn after_receive_interest(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        if context.decide_retransmission(&self.suppression, interest) == Retransmission::Suppress {
            return context.count_drop(DropReason::RetransmissionSuppressed);
        }
        let by = context.asker(interest);
        let table = context.measurements();
        let namespace = table.namespace_mut(by, interest.namespace(), LIFETIME_MS);
        let turn = namespace.mark;
        namespace.mark = turn.wrapping_add(1);
        let position = self.position(turn, interest.next_hops.len());
        match from_position(context, interest, position) {
            Some((_, face)) => {
                context.send_interest(interest, face);
            }
            None => context.reject_downstream(interest.entry, interest.face),
        }
    }

    fn after_receive_nack(&self, context: &mut Context<'_>, entry: PitIndex, nack: &ArrivedNack) {
        nack::return_nack(context, entry, nack);
    }
}

/// Sequential strategy, version 1: the cheapest next hop, and for each retransmission the next one,
/// cyclically.
#[derive(Debug)]
pub(crate) struct Sequential;

impl Sequential {
    pub(super) fn construct(_: &mut Parameters) -> Result<Self, ParameterError> {
        Ok(Self)
    }
}

impl Strategy for Sequential {
    fn after_receive_interest(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        let next = context.strategy_state(interest.entry);
        let next = usize::try_from(next).unwrap_or_default();
        match from_position(context, interest, next % interest.next_hops.len().max(1)) {
            Some((at, face)) => {
                context.set_strategy_state(interest.entry, at as u64 + 1);
                context.send_interest(interest, face);
            }
            None => context.reject_downstream(interest.entry, interest.face),
        }
    }

    fn after_receive_nack(&self, context: &mut Context<'_>, entry: PitIndex, nack: &ArrivedNack) {
        nack::return_nack(context, entry, nack);
    }
}

/// Fast-route strategy, version 1: all next hops of a FIB prefix until one answers, and that one
/// from then on, until it returns a Nack or is removed.
#[derive(Debug)]
pub(crate) struct FastRoute {
    suppression: Suppression,
}

impl FastRoute {
    pub(super) fn construct(parameters: &mut Parameters) -> Result<Self, ParameterError> {
        Ok(Self { suppression: Suppression::from_parameters(parameters)? })
    }

    /// Marks a namespace with a chosen next hop.
    const CHOSEN: u64 = 1;

    fn chosen(context: &mut Context<'_>, interest: &PendingInterest<'_>) -> Option<FaceIndex> {
        let by = context.asker(interest);
        let table = context.measurements();
        let namespace = table.namespace_mut(by, interest.namespace(), LIFETIME_MS);
        let face = (namespace.state == Self::CHOSEN).then_some(namespace.last_next_hop)?;
        let is_next_hop = interest.next_hops.iter().any(|hop| hop.face == face);
        (is_next_hop && context.is_eligible(interest, face)).then_some(face)
    }
}

impl Strategy for FastRoute {
    fn after_receive_interest(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        let decision = context.decide_retransmission(&self.suppression, interest);
        if decision == Retransmission::Suppress {
            return context.count_drop(DropReason::RetransmissionSuppressed);
        }
        let chosen = Self::chosen(context, interest);
        // A retransmission means that the chosen next hop did not answer.
        if decision == Retransmission::New
            && let Some(face) = chosen
            && context.send_interest(interest, face)
        {
            return context.set_namespace(interest, face);
        }
        let mut count = 0;
        for hop in interest.next_hops {
            if context.is_eligible(interest, hop.face) && context.send_interest(interest, hop.face)
            {
                context.set_namespace(interest, hop.face);
                count += 1;
            }
        }
        if count == 0 {
            context.reject_downstream(interest.entry, interest.face);
        }
    }

    fn before_satisfy(&self, context: &mut Context<'_>, entry: PitIndex, data: &RxPacket<'_>) {
        let by = context.writer(entry);
        if let Some(namespace) = context.namespace_of(entry, data.face(), data.hashes()) {
            let namespace = context.measurements().namespace_mut(by, namespace, LIFETIME_MS);
            namespace.state = Self::CHOSEN;
            namespace.last_next_hop = data.face();
        }
    }

    fn after_receive_nack(&self, context: &mut Context<'_>, entry: PitIndex, nack: &ArrivedNack) {
        if nack.reason != NackReason::DUPLICATE {
            let by = context.writer(entry);
            let mut hashes = [0; ndn_table::PREFIX_HASHES_MAX];
            let count = context.hash_name_of(entry, &mut hashes);
            if let Some(namespace) = context.namespace_of(entry, nack.face, &hashes[..count]) {
                let namespace = context.measurements().namespace_mut(by, namespace, LIFETIME_MS);
                if namespace.last_next_hop == nack.face {
                    namespace.state = 0;
                }
            }
        }
        nack::return_nack(context, entry, nack);
    }
}

//! Multicast strategy, version 5: all next hops, each with its own retransmission suppression.

use super::parameters::{ParameterError, Parameters};
use super::retransmission::{Retransmission, Suppression};
use super::{Context, PendingInterest, Strategy};
use crate::DropReason;

/// Sends every Interest to every eligible next hop, unless suppressed there. Nacks are not
/// returned: one upstream's Nack says nothing about the others.
#[derive(Debug, Default)]
pub(crate) struct Multicast {
    suppression: Suppression,
}

impl Multicast {
    pub(super) fn construct(parameters: &mut Parameters) -> Result<Self, ParameterError> {
        Ok(Self { suppression: Suppression::from_parameters(parameters)? })
    }
}

impl Strategy for Multicast {
    fn after_receive_interest(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        let mut eligible_count = 0;
        let mut suppressed_count = 0;
        let mut insists = None;
        for hop in interest.next_hops {
            if !context.is_eligible(interest, hop.face) {
                continue;
            }
            eligible_count += 1;
            let (decision, interval_ms) =
                context.decide_retransmission_to(&self.suppression, interest.entry, hop.face);
            if decision == Retransmission::Suppress
                && !*insists.get_or_insert_with(|| context.insists(interest))
            {
                suppressed_count += 1;
            } else if context.send_interest(interest, hop.face) {
                context.set_interval(interest.entry, hop.face, interval_ms);
            }
        }
        if eligible_count == 0 {
            context.count_drop(DropReason::NoNextHop);
        } else if suppressed_count == eligible_count {
            context.count_drop(DropReason::RetransmissionSuppressed);
        }
    }
}

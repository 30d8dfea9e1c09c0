//! Best-route strategy, version 5: the cheapest next hop, and further ones for retransmissions.

use ndn_table::{FaceIndex, OutRecord, PitIndex};

use super::parameters::{ParameterError, Parameters};
use super::retransmission::{Retransmission, Suppression};
use super::{ArrivedNack, Context, PendingInterest, Strategy, nack};
use crate::face_table::{FaceFlags, LinkState};
use crate::{DropReason, ShardFaces};

/// Sends a new Interest to the eligible next hop of lowest cost, and one whose upstreams were lost to one that it was not
/// sent to, if there is one. A retransmission that is not
/// suppressed goes to the cheapest next hop not tried yet; once all were tried, to the one tried
/// longest ago.
#[derive(Debug, Clone, Default)]
pub(crate) struct BestRoute {
    suppression: Suppression,
}

impl BestRoute {
    pub(super) fn construct(parameters: &mut Parameters) -> Result<Self, ParameterError> {
        let suppression = Suppression::from_parameters(parameters)?;
        Ok(Self { suppression })
    }

    /// The strategy with this suppression of retransmissions.
    #[cfg(feature = "vip")]
    pub(super) const fn with_suppression(suppression: Suppression) -> Self {
        Self { suppression }
    }

    fn forward_new(context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        let mut next_hop = Self::cheapest(context, interest).map(|(face, _)| face);
        // Nothing is awaited: the link of an upstream without a Nack was lost, or is in doubt.
        let is_lost =
            |record: &OutRecord| record.nack_reason.is_none() && record.expiry() > context.now();
        if next_hop.and_then(|face| context.out_record(interest.entry, face)).is_some_and(is_lost) {
            next_hop = Self::next_for_retransmission(context, interest);
        }
        match next_hop {
            Some(face) => {
                context.send_interest(interest, face);
            }
            None => context.reject_downstream(interest.entry, interest.face),
        }
    }

    /// The choice of the strategy for a new Interest that arrived on `arrival`, and that may leave the host, in the usual case:
    /// `cheapest`, the next hop of lowest cost, with the properties of its face.
    #[inline(always)]
    pub(crate) fn usual_next_hop(
        faces: &ShardFaces,
        cheapest: FaceIndex,
        arrival: FaceIndex,
    ) -> Option<(FaceIndex, FaceFlags)> {
        // Without uncertain faces, which might be probed.
        let flags = faces.find(cheapest).filter(|_| !faces.has_uncertain())?;
        let is_eligible =
            flags.link_state() == LinkState::Up && (cheapest != arrival || flags.is_ad_hoc());
        is_eligible.then_some((cheapest, flags))
    }

    /// The eligible next hop of lowest cost, and its properties.
    #[inline(always)]
    fn cheapest(
        context: &Context<'_>,
        interest: &PendingInterest<'_>,
    ) -> Option<(FaceIndex, FaceFlags)> {
        // Nearly always the first, without a loop.
        let first = interest.next_hops.first()?.face;
        match context.find_eligible(interest, first) {
            Some(flags) => Some((first, flags)),
            None => Self::cheapest_of_others(context, &{ *interest }),
        }
    }

    #[inline(never)]
    fn cheapest_of_others(
        context: &Context<'_>,
        interest: &PendingInterest<'_>,
    ) -> Option<(FaceIndex, FaceFlags)> {
        let mut others = interest.next_hops.iter().skip(1).map(|hop| hop.face);
        others.find_map(|face| Some((face, context.find_eligible(interest, face)?)))
    }

    /// Forwards the first Interest of an entry.
    #[inline(always)]
    fn forward_first(context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        match Self::cheapest(context, interest) {
            Some((face, flags)) => {
                context.send_to_known(interest, face, Some(flags));
            }
            None => context.reject_downstream(interest.entry, interest.face),
        }
    }

    fn forward_again(context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        match Self::next_for_retransmission(context, interest) {
            Some(face) => {
                context.send_interest(interest, face);
            }
            None => context.count_drop(DropReason::NoNextHop),
        }
    }

    fn next_for_retransmission(
        context: &Context<'_>,
        interest: &PendingInterest<'_>,
    ) -> Option<FaceIndex> {
        let now = context.now();
        let next_hops = interest.next_hops.iter().map(|hop| hop.face);
        let mut earliest = None;
        for face in next_hops.filter(|&face| context.is_eligible(interest, face)) {
            match context.out_record(interest.entry, face) {
                Some(record) if record.expiry() > now => {
                    let candidate = (record.renewed, face);
                    if earliest.is_none_or(|(renewed, _)| record.renewed < renewed) {
                        earliest = Some(candidate);
                    }
                }
                Some(_) | None => return Some(face),
            }
        }
        earliest.map(|(_, face)| face)
    }
}

impl Strategy for BestRoute {
    #[inline(always)]
    fn after_receive_interest(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        if context.has_out_records(interest.entry) {
            // A copy: the Interest of the caller stays in registers.
            self.after_receive_further(context, &{ *interest });
        } else {
            Self::forward_first(context, interest);
        }
    }

    fn after_receive_nack(&self, context: &mut Context<'_>, entry: PitIndex, nack: &ArrivedNack) {
        nack::return_nack(context, entry, nack);
    }
}

impl BestRoute {
    /// Forwards an Interest of an entry that has out-records.
    #[inline(never)]
    fn after_receive_further(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        match context.decide_retransmission(&self.suppression, interest) {
            Retransmission::New => Self::forward_new(context, interest),
            Retransmission::Forward => Self::forward_again(context, interest),
            Retransmission::Suppress => context.count_drop(DropReason::RetransmissionSuppressed),
        }
    }
}

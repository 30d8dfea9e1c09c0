//! VIP strategy, version 1: the next hop to which most VIPs were sent for the object (Yeh et al., "VIP: A Framework for
//! Joint Dynamic Forwarding and Caching in Named Data Networks"). Patented in the United States (US 12155738 B2).

use std::cmp::Reverse;

use ndn_table::{FaceIndex, PitIndex};

use super::asf::Asf;
use super::best_route::BestRoute;
use super::parameters::{ParameterError, Parameters};
use super::{ArrivedNack, Context, PendingInterest, Strategy};
use crate::packet::RxPacket;

/// Sends an Interest to the next hop with the largest mean of VIPs sent for its object, of equal ones to that with the
/// shortest round-trip time. A next hop that does not answer is left and probed as by the asf strategy. Interests for objects
/// without VIPs are forwarded as by best-route.
#[derive(Debug)]
pub(crate) struct Vip {
    answers: Asf,
    without_vips: BestRoute,
}

impl Vip {
    pub(super) fn construct(parameters: &mut Parameters) -> Result<Self, ParameterError> {
        let answers = Asf::construct(parameters)?;
        let without_vips = BestRoute::with_suppression(answers.suppression());
        Ok(Self { answers, without_vips })
    }

    /// The next hop by VIPs, if one of those with VIPs answers.
    fn choose(
        &self,
        context: &mut Context<'_>,
        interest: &PendingInterest<'_>,
        object: u64,
    ) -> Option<FaceIndex> {
        let mut best = None;
        for face in interest.next_hops.iter().map(|hop| hop.face) {
            let sent = context.vips_sent(object, face);
            if sent == 0 || !context.is_eligible(interest, face) {
                continue;
            }
            let Some(rtt_ns) = self.answers.rtt_unless_timed_out(context, interest, face) else {
                continue;
            };
            let rank = (Reverse(sent), rtt_ns, face.to_bits());
            if best.is_none_or(|(other, _)| rank < other) {
                best = Some((rank, face));
            }
        }
        best.map(|(_, face)| face)
    }
}

impl Strategy for Vip {
    fn after_receive_interest(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        let Some(object) = context.find_vip_object(interest) else {
            return self.without_vips.after_receive_interest(context, interest);
        };
        let is_pending = context.out_records(interest.entry).any(|r| context.is_awaited(r));
        let chosen = if is_pending { None } else { self.choose(context, interest, object) };
        match chosen {
            Some(face) => self.answers.forward_and_probe(context, interest, face),
            None => self.answers.after_receive_interest(context, interest),
        }
    }

    fn before_satisfy(&self, context: &mut Context<'_>, entry: PitIndex, data: &RxPacket<'_>) {
        self.answers.before_satisfy(context, entry, data);
    }

    fn after_receive_nack(&self, context: &mut Context<'_>, entry: PitIndex, nack: &ArrivedNack) {
        self.answers.after_receive_nack(context, entry, nack);
    }
}

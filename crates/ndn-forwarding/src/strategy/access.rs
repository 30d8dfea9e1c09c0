//! Access strategy, version 1: for an access router, next to producers or consumers.

use ndn_table::{FaceIndex, PitIndex};

use super::parameters::{ParameterError, Parameters};
use super::retransmission::{Retransmission, Suppression};
use super::{Context, PendingInterest, Strategy};
use crate::DropReason;
use crate::packet::RxPacket;

/// Sends an Interest to the face that last answered under the prefix, and to all others if that
/// face does not answer in time. Without a known face, or on a retransmission, the Interest goes to
/// all.
#[derive(Debug, Default)]
pub(crate) struct Access {
    suppression: Suppression,
}

impl Access {
    pub(super) fn construct(_: &mut Parameters) -> Result<Self, ParameterError> {
        Ok(Self::default())
    }

    fn forward_new(context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        if !Self::send_to_last(context, interest) && Self::send_to_all(context, interest) == 0 {
            context.count_drop(DropReason::NoNextHop);
            context.reject(interest.entry);
        }
    }

    /// Sends to the face that answered last, if it is known and eligible.
    fn send_to_last(context: &mut Context<'_>, interest: &PendingInterest<'_>) -> bool {
        let Some((face, timeout_ns)) = context.last_working(interest.prefix_hashes) else {
            return false;
        };
        let is_usable = face != interest.face
            && interest.next_hops.iter().any(|hop| hop.face == face)
            && context.is_eligible(interest, face);
        if !is_usable || !context.send_interest(interest, face) {
            return false;
        }
        context.set_timer(interest.entry, context.now().plus_nanos(timeout_ns));
        true
    }

    /// Sends to every next hop but the downstream; returns the number of faces.
    fn send_to_all(context: &mut Context<'_>, interest: &PendingInterest<'_>) -> usize {
        let others = interest.next_hops.iter().map(|hop| hop.face);
        others
            .filter(|&face| {
                face != interest.face
                    && context.is_eligible(interest, face)
                    && context.send_interest(interest, face)
            })
            .count()
    }
}

impl Strategy for Access {
    fn after_receive_interest(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        match context.decide_retransmission(&self.suppression, interest) {
            Retransmission::New => Self::forward_new(context, interest),
            Retransmission::Forward => {
                Self::send_to_all(context, interest);
            }
            Retransmission::Suppress => context.count_drop(DropReason::RetransmissionSuppressed),
        }
    }

    fn before_satisfy(&self, context: &mut Context<'_>, entry: PitIndex, data: &RxPacket<'_>) {
        if let Some(record) = context.out_record(entry, data.face()) {
            let rtt_ns = context.now().nanos_since(record.renewed);
            context.note_answer(entry, data, rtt_ns);
        }
    }

    /// The face that answered last timed out: try those not tried yet.
    fn on_timer(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        let unasked = |context: &Context<'_>, face: FaceIndex| {
            face != interest.face && context.out_record(interest.entry, face).is_none()
        };
        for hop in interest.next_hops {
            if unasked(context, hop.face) && context.is_eligible(interest, hop.face) {
                context.send_interest(interest, hop.face);
            }
        }
    }
}

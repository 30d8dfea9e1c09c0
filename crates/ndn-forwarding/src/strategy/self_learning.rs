//! Self-learning strategy, version 1: broadcasts Interests without a route, and learns routes from
//! the prefix announcements in the answers (Shi, Newberry, Zhang, "On broadcast-based self-learning
//! in named data networking", IFIP Networking 2017; NFD developer's guide, "Self-Learning
//! Strategy").

use ndn_packet::NackReason;
use ndn_table::{FaceIndex, PitIndex};

use super::parameters::{ParameterError, Parameters};
use super::{ArrivedNack, Context, PendingInterest, Strategy};
use crate::descriptor::Flags;
use crate::learning::LearningRequest;
use crate::packet::RxPacket;

/// The last Interest of this record was a discovery Interest.
const DISCOVERY: u8 = 1;
/// The last Interest of this record followed a route.
const NON_DISCOVERY: u8 = 2;

/// Sends an Interest to all next hops, marked NonDiscovery; without a route, to all non-local faces
/// as a discovery Interest. Announcements in the answers become routes.
///
/// As in NFD, nothing is suppressed: every retransmission takes the path of the first Interest.
#[derive(Debug, Default)]
pub(crate) struct SelfLearning;

impl SelfLearning {
    pub(super) fn construct(_: &mut Parameters) -> Result<Self, ParameterError> {
        Ok(Self)
    }

    fn multicast(context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        let marked = PendingInterest { non_discovery: true, ..*interest };
        for hop in interest.next_hops {
            if context.is_eligible(interest, hop.face) && context.send_interest(&marked, hop.face) {
                note_sent(context, interest.entry, hop.face, NON_DISCOVERY);
            }
        }
    }

    fn broadcast(context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        let mut position = 0;
        while let Some((next, face)) = context.next_remote_face(position) {
            position = next;
            if context.is_eligible(interest, face) && context.send_interest(interest, face) {
                note_sent(context, interest.entry, face, DISCOVERY);
            }
        }
    }
}

fn note_sent(context: &mut Context<'_>, entry: PitIndex, face: FaceIndex, state: u8) {
    context.set_interval(entry, face, u32::from(state));
}

/// Whether a non-local downstream waits for the announcement with the Data.
fn wants_announcement(context: &Context<'_>, entry: PitIndex) -> bool {
    let waiting = || context.in_records(entry).filter(|record| record.expiry() > context.now());
    waiting().any(|record| record.strategy_state == DISCOVERY)
        && waiting().any(|record| !context.is_local(record.face))
}

impl Strategy for SelfLearning {
    fn after_receive_interest(&self, context: &mut Context<'_>, interest: &PendingInterest<'_>) {
        let is_discovery = !interest.non_discovery;
        let state = if is_discovery { DISCOVERY } else { NON_DISCOVERY };
        context.set_downstream_state(interest.entry, interest.face, state);
        match (interest.next_hops.is_empty(), is_discovery) {
            (false, _) => Self::multicast(context, interest),
            (true, true) => Self::broadcast(context, interest),
            (true, false) => context.reject_downstream(interest.entry, interest.face),
        }
    }

    fn before_satisfy(&self, context: &mut Context<'_>, entry: PitIndex, data: &RxPacket<'_>) {
        let Some(record) = context.out_record(entry, data.face()) else { return };
        if record.strategy_state == u32::from(NON_DISCOVERY) {
            if wants_announcement(context, entry) {
                context.hold_data(entry, data);
            }
        } else if data.has(Flags::ANNOUNCEMENT)
            && let Some(face_id) = context.face_id(data.face())
            && let Ok(view) = ndn_packet::Data::parse(data.wire())
        {
            context.request_control(LearningRequest::Learn {
                face_id,
                name: view.name().to_name(),
                announcement: data.announcement().into(),
            });
        }
    }

    fn after_receive_nack(&self, context: &mut Context<'_>, entry: PitIndex, nack: &ArrivedNack) {
        if nack.reason != NackReason::NO_ROUTE {
            return;
        }
        context.send_nacks(entry, nack.reason, nack.congestion_mark);
        if let Some(face_id) = context.face_id(nack.face) {
            let name = context.interest_name(entry).to_name();
            context.request_control(LearningRequest::Forget { face_id, name });
        }
    }
}

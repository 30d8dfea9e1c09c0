//! Returns Nacks downstream, for best-route and others.

use ndn_packet::NackReason;
use ndn_table::{FaceIndex, PitIndex};

use super::{ArrivedNack, Context};

/// Sends a Nack to all downstreams once every upstream has returned one, is down or has been removed, with
/// the least severe reason. If one upstream is left and it is also a downstream, the two wait for
/// each other: it gets its Nack then.
pub(super) fn return_nack(context: &mut Context<'_>, entry: PitIndex, nack: &ArrivedNack) {
    let mut waiting_count = 0;
    let mut last_waiting = None;
    let mut least_severe = NackReason::NONE;
    for record in context.out_records(entry) {
        match record.nack_reason {
            None if context.has_upstream(record) => {
                waiting_count += 1;
                last_waiting = Some(record.face);
            }
            None => {}
            Some(code) => {
                let reason = NackReason(u64::from(code));
                if is_less_severe(reason, least_severe) {
                    least_severe = reason;
                }
            }
        }
    }
    match (waiting_count, last_waiting) {
        (0, _) => context.send_nacks(entry, least_severe, nack.congestion_mark),
        (1, Some(face)) => send_if_downstream(context, entry, face, least_severe, nack),
        _ => {}
    }
}

fn send_if_downstream(
    context: &mut Context<'_>,
    entry: PitIndex,
    face: FaceIndex,
    reason: NackReason,
    nack: &ArrivedNack,
) {
    if context.in_record(entry, face).is_some() {
        context.send_nack(entry, face, reason, nack.congestion_mark);
    }
}

/// Whether `a` is less severe than `b`. No reason is the most severe.
fn is_less_severe(a: NackReason, b: NackReason) -> bool {
    a != NackReason::NONE && (b == NackReason::NONE || a.0 < b.0)
}

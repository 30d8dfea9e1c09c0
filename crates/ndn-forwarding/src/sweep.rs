//! Passes over the PIT in the background: they end in-records of faces that are gone, and send Interests again.

use ndn_table::{PitIndex, PitPhase};

use crate::face_table::{FaceFlags, LinkState};
use crate::incoming::{Incoming, choose_next_hops};
use crate::pending_interest::PendingInterest;
use crate::strategy::{Context, DIRECTED, other_nonce};
use crate::tables::{Ending, Tables};

/// Maximum number of slots and records visited in one call.
const STEPS_PER_POLL_MAX: usize = 128;

/// Continues a pass, or starts one if it is time. Returns whether there is more to visit.
pub(crate) fn sweep(incoming: &mut Incoming<'_>) -> bool {
    let now = incoming.now();
    if !incoming.tables_mut().begin_due_sweep(now) {
        return false;
    }
    let mut steps = 0;
    while steps < STEPS_PER_POLL_MAX && incoming.tables().is_sweeping() {
        steps += match incoming.tables_mut().next_sweep_slot(now) {
            Some(slot) => visit_slot(incoming, slot),
            None => 1,
        };
    }
    incoming.tables().is_sweeping()
}

/// Returns the number of steps that it took.
fn visit_slot(incoming: &mut Incoming<'_>, slot: usize) -> usize {
    let Tables { pcct, faces, counters, .. } = incoming.tables_mut();
    let Some(entry) = pcct.entry_in_slot(slot) else { return 1 };
    let record_count = pcct.entry(entry).in_record_count() + pcct.entry(entry).out_record_count();
    let gone = pcct.retain_in_records(entry, |_, record| faces.find(record.face).is_some());
    counters.in_records_face_gone.add(gone as u64);
    let outgoing = &mut incoming.context.outgoing;
    if gone > 0 && !outgoing.shorten(entry) {
        outgoing.finalize_unsatisfied(entry, Ending::Expiry);
    } else if outgoing.tables.note_swept(entry) && has_lost_upstreams(&incoming.context, entry) {
        send_again(incoming, entry);
    }
    1 + record_count
}

/// Whether an Interest whose upstreams were lost may be sent to another next hop, or to one whose link is back.
fn has_better_next_hop(context: &Context<'_>, interest: &PendingInterest<'_>) -> bool {
    interest.next_hops.iter().any(|hop| {
        let flags = context.find_permitted(interest, hop.face);
        match flags.map_or(LinkState::Down, FaceFlags::link_state) {
            LinkState::Down => false,
            LinkState::Doubted => context.out_record(interest.entry, hop.face).is_none(),
            LinkState::Returning | LinkState::Up => true,
        }
    })
}

/// Whether the links of all upstreams of a PIT entry were lost, at least one of which a strategy chose.
fn has_lost_upstreams(context: &Context<'_>, entry: PitIndex) -> bool {
    let mut is_lost = false;
    for record in context.out_records(entry) {
        if record.nack_reason.is_some() || record.expiry() <= context.now() {
            continue;
        }
        if context.has_upstream(record) {
            return false;
        }
        is_lost |= record.strategy_state != DIRECTED;
    }
    is_lost && context.outgoing.tables.pcct.entry(entry).phase() == PitPhase::Pending
}

/// Passes a pending Interest to its strategy once more, if a next hop can be relied on more than those that it
/// was sent to. It has another Nonce than before: the next hops may have seen those by way of the lost upstreams.
fn send_again(incoming: &mut Incoming<'_>, entry: PitIndex) {
    let sent = incoming.context.out_records(entry).map(|record| record.nonce);
    let nonce = other_nonce(sent.fold(0, u32::wrapping_add));
    incoming.with_pending(entry, |context, strategy, interest| {
        if has_better_next_hop(context, interest) {
            context.outgoing.tables.counters.resent_interests.increment();
            context.with_nonce(interest, nonce, |context, interest| {
                choose_next_hops(context, strategy, interest);
            });
        }
    });
}

//! Load balancing: measures the load of the workers periodically and moves names between them.

use std::time::Duration;

use ndn_dataplane::{Balanced, Balancer, Dataplane, MEASURED_PACKETS_MIN};
use ndn_table::{NDT_ENTRIES, Timestamp};

use crate::control::service::{Cx, Reason, Service};
use crate::operator::{DispatchAction, DispatchRequest};
use namewire_control::{Dispatch, DispatchEntry};

/// Interval between measurements.
const PERIOD: Duration = Duration::from_millis(500);
/// Maximum entries in a report; those with the most load come first.
const ENTRIES_MAX: usize = 64;

/// Balances the load of the workers periodically.
#[derive(Debug, Default)]
pub(super) struct BalanceSchedule {
    /// Packets forwarded when the load was last measured.
    packets: u64,
}

impl BalanceSchedule {
    /// Starts the schedule if there are several workers.
    pub(super) fn new(cx: &mut Cx) -> Self {
        cx.timers.set(Reason::Balance, cx.dataplane.balancer().map(|_| 0));
        Self::default()
    }
}

impl Service for BalanceSchedule {
    type Event = DispatchRequest;

    fn handle_event(&mut self, cx: &mut Cx, request: DispatchRequest) {
        let now = Timestamp::from_nanos(cx.now_ns());
        let done = serve(now, &mut cx.dataplane, &request.action);
        // The requester may have gone.
        let _ = request.answer.send(done);
    }

    fn handle_timeout(&mut self, cx: &mut Cx, _: Reason) {
        cx.timers.set(Reason::Balance, Some(cx.after(PERIOD)));
        let (now, dataplane) = (Timestamp::from_nanos(cx.now_ns()), &mut cx.dataplane);
        let workers = dataplane.workers().iter();
        let packets = workers.map(|worker| worker.worker_counters().packets.value()).sum();
        let is_settled = dataplane.balancer().is_none_or(|one| one.next_deadline().is_none());
        // Reading the counters of all entries takes most of a millisecond.
        if packets - self.packets < MEASURED_PACKETS_MIN && is_settled {
            return;
        }
        self.packets = packets;
        report(dataplane.balance(now));
    }
}

fn report(done: Balanced) {
    if done.moved > 0 || done.split > 0 {
        tracing::debug!(moved = done.moved, split = done.split, "names move between workers");
    }
}

/// Executes a request of an operator.
fn serve(
    now: Timestamp,
    dataplane: &mut Dataplane,
    action: &DispatchAction,
) -> Result<Dispatch, String> {
    let mut done = Balanced::default();
    match action {
        DispatchAction::List => {}
        DispatchAction::Balance => done = dataplane.balance(now),
        DispatchAction::Set { name, worker } => {
            let entry = dataplane.dispatch_entry(name.as_ref());
            let entry = entry.ok_or_else(|| single_worker_or_long(dataplane))?;
            let set = dataplane.set_dispatch(entry, *worker, now);
            set.map_err(|error| error.to_string())?;
            done.moved = 1;
        }
    }
    let balancer = dataplane.balancer().ok_or_else(|| single_worker_or_long(dataplane))?;
    Ok(Dispatch { moved: done.moved, split: done.split, ..describe(balancer) })
}

fn single_worker_or_long(dataplane: &Dataplane) -> String {
    match dataplane.balancer() {
        None => "there is one worker, which has all names".to_owned(),
        Some(_) => "the name is longer than any that is forwarded".to_owned(),
    }
}

fn describe(balancer: &Balancer) -> Dispatch {
    let ndt = balancer.ndt();
    let members = ndt.members();
    let mut entries: Vec<DispatchEntry> = (0..NDT_ENTRIES)
        .filter_map(|entry| {
            let found = ndt.get(entry)?;
            let load = balancer.load(entry);
            let is_changed = found.depth != 0
                || !found.is_settled
                || found.shard != members[entry % members.len()];
            (load > 0 || is_changed).then_some(DispatchEntry {
                entry,
                worker: found.shard,
                previous: (!found.is_settled).then_some(found.previous),
                depth: (found.depth != 0).then_some(found.depth),
                load,
            })
        })
        .collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.load));
    entries.truncate(ENTRIES_MAX);
    Dispatch { depth: ndt.depth(), loads: balancer.shard_loads(), entries, ..Dispatch::default() }
}

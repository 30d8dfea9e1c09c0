//! Load balancing: measures the load of the workers periodically and moves names between them.

use std::time::Duration;

use ndn_dataplane::{Balanced, Balancer, Dataplane, MEASURED_PACKETS_MIN};
use ndn_packet::Name;
use ndn_table::NDT_ENTRIES;
use ndn_types::Timestamp;

use crate::control::commands::NameDispatch;
use crate::control::service::{Cx, Deadline, Reason, Service, ServiceName};
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
    /// Time of the next measurement; `None` with a single worker.
    next: Option<Timestamp>,
}

impl BalanceSchedule {
    /// Starts the schedule if there are several workers.
    pub(super) fn new(dataplane: &Dataplane) -> Self {
        Self { packets: 0, next: dataplane.balancer().map(|_| Timestamp::ZERO) }
    }
}

impl Service for BalanceSchedule {
    type Dataplane = dyn NameDispatch;
    const NAME: ServiceName = ServiceName::Balance;

    fn next_deadline(&self) -> Option<Deadline> {
        self.next.map(|at| (at, Reason::Balance))
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_, dyn NameDispatch>, _: Reason) {
        self.next = Some(cx.after(PERIOD));
        let (now, dispatch) = (cx.now().monotonic, cx.dataplane());
        let packets = dispatch.packets();
        // Reading the counters of all entries takes most of a millisecond.
        if packets - self.packets < MEASURED_PACKETS_MIN && dispatch.is_settled() {
            return;
        }
        self.packets = packets;
        log(dispatch.balance(now));
    }
}

fn log(done: Balanced) {
    if done.moved > 0 || done.split > 0 {
        tracing::debug!(moved = done.moved, split = done.split, "names move between workers");
    }
    if done.overdue > 0 {
        let overdue = done.overdue;
        tracing::debug!(
            overdue,
            "names have moved, though Interests for them are renewed at their previous workers"
        );
    }
}

/// Moves the entry of a name to a worker; reports the resulting dispatch.
///
/// # Errors
/// There is no such worker, a single worker, or no entry for names of this length.
pub(super) fn set(
    dataplane: &mut Dataplane,
    name: &Name,
    worker: u8,
    now: Timestamp,
) -> Result<Dispatch, String> {
    let entry = dataplane.dispatch_entry(name.as_ref());
    let entry = entry.ok_or_else(|| single_worker_or_long(dataplane))?;
    dataplane.set_dispatch(entry, worker, now).map_err(|error| error.to_string())?;
    Ok(Dispatch { moved: 1, ..report(dataplane)? })
}

/// Balances the load of the workers; reports the resulting dispatch.
///
/// # Errors
/// There is a single worker.
pub(super) fn balance(dataplane: &mut Dataplane, now: Timestamp) -> Result<Dispatch, String> {
    let Balanced { moved, split, .. } = dataplane.balance(now);
    Ok(Dispatch { moved, split, ..report(dataplane)? })
}

/// Reports the dispatch of names to workers.
///
/// # Errors
/// There is a single worker.
pub(super) fn report(dataplane: &mut Dataplane) -> Result<Dispatch, String> {
    dataplane.balancer().map(describe).ok_or_else(|| single_worker_or_long(dataplane))
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

//! Commands that wait for the data plane.

use std::collections::BTreeMap;

use ndn_packet::{Name, NameRef};

use super::action::Ticket;
use crate::time::Now;

/// Maximum number of waiting commands, and of work that no command waits for.
const PENDING_MAX: usize = 1024;
/// Maximum number of commands that wait for one face.
const REQUESTERS_MAX: usize = 64;
/// A command that waits longer is dropped: its Interest has expired.
const LIFETIME_NS: u64 = 60_000_000_000;

/// The operation of the data plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Work {
    CreateFace {
        remote_uri: String,
    },
    EraseCs {
        prefix: Name,
        /// Number of packets to erase; `None`: all.
        count: Option<u64>,
    },
}

/// A command that waits for the data plane.
#[derive(Debug)]
pub(super) struct Pending {
    /// Names of the Interests to be answered.
    pub(super) requesters: Vec<Name>,
    pub(super) work: Work,
    deadline_ns: u64,
}

impl Pending {
    pub(super) fn new(now: Now, name: NameRef<'_>, work: Work) -> Self {
        Self { requesters: vec![name.to_name()], ..Self::without_requester(now, work) }
    }

    /// Work that no command waits for.
    pub(super) fn without_requester(now: Now, work: Work) -> Self {
        let deadline_ns = now.monotonic_ns.saturating_add(LIFETIME_NS);
        Self { requesters: Vec::new(), work, deadline_ns }
    }
}

/// The commands that wait for the data plane, by ticket.
#[derive(Debug, Default)]
pub(super) struct PendingTable {
    entries: BTreeMap<Ticket, Pending>,
    last_ticket: u64,
}

impl PendingTable {
    /// `None` if too many commands wait. Half of the places are for commands alone.
    pub(super) fn add(&mut self, pending: Pending) -> Option<Ticket> {
        let has_requester = !pending.requesters.is_empty();
        let places = if has_requester { PENDING_MAX } else { PENDING_MAX / 2 };
        if self.entries.len() >= places {
            return None;
        }
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.entries.insert(ticket, pending);
        Some(ticket)
    }

    /// Lets a further command for the same face wait with the first one. `None` if there is no first one; `Some(false)` if
    /// too many commands wait for it. A retransmitted command waits once.
    pub(super) fn join_face(&mut self, requested_uri: &str, name: NameRef<'_>) -> Option<bool> {
        let pending = self.entries.values_mut().find(|pending| match &pending.work {
            Work::CreateFace { remote_uri } => remote_uri == requested_uri,
            Work::EraseCs { .. } => false,
        })?;
        if pending.requesters.iter().any(|other| *other == name) {
            return Some(true);
        }
        if pending.requesters.len() >= REQUESTERS_MAX {
            return Some(false);
        }
        pending.requesters.push(name.to_name());
        Some(true)
    }

    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Pending> {
        self.entries.remove(&ticket)
    }

    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        // Tickets ascend with time, and all commands wait equally long.
        self.entries.values().next().map(|pending| pending.deadline_ns)
    }

    pub(super) fn handle_timeout(&mut self, now_ns: u64) {
        while let Some(first) = self.entries.first_entry() {
            if first.get().deadline_ns > now_ns {
                break;
            }
            first.remove();
        }
    }
}

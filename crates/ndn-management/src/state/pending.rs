//! Commands that wait for the data plane.

use std::collections::BTreeMap;

use ndn_packet::{Name, NameRef};

use super::Executing;
use super::action::Ticket;

/// Commands that may wait at a time; more are refused.
const PENDING_MAX: usize = 1024;
/// Commands that may wait for one face; more are refused.
const REQUESTERS_MAX: usize = 64;
/// A command that waits longer is forgotten: its Interest is long gone.
const PATIENCE_NS: u64 = 60_000_000_000;

/// What is being done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Work {
    CreateFace {
        remote_uri: String,
    },
    EraseCs {
        prefix: Name,
        /// Packets that the command wants to be rid of; `None`: all.
        count: Option<u64>,
    },
}

#[derive(Debug)]
pub(super) struct Pending {
    /// Names of the Interests to be answered.
    pub(super) requesters: Vec<Name>,
    pub(super) work: Work,
    deadline_ns: u64,
}

impl Pending {
    pub(super) fn new(executing: Executing<'_>, work: Work) -> Self {
        Self {
            requesters: vec![executing.name.to_name()],
            work,
            deadline_ns: executing.now.monotonic_ns.saturating_add(PATIENCE_NS),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct PendingTable {
    entries: BTreeMap<Ticket, Pending>,
    last_ticket: u64,
}

impl PendingTable {
    /// `None`: too many commands wait.
    pub(super) fn add(&mut self, pending: Pending) -> Option<Ticket> {
        if self.entries.len() >= PENDING_MAX {
            return None;
        }
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.entries.insert(ticket, pending);
        Some(ticket)
    }

    /// Lets a second command for the same face wait with the first. `None`: there is no first.
    /// `Some(false)`: too many wait already. A retransmitted command waits once.
    pub(super) fn join_face(&mut self, wanted_uri: &str, name: NameRef<'_>) -> Option<bool> {
        let pending = self.entries.values_mut().find(|pending| match &pending.work {
            Work::CreateFace { remote_uri } => remote_uri == wanted_uri,
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
        // Tickets are given out in order of time and the patience is the same for all.
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

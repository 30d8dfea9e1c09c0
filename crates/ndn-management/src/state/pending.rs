//! Commands that wait for the data plane.

use std::collections::BTreeMap;

use ndn_packet::{Name, NameRef};
use ndn_types::{
    Capacity, LedgerReport, Limits, PrincipalIndex, PrincipalKey, RankedLedger, Reserves, Verdict,
};

use super::action::Ticket;
use crate::time::Now;

/// Maximum number of waiting commands, and of work that no command waits for. Principals share the places.
const PENDING_MAX: usize = 1024;
/// Maximum number of commands that wait for one face.
const REQUESTERS_MAX: usize = 64;
/// A command that waits longer is dropped: its Interest has expired.
const LIFETIME_NS: u64 = 60_000_000_000;

ndn_types::resource! {
    /// Places for commands that wait for the data plane, which principals share.
    pub struct PendingPlaces = "pending_commands";
}

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
    principal: PrincipalIndex,
}

/// The place of a new command.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) ticket: Ticket,
    /// The command that gave way for it.
    pub(super) displaced: Option<(Ticket, Pending)>,
}

impl Pending {
    pub(super) fn new(now: Now, name: NameRef<'_>, work: Work) -> Self {
        Self { requesters: vec![name.to_name()], ..Self::without_requester(now, work) }
    }

    /// Work that no command waits for.
    pub(super) fn without_requester(now: Now, work: Work) -> Self {
        let deadline_ns = now.monotonic_ns.saturating_add(LIFETIME_NS);
        Self { requesters: Vec::new(), work, deadline_ns, principal: PrincipalIndex::OTHER }
    }
}

/// The commands that wait for the data plane, by ticket.
#[derive(Debug)]
pub(super) struct PendingTable {
    entries: BTreeMap<Ticket, Pending>,
    ledger: RankedLedger<PendingPlaces, 1>,
    last_ticket: u64,
}

impl PendingTable {
    pub(super) fn new(reserves: Reserves) -> Self {
        let ledger = RankedLedger::new([Capacity::of(PENDING_MAX)], reserves);
        Self { entries: BTreeMap::new(), ledger, last_ticket: 0 }
    }

    /// What principals hold.
    pub(super) fn report(&self) -> LedgerReport<1> {
        self.ledger.report()
    }

    /// `None` if a principal has its share and there is no room. If one below its share finds no room, the oldest command
    /// of the principal with the most gives way.
    pub(super) fn add(&mut self, key: PrincipalKey, mut pending: Pending) -> Option<Placed> {
        let principal = self.ledger.attach(key);
        let displaced = match self.ledger.verdict(principal, PendingPlaces, 1) {
            Verdict::Room => Some(None),
            Verdict::Evict(limits) => self.take_oldest(limits).map(Some),
            Verdict::Refused => None,
        };
        let Some(displaced) = displaced else {
            self.ledger.detach(principal);
            return None;
        };
        self.ledger.charge(principal, PendingPlaces, 1);
        pending.principal = principal;
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.entries.insert(ticket, pending);
        Some(Placed { ticket, displaced })
    }

    /// Adds work that no command waits for, if there is room for everybody: no command gives way to it.
    pub(super) fn add_erasure(&mut self, pending: Pending) -> Option<Placed> {
        let is_open = self.ledger.is_open(PendingPlaces, 1);
        is_open.then(|| self.add(PrincipalKey::OTHER, pending)).flatten()
    }

    fn take_oldest(&mut self, limits: Limits) -> Option<(Ticket, Pending)> {
        let victim = self.ledger.victim(PendingPlaces, limits)?;
        let of_victim = |(_, pending): &(&Ticket, &Pending)| pending.principal == victim;
        let (&ticket, _) = self.entries.iter().find(of_victim)?;
        Some((ticket, self.take(ticket)?))
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
        let pending = self.entries.remove(&ticket)?;
        self.ledger.release(pending.principal, PendingPlaces, 1);
        self.ledger.detach(pending.principal);
        Some(pending)
    }

    pub(super) fn next_deadline_ns(&self) -> Option<u64> {
        // Tickets ascend with time, and all commands wait equally long.
        self.entries.values().next().map(|pending| pending.deadline_ns)
    }

    pub(super) fn handle_timeout(&mut self, now_ns: u64) {
        while let Some((&ticket, first)) = self.entries.first_key_value()
            && first.deadline_ns <= now_ns
        {
            self.take(ticket);
        }
    }
}

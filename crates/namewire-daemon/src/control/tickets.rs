//! Requests to the data plane that management waits for.

use std::collections::BTreeMap;

use ndn_management::Ticket;

/// Management's tickets, by request number.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    tickets: BTreeMap<u64, Ticket>,
    last: u64,
}

impl Tickets {
    /// Returns the number for a new request.
    pub(super) fn add(&mut self, ticket: Ticket) -> u64 {
        self.last += 1;
        self.tickets.insert(self.last, ticket);
        self.last
    }

    /// Ends a request and returns its ticket.
    pub(super) fn take(&mut self, number: Option<u64>) -> Option<Ticket> {
        self.tickets.remove(&number?)
    }

    /// Whether management waits for this request.
    pub(super) fn contains(&self, number: u64) -> bool {
        self.tickets.contains_key(&number)
    }
}

//! Turns of principals in the data plane's erasures.

use std::collections::{BTreeMap, VecDeque};

use ndn_packet::Name;
use ndn_types::PrincipalKey;

use super::action::Ticket;

/// An erasure of a command, as in [`Action::EraseCs`](super::action::Action::EraseCs).
#[derive(Debug)]
pub(super) struct Erasure {
    pub(super) ticket: Ticket,
    pub(super) prefix: Name,
    pub(super) limit: u64,
}

/// Erasures of commands, one of each principal at a time: those that are in progress take turns in the workers, which do not
/// know principals.
#[derive(Debug, Default)]
pub(super) struct Erasures {
    in_progress: BTreeMap<Ticket, PrincipalKey>,
    waiting: VecDeque<(PrincipalKey, Erasure)>,
}

impl Erasures {
    /// Returns the erasure if none of its principal is in progress. Otherwise it waits.
    pub(super) fn begin(&mut self, principal: PrincipalKey, erasure: Erasure) -> Option<Erasure> {
        if self.in_progress.values().any(|other| *other == principal) {
            self.waiting.push_back((principal, erasure));
            return None;
        }
        self.in_progress.insert(erasure.ticket, principal);
        Some(erasure)
    }

    /// Removes those whose commands do not wait any more.
    pub(super) fn retain(&mut self, is_awaited: impl Fn(Ticket) -> bool) {
        self.waiting.retain(|(_, erasure)| is_awaited(erasure.ticket));
    }

    /// Ends an erasure. Returns the next one of its principal.
    pub(super) fn end(&mut self, ticket: Ticket) -> Option<Erasure> {
        let principal = self.in_progress.remove(&ticket)?;
        let at = self.waiting.iter().position(|(other, _)| *other == principal)?;
        let (_, next) = self.waiting.remove(at)?;
        self.in_progress.insert(next.ticket, principal);
        Some(next)
    }
}

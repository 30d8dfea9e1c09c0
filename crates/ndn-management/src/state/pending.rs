//! Commands that wait for the data plane.

use std::collections::BTreeMap;
use std::time::Duration;

use ndn_packet::{Name, NameRef};
use ndn_types::{
    Capacity, LedgerReport, Now, PrincipalIndex, PrincipalKey, RankedLedger, Reserves,
    ShareVerdict, Timestamp,
};

use super::action::{FaceSpecification, Ticket};
use super::erasures::{Erasure, Erasures};

/// Maximum number of waiting commands, and of work that no command waits for. Principals share the places.
const PENDING_MAX: usize = 1024;
/// A command that waits longer is dropped: its Interest has expired.
const LIFETIME: Duration = Duration::from_secs(60);

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

impl Work {
    /// Whether one operation does both: the creation of the same face.
    fn is_shared_with(&self, other: &Self) -> bool {
        matches!(self, Self::CreateFace { .. }) && self == other
    }
}

/// A command that waits, and the place that is charged for it; or work that no command waits for.
#[derive(Debug)]
pub(super) struct Claim {
    /// Name of its Interest, which is to be answered.
    pub(super) name: Option<Name>,
    /// The principal that keeps the face that it requests; `None`: an operator.
    pub(super) keeper: Option<PrincipalKey>,
    /// The face as it requests it, if the work was begun for another one.
    specification: Option<Box<FaceSpecification>>,
    principal: PrincipalIndex,
    /// Ascends with the time of arrival.
    number: u64,
}

/// A command that is to wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewCommand<'a> {
    pub(super) now: Now,
    /// Name of its Interest.
    pub(super) name: NameRef<'a>,
    pub(super) principal: PrincipalKey,
    /// As in [`Claim`].
    pub(super) keeper: Option<PrincipalKey>,
}

/// Work of the data plane, and the commands that wait for it.
#[derive(Debug)]
pub(super) struct Pending {
    /// In the order of their arrival; at least one.
    pub(super) claims: Vec<Claim>,
    pub(super) work: Work,
    /// For which principal the work was begun, as in [`Claim::keeper`]. It may fail because of that one's shares.
    begun_for: Option<PrincipalKey>,
    deadline: Timestamp,
}

/// Work that is begun again for the commands of others, after it has failed for that of a user.
#[derive(Debug)]
pub(super) struct Retry {
    pub(super) ticket: Ticket,
    pub(super) specification: Box<FaceSpecification>,
    /// The commands of that user, which have failed.
    pub(super) failed: Vec<Claim>,
}

/// The place of a new command.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) ticket: Ticket,
    /// The work is to be begun: no other command waits for it.
    pub(super) is_new: bool,
    /// The command that gave way for it.
    pub(super) displaced: Option<Displaced>,
}

/// A command that gave way.
#[derive(Debug)]
pub(super) struct Displaced {
    pub(super) name: Option<Name>,
    /// The work that no command waits for any more.
    pub(super) abandoned: Option<(Ticket, Work)>,
}

/// Commands that wait for the data plane, by ticket.
#[derive(Debug)]
pub(super) struct PendingTable {
    entries: BTreeMap<Ticket, Pending>,
    erasures: Erasures,
    ledger: RankedLedger<PendingPlaces, 1>,
    last_ticket: u64,
    last_number: u64,
}

impl PendingTable {
    pub(super) fn new(reserves: Reserves) -> Self {
        let ledger = RankedLedger::new([Capacity::of(PENDING_MAX)], reserves);
        let (entries, erasures) = (BTreeMap::new(), Erasures::default());
        Self { entries, erasures, ledger, last_ticket: 0, last_number: 0 }
    }

    /// Returns the holdings of all principals.
    pub(super) fn report(&self) -> LedgerReport<1> {
        self.ledger.report()
    }

    /// Lets a command wait for its work: with others, if they wait for the same face. `None` if its principal has its share
    /// and there is no room. If one below its share finds no room, the oldest command of the principal with the most gives
    /// way. A retransmitted command waits once.
    pub(super) fn add(&mut self, command: NewCommand<'_>, work: Work) -> Option<Placed> {
        let NewCommand { now, name, principal, keeper } = command;
        let joined = self.entries.iter().find(|(_, pending)| work.is_shared_with(&pending.work));
        let joined = joined.map(|(ticket, pending)| {
            let is_repeated = |one: &Claim| one.name.as_ref().is_some_and(|own| *own == name);
            (*ticket, pending.claims.iter().any(is_repeated))
        });
        if let Some((ticket, true)) = joined {
            return Some(Placed { ticket, is_new: false, displaced: None });
        }
        // Its process often ends before the work is done.
        let (claim, victim) = self.claim(principal.without_process())?;
        let name = Some(name.to_name());
        let claim = Claim { name, keeper, ..claim };
        let joined = joined.and_then(|(ticket, _)| Some((ticket, self.entries.get_mut(&ticket)?)));
        let (ticket, is_new) = match joined {
            Some((ticket, pending)) => {
                pending.claims.push(claim);
                (ticket, false)
            }
            None => (self.insert(now, work, claim), true),
        };
        let displaced = victim.and_then(|victim| self.give_way(victim));
        Some(Placed { ticket, is_new, displaced })
    }

    /// Adds work that no command waits for, if there is room for everybody: no command gives way to it.
    pub(super) fn add_erasure(&mut self, now: Now, prefix: Name) -> Option<Ticket> {
        if !self.ledger.is_open(PendingPlaces, 1) {
            return None;
        }
        let (claim, _) = self.claim(PrincipalKey::OTHER)?;
        Some(self.insert(now, Work::EraseCs { prefix, count: None }, claim))
    }

    /// Returns the erasure of a command if it is to begin now, and not after another one of its principal.
    pub(super) fn begin_erasure(
        &mut self,
        principal: PrincipalKey,
        erasure: Erasure,
    ) -> Option<Erasure> {
        // As many wait as there are places.
        self.erasures.retain(|ticket| self.entries.contains_key(&ticket));
        self.erasures.begin(principal, erasure)
    }

    /// Notes that the data plane has ended an erasure. Returns the one that is to begin then.
    pub(super) fn end_erasure(&mut self, ticket: Ticket) -> Option<Erasure> {
        self.erasures.retain(|ticket| self.entries.contains_key(&ticket));
        self.erasures.end(ticket)
    }

    /// Takes a place for a principal, and finds the one that has to give a place back for it.
    fn claim(&mut self, key: PrincipalKey) -> Option<(Claim, Option<PrincipalIndex>)> {
        let principal = self.ledger.attach(key);
        let victim = match self.ledger.verdict(principal, PendingPlaces, 1) {
            ShareVerdict::Room => Some(None),
            ShareVerdict::Evict(limits) => self.ledger.victim(PendingPlaces, limits).map(Some),
            ShareVerdict::Refused => None,
        };
        let Some(victim) = victim else {
            self.ledger.detach(principal);
            return None;
        };
        self.ledger.charge(principal, PendingPlaces, 1);
        self.last_number += 1;
        let (name, keeper, specification) = (None, None, None);
        let claim = Claim { name, keeper, specification, principal, number: self.last_number };
        Some((claim, victim))
    }

    fn insert(&mut self, now: Now, work: Work, claim: Claim) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        let deadline = now.monotonic + LIFETIME;
        let (begun_for, claims) = (claim.keeper, vec![claim]);
        self.entries.insert(ticket, Pending { claims, work, begun_for, deadline });
        ticket
    }

    /// A command has joined others. If the work was begun for another user, it may fail because of the shares of that one,
    /// and is to be begun again then.
    pub(super) fn joined(
        &mut self,
        ticket: Ticket,
        name: NameRef<'_>,
        specification: FaceSpecification,
    ) {
        let Some(Pending { claims, begun_for, .. }) = self.entries.get_mut(&ticket) else { return };
        let is_own = |claim: &&mut Claim| claim.name.as_ref().is_some_and(|own| *own == name);
        if begun_for.is_some()
            && let Some(claim) = claims.iter_mut().find(is_own)
            && claim.keeper != *begun_for
        {
            claim.specification.get_or_insert_with(|| Box::new(specification));
        }
    }

    /// Work has failed. If it was begun for a user, it is begun again for the commands of others: of an operator, or else
    /// of the user who has waited for the longest time.
    pub(super) fn retry(&mut self, now: Now, ticket: Ticket) -> Option<Retry> {
        let Pending { claims, begun_for, .. } = self.entries.get_mut(&ticket)?;
        let failed_for = (*begun_for)?;
        // The commands of the others may have given way.
        let others = claims
            .iter_mut()
            .filter(|claim| claim.keeper != Some(failed_for) && claim.specification.is_some());
        let next = others.min_by_key(|claim| claim.keeper.is_some())?;
        let (specification, begun_for) = (next.specification.take()?, next.keeper);
        let Pending { claims, work, .. } = self.entries.remove(&ticket)?;
        let (failed, claims): (Vec<_>, Vec<_>) =
            claims.into_iter().partition(|claim| claim.keeper == Some(failed_for));
        failed.iter().for_each(|claim| self.release(claim));
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        let deadline = now.monotonic + LIFETIME;
        self.entries.insert(ticket, Pending { claims, work, begun_for, deadline });
        Some(Retry { ticket, specification, failed })
    }

    /// The oldest command of a principal gives way.
    fn give_way(&mut self, victim: PrincipalIndex) -> Option<Displaced> {
        let places = self.entries.iter().flat_map(|(ticket, pending)| {
            let of_payer = pending.claims.iter().filter(|one| one.principal == victim);
            of_payer.map(|one| (one.number, *ticket))
        });
        let (number, ticket) = places.min()?;
        let claims = &mut self.entries.get_mut(&ticket)?.claims;
        let at = claims.iter().position(|one| one.number == number)?;
        let claim = claims.remove(at);
        let is_abandoned = claims.is_empty();
        self.release(&claim);
        let abandoned = if is_abandoned { self.entries.remove(&ticket) } else { None };
        let abandoned = abandoned.map(|pending| (ticket, pending.work));
        Some(Displaced { name: claim.name, abandoned })
    }

    fn release(&mut self, claim: &Claim) {
        self.ledger.release(claim.principal, PendingPlaces, 1);
        self.ledger.detach(claim.principal);
    }

    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Pending> {
        let pending = self.entries.remove(&ticket)?;
        pending.claims.iter().for_each(|claim| self.release(claim));
        Some(pending)
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        // Tickets ascend with time, and all work waits equally long.
        self.entries.values().next().map(|pending| pending.deadline)
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        while let Some((&ticket, first)) = self.entries.first_key_value()
            && first.deadline <= now
        {
            self.take(ticket);
        }
    }
}

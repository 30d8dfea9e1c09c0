//! Requests of self-learning to the control thread, which owns the routes and the keys.
//!
//! The shard never waits for the control thread: requests are taken from it between two bursts, and
//! a Data that needs a prefix announcement is held here until the answer arrives.

use std::collections::{HashMap, VecDeque};

use ndn_packet::Name;
use ndn_table::{FaceIndex, Token};
use ndn_types::PrincipalIndex;

/// Maximum number of queued requests. Further ones are counted and dropped; the next packet of the
/// same kind requests again.
const REQUESTS_MAX: usize = 256;
/// Maximum number of held Data. A principal holds no more than the number of places that are still free, so a single principal
/// holds half of them at most. Beyond that, Data is sent without an announcement.
const HELD_MAX: usize = 256;

/// A request to the control thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LearningRequest {
    /// A discovery Interest was answered with an announcement: add the route, if the announcement
    /// is trusted.
    Learn {
        /// The face that the Data arrived on.
        face_id: u64,
        /// Name of the Data.
        name: Name,
        /// The PrefixAnnouncement, a Data TLV.
        announcement: Box<[u8]>,
    },
    /// The next hop of a learned route returned a Nack of reason NoRoute: remove the longest
    /// learned route for the name there.
    Forget {
        /// The next hop.
        face_id: u64,
        /// Name of the Interest.
        name: Name,
    },
    /// A Data is held until the control thread finds the announcement to send with it:
    /// [`Shard::answer_learning`](crate::Shard::answer_learning).
    Find {
        /// To be returned with the answer, to the shard that it names.
        ticket: Token,
        /// Name of the Data.
        name: Name,
    },
}

/// A Data that is held until its announcement is found.
#[derive(Debug)]
pub(crate) struct Held {
    /// The principal of the PIT entry.
    pub(crate) principal: PrincipalIndex,
    /// The face that the Data arrived on.
    pub(crate) face: FaceIndex,
    pub(crate) may_go_back: bool,
    pub(crate) wire: Box<[u8]>,
    pub(crate) congestion_mark: u64,
    pub(crate) is_localhost: bool,
    pub(crate) incoming_face_id: Option<u64>,
    pub(crate) freshness_ms: u64,
}

/// Queued requests and held Data.
#[derive(Debug, Default)]
pub(crate) struct Learning {
    requests: VecDeque<LearningRequest>,
    /// Keyed by the token of their PIT entry.
    held: HashMap<Token, Held>,
}

impl Learning {
    /// Queues a request. Returns false if the queue is full.
    pub(crate) fn ask(&mut self, request: LearningRequest) -> bool {
        let has_room = self.requests.len() < REQUESTS_MAX;
        if has_room {
            self.requests.push_back(request);
        }
        has_room
    }

    /// Holds a Data and requests its announcement. Returns false if there is no room.
    pub(crate) fn hold(&mut self, ticket: Token, name: Name, held: Held) -> bool {
        let of_principal = self.held.values().filter(|other| other.principal == held.principal);
        let has_room = of_principal.count() + self.held.len() < HELD_MAX;
        if !has_room || !self.ask(LearningRequest::Find { ticket, name }) {
            return false;
        }
        self.held.insert(ticket, held);
        true
    }

    pub(crate) fn next_request(&mut self) -> Option<LearningRequest> {
        self.requests.pop_front()
    }

    /// Removes the Data of a ticket.
    pub(crate) fn take(&mut self, ticket: Token) -> Option<Held> {
        self.held.remove(&ticket)
    }
}

#[cfg(test)]
mod tests {
    use ndn_table::{Ledger, Resource};
    use ndn_types::{Capacity, PrincipalKey, Reserves};

    use super::*;

    #[test]
    fn held_data_of_one_principal_leaves_places_to_others() {
        let mut ledger = Ledger::new([Capacity::of(1); Resource::COUNT], Reserves::NONE);
        let [one, two] = [1, 2].map(|face_id| ledger.attach(PrincipalKey::Neighbour { face_id }));
        let (mut learning, mut entry) = (Learning::default(), 0);
        let mut hold = |principal| {
            entry += 1;
            let held = Held {
                principal,
                face: FaceIndex::new(1, 0),
                may_go_back: false,
                wire: Box::default(),
                congestion_mark: 0,
                is_localhost: false,
                incoming_face_id: None,
                freshness_ms: 0,
            };
            let is_held =
                learning.hold(Token { shard: 0, entry, generation: 0 }, Name::new(), held);
            assert_eq!(learning.next_request().is_some(), is_held);
            is_held
        };
        assert_eq!((0..HELD_MAX).filter(|_| hold(one)).count(), HELD_MAX / 2);
        assert_eq!((0..HELD_MAX).filter(|_| hold(two)).count(), HELD_MAX / 4);
    }
}

//! Requests of self-learning to the control thread, which owns the routes and the keys.
//!
//! The shard never waits for the control thread: requests are taken from it between two bursts, and
//! a Data that needs a prefix announcement is held here until the answer arrives.

use std::collections::{HashMap, VecDeque};

use ndn_packet::Name;
use ndn_table::{FaceIndex, Token};

/// Maximum number of queued requests. Further ones are counted and dropped; the next packet of the
/// same kind requests again.
const REQUESTS_MAX: usize = 256;
/// Maximum number of held Data. Beyond it, Data is sent without an announcement.
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
        if self.held.len() >= HELD_MAX || !self.ask(LearningRequest::Find { ticket, name }) {
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

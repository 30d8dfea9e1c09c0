//! What self-learning asks of the control thread, which has the routes and the keys.
//!
//! The shard never waits for it: requests are taken from it between two bursts, and a Data that is
//! to go with an announcement is kept here until the answer comes.

use std::collections::{HashMap, VecDeque};

use ndn_packet::Name;
use ndn_table::{FaceIndex, Token};

/// Requests that wait to be taken. What does not fit is counted and forgotten: the next packet of
/// its kind asks again.
const REQUESTS_MAX: usize = 256;
/// Data that are kept. For one more, the Data goes without an announcement.
const HELD_MAX: usize = 256;

/// Something for the control thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LearningRequest {
    /// An Interest that looked for a route was answered with an announcement: make the route, if
    /// the announcement is to be trusted.
    Learn {
        /// Where it came from.
        face_id: u64,
        /// Of the Data that it came with.
        name: Name,
        /// A Data TLV.
        announcement: Box<[u8]>,
    },
    /// The next hop of a learnt route says that it has none: forget the longest learnt route for
    /// the name there.
    Forget {
        /// The next hop.
        face_id: u64,
        /// Of the Interest that was refused.
        name: Name,
    },
    /// A Data is kept until it is known which announcement to send with it:
    /// [`Shard::answer_learning`](crate::Shard::answer_learning).
    Find {
        /// Goes back with the answer, to the shard that it names.
        ticket: Token,
        /// Of the Data.
        name: Name,
    },
}

/// A Data that waits for its announcement.
#[derive(Debug)]
pub(crate) struct Held {
    /// Where it came from.
    pub(crate) face: FaceIndex,
    pub(crate) may_go_back: bool,
    pub(crate) wire: Box<[u8]>,
    pub(crate) congestion_mark: u16,
    pub(crate) is_localhost: bool,
    pub(crate) incoming_face_id: u64,
    pub(crate) freshness_ms: u64,
}

/// What waits for the control thread.
#[derive(Debug, Default)]
pub(crate) struct Learning {
    requests: VecDeque<LearningRequest>,
    /// By the token of their PIT entry.
    held: HashMap<Token, Held>,
}

impl Learning {
    /// Asks for something. False if there is no room.
    pub(crate) fn ask(&mut self, request: LearningRequest) -> bool {
        let has_room = self.requests.len() < REQUESTS_MAX;
        if has_room {
            self.requests.push_back(request);
        }
        has_room
    }

    /// Keeps a Data and asks for its announcement. False if there is no room.
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

    /// The Data of a ticket.
    pub(crate) fn take(&mut self, ticket: Token) -> Option<Held> {
        self.held.remove(&ticket)
    }
}

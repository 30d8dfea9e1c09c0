//! Counters and results of management.

use super::learning::Learning;
use crate::command::Verb;
use crate::dispatch::IgnoreReason;

/// Counters of management since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ControlCounters {
    /// Interests received.
    pub interests: u64,
    /// Commands that were executed, or begun.
    pub commands: u64,
    /// Commands that were refused with a response.
    pub refused: u64,
    /// Versions of datasets published.
    pub datasets: u64,
    /// Malformed packets.
    pub malformed: u64,
    /// Interests from an unknown face.
    pub unknown_face: u64,
    /// Interests without an answer, for any other reason.
    pub ignored: u64,
    /// Requests that were not handled, because their principals had their shares of the memory for them.
    pub dropped: u64,
    /// Answers that could not be signed.
    pub unsigned: u64,
}

/// The result of an Interest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOutcome {
    /// A command was executed, or waits.
    Command {
        /// The command.
        verb: Verb,
        /// The signer, for logs.
        signer: String,
        /// Status code; `None`: the answer follows later.
        code: Option<u32>,
    },
    /// A command was refused.
    Refused {
        /// The command.
        verb: Verb,
        /// The signer, for logs.
        signer: String,
        /// Status code of the answer.
        code: u32,
        /// The reason, for logs.
        reason: String,
    },
    /// A request for a dataset.
    Data {
        /// Whether an answer was sent.
        answered: bool,
    },
    /// A request for a face event.
    Event {
        /// Whether an answer was sent.
        answered: bool,
    },
    /// An Interest that gets no answer.
    Ignored(IgnoreReason),
    /// A malformed packet.
    Malformed,
    /// An Interest from an unknown face.
    UnknownFace,
    /// A request was not handled, because its principal has its share of the memory for them.
    Dropped,
    /// An announcement that arrived with a Data.
    Announcement(Learning),
}

//! What a [`ControlState`](super::ControlState) tells about its work.

use crate::command::Verb;
use crate::dispatch::IgnoreReason;

/// What management did, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ControlCounters {
    /// Interests that came in.
    pub interests: u64,
    /// Commands that were carried out, or at least begun.
    pub commands: u64,
    /// Commands that were refused with a response.
    pub refused: u64,
    /// Datasets published anew.
    pub datasets: u64,
    /// Packets that are no Interest.
    pub malformed: u64,
    /// Interests from a face that management has not heard of.
    pub unknown_face: u64,
    /// Interests that got no answer, for any other reason.
    pub ignored: u64,
    /// Answers that could not be signed.
    pub unsigned: u64,
}

/// What became of an Interest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handled {
    /// A command is carried out; the signer is for logs.
    Command {
        /// Which one.
        verb: Verb,
        /// Who asked.
        signer: String,
        /// Status code; `None`: the answer comes later.
        code: Option<u32>,
    },
    /// A command is refused.
    Refused {
        /// Which one.
        verb: Verb,
        /// Who asked.
        signer: String,
        /// Status code of the answer.
        code: u32,
        /// Why.
        reason: String,
    },
    /// Answered from a dataset, or nothing there to answer with.
    Data {
        /// Whether there was an answer.
        answered: bool,
    },
    /// Answered from the event stream, or the event is still to come.
    Event {
        /// Whether there was an answer.
        answered: bool,
    },
    /// Not answered.
    Ignored(IgnoreReason),
    /// Not an Interest.
    Malformed,
    /// Management has not heard of the face on which it came.
    UnknownFace,
}

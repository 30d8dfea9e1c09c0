//! What the control thread hears from a worker.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use ndn_face::{CloseReason, FaceCounters, FaceOptions, PortSocket};
use ndn_forwarding::LearningRequest;
use ndn_table::FaceIndex;
use ndn_types::FaceUri;

/// Something that a worker did or saw.
#[derive(Debug)]
pub enum Event {
    /// There is a new face: asked for, or because a peer without face sent a datagram.
    FaceAdded {
        /// That of the command; `None` for a face of the worker's own making.
        ticket: Option<u64>,
        /// The face.
        face: Box<FaceCreated>,
    },
    /// The peer has a face already.
    FaceExists {
        /// That of the command.
        ticket: Option<u64>,
        /// The face that it has.
        face_id: u64,
    },
    /// A face could not be made.
    FaceRefused {
        /// That of the command.
        ticket: Option<u64>,
        /// The face that there is not.
        face_id: u64,
        /// Why: `QuotaExceeded` where there are as many faces as there may be.
        error: io::Error,
    },
    /// A face is gone.
    FaceClosed {
        /// The face.
        face_id: u64,
        /// Why; `None` if it was asked for.
        reason: Option<CloseReason>,
    },
    /// A permanent face has lost its connection and tries to make it anew.
    FaceDown {
        /// The face.
        face_id: u64,
        /// Why.
        reason: CloseReason,
    },
    /// A permanent face has its connection back.
    FaceUp {
        /// The face.
        face_id: u64,
    },
    /// A UDP peer got no face, because there are as many faces as there may be, or as many of this
    /// peer. Others may have
    /// been refused since the last event: [`WorkerCounters`](crate::WorkerCounters) has them all.
    PeerRefused {
        /// The peer.
        peer: SocketAddr,
    },
    /// Interests of a face were refused because as many of it were pending as its quota allows: told
    /// once a second at most by each worker.
    QuotaUsedUp {
        /// The face, which another worker may have, or nobody any more.
        face: FaceIndex,
        /// Interests that were refused since the last event.
        refused: u64,
    },
    /// The socket of a network device is out of use, and is closed when this is dropped, which may take
    /// the kernel a while.
    SocketUnused(PortSocket),
    /// Self-learning asks for something; [`LearningRequest::Find`] is answered by
    /// [`Command::AnswerLearning`](crate::Command::AnswerLearning).
    Learning(LearningRequest),
    /// An erasure is done.
    CsErased {
        /// That of the command.
        ticket: u64,
        /// Packets erased.
        erased: usize,
        /// Whether there are more under the prefix.
        more: bool,
    },
}

/// A face that has just been made.
#[derive(Debug, Clone)]
pub struct FaceCreated {
    /// Its place in the worker.
    pub index: FaceIndex,
    /// Its options, with its number.
    pub options: FaceOptions,
    /// The far end.
    pub remote: FaceUri,
    /// The near end.
    pub local: FaceUri,
    /// What it counts.
    pub counters: Arc<FaceCounters>,
}

//! Events of a worker for the control thread.

use std::io;
use std::sync::Arc;

use ndn_face::{CloseReason, FaceCounters, FaceOptions, PortSocket};
use ndn_forwarding::LearningRequest;
use ndn_table::FaceIndex;
use ndn_types::FaceUri;

/// An event of a worker.
#[derive(Debug)]
pub enum Event {
    /// A face was made, by a command or on demand.
    FaceAdded {
        /// The ticket of the command; `None` for an on-demand face.
        ticket: Option<u64>,
        /// The face.
        face: Box<FaceCreated>,
    },
    /// The peer has a face already.
    FaceExists {
        /// The ticket of the command.
        ticket: Option<u64>,
        /// The existing face. The worker that made it may report it later.
        face_id: u64,
        /// The FaceId that the face would have had.
        unused: u64,
    },
    /// A face could not be made.
    FaceRefused {
        /// The ticket of the command.
        ticket: Option<u64>,
        /// The FaceId that the face would have had.
        face_id: u64,
        /// The reason; `QuotaExceeded` if the limit of faces is reached.
        error: io::Error,
    },
    /// A face has closed.
    FaceClosed {
        /// The face.
        face_id: u64,
        /// The reason; `None` if a command closed it.
        reason: Option<CloseReason>,
    },
    /// A permanent face has lost its connection and reconnects, or the peer of a face cannot be reached.
    FaceDown {
        /// The face.
        face_id: u64,
        /// The reason.
        reason: CloseReason,
    },
    /// A permanent face has its connection back, or the peer of a face can be reached again.
    FaceUp {
        /// The face.
        face_id: u64,
        /// The peer has sent something. The face may have no link nevertheless.
        is_reached: bool,
    },
    /// Peer rejected: a limit of faces is reached, of all, of this peer or of its device. Reported at most once a
    /// second; [`WorkerCounters`](crate::WorkerCounters) counts all.
    PeerRefused {
        /// The peer.
        remote: FaceUri,
    },
    /// The socket of a network device is unused. Dropping it closes it, which may take the kernel some time.
    SocketUnused(PortSocket),
    /// A request of self-learning; [`LearningRequest::Find`] is answered by
    /// [`Command::AnswerLearning`](crate::Command::AnswerLearning).
    Learning(LearningRequest),
    /// Requests of local applications that a worker has counted.
    #[cfg(feature = "vip")]
    VipRequests(Box<ndn_forwarding::VipRequests>),
    /// An erasure has ended.
    CsErased {
        /// The ticket of the command.
        ticket: u64,
        /// Number of packets erased.
        erased: usize,
        /// Whether more packets are under the prefix.
        more: bool,
    },
}

/// A new face.
#[derive(Debug, Clone)]
pub struct FaceCreated {
    /// Its index.
    pub index: FaceIndex,
    /// Its options, with its number.
    pub options: FaceOptions,
    /// The remote FaceUri.
    pub remote: FaceUri,
    /// The local FaceUri.
    pub local: FaceUri,
    /// Its counters.
    pub counters: Arc<FaceCounters>,
}

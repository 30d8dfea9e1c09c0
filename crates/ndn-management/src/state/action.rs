//! What the control state wants done, and what it has to be told.

use ndn_packet::Name;
use ndn_types::FaceUri;

use crate::dataset::{FaceCounters, FaceProperties, ForwarderCounters};
use crate::request::FaceOptions;
use crate::rib::FibUpdate;
use crate::types::Persistency;

/// Names a request to the data plane until its completion comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// Work for the owner of a [`ControlState`](super::ControlState), in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Publish these FIB changes. Comes before the responses to the commands that caused them.
    UpdateFib {
        /// Each prefix at most once. None, if only earlier ones are awaited now.
        updates: Vec<FibUpdate>,
        /// Whether anybody waits for one of them or of those before. If not, more follow soon, and publishing
        /// may wait for them: what leads to a face that is gone, or has expired, is being removed.
        is_awaited: bool,
    },
    /// Send a Data out of management's own face.
    SendData {
        /// The whole packet.
        wire: Vec<u8>,
        /// Whether the Content Store may keep it (else NDNLPv2 CachePolicy NoCache).
        may_cache: bool,
    },
    /// Send an Interest out of management's own face; a Data that answers it goes to
    /// [`handle_data`](super::ControlState::handle_data).
    SendInterest {
        /// The whole packet.
        wire: Vec<u8>,
        /// The face to send it to, past the FIB.
        next_hop: Option<u64>,
    },
    /// Create a face; answer with
    /// [`face_creation_done`](super::ControlState::face_creation_done).
    CreateFace {
        /// Goes back with the answer.
        ticket: Ticket,
        /// What to create.
        specification: Box<FaceSpecification>,
    },
    /// Change properties of a face; everything was checked.
    UpdateFace {
        /// The face.
        face_id: u64,
        /// New persistency.
        persistency: Option<Persistency>,
        /// New options.
        options: FaceOptions,
    },
    /// Close a face; [`face_destroyed`](super::ControlState::face_destroyed) follows in time. One that is
    /// not there is not to come back.
    DestroyFace {
        /// The face.
        face_id: u64,
    },
    /// A route was taken back. If its face is away and will have its routes again, or has not got all of
    /// them yet, this is not one of them.
    ForgetRoute {
        /// The prefix.
        prefix: Name,
        /// The face.
        face_id: u64,
        /// Who registered it; `None`: a next hop of the FIB alone.
        origin: Option<u64>,
    },
    /// Use a strategy under a prefix.
    SetStrategy {
        /// The prefix.
        prefix: Name,
        /// Name with version and parameters.
        strategy: Name,
    },
    /// Use the strategy of the next shorter prefix again.
    UnsetStrategy {
        /// The prefix.
        prefix: Name,
    },
    /// Reconfigure the Content Store.
    ConfigureCs(CsConfiguration),
    /// Erase packets; answer with [`cs_erase_done`](super::ControlState::cs_erase_done).
    EraseCs {
        /// Goes back with the answer.
        ticket: Ticket,
        /// Everything under this name.
        prefix: Name,
        /// At most so many packets.
        limit: u64,
    },
}

/// A face to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaceSpecification {
    /// Canonical remote URI.
    pub remote: FaceUri,
    /// Canonical local URI.
    pub local: Option<FaceUri>,
    /// Persistent or permanent.
    pub persistency: Persistency,
    /// Properties; `None` means the default of the kind of face.
    pub options: FaceOptions,
}

/// The answer to [`Action::CreateFace`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreatedFace {
    /// The face was made for this request.
    New(FaceRecord),
    /// There was one to the same remote end.
    Existing(FaceRecord),
}

/// Why a face could not be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaceCreationError {
    /// Status code of the response: usually 504 (connection failed), 406 or 500.
    pub code: u32,
    /// One line for people.
    pub reason: String,
}

/// The Content Store's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsConfiguration {
    /// Packets.
    pub capacity: u64,
    /// Admit arriving Data.
    pub admit: bool,
    /// Answer Interests.
    pub serve: bool,
}

impl Default for CsConfiguration {
    fn default() -> Self {
        Self { capacity: 65_536, admit: true, serve: true }
    }
}

/// A face as management knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaceRecord {
    /// What it is.
    pub properties: FaceProperties,
    /// Interval of congestion marking, nanoseconds; `None` where the face cannot mark.
    pub base_congestion_marking_interval_ns: Option<u64>,
    /// Queue length at which congestion marking starts, bytes.
    pub default_congestion_threshold: Option<u64>,
    /// Largest packet, bytes.
    pub mtu: Option<u64>,
    /// What commands may change.
    pub capabilities: FaceCapabilities,
}

/// What `faces/update` may change on a face.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaceCapabilities {
    /// Another persistency can be set.
    pub change_persistency: bool,
    /// Another MTU can be set: the link has packets, not a stream.
    pub override_mtu: bool,
}

/// Numbers of the moment about one face.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaceActivity {
    /// What passed through.
    pub counters: FaceCounters,
    /// Until the face is closed if it stays idle, milliseconds.
    pub expiration_period_ms: Option<u64>,
}

/// Sizes of the tables that management does not own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableSizes {
    /// PIT entries over all shards.
    pub pit_entries: u64,
    /// Measurements entries over all shards.
    pub measurements_entries: u64,
    /// Packets in the Content Store over all shards.
    pub cs_entries: u64,
    /// Interests answered from the Content Store.
    pub cs_hits: u64,
    /// Interests that were looked up in vain.
    pub cs_misses: u64,
}

/// Reads what the data plane counts. Called while datasets are made, on the control thread.
pub trait Telemetry {
    /// Activity of one face.
    fn face(&self, face_id: u64) -> FaceActivity;
    /// Activity of the whole forwarder.
    fn forwarder(&self) -> ForwarderCounters;
    /// Sizes of the tables.
    fn tables(&self) -> TableSizes;
    /// Local face URIs of the listeners.
    fn channels(&self) -> Vec<String>;
}

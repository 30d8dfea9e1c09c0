//! The interface of the control plane: actions for its owner, their results, and the telemetry that it reads.

use ndn_packet::{MAX_PACKET_SIZE, Name};
use ndn_types::{FaceUri, LinkType, Persistency, PrincipalKey, Scope};

use crate::dataset::{FaceCounters, FaceProperties, FaceStatus, ForwarderCounters};
use crate::parameters::ControlParameters;
use crate::request::FaceOptions;
use crate::response::{ControlResponse, status};
use crate::rib::FibUpdate;
use crate::types::{FACE_ID_INTERNAL, MTU_MIN, face_flag};

/// Identifies a request to the data plane until its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// An action for the owner of a [`ControlState`](super::ControlState). Actions are to be executed in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Publish these FIB changes. It precedes the responses to the commands that caused them.
    UpdateFib {
        /// Each prefix at most once. Empty if a command waits for earlier updates only.
        updates: Vec<FibUpdate>,
        /// Whether a command waits for one of these or of the previous updates. If not, more updates follow soon, from the
        /// removal of routes of a destroyed face or of expired routes, and these may be published with them.
        is_awaited: bool,
    },
    /// Send a Data out of management's own face.
    SendData {
        /// The packet.
        wire: Vec<u8>,
        /// Whether the Content Store may keep it (else NDNLPv2 CachePolicy NoCache).
        may_cache: bool,
    },
    /// Send an Interest out of management's own face; a Data that answers it goes to
    /// [`handle_data`](super::ControlState::handle_data).
    SendInterest {
        /// The packet.
        wire: Vec<u8>,
        /// The face to send it to (NDNLPv2 NextHopFaceId), instead of a FIB lookup.
        next_hop: Option<u64>,
    },
    /// Create a face; answer with
    /// [`face_creation_done`](super::ControlState::face_creation_done).
    CreateFace {
        /// To be passed back with the result.
        ticket: Ticket,
        /// The specification of the face.
        specification: Box<FaceSpecification>,
    },
    /// Stop to create a face if it is still being connected: no command waits for it any more.
    CancelFace {
        /// The ticket of [`CreateFace`](Self::CreateFace).
        ticket: Ticket,
    },
    /// Change properties of a face; they are checked.
    UpdateFace {
        /// The face.
        face_id: u64,
        /// New persistency.
        persistency: Option<Persistency>,
        /// The principal that keeps the face; `None`: an operator, or it is on demand.
        keeper: Option<PrincipalKey>,
        /// New options.
        options: FaceOptions,
    },
    /// Close a face; [`face_destroyed`](super::ControlState::face_destroyed) follows. A face that is being re-established is
    /// given up.
    DestroyFace {
        /// The face.
        face_id: u64,
    },
    /// A route was removed by command. It is not to be added again when its face is re-established.
    ForgetRoute {
        /// The prefix.
        prefix: Name,
        /// The face.
        face_id: u64,
        /// Origin of the route; `None`: a next hop of the FIB alone.
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
        /// To be passed back with the result.
        ticket: Ticket,
        /// Prefix of the packets.
        prefix: Name,
        /// Maximum number of packets.
        limit: u64,
        /// Whether `prefix` is the whole name of a Data, so that others under the prefix need not be erased.
        is_whole_name: bool,
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
    /// The principal that the face is charged to; `None`: to itself, as one of an operator.
    pub keeper: Option<PrincipalKey>,
    /// Properties; `None` means the default of the kind of face.
    pub options: FaceOptions,
}

/// The answer to [`Action::CreateFace`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreatedFace {
    /// The face was made for this request.
    New(FaceRecord),
    /// A face to the same remote end existed.
    Existing(FaceRecord),
}

/// The reason why a face could not be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaceCreationError {
    /// Status code of the response: usually 504 (connection failed), 406 or 500.
    pub code: u32,
    /// The status text.
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

/// The record of a face.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaceRecord {
    /// Its properties.
    pub properties: FaceProperties,
    /// Interval of congestion marking, nanoseconds; `None` where the face cannot mark.
    pub base_congestion_marking_interval_ns: Option<u64>,
    /// Queue length at which congestion marking starts, bytes.
    pub default_congestion_threshold: Option<u64>,
    /// Largest packet, bytes.
    pub mtu: Option<u64>,
    /// The principal that is charged for what its Interests take.
    pub principal: PrincipalKey,
    /// The principal whose command made it persistent or permanent, if that was not an operator.
    pub keeper: Option<PrincipalKey>,
    /// The properties that commands can change.
    pub capabilities: FaceCapabilities,
}

impl FaceRecord {
    /// A face inside the forwarder, such as `internal://`, as NFD shows it.
    pub(super) fn reserved(face_id: u64, uri: &str) -> Self {
        let is_internal = face_id == FACE_ID_INTERNAL;
        Self {
            properties: FaceProperties {
                face_id,
                remote_uri: uri.to_owned(),
                local_uri: uri.to_owned(),
                scope: Scope::Local,
                persistency: Persistency::Permanent,
                link_type: LinkType::PointToPoint,
                flags: if is_internal { face_flag::LOCAL_FIELDS } else { 0 },
            },
            base_congestion_marking_interval_ns: is_internal.then_some(100_000_000),
            default_congestion_threshold: is_internal.then_some(65_536),
            mtu: Some(MAX_PACKET_SIZE as u64),
            principal: PrincipalKey::Management,
            keeper: None,
            capabilities: FaceCapabilities::default(),
        }
    }

    const fn mtu_on_wire(&self) -> Option<u64> {
        match self.mtu {
            Some(mtu) if mtu < MAX_PACKET_SIZE as u64 => Some(mtu),
            Some(_) => Some(MAX_PACKET_SIZE as u64),
            None => None,
        }
    }

    /// The body of the response to `faces/update`.
    pub(super) fn update_response(&self) -> ControlParameters {
        ControlParameters {
            face_id: Some(self.properties.face_id),
            persistency: Some(self.properties.persistency.number()),
            flags: Some(self.properties.flags),
            base_congestion_marking_interval_ns: self.base_congestion_marking_interval_ns,
            default_congestion_threshold: self.default_congestion_threshold,
            mtu: self.mtu_on_wire(),
            ..ControlParameters::default()
        }
    }

    /// The body of the response to `faces/create`.
    pub(super) fn create_response(&self) -> ControlParameters {
        ControlParameters {
            uri: Some(self.properties.remote_uri.clone()),
            local_uri: Some(self.properties.local_uri.clone()),
            ..self.update_response()
        }
    }

    pub(super) fn already_exists(&self) -> ControlResponse {
        ControlResponse::new(status::CONFLICT, "Face with remote URI already exists")
            .with_body(&self.create_response())
    }

    pub(super) fn status(&self, telemetry: &dyn Telemetry) -> FaceStatus {
        let activity = telemetry.face(self.properties.face_id);
        FaceStatus {
            properties: self.properties.clone(),
            expiration_period_ms: activity.expiration_period_ms,
            base_congestion_marking_interval_ns: self.base_congestion_marking_interval_ns,
            default_congestion_threshold: self.default_congestion_threshold,
            mtu: self.mtu_on_wire(),
            counters: activity.counters,
        }
    }

    /// The parts of a change that this face does not support: the body of the 409 response.
    pub(super) fn conflicts(
        &self,
        persistency: Option<u64>,
        options: &FaceOptions,
    ) -> Option<ControlParameters> {
        let mut conflicts = ControlParameters::default();
        if options.local_fields == Some(true) && self.properties.scope != Scope::Local {
            conflicts.set_flag(face_flag::LOCAL_FIELDS, true);
        }
        conflicts.persistency = persistency.filter(|number| {
            let unchanged = *number == self.properties.persistency.number();
            let known = Persistency::from_number(*number).is_some();
            !(unchanged || known && self.capabilities.change_persistency)
        });
        conflicts.mtu = options.mtu.filter(|mtu| !self.capabilities.override_mtu || *mtu < MTU_MIN);
        (conflicts != ControlParameters::default()).then_some(conflicts)
    }

    /// Changes the persistency by a command of `keeper`, or of an operator. A face that an operator keeps stays that of an
    /// operator, and a remote peer is a neighbour from then on.
    pub(super) fn keep(&mut self, persistency: Persistency, keeper: Option<PrincipalKey>) {
        let FaceProperties { face_id, persistency: previous, .. } = self.properties;
        self.properties.persistency = persistency;
        self.keeper = match (previous, persistency) {
            (_, Persistency::OnDemand) => None,
            (Persistency::OnDemand, _) => keeper,
            _ => self.keeper.and(keeper),
        };
        if persistency != Persistency::OnDemand && self.keeper.is_none() {
            self.principal = self.principal.kept_by_operator(face_id);
        }
    }

    pub(super) fn apply(&mut self, options: &FaceOptions) {
        let properties = &mut self.properties;
        for (bit, requested) in [
            (face_flag::LOCAL_FIELDS, options.local_fields),
            (face_flag::LP_RELIABILITY, options.lp_reliability),
            (face_flag::CONGESTION_MARKING, options.congestion_marking),
        ] {
            match requested {
                Some(true) => properties.flags |= bit,
                Some(false) => properties.flags &= !bit,
                None => {}
            }
        }
        if options.base_congestion_marking_interval_ns.is_some() {
            self.base_congestion_marking_interval_ns = options.base_congestion_marking_interval_ns;
        }
        if options.default_congestion_threshold.is_some() {
            self.default_congestion_threshold = options.default_congestion_threshold;
        }
        self.mtu = options.mtu.or(self.mtu);
    }
}

/// The properties that `faces/update` can change on a face.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaceCapabilities {
    /// Another persistency can be set.
    pub change_persistency: bool,
    /// Another MTU can be set: the transport sends packets, not a stream.
    pub override_mtu: bool,
}

/// The activity of a face.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaceActivity {
    /// Its counters.
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
    /// Interests that the Content Store could not answer.
    pub cs_misses: u64,
}

/// Reads the counters of the data plane. Called while datasets are encoded, on the control thread.
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

//! Commands as typed requests: checked against the rules of their verb, defaults filled in.

use ndn_packet::Name;
use ndn_types::{FaceUri, Persistency, ZONE_IS_MISSING};

use crate::announcement::ANNOUNCEMENT_COST;
use crate::authorize::Authority;
use crate::command::{Command, ParameterError, TopPrefix, Verb};
use crate::response::{ControlResponse, status};
use crate::types::{FACE_ID_INTERNAL, FaceDriver, cs_flag, face_flag, route_flag, route_origin};
use crate::{ControlParameters, PrefixAnnouncement, Requester};

/// Properties of a face that a command may set; `None` leaves them as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaceOptions {
    /// Understand IncomingFaceId, NextHopFaceId and CachePolicy.
    pub local_fields: Option<bool>,
    /// NDNLPv2 reliability.
    pub lp_reliability: Option<bool>,
    /// Set congestion marks.
    pub congestion_marking: Option<bool>,
    /// Interval of congestion marking, nanoseconds.
    pub base_congestion_marking_interval_ns: Option<u64>,
    /// Queue length at which congestion marking starts, bytes.
    pub default_congestion_threshold: Option<u64>,
    /// Largest packet, bytes.
    pub mtu: Option<u64>,
    /// Driver of the interface of an Ethernet face.
    pub driver: Option<FaceDriver>,
}

impl FaceOptions {
    fn of(parameters: &ControlParameters) -> Self {
        Self {
            local_fields: parameters.flag(face_flag::LOCAL_FIELDS),
            lp_reliability: parameters.flag(face_flag::LP_RELIABILITY),
            congestion_marking: parameters.flag(face_flag::CONGESTION_MARKING),
            base_congestion_marking_interval_ns: parameters.base_congestion_marking_interval_ns,
            default_congestion_threshold: parameters.default_congestion_threshold,
            mtu: parameters.mtu,
            driver: parameters.driver.and_then(FaceDriver::from_number),
        }
    }
}

/// The request of a command. FaceId 0 is replaced by that of the requester's face.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// `faces/create`.
    FaceCreate {
        /// Canonical.
        remote: FaceUri,
        /// Canonical.
        local: Option<FaceUri>,
        /// When the face closes.
        persistency: Persistency,
        /// Its properties.
        options: FaceOptions,
    },
    /// `faces/update`.
    FaceUpdate {
        /// The face.
        face_id: u64,
        /// The number as received; an unknown number is refused together with other conflicts.
        persistency: Option<u64>,
        /// Its properties.
        options: FaceOptions,
    },
    /// `faces/destroy`.
    FaceDestroy {
        /// The face.
        face_id: u64,
    },
    /// `fib/add-nexthop`.
    FibAddNextHop {
        /// FIB prefix.
        prefix: Name,
        /// Next hop.
        face_id: u64,
        /// Lower is preferred.
        cost: u64,
    },
    /// `fib/remove-nexthop`.
    FibRemoveNextHop {
        /// FIB prefix.
        prefix: Name,
        /// Next hop.
        face_id: u64,
    },
    /// `cs/config`.
    CsConfig {
        /// Packets.
        capacity: Option<u64>,
        /// Admit arriving Data.
        admit: Option<bool>,
        /// Answer Interests.
        serve: Option<bool>,
    },
    /// `cs/erase`.
    CsErase {
        /// Everything under this name.
        prefix: Name,
        /// Maximum number of packets.
        count: Option<u64>,
    },
    /// `strategy-choice/set`.
    StrategySet {
        /// The prefix.
        prefix: Name,
        /// The strategy, with or without version.
        strategy: Name,
    },
    /// `strategy-choice/unset`.
    StrategyUnset {
        /// The prefix; not `/`.
        prefix: Name,
    },
    /// `rib/register`.
    RibRegister {
        /// RIB prefix.
        prefix: Name,
        /// Next hop.
        face_id: u64,
        /// Origin of the route.
        origin: u64,
        /// Lower is preferred.
        cost: u64,
        /// Bits of `route_flag`: CHILD_INHERIT 1, CAPTURE 2.
        flags: u64,
        /// Until the route expires, milliseconds; `None`: never.
        expiration_period_ms: Option<u64>,
    },
    /// `rib/unregister`.
    RibUnregister {
        /// RIB prefix.
        prefix: Name,
        /// Next hop.
        face_id: u64,
        /// Origin of the route.
        origin: u64,
    },
    /// `rib/announce`.
    RibAnnounce {
        /// The face on which it arrived: the next hop.
        face_id: u64,
        /// The announcement, which is trusted.
        announcement: PrefixAnnouncement,
    },
}

/// A command that is authorized and valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedCommand {
    /// The command.
    pub verb: Verb,
    /// Its request.
    pub request: Request,
    /// Its parameters with defaults and FaceId filled in: what the response repeats.
    pub parameters: ControlParameters,
    /// The signer, for logs.
    pub signer: String,
    /// The authority on which it is executed.
    pub authority: Authority,
}

impl AcceptedCommand {
    /// Checks a command against the rules of its verb and fills in defaults.
    ///
    /// # Errors
    /// The response that refuses it.
    pub fn new(
        command: Command<'_>,
        requester: Requester,
        (signer, authority): (String, Authority),
    ) -> Result<Self, ControlResponse> {
        let Command { verb, top_prefix, mut parameters, .. } = command;
        verb.check(&parameters).map_err(|error| refuse_parameters(&error))?;
        verb.apply_defaults(&mut parameters);
        if parameters.face_id == Some(0) {
            parameters.face_id = Some(requester.face_id);
        }
        if top_prefix == TopPrefix::Localhop && parameters.face_id != Some(requester.face_id) {
            let text = "A neighbour can change routes of its own face only";
            return Err(ControlResponse::new(status::FORBIDDEN, text));
        }
        let request = Request::new(verb, &parameters)?;
        Ok(Self { verb, request, parameters, signer, authority })
    }

    /// The command of a trusted announcement.
    #[must_use]
    pub fn announce(
        announcement: PrefixAnnouncement,
        requester: Requester,
        (signer, authority): (String, Authority),
    ) -> Self {
        let parameters = ControlParameters {
            name: Some(announcement.prefix.clone()),
            face_id: Some(requester.face_id),
            origin: Some(route_origin::PREFIX_ANNOUNCEMENT),
            cost: Some(ANNOUNCEMENT_COST),
            flags: Some(route_flag::CHILD_INHERIT),
            expiration_period_ms: Some(announcement.expiration_ms),
            ..ControlParameters::default()
        };
        let request = Request::RibAnnounce { face_id: requester.face_id, announcement };
        Self { verb: Verb::RibAnnounce, request, parameters, signer, authority }
    }

    /// The response of success, with the parameters.
    #[must_use]
    pub fn success(&self) -> ControlResponse {
        ControlResponse::new(status::OK, "OK").with_body(&self.parameters)
    }
}

fn refuse_parameters(_error: &ParameterError) -> ControlResponse {
    ControlResponse::new(status::BAD_REQUEST, "failed in validating parameters")
}

impl Request {
    /// Whether it is a command of `fib/` or `rib/`.
    pub(crate) const fn is_about_next_hops(&self) -> bool {
        matches!(
            self,
            Self::FibAddNextHop { .. }
                | Self::FibRemoveNextHop { .. }
                | Self::RibRegister { .. }
                | Self::RibUnregister { .. }
                | Self::RibAnnounce { .. }
        )
    }

    /// Whether it would change routes or strategies of names of management. A route below its prefixes would take the
    /// commands of others, as it is longer.
    pub(crate) fn is_under_management(&self) -> bool {
        self.changed_prefix().is_some_and(|prefix| TopPrefix::of(prefix.as_ref()).is_some())
    }

    /// The prefix whose routes, next hops or strategy it would change.
    pub(crate) const fn changed_prefix(&self) -> Option<&Name> {
        let prefix = match self {
            Self::FibAddNextHop { prefix, .. }
            | Self::FibRemoveNextHop { prefix, .. }
            | Self::RibRegister { prefix, .. }
            | Self::RibUnregister { prefix, .. }
            | Self::StrategySet { prefix, .. }
            | Self::StrategyUnset { prefix } => prefix,
            Self::RibAnnounce { announcement, .. } => &announcement.prefix,
            Self::FaceCreate { .. }
            | Self::FaceUpdate { .. }
            | Self::FaceDestroy { .. }
            | Self::CsConfig { .. }
            | Self::CsErase { .. } => return None,
        };
        Some(prefix)
    }

    /// Whether it would change the route of management's own prefixes.
    pub(crate) fn is_about_management(&self) -> bool {
        match self {
            Self::FibAddNextHop { prefix, face_id, .. }
            | Self::FibRemoveNextHop { prefix, face_id }
            | Self::RibRegister { prefix, face_id, .. }
            | Self::RibUnregister { prefix, face_id, .. } => {
                *face_id == FACE_ID_INTERNAL
                    && prefix.len() == TopPrefix::LEN
                    && TopPrefix::of(prefix.as_ref()).is_some()
            }
            Self::FaceCreate { .. }
            | Self::FaceUpdate { .. }
            | Self::FaceDestroy { .. }
            | Self::CsConfig { .. }
            | Self::CsErase { .. }
            | Self::StrategySet { .. }
            | Self::StrategyUnset { .. }
            | Self::RibAnnounce { .. } => false,
        }
    }

    fn new(verb: Verb, parameters: &ControlParameters) -> Result<Self, ControlResponse> {
        let prefix = || parameters.name.clone().unwrap_or_default();
        let face_id = parameters.face_id.unwrap_or_default();
        let origin = parameters.origin.unwrap_or_default();
        let cost = parameters.cost.unwrap_or_default();
        Ok(match verb {
            Verb::FaceCreate => return Self::face_create(parameters),
            Verb::FaceUpdate => Self::FaceUpdate {
                face_id,
                persistency: parameters.persistency,
                options: FaceOptions::of(parameters),
            },
            Verb::FaceDestroy => Self::FaceDestroy { face_id },
            Verb::FibAddNextHop => Self::FibAddNextHop { prefix: prefix(), face_id, cost },
            Verb::FibRemoveNextHop => Self::FibRemoveNextHop { prefix: prefix(), face_id },
            Verb::CsConfig => Self::CsConfig {
                capacity: parameters.capacity,
                admit: parameters.flag(cs_flag::ADMIT),
                serve: parameters.flag(cs_flag::SERVE),
            },
            Verb::CsErase => Self::CsErase { prefix: prefix(), count: parameters.count },
            Verb::StrategySet => Self::StrategySet {
                prefix: prefix(),
                strategy: parameters.strategy.clone().unwrap_or_default(),
            },
            Verb::StrategyUnset => Self::StrategyUnset { prefix: prefix() },
            Verb::RibRegister => Self::RibRegister {
                prefix: prefix(),
                face_id,
                origin,
                cost,
                flags: parameters.flags.unwrap_or_default(),
                expiration_period_ms: parameters.expiration_period_ms,
            },
            Verb::RibUnregister => Self::RibUnregister { prefix: prefix(), face_id, origin },
            // Without ControlParameters: see `AcceptedCommand::announce`.
            Verb::RibAnnounce => {
                return Err(ControlResponse::new(status::BAD_REQUEST, "Malformed command"));
            }
        })
    }

    fn face_create(parameters: &ControlParameters) -> Result<Self, ControlResponse> {
        let parse = |text: &str, not_canonical: &str| {
            let uri = FaceUri::parse(text)
                .map_err(|_| ControlResponse::new(status::BAD_REQUEST, "Malformed command"))?;
            if uri.is_canonical() {
                return Ok(uri);
            }
            let text = match uri.lacks_zone() {
                true => format!("{not_canonical}: {ZONE_IS_MISSING}"),
                false => not_canonical.to_owned(),
            };
            Err(ControlResponse::new(status::BAD_REQUEST, text))
        };
        let remote =
            parse(parameters.uri.as_deref().unwrap_or_default(), "Non-canonical remote URI")?;
        let local = parameters
            .local_uri
            .as_deref()
            .map(|text| parse(text, "Non-canonical local URI"))
            .transpose()?;
        let persistency = parameters.persistency.unwrap_or(Persistency::Persistent.number());
        let persistency = Persistency::from_number(persistency).ok_or_else(|| {
            ControlResponse::new(
                status::NOT_ACCEPTABLE,
                format!("Unknown persistency {persistency}"),
            )
        })?;
        let driver = parameters.driver;
        if driver.is_some_and(|number| FaceDriver::from_number(number).is_none()) {
            return Err(ControlResponse::new(status::NOT_ACCEPTABLE, "Unknown driver"));
        }
        if driver.is_some() && remote.scheme() != "ether" {
            let text = "Only Ethernet faces have a driver";
            return Err(ControlResponse::new(status::NOT_ACCEPTABLE, text));
        }
        Ok(Self::FaceCreate { remote, local, persistency, options: FaceOptions::of(parameters) })
    }
}

//! The required, optional and forbidden fields of each command (NFD wiki, one page per module).

use crate::ControlParameters;
use crate::types::{Persistency, route_flag, route_origin};

use super::Verb;

/// A field of [`ControlParameters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// `Name`.
    Name,
    /// `FaceId`.
    FaceId,
    /// `Uri`.
    Uri,
    /// `LocalUri`.
    LocalUri,
    /// `Origin`.
    Origin,
    /// `Cost`.
    Cost,
    /// `Capacity`.
    Capacity,
    /// `Count`.
    Count,
    /// `Flags`.
    Flags,
    /// `Mask`.
    Mask,
    /// `Strategy`.
    Strategy,
    /// `ExpirationPeriod`.
    ExpirationPeriod,
    /// `Persistency`.
    Persistency,
    /// `BaseCongestionMarkingInterval`.
    BaseCongestionMarkingInterval,
    /// `DefaultCongestionThreshold`.
    DefaultCongestionThreshold,
    /// `Mtu`.
    Mtu,
    /// `Driver`, an extension of this forwarder.
    Driver,
}

impl Field {
    /// Every field, in the order in which they are written.
    pub const ALL: [Self; 17] = [
        Self::Name,
        Self::FaceId,
        Self::Uri,
        Self::LocalUri,
        Self::Origin,
        Self::Cost,
        Self::Capacity,
        Self::Count,
        Self::Flags,
        Self::Mask,
        Self::Strategy,
        Self::ExpirationPeriod,
        Self::Persistency,
        Self::BaseCongestionMarkingInterval,
        Self::DefaultCongestionThreshold,
        Self::Mtu,
        Self::Driver,
    ];

    /// Whether `parameters` has the field.
    #[must_use]
    pub const fn is_in(self, parameters: &ControlParameters) -> bool {
        match self {
            Self::Name => parameters.name.is_some(),
            Self::FaceId => parameters.face_id.is_some(),
            Self::Uri => parameters.uri.is_some(),
            Self::LocalUri => parameters.local_uri.is_some(),
            Self::Origin => parameters.origin.is_some(),
            Self::Cost => parameters.cost.is_some(),
            Self::Capacity => parameters.capacity.is_some(),
            Self::Count => parameters.count.is_some(),
            Self::Flags => parameters.flags.is_some(),
            Self::Mask => parameters.mask.is_some(),
            Self::Strategy => parameters.strategy.is_some(),
            Self::ExpirationPeriod => parameters.expiration_period_ms.is_some(),
            Self::Persistency => parameters.face_persistency.is_some(),
            Self::BaseCongestionMarkingInterval => {
                parameters.base_congestion_marking_interval_ns.is_some()
            }
            Self::DefaultCongestionThreshold => parameters.default_congestion_threshold.is_some(),
            Self::Mtu => parameters.mtu.is_some(),
            Self::Driver => parameters.driver.is_some(),
        }
    }
}

/// The reason why parameters are invalid for the command; answered with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// A required field is absent.
    #[error("{0:?} is required")]
    Required(Field),
    /// A field is present that the command does not take.
    #[error("{0:?} is not for this command")]
    Refused(Field),
    /// One of Flags and Mask without the other.
    #[error("Flags and Mask go together")]
    FlagsWithoutMask,
    /// A field has a value that the command cannot use.
    #[error("{0:?} has a value that this command does not take")]
    Value(Field),
}

impl Verb {
    /// Required fields.
    #[must_use]
    pub const fn required_fields(self) -> &'static [Field] {
        match self {
            Self::FaceCreate => &[Field::Uri],
            Self::FaceUpdate | Self::CsConfig | Self::RibAnnounce => &[],
            Self::FaceDestroy => &[Field::FaceId],
            Self::StrategySet => &[Field::Name, Field::Strategy],
            Self::FibAddNextHop
            | Self::FibRemoveNextHop
            | Self::CsErase
            | Self::StrategyUnset
            | Self::RibRegister
            | Self::RibUnregister => &[Field::Name],
        }
    }

    /// Optional fields.
    #[must_use]
    pub const fn optional_fields(self) -> &'static [Field] {
        match self {
            Self::FaceCreate => &[
                Field::LocalUri,
                Field::Flags,
                Field::Mask,
                Field::Persistency,
                Field::BaseCongestionMarkingInterval,
                Field::DefaultCongestionThreshold,
                Field::Mtu,
                Field::Driver,
            ],
            Self::FaceUpdate => &[
                Field::FaceId,
                Field::Flags,
                Field::Mask,
                Field::Persistency,
                Field::BaseCongestionMarkingInterval,
                Field::DefaultCongestionThreshold,
                Field::Mtu,
            ],
            Self::FibAddNextHop => &[Field::FaceId, Field::Cost],
            Self::FibRemoveNextHop => &[Field::FaceId],
            Self::CsConfig => &[Field::Capacity, Field::Flags, Field::Mask],
            Self::CsErase => &[Field::Count],
            Self::RibRegister => {
                &[Field::FaceId, Field::Origin, Field::Cost, Field::Flags, Field::ExpirationPeriod]
            }
            Self::RibUnregister => &[Field::FaceId, Field::Origin],
            Self::FaceDestroy | Self::StrategySet | Self::StrategyUnset | Self::RibAnnounce => &[],
        }
    }

    /// Checks a request's parameters against the rules of the command.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn check(self, parameters: &ControlParameters) -> Result<(), ParameterError> {
        let (required, optional) = (self.required_fields(), self.optional_fields());
        for field in Field::ALL {
            let present = field.is_in(parameters);
            if required.contains(&field) && !present {
                return Err(ParameterError::Required(field));
            }
            if present && !required.contains(&field) && !optional.contains(&field) {
                return Err(ParameterError::Refused(field));
            }
        }
        let has_mask = optional.contains(&Field::Mask);
        if has_mask && parameters.flags.is_some() != parameters.mask.is_some() {
            return Err(ParameterError::FlagsWithoutMask);
        }
        let bad_value = [
            (Self::FaceDestroy, Field::FaceId, parameters.face_id == Some(0)),
            (Self::CsErase, Field::Count, parameters.count == Some(0)),
            (Self::StrategyUnset, Field::Name, parameters.prefix().is_empty()),
        ]
        .into_iter()
        .find_map(|(verb, field, is_bad)| (verb == self && is_bad).then_some(field));
        bad_value.map_or(Ok(()), |field| Err(ParameterError::Value(field)))
    }

    /// Sets absent fields to their defaults.
    pub fn apply_defaults(self, parameters: &mut ControlParameters) {
        match self {
            Self::FaceCreate => {
                parameters.face_persistency.get_or_insert(Persistency::Persistent.number());
            }
            Self::FaceUpdate | Self::FibRemoveNextHop => {
                parameters.face_id.get_or_insert(0);
            }
            Self::FibAddNextHop => {
                parameters.face_id.get_or_insert(0);
                parameters.cost.get_or_insert(0);
            }
            Self::RibRegister => {
                parameters.face_id.get_or_insert(0);
                parameters.origin.get_or_insert(route_origin::APP);
                parameters.cost.get_or_insert(0);
                parameters.flags.get_or_insert(route_flag::CHILD_INHERIT);
            }
            Self::RibUnregister => {
                parameters.face_id.get_or_insert(0);
                parameters.origin.get_or_insert(route_origin::APP);
            }
            Self::FaceDestroy
            | Self::CsConfig
            | Self::CsErase
            | Self::StrategySet
            | Self::StrategyUnset
            | Self::RibAnnounce => {}
        }
    }
}

//! The commands with the rules of their parameters (NFD wiki, one page per module).

use crate::dataset::{DatasetValue, Form};
use crate::parameters::{ControlParameters, Parameter};
use crate::types::{cs_flag, face_flag, route_flag, route_origin};
use ndn_types::Persistency;

/// A module of the management protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Module {
    /// `faces`.
    Faces,
    /// `fib`.
    Fib,
    /// `rib`.
    Rib,
    /// `cs`.
    Cs,
    /// `strategy-choice`.
    StrategyChoice,
    /// `status`.
    Status,
}

impl Module {
    /// The name component.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Faces => "faces",
            Self::Fib => "fib",
            Self::Rib => "rib",
            Self::Cs => "cs",
            Self::StrategyChoice => "strategy-choice",
            Self::Status => "status",
        }
    }

    /// The flags of its commands.
    #[must_use]
    pub const fn flags(self) -> Form {
        match self {
            Self::Faces => face_flag::FLAGS,
            Self::Cs => cs_flag::FLAGS,
            Self::Rib => route_flag::FLAGS,
            Self::Fib | Self::StrategyChoice | Self::Status => Form::Plain,
        }
    }
}

/// Declares the commands: module, verb, required parameters and optional ones, some of which have a default.
macro_rules! commands {
    ($(
        $(#[doc = $help:literal])+
        $Verb:ident = $Module:ident $name:literal
            requires [$($required:ident),*]
            allows [$($optional:ident $(= $default:expr)?),*];
    )+) => {
        /// A command.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Verb {
            $(
                $(#[doc = $help])+
                $Verb,
            )+
        }

        impl Verb {
            /// Every command.
            pub const ALL: &[Self] = &[$( Self::$Verb ),+];

            /// The module that the command belongs to.
            #[must_use]
            pub const fn module(self) -> Module {
                match self {
                    $( Self::$Verb => Module::$Module, )+
                }
            }

            /// The name component.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$Verb => $name, )+
                }
            }

            /// Required parameters.
            #[must_use]
            pub const fn required(self) -> &'static [Parameter] {
                match self {
                    $( Self::$Verb => &[$( Parameter::$required ),*], )+
                }
            }

            /// Optional parameters.
            #[must_use]
            pub const fn optional(self) -> &'static [Parameter] {
                match self {
                    $( Self::$Verb => &[$( Parameter::$optional ),*], )+
                }
            }

            /// Defaults of optional parameters.
            const fn defaults(self) -> &'static [(Parameter, u64)] {
                match self {
                    $( Self::$Verb => const { &[$( $( (Parameter::$optional, $default), )? )*] }, )+
                }
            }
        }
    };
}

commands! {
    /// `faces/create`.
    FaceCreate = Faces "create"
        requires [Uri]
        allows [
            LocalUri, Flags, Mask, Persistency = Persistency::Persistent.number(),
            BaseCongestionMarkingInterval, DefaultCongestionThreshold, Mtu, Driver
        ];
    /// `faces/update`.
    FaceUpdate = Faces "update"
        requires []
        allows [
            FaceId = 0, Flags, Mask, Persistency,
            BaseCongestionMarkingInterval, DefaultCongestionThreshold, Mtu
        ];
    /// `faces/destroy`.
    FaceDestroy = Faces "destroy" requires [FaceId] allows [];
    /// `fib/add-nexthop`.
    FibAddNextHop = Fib "add-nexthop" requires [Name] allows [FaceId = 0, Cost = 0];
    /// `fib/remove-nexthop`.
    FibRemoveNextHop = Fib "remove-nexthop" requires [Name] allows [FaceId = 0];
    /// `cs/config`.
    CsConfig = Cs "config" requires [] allows [Capacity, Flags, Mask];
    /// `cs/erase`.
    CsErase = Cs "erase" requires [Name] allows [Count];
    /// `strategy-choice/set`.
    StrategySet = StrategyChoice "set" requires [Name, Strategy] allows [];
    /// `strategy-choice/unset`.
    StrategyUnset = StrategyChoice "unset" requires [Name] allows [];
    /// `rib/register`.
    RibRegister = Rib "register"
        requires [Name]
        allows [
            FaceId = 0, Origin = route_origin::APP, Cost = 0, Flags = route_flag::CHILD_INHERIT,
            ExpirationPeriod
        ];
    /// `rib/unregister`.
    RibUnregister = Rib "unregister"
        requires [Name]
        allows [FaceId = 0, Origin = route_origin::APP];
    /// `rib/announce`, whose parameters are in the announcement.
    RibAnnounce = Rib "announce" requires [] allows [];
}

impl Verb {
    /// The command of a module and verb component.
    #[must_use]
    pub fn find(module: &[u8], verb: &[u8]) -> Option<Self> {
        Self::ALL.iter().copied().find(|candidate| {
            candidate.module().as_str().as_bytes() == module
                && candidate.as_str().as_bytes() == verb
        })
    }

    /// Whether the command has the parameter, required or optional.
    #[must_use]
    pub fn takes(self, parameter: Parameter) -> bool {
        self.required().contains(&parameter) || self.optional().contains(&parameter)
    }

    /// Checks a request's parameters against the rules of the command.
    ///
    /// # Errors
    /// The first violated rule.
    pub fn check(self, parameters: &ControlParameters) -> Result<(), ParameterError> {
        for &parameter in Parameter::ALL {
            let present = parameter.is_in(parameters);
            if self.required().contains(&parameter) && !present {
                return Err(ParameterError::Required(parameter));
            }
            if present && !self.takes(parameter) {
                return Err(ParameterError::Refused(parameter));
            }
        }
        if self.takes(Parameter::Mask) && parameters.flags.is_some() != parameters.mask.is_some() {
            return Err(ParameterError::FlagsWithoutMask);
        }
        let bad_value = [
            (Self::FaceDestroy, Parameter::FaceId, parameters.face_id == Some(0)),
            (Self::CsErase, Parameter::Count, parameters.count == Some(0)),
            (Self::StrategyUnset, Parameter::Name, parameters.prefix().is_empty()),
        ]
        .into_iter()
        .find_map(|(verb, parameter, is_bad)| (verb == self && is_bad).then_some(parameter));
        bad_value.map_or(Ok(()), |parameter| Err(ParameterError::Value(parameter)))
    }

    /// Sets absent parameters to their defaults.
    pub fn apply_defaults(self, parameters: &mut ControlParameters) {
        for (parameter, default) in self.defaults() {
            if !parameter.is_in(parameters) {
                let set = parameters.set(*parameter, DatasetValue::Number(*default));
                debug_assert_eq!(set, Ok(()), "defaults are numbers");
            }
        }
    }
}

impl std::fmt::Display for Verb {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.module().as_str(), self.as_str())
    }
}

/// The reason why parameters are invalid for the command; answered with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// A required field is absent.
    #[error("{0:?} is required")]
    Required(Parameter),
    /// A field is present that the command does not take.
    #[error("{0:?} is not for this command")]
    Refused(Parameter),
    /// One of Flags and Mask without the other.
    #[error("Flags and Mask go together")]
    FlagsWithoutMask,
    /// A field has a value that the command cannot use.
    #[error("{0:?} has a value that this command does not take")]
    Value(Parameter),
}

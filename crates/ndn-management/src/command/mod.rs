//! Commands: signed Interests `/localhost/nfd/<module>/<verb>/<ControlParameters>/...`
//! (NFD wiki, `ControlCommand`; `CommandInterest` for the older signature format).

mod rules;
mod signature;

use ndn_packet::{DecodeError, Interest, Name, NameRef};

use crate::ControlParameters;
pub use rules::{Field, ParameterError};
pub use signature::{CommandSignature, SignatureError};

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
}

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// `faces/create`.
    FaceCreate,
    /// `faces/update`.
    FaceUpdate,
    /// `faces/destroy`.
    FaceDestroy,
    /// `fib/add-nexthop`.
    FibAddNextHop,
    /// `fib/remove-nexthop`.
    FibRemoveNextHop,
    /// `cs/config`.
    CsConfig,
    /// `cs/erase`.
    CsErase,
    /// `strategy-choice/set`.
    StrategySet,
    /// `strategy-choice/unset`.
    StrategyUnset,
    /// `rib/register`.
    RibRegister,
    /// `rib/unregister`.
    RibUnregister,
    /// `rib/announce`.
    RibAnnounce,
}

impl Verb {
    /// Every command.
    pub const ALL: [Self; 12] = [
        Self::FaceCreate,
        Self::FaceUpdate,
        Self::FaceDestroy,
        Self::FibAddNextHop,
        Self::FibRemoveNextHop,
        Self::CsConfig,
        Self::CsErase,
        Self::StrategySet,
        Self::StrategyUnset,
        Self::RibRegister,
        Self::RibUnregister,
        Self::RibAnnounce,
    ];

    /// The module that the command belongs to.
    #[must_use]
    pub const fn module(self) -> Module {
        match self {
            Self::FaceCreate | Self::FaceUpdate | Self::FaceDestroy => Module::Faces,
            Self::FibAddNextHop | Self::FibRemoveNextHop => Module::Fib,
            Self::CsConfig | Self::CsErase => Module::Cs,
            Self::StrategySet | Self::StrategyUnset => Module::StrategyChoice,
            Self::RibRegister | Self::RibUnregister | Self::RibAnnounce => Module::Rib,
        }
    }

    /// The name component.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FaceCreate => "create",
            Self::FaceUpdate => "update",
            Self::FaceDestroy => "destroy",
            Self::FibAddNextHop => "add-nexthop",
            Self::FibRemoveNextHop => "remove-nexthop",
            Self::CsConfig => "config",
            Self::CsErase => "erase",
            Self::StrategySet => "set",
            Self::StrategyUnset => "unset",
            Self::RibRegister => "register",
            Self::RibUnregister => "unregister",
            Self::RibAnnounce => "announce",
        }
    }

    /// The command of a module and verb component.
    #[must_use]
    pub fn find(module: &[u8], verb: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|candidate| {
            candidate.module().as_str().as_bytes() == module
                && candidate.as_str().as_bytes() == verb
        })
    }
}

impl std::fmt::Display for Verb {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.module().as_str(), self.as_str())
    }
}

/// The prefix of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TopPrefix {
    /// `/localhost/nfd`: from this host only.
    Localhost,
    /// `/localhop/nfd`: from a neighbour; only `rib`, and only where enabled.
    Localhop,
}

impl TopPrefix {
    /// Number of components.
    pub const LEN: usize = 2;

    /// The prefix as a name.
    #[must_use]
    pub fn to_name(self) -> Name {
        let mut name = Name::new();
        name.push_generic(match self {
            Self::Localhost => "localhost",
            Self::Localhop => "localhop",
        });
        name.push_generic("nfd");
        name
    }

    /// The management prefix that `name` begins with.
    #[must_use]
    pub fn of(name: NameRef<'_>) -> Option<Self> {
        /// `/localhost/nfd` and `/localhop/nfd` as name values.
        const LOCALHOST: &[u8] = b"\x08\x09localhost\x08\x03nfd";
        const LOCALHOP: &[u8] = b"\x08\x08localhop\x08\x03nfd";
        if name.value().starts_with(LOCALHOST) {
            Some(Self::Localhost)
        } else if name.value().starts_with(LOCALHOP) {
            Some(Self::Localhop)
        } else {
            None
        }
    }
}

/// A parsed command: name, parameters and signature are well-formed. It is neither authorized nor checked against the rules
/// of its verb.
#[derive(Debug, Clone)]
pub struct Command<'a> {
    /// The name of the Interest.
    pub name: NameRef<'a>,
    /// The prefix.
    pub top_prefix: TopPrefix,
    /// The verb.
    pub verb: Verb,
    /// The parameters as received.
    pub parameters: ControlParameters,
    /// The signature.
    pub signature: CommandSignature<'a>,
}

/// The reason why an Interest is no valid command. As in NFD, none of these gets an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The name is not under a management prefix, or has no module and verb.
    #[error("not a management name")]
    NotManagement,
    /// The command is unknown.
    #[error("unknown module or verb")]
    UnknownVerb,
    /// The component behind the verb is missing or not `ControlParameters`.
    #[error("malformed ControlParameters: {0}")]
    MalformedParameters(DecodeError),
    /// The signature is malformed.
    #[error("malformed signature: {0}")]
    MalformedSignature(#[from] SignatureError),
}

/// Splits a management name into its prefix, module and verb components.
#[must_use]
pub fn module_and_verb(name: NameRef<'_>) -> Option<(TopPrefix, &[u8], &[u8])> {
    let top_prefix = TopPrefix::of(name)?;
    let mut rest = name.suffix(TopPrefix::LEN).components();
    Some((top_prefix, rest.next()?.value(), rest.next()?.value()))
}

/// Parses a command in either signature format. `sha256` checks the parameters digest of a v0.3
/// Interest.
///
/// # Errors
/// [`CommandError`]; none of them is answered.
pub fn parse_command<'a>(
    interest: &Interest<'a>,
    sha256: impl FnOnce(&[u8]) -> [u8; 32],
) -> Result<Command<'a>, CommandError> {
    let name = interest.name();
    let (top_prefix, module, verb) = module_and_verb(name).ok_or(CommandError::NotManagement)?;
    let verb = Verb::find(module, verb).ok_or(CommandError::UnknownVerb)?;
    let parameters_at = TopPrefix::LEN + 2;
    if verb == Verb::RibAnnounce {
        // The announcement is in ApplicationParameters, which the older format does not have.
        let signature = CommandSignature::parse(interest, usize::MAX / 2, sha256)?;
        let parameters = ControlParameters::default();
        return Ok(Command { name, top_prefix, verb, parameters, signature });
    }
    let parameters = name.component(parameters_at).map_or(&[][..], |component| component.value());
    let parameters =
        ControlParameters::decode(parameters).map_err(CommandError::MalformedParameters)?;
    let signature = CommandSignature::parse(interest, parameters_at + 1, sha256)?;
    Ok(Command { name, top_prefix, verb, parameters, signature })
}

#[cfg(test)]
mod tests;

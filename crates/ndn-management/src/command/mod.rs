//! Commands: signed Interests `/localhost/nfd/<module>/<verb>/<ControlParameters>/...`
//! (NFD wiki, `ControlCommand`; `CommandInterest` for the older signature format).

mod signature;
mod verb;

use ndn_packet::{DecodeError, Interest, Name, NameRef};

use crate::ControlParameters;
pub use signature::{CommandSignature, SignatureError};
pub use verb::{Module, ParameterError, Verb};

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

/// Whether no other command has this name: it ends in a signature of the older format, or in a digest of parameters, which
/// contain a signature with time or nonce. Unsigned commands for the own face (FaceId 0) have equal names.
pub(crate) fn has_own_name(name: NameRef<'_>) -> bool {
    let is_announcement = || matches!(module_and_verb(name), Some((_, b"rib", b"announce")));
    name.len() > TopPrefix::LEN + 3 || is_announcement()
}

#[cfg(test)]
mod tests;

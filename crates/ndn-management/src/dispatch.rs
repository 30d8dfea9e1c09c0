//! Dispatch of the Interests that arrive on the internal face.

use std::sync::Arc;

use ndn_packet::tlv::Reader;
use ndn_packet::{ComponentType, Data, Interest, MAX_PACKET_SIZE, Name, NameRef, types};
use ndn_security::Certificate;
use ndn_security::trust::{Search, Validation};

use crate::authorize::{Authority, Authorization, Authorizer, Requester};
use crate::command::{self, Command, CommandError, Module, TopPrefix, Verb};
use crate::dataset::{DatasetItem, FaceQueryFilter};
use crate::request::AcceptedCommand;
use crate::response::{ControlResponse, status};
use crate::{PrefixAnnouncement, publisher};
use ndn_types::{Now, Scope};

/// A status dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dataset {
    /// `status/general`.
    ForwarderStatus,
    /// `faces/list`.
    FaceList,
    /// `faces/query`.
    FaceQuery(FaceQueryFilter),
    /// `faces/channels`.
    ChannelList,
    /// `fib/list`.
    FibList,
    /// `rib/list`.
    RibList,
    /// `cs/info`.
    CsInfo,
    /// `strategy-choice/list`.
    StrategyChoiceList,
}

impl Dataset {
    /// Every dataset that needs no argument, with its module and verb.
    const PLAIN: [(Self, Module, &'static str); 7] = [
        (Self::ForwarderStatus, Module::Status, "general"),
        (Self::FaceList, Module::Faces, "list"),
        (Self::ChannelList, Module::Faces, "channels"),
        (Self::FibList, Module::Fib, "list"),
        (Self::RibList, Module::Rib, "list"),
        (Self::CsInfo, Module::Cs, "info"),
        (Self::StrategyChoiceList, Module::StrategyChoice, "list"),
    ];

    fn find(module: &[u8], verb: &[u8]) -> Option<Self> {
        let (dataset, ..) = Self::PLAIN
            .into_iter()
            .find(|(_, m, v)| m.as_str().as_bytes() == module && v.as_bytes() == verb)?;
        Some(dataset)
    }

    /// The prefix of the dataset, without version and segment.
    #[must_use]
    pub fn prefix(&self) -> Name {
        let mut name = TopPrefix::Localhost.to_name();
        if let Self::FaceQuery(filter) = self {
            name.push_generic("faces").push_generic("query").push_generic(filter.to_vec());
            return name;
        }
        if let Some((_, module, verb)) = Self::PLAIN.iter().find(|(dataset, ..)| dataset == self) {
            name.push_generic(module.as_str()).push_generic(verb);
        }
        name
    }
}

/// The handling of an Interest by management.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dispatch {
    /// Execute a command and answer it.
    Execute(Box<AcceptedCommand>),
    /// Refuse a command with a response.
    Refuse {
        /// The command.
        verb: Verb,
        /// The answer.
        response: ControlResponse,
        /// The signer, for logs.
        signer: String,
        /// The reason, for logs.
        reason: String,
    },
    /// Fetch certificates and dispatch the command again.
    NeedsCertificates {
        /// The command.
        verb: Verb,
        /// The signer, for logs.
        signer: String,
        /// The missing certificates.
        search: Search,
    },
    /// Publish a new version of a dataset and answer with its first segment.
    Publish {
        /// The dataset.
        dataset: Dataset,
        /// Its prefix in the Interest.
        prefix: Name,
    },
    /// Answer with an application Nack that holds this response.
    NackDataset(ControlResponse),
    /// Answer from the published versions: a version or segment of a dataset.
    Stored,
    /// Answer from the `faces/events` stream.
    Events,
    /// Send no answer.
    Ignore(IgnoreReason),
}

/// The reason why an Interest is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreReason {
    /// Not the name of a command, a dataset or the event stream.
    #[error("unknown name")]
    UnknownName,
    /// The Interest has the prefix of a dataset, but no CanBePrefix, so that no segment matches.
    #[error("dataset discovery without CanBePrefix")]
    NotDiscovery,
    /// A malformed command.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The authorizer ignores it.
    #[error("not authorised: {0}")]
    Unauthorised(&'static str),
    /// The Interest arrived on a face that is not local.
    #[error("the face is not local")]
    NotLocal,
}

/// Dispatches an Interest that the forwarder delivered to management.
///
/// Authorization precedes the check of the parameters, as in NFD: an unauthorized requester learns nothing else. `fetched`
/// are the certificates that the authorizer has required before.
pub fn dispatch(
    now: Now,
    interest: &Interest<'_>,
    requester: Requester,
    authorizer: &mut dyn Authorizer,
    fetched: &[Arc<Certificate>],
) -> Dispatch {
    let name = interest.name();
    let Some((top_prefix, module, verb)) = command::module_and_verb(name) else {
        return Dispatch::Ignore(IgnoreReason::UnknownName);
    };
    if Verb::find(module, verb).is_some() {
        return dispatch_command(now, interest, requester, authorizer, fetched);
    }
    if top_prefix != TopPrefix::Localhost {
        return Dispatch::Ignore(IgnoreReason::UnknownName);
    }
    if requester.scope != Scope::Local {
        return Dispatch::Ignore(IgnoreReason::NotLocal);
    }
    if (module, verb) == (b"faces", b"events") {
        return Dispatch::Events;
    }
    dispatch_dataset(interest, name, module, verb)
}

fn dispatch_command(
    now: Now,
    interest: &Interest<'_>,
    requester: Requester,
    authorizer: &mut dyn Authorizer,
    fetched: &[Arc<Certificate>],
) -> Dispatch {
    let command = match command::parse_command(interest, ndn_security::sha256) {
        Ok(command) => command,
        Err(error) => return Dispatch::Ignore(error.into()),
    };
    let verb = command.verb;
    let refuse = |signer: String, response: ControlResponse| {
        let reason = response.text.clone();
        Dispatch::Refuse { verb, response, signer, reason }
    };
    match authorizer.authorize(now, &command, requester, fetched) {
        Authorization::Accept { signer, .. } if !has_room_for_answer(&command) => {
            let text =
                "the name is too long: the answer, which repeats it, would not fit into a packet";
            refuse(signer, ControlResponse::new(status::NAME_TOO_LONG, text))
        }
        Authorization::Ignore { reason } => Dispatch::Ignore(IgnoreReason::Unauthorised(reason)),
        Authorization::NeedsCertificates { signer, search } => {
            Dispatch::NeedsCertificates { verb, signer, search }
        }
        Authorization::Reject { signer, reason } => refuse(signer, forbidden(&reason)),
        Authorization::Accept { signer, authority } if verb == Verb::RibAnnounce => {
            let announced = announcement(now, interest, authorizer, fetched);
            match announced {
                Err(Missing::Certificates(search)) => {
                    Dispatch::NeedsCertificates { verb, signer, search: *search }
                }
                Err(Missing::Trust(response)) => refuse(signer, response),
                Ok(announcement) => {
                    authorizer.command_accepted(now, &command);
                    let accepted =
                        AcceptedCommand::announce(announcement, requester, (signer, authority));
                    Dispatch::Execute(Box::new(accepted))
                }
            }
        }
        Authorization::Accept { signer, authority } => {
            accept(now, command, requester, authorizer, (signer, authority))
        }
    }
}

/// Bytes of an answer for its signature and all else than its name and the repeated parameters.
const REST_OF_ANSWER: usize = 600;

/// Whether an answer with the name and the parameters of a command fits into a packet.
fn has_room_for_answer(command: &Command<'_>) -> bool {
    let parameters = command.name.component(TopPrefix::LEN + 2);
    let parameters_len = parameters.map_or(0, |component| component.value().len());
    command.name.value().len() + parameters_len + REST_OF_ANSWER <= MAX_PACKET_SIZE
}

fn accept(
    now: Now,
    command: Command<'_>,
    requester: Requester,
    authorizer: &mut dyn Authorizer,
    (signer, authority): (String, Authority),
) -> Dispatch {
    authorizer.command_accepted(now, &command);
    let verb = command.verb;
    match AcceptedCommand::new(command, requester, (signer.clone(), authority)) {
        Ok(accepted) => Dispatch::Execute(Box::new(accepted)),
        Err(response) => {
            let reason = response.text.clone();
            Dispatch::Refuse { verb, response, signer, reason }
        }
    }
}

/// NFD's status text, followed by the reason.
fn forbidden(reason: &str) -> ControlResponse {
    ControlResponse::new(status::FORBIDDEN, format!("authorization rejected: {reason}"))
}

/// The reason why an announcement is not accepted.
enum Missing {
    Certificates(Box<Search>),
    Trust(ControlResponse),
}

/// The announcement in the parameters of `interest`, if it is trusted.
fn announcement(
    now: Now,
    interest: &Interest<'_>,
    authorizer: &mut dyn Authorizer,
    fetched: &[Arc<Certificate>],
) -> Result<PrefixAnnouncement, Missing> {
    let malformed =
        |reason: String| Missing::Trust(ControlResponse::new(status::BAD_REQUEST, reason));
    let mut parameters = Reader::new(interest.parameters().unwrap_or_default());
    let mut found = None;
    while let Ok(Some(tlv)) = parameters.next_tlv() {
        if tlv.ty() == types::DATA {
            found = Data::parse(tlv.wire()).ok();
            break;
        }
    }
    let data = found.ok_or_else(|| malformed("Malformed command".to_owned()))?;
    let announcement =
        PrefixAnnouncement::from_data(&data).map_err(|error| malformed(error.to_string()))?;
    match authorizer.authorize_announcement(now, &data, fetched) {
        Validation::Accepted => Ok(announcement),
        Validation::NeedsCertificates(search) => Err(Missing::Certificates(Box::new(search))),
        Validation::Refused(error) => {
            let text = format!("Prefix announcement rejected: {error}");
            Err(Missing::Trust(ControlResponse::new(status::FORBIDDEN, text)))
        }
    }
}

fn dispatch_dataset(
    interest: &Interest<'_>,
    name: NameRef<'_>,
    module: &[u8],
    verb: &[u8],
) -> Dispatch {
    if publisher::is_versioned(name) {
        return Dispatch::Stored;
    }
    // A signed Interest names the dataset before the digest of its parameters, as in NFD.
    let is_digest = name.last().is_some_and(|last| {
        last.ty() == ComponentType::PARAMETERS_SHA256_DIGEST && interest.parameters().is_some()
    });
    let named = if is_digest { name.parent() } else { name };
    let arguments = named.suffix(TopPrefix::LEN + 2);
    let dataset = if (module, verb) == (b"faces", b"query") {
        let filter = arguments.last().map_or(&[][..], |component| component.value());
        match FaceQueryFilter::decode(filter) {
            Ok(filter) => Dataset::FaceQuery(filter),
            Err(_) => {
                let response = ControlResponse::new(status::BAD_REQUEST, "Malformed filter");
                return Dispatch::NackDataset(response);
            }
        }
    } else {
        match Dataset::find(module, verb) {
            Some(dataset) if arguments.is_empty() => dataset,
            _ => return Dispatch::Ignore(IgnoreReason::UnknownName),
        }
    };
    if !interest.can_be_prefix() {
        return Dispatch::Ignore(IgnoreReason::NotDiscovery);
    }
    Dispatch::Publish { dataset, prefix: name.to_name() }
}

#[cfg(test)]
mod tests;

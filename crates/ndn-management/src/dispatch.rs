//! From an Interest on the internal face to what has to be done about it.

use ndn_packet::{Interest, Name, NameRef};

use crate::authorize::{Authorization, Authorizer, Requester};
use crate::command::{self, CommandError, Module, TopPrefix};
use crate::dataset::{DatasetItem, FaceQueryFilter};
use crate::request::AcceptedCommand;
use crate::response::{ControlResponse, status};
use crate::types::FaceScope;
use crate::{Now, publisher};

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

/// What to do about an Interest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dispatch {
    /// Carry out a command and answer it.
    Execute(Box<AcceptedCommand>),
    /// Answer a command that is refused.
    Refuse {
        /// The answer.
        response: ControlResponse,
        /// Who asked, for logs.
        signer: String,
    },
    /// Publish a new version of a dataset and answer with its first segment.
    Publish {
        /// Which one.
        dataset: Dataset,
        /// Its prefix as the Interest has it.
        prefix: Name,
    },
    /// Answer with an application Nack that holds this response.
    NackDataset(ControlResponse),
    /// Answer from what is published: a version or segment of a dataset.
    Stored,
    /// Answer from the `faces/events` stream.
    Events,
    /// Say nothing.
    Ignore(IgnoreReason),
}

/// Why an Interest is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreReason {
    /// Not a management name, or nothing that we know.
    #[error("unknown name")]
    UnknownName,
    /// A dataset is asked for by its prefix, but without CanBePrefix no segment can answer.
    #[error("dataset discovery without CanBePrefix")]
    NotDiscovery,
    /// A command that cannot be answered.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The authorizer says so.
    #[error("not authorised: {0}")]
    Unauthorised(&'static str),
    /// The Interest came over a face that is not local.
    #[error("the face is not local")]
    NotLocal,
}

/// Looks at an Interest that the forwarder delivered to management.
///
/// The authorizer is asked before the parameters are checked, as NFD does: who may not issue a
/// command learns nothing else.
pub fn dispatch(
    now: Now,
    interest: &Interest<'_>,
    requester: Requester,
    authorizer: &mut dyn Authorizer,
) -> Dispatch {
    let name = interest.name();
    let Some((top_prefix, module, verb)) = command::module_and_verb(name) else {
        return Dispatch::Ignore(IgnoreReason::UnknownName);
    };
    if command::Verb::find(module, verb).is_some() {
        return dispatch_command(now, interest, requester, authorizer);
    }
    if top_prefix != TopPrefix::Localhost {
        return Dispatch::Ignore(IgnoreReason::UnknownName);
    }
    if requester.scope != FaceScope::Local {
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
) -> Dispatch {
    let command = match command::parse_command(interest, ndn_security::sha256) {
        Ok(command) => command,
        Err(error) => return Dispatch::Ignore(error.into()),
    };
    match authorizer.authorize(now, &command, requester) {
        Authorization::Ignore { reason } => Dispatch::Ignore(IgnoreReason::Unauthorised(reason)),
        Authorization::Reject { signer, reason: _ } => Dispatch::Refuse {
            response: ControlResponse::new(status::FORBIDDEN, "authorization rejected"),
            signer,
        },
        Authorization::Accept { signer } => {
            match AcceptedCommand::new(command, requester, signer.clone()) {
                Ok(accepted) => Dispatch::Execute(Box::new(accepted)),
                Err(response) => Dispatch::Refuse { response, signer },
            }
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
    let arguments = name.suffix(TopPrefix::LEN + 2);
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

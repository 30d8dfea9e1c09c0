//! Errors of access to files.

use std::sync::Arc;

use ndn_client::fetch::{FetchError, FetchFailure};
use ndn_client::{CommandError, ExpressError, PublishError, RegisterError};
use ndn_files::{ManifestError, MetadataError, StartError, is_denial, refusal_reason};
use ndn_packet::NackReason;

/// Why a file or directory cannot be read: a kind and the name of the packet or object for programs, and a text for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct AccessError {
    kind: ErrorKind,
    text: Arc<str>,
    name: Option<Arc<str>>,
}

/// Kinds of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The producer states that there is no such object.
    NotFound,
    /// The producer states that it has no permission to read the object.
    Denied,
    /// A directory where a file is required.
    IsDirectory,
    /// A file where a directory is required.
    NotDirectory,
    /// The version that was opened no longer exists.
    Changed,
    /// No answer in time.
    Unanswered,
    /// The forwarder has no route, or the network is congested.
    Unreachable,
    /// No connection to the forwarder.
    Disconnected,
    /// A limit of this process is reached; a later attempt may succeed.
    Busy,
    /// Data that does not verify, or an older version than one verified before.
    Unverified,
    /// An answer that cannot be used: malformed, contradictory, or too long.
    Unusable,
    /// The forwarder rejected a command, with this status code.
    Refused(u32),
    /// An argument of the caller is invalid.
    Invalid,
    /// The caller does not wait any longer.
    Interrupted,
}

impl AccessError {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, text: impl Into<Arc<str>>) -> Self {
        Self { kind, text: text.into(), name: None }
    }

    /// The error, of the packet or object of this name unless it has a name already.
    #[must_use]
    pub fn of(self, name: impl FnOnce() -> String) -> Self {
        let name = self.name.unwrap_or_else(|| name().into());
        Self { name: Some(name), ..self }
    }

    /// Name of the packet, or of the object, that could not be fetched or does not verify.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the producer states that it serves no such object: there is none, or it may not read it.
    #[must_use]
    pub fn is_not_served(&self) -> bool {
        matches!(self.kind, ErrorKind::NotFound | ErrorKind::Denied)
    }

    /// Whether it is a lack of answers, or of room in this process: it says nothing about the object.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Unanswered
                | ErrorKind::Unreachable
                | ErrorKind::Disconnected
                | ErrorKind::Busy
                | ErrorKind::Interrupted
        )
    }
}

impl From<&FetchError> for AccessError {
    fn from(error: &FetchError) -> Self {
        if let FetchError::NotFound { name, content } = error
            && let Some(reason) = refusal_reason(content)
        {
            let kind = match is_denial(content) {
                true => ErrorKind::Denied,
                false => ErrorKind::NotFound,
            };
            return Self::new(kind, format!("{name} is not served: {reason}")).of(|| name.clone());
        }
        let kind = if let FetchError::Discovery(error) = error {
            kind_of(error)
        } else if let FetchError::Failed { failure, .. } = error {
            kind_of_failure(failure)
        } else if matches!(error, FetchError::NotFound { .. }) {
            ErrorKind::NotFound
        } else if matches!(error, FetchError::Closed) {
            ErrorKind::Disconnected
        } else if matches!(error, FetchError::Verification { .. }) {
            ErrorKind::Unverified
        } else {
            ErrorKind::Unusable
        };
        Self { name: name_of_fetch(error).map(Into::into), ..Self::new(kind, error.to_string()) }
    }
}

impl From<FetchError> for AccessError {
    fn from(error: FetchError) -> Self {
        Self::from(&error)
    }
}

impl From<ExpressError> for AccessError {
    fn from(error: ExpressError) -> Self {
        let name = name_of(&error).map(Into::into);
        Self { name, ..Self::new(kind_of(&error), error.to_string()) }
    }
}

impl From<ManifestError> for AccessError {
    fn from(error: ManifestError) -> Self {
        let kind = if let ManifestError::Unanswered(error) = &error {
            kind_of(error)
        } else if let ManifestError::Fetch(error) = &error {
            Self::from(error).kind
        } else if matches!(error, ManifestError::Untrusted { .. }) {
            ErrorKind::Unverified
        } else if matches!(error, ManifestError::Changed { .. }) {
            ErrorKind::Changed
        } else {
            ErrorKind::Unusable
        };
        Self::new(kind, error.to_string())
    }
}

impl From<MetadataError> for AccessError {
    fn from(error: MetadataError) -> Self {
        Self::new(ErrorKind::Unusable, error.to_string())
    }
}

impl From<CommandError> for AccessError {
    fn from(error: CommandError) -> Self {
        let text = Arc::from(error.to_string());
        let cause = if let CommandError::Refused { command, code, .. } = error {
            Self::new(ErrorKind::Refused(code), "").of(|| command)
        } else if let CommandError::NoAnswer(cause) = error {
            cause.into()
        } else if let CommandError::Fetch { error, .. } = error {
            error.into()
        } else if matches!(error, CommandError::Unsent { .. }) {
            Self::new(ErrorKind::Invalid, "")
        } else {
            Self::new(ErrorKind::Unusable, "")
        };
        Self { text, ..cause }
    }
}

impl From<RegisterError> for AccessError {
    fn from(error: RegisterError) -> Self {
        let text = Arc::from(error.to_string());
        if let RegisterError::Command { prefix, error } = error {
            return Self { text, name: Some(prefix.into()), ..Self::from(error) };
        }
        Self::new(ErrorKind::Invalid, text)
    }
}

impl From<PublishError> for AccessError {
    fn from(error: PublishError) -> Self {
        if let PublishError::Register(error) = error {
            return error.into();
        }
        Self::new(ErrorKind::Invalid, error.to_string())
    }
}

impl From<StartError> for AccessError {
    fn from(error: StartError) -> Self {
        if let StartError::Register(error) = error {
            return error.into();
        }
        let is_busy = matches!(error, StartError::Thread(_));
        let kind = if is_busy { ErrorKind::Busy } else { ErrorKind::Invalid };
        Self::new(kind, error.to_string())
    }
}

fn name_of(error: &ExpressError) -> Option<&str> {
    if let ExpressError::Timeout { name, .. }
    | ExpressError::Nack { name, .. }
    | ExpressError::Verification { name, .. } = error
    {
        return Some(name);
    }
    None
}

fn name_of_fetch(error: &FetchError) -> Option<String> {
    if let FetchError::Discovery(error) = error {
        return name_of(error).map(str::to_owned);
    }
    if let FetchError::Failed { name, failure } = error {
        return Some(match segment_of(failure) {
            Some(segment) => format!("{name}/seg={segment}"),
            None => name.clone(),
        });
    }
    if let FetchError::NotFound { name, .. }
    | FetchError::MalformedMetadata { name }
    | FetchError::Verification { name, .. } = error
    {
        return Some(name.clone());
    }
    None
}

fn segment_of(failure: &FetchFailure) -> Option<u64> {
    if let FetchFailure::Timeout { segment, .. }
    | FetchFailure::Nack { segment, .. }
    | FetchFailure::ApplicationNack { segment }
    | FetchFailure::Verification { segment, .. } = failure
    {
        return Some(*segment);
    }
    None
}

fn kind_of(error: &ExpressError) -> ErrorKind {
    if matches!(error, ExpressError::Timeout { .. }) {
        ErrorKind::Unanswered
    } else if let ExpressError::Nack { reason, .. } = error {
        // Both may be temporary.
        match *reason {
            NackReason::NO_ROUTE | NackReason::CONGESTION => ErrorKind::Unreachable,
            _ => ErrorKind::Unusable,
        }
    } else if matches!(error, ExpressError::Closed | ExpressError::NotListening { .. }) {
        ErrorKind::Disconnected
    } else if matches!(error, ExpressError::Verification { .. }) {
        ErrorKind::Unverified
    } else {
        ErrorKind::Unusable
    }
}

fn kind_of_failure(failure: &FetchFailure) -> ErrorKind {
    if matches!(failure, FetchFailure::Timeout { .. }) {
        ErrorKind::Unanswered
    } else if matches!(failure, FetchFailure::Nack { .. }) {
        ErrorKind::Unreachable
    } else if matches!(failure, FetchFailure::ApplicationNack { .. }) {
        ErrorKind::Changed
    } else if matches!(failure, FetchFailure::Verification { .. }) {
        ErrorKind::Unverified
    } else {
        ErrorKind::Unusable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(failure: FetchFailure) -> ErrorKind {
        AccessError::from(FetchError::Failed { name: "/x".to_owned(), failure }).kind()
    }

    #[test]
    fn command_that_cannot_be_sent_is_the_callers() {
        let (command, error) = ("rib/register".to_owned(), ExpressError::TooLong(9000));
        let unsent = AccessError::from(CommandError::Unsent { command, error });
        assert_eq!(unsent.kind(), ErrorKind::Invalid);
        assert!(unsent.to_string().starts_with("rib/register cannot be sent: "), "{unsent}");
    }

    #[test]
    fn failures_of_fetches_have_kinds() {
        let nack = |reason| ExpressError::Nack { name: "/x".to_owned(), reason };
        let discovery = |error| AccessError::from(FetchError::Discovery(error)).kind();
        assert_eq!(discovery(nack(NackReason::NO_ROUTE)), ErrorKind::Unreachable);
        assert_eq!(discovery(nack(NackReason::CONGESTION)), ErrorKind::Unreachable);
        assert_eq!(discovery(nack(NackReason::DUPLICATE)), ErrorKind::Unusable);
        assert_eq!(discovery(ExpressError::Closed), ErrorKind::Disconnected);
        let waited = std::time::Duration::from_secs(4);
        let timeout = ExpressError::Timeout { name: "/x".to_owned(), attempts: 1, waited };
        assert_eq!(discovery(timeout), ErrorKind::Unanswered);
        let missing = FetchError::NotFound { name: "/x".to_owned(), content: bytes::Bytes::new() };
        assert_eq!(AccessError::from(missing).kind(), ErrorKind::NotFound);
        let content = bytes::Bytes::from_static(b"denied");
        let denied = AccessError::from(FetchError::NotFound { name: "/x".to_owned(), content });
        assert_eq!(denied.kind(), ErrorKind::Denied);
        assert_eq!(denied.to_string(), "/x is not served: the server has no permission to read it");
        let timeout = FetchFailure::Timeout { segment: 1, attempts: 2, waited };
        assert_eq!(failed(timeout), ErrorKind::Unanswered);
        let reason = NackReason::NO_ROUTE;
        assert_eq!(failed(FetchFailure::Nack { segment: 1, reason }), ErrorKind::Unreachable);
        assert_eq!(failed(FetchFailure::ApplicationNack { segment: 1 }), ErrorKind::Changed);
        let reason = "forged".to_owned();
        let forged = FetchFailure::Verification { segment: 1, reason };
        assert_eq!(failed(forged), ErrorKind::Unverified);
    }

    #[test]
    fn errors_have_the_name_of_the_packet() {
        let failure = FetchFailure::Nack { segment: 7, reason: NackReason::NO_ROUTE };
        let error = AccessError::from(FetchError::Failed { name: "/x/v=1".to_owned(), failure });
        assert_eq!(error.of(|| "/x".to_owned()).name(), Some("/x/v=1/seg=7"));
        let error = AccessError::from(FetchError::Closed).of(|| "/x".to_owned());
        assert_eq!(error.name(), Some("/x"));
    }
}

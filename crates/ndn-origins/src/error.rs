//! Errors of origins.

use std::error::Error as _;

use ndn_files::OpenFailure;
use object_store::Error;
use rustix::io::Errno;

use crate::address::AddressError;

/// Maximum number of characters of a reason.
const TEXT_LEN_MAX: usize = 300;

/// Why an origin cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The address is malformed.
    #[error("{0}: {1}")]
    Address(String, #[source] AddressError),
    /// A setting in the environment is missing or invalid.
    #[error("{0}: {1}")]
    Settings(String, String),
    /// No credentials were found.
    #[error(
        "{0}: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket; \
         files of profiles are not read, but `aws configure export-credentials --format env` prints what they contain ({1})"
    )]
    NoCredentials(String, String),
    /// The credentials are not accepted.
    #[error("{0}: the credentials are refused, or do not permit to list objects: {1}")]
    Refused(String, String),
    /// The web server requires credentials.
    #[error("{0}: the server requires credentials, which are not supported: {1}")]
    Protected(String, String),
    /// There is no such bucket.
    #[error("{0}: there is no such bucket")]
    NoBucket(String),
    /// No answer, or one that makes no sense.
    #[error("{0}: {1}")]
    Unreachable(String, String),
    /// Threads cannot be started.
    #[error("threads for requests cannot be started: {0}")]
    Runtime(#[source] std::io::Error),
}

/// The innermost cause of an error, in one line.
fn innermost(error: &Error) -> String {
    let mut reason = error.source();
    while let Some(deeper) = reason.and_then(std::error::Error::source) {
        reason = Some(deeper);
    }
    let text = reason.map_or_else(|| error.to_string(), ToString::to_string);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The part of the innermost cause of an error that people can act on.
pub(crate) fn cause(error: &Error) -> String {
    let mut text = innermost(error);
    // S3 answers with a page of XML.
    let part = |element: &str| {
        let (_, rest) = text.split_once(&format!("<{element}>"))?;
        rest.split_once(&format!("</{element}>")).map(|(value, _)| value.to_owned())
    };
    if let (Some(code), Some(message)) = (part("Code"), part("Message")) {
        text = format!("{code}: {message}");
    }
    if let Some((at, _)) = text.char_indices().nth(TEXT_LEN_MAX) {
        text.truncate(at);
        text.push('…');
    }
    text
}

/// The outcome of a request that the origin answered with a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no such object or bucket.
    NotFound,
    /// The credentials do not permit it.
    Denied,
}

/// The refusal that an error states; `None` for other failures.
pub(crate) fn refusal(error: &Error) -> Option<Refusal> {
    if matches!(error, Error::NotFound { .. } | Error::InvalidPath { .. }) {
        return Some(Refusal::NotFound);
    }
    if matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. }) {
        return Some(Refusal::Denied);
    }
    // The library has these kinds for objects only: of other requests, the text has the status.
    let text = innermost(error);
    let (_, status) = text.split_once("status code: ")?;
    match status.get(..3)? {
        "404" => Some(Refusal::NotFound),
        "401" | "403" => Some(Refusal::Denied),
        _ => None,
    }
}

/// A failed request as the failure of the file service.
pub(crate) fn failure(location: &str, what: &str, error: &Error) -> OpenFailure {
    match refusal(error) {
        Some(Refusal::NotFound) => OpenFailure::NotFound,
        Some(Refusal::Denied) => OpenFailure::Denied,
        None => {
            tracing::warn!(origin = location, object = what, error = cause(error), "no answer");
            OpenFailure::Other(Errno::IO)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("Server returned non-2xx status code: {0}")]
    struct Answer(&'static str);

    #[test]
    fn answers_of_s3_are_understood() {
        let error = |text| Error::Generic { store: "S3", source: Box::new(Answer(text)) };
        let denied = error(
            "403 Forbidden: <?xml?> <Error><Code>X</Code>\n<Message>no key</Message></Error>",
        );
        assert_eq!(
            (cause(&denied).as_str(), refusal(&denied)),
            ("X: no key", Some(Refusal::Denied))
        );
        assert_eq!(refusal(&error("404 Not Found: ")), Some(Refusal::NotFound));
        let broken = error("500 Internal Server Error: oops");
        assert_eq!(refusal(&broken), None);
        assert!(cause(&broken).ends_with("oops"));
        assert_eq!(refusal(&error("40")), None);
    }
}

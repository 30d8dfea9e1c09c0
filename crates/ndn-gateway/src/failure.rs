//! Failures of requests.

use std::sync::Arc;

use hyper::StatusCode;
use ndn_access::{AccessError, ErrorKind};

/// A status code and an explanation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) text: Arc<str>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, text: impl Into<Arc<str>>) -> Self {
        Self { status, text: text.into() }
    }

    pub(crate) fn not_found(path: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no {path}"))
    }

    pub(crate) fn disconnected() -> Self {
        let text = "the gateway has no connection to its forwarder at the moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// A signal has stopped the forwarder. Its process concerns no client.
    pub(crate) fn stopped() -> Self {
        let text = "the forwarder of the gateway does not run: a signal has stopped it";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }
}

impl From<&AccessError> for Failure {
    fn from(error: &AccessError) -> Self {
        let status = match error.kind() {
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Denied => StatusCode::FORBIDDEN,
            ErrorKind::Unanswered => StatusCode::GATEWAY_TIMEOUT,
            ErrorKind::Unreachable | ErrorKind::Disconnected | ErrorKind::Busy => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            ErrorKind::IsDirectory
            | ErrorKind::NotDirectory
            | ErrorKind::Changed
            | ErrorKind::Unverified
            | ErrorKind::Unusable
            | ErrorKind::Invalid
            | ErrorKind::Refused(_)
            | ErrorKind::Interrupted => StatusCode::BAD_GATEWAY,
        };
        Self::new(status, error.to_string())
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Self {
        Self::from(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_map_to_status_codes() {
        let status = |kind| Failure::from(AccessError::new(kind, "x")).status.as_u16();
        for (kind, expected) in [
            (ErrorKind::NotFound, 404),
            (ErrorKind::Denied, 403),
            (ErrorKind::Unanswered, 504),
            (ErrorKind::Unreachable, 503),
            (ErrorKind::Disconnected, 503),
            (ErrorKind::Busy, 503),
            (ErrorKind::Changed, 502),
            (ErrorKind::Unverified, 502),
            (ErrorKind::Unusable, 502),
        ] {
            assert_eq!(status(kind), expected, "{kind:?}");
        }
    }
}

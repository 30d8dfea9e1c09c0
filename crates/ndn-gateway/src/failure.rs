//! Failures of requests.

use std::sync::Arc;

use hyper::StatusCode;
use ndn_client::ExpressError;
use ndn_client::fetch::{FetchError, FetchFailure};
use ndn_files::{ManifestError, MetadataError};
use ndn_packet::NackReason;

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

    /// Whether the file may have a new version since its metadata was fetched.
    pub(crate) fn may_be_outdated(error: &FetchError) -> bool {
        matches!(error, FetchError::Failed { failure: FetchFailure::ApplicationNack { .. }, .. })
    }
}

impl From<&FetchError> for Failure {
    fn from(error: &FetchError) -> Self {
        let status = if let FetchError::Discovery(error) = error {
            status_of(error)
        } else if matches!(error, FetchError::NotFound { .. }) {
            StatusCode::NOT_FOUND
        } else if let FetchError::Failed { failure, .. } = error {
            status_of_failure(failure)
        } else if matches!(error, FetchError::Closed) {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            // Malformed metadata, failed verification, excessive length.
            StatusCode::BAD_GATEWAY
        };
        Self::new(status, error.to_string())
    }
}

impl From<&ManifestError> for Failure {
    fn from(error: &ManifestError) -> Self {
        let status = if let ManifestError::Unanswered(error) = error {
            status_of(error)
        } else if let ManifestError::Fetch(error) = error {
            Self::from(error).status
        } else {
            StatusCode::BAD_GATEWAY
        };
        Self::new(status, error.to_string())
    }
}

impl From<&MetadataError> for Failure {
    fn from(error: &MetadataError) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, error.to_string())
    }
}

fn status_of(error: &ExpressError) -> StatusCode {
    if matches!(error, ExpressError::Timeout { .. }) {
        StatusCode::GATEWAY_TIMEOUT
    } else if let ExpressError::Nack { reason, .. } = error {
        status_of_nack(*reason)
    } else if matches!(error, ExpressError::Closed) {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::BAD_GATEWAY
    }
}

/// NoRoute and congestion may be temporary.
fn status_of_nack(reason: NackReason) -> StatusCode {
    match reason {
        NackReason::NO_ROUTE | NackReason::CONGESTION => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    }
}

fn status_of_failure(failure: &FetchFailure) -> StatusCode {
    if matches!(failure, FetchFailure::Timeout { .. }) {
        StatusCode::GATEWAY_TIMEOUT
    } else if matches!(failure, FetchFailure::Nack { .. }) {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::BAD_GATEWAY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(failure: FetchFailure) -> u16 {
        let error = FetchError::Failed { name: "/x".to_owned(), failure };
        Failure::from(&error).status.as_u16()
    }

    #[test]
    fn failures_map_to_status_codes() {
        let nack = |reason| ExpressError::Nack { name: "/x".to_owned(), reason };
        let discovery = |error| Failure::from(&FetchError::Discovery(error)).status.as_u16();
        assert_eq!(discovery(nack(NackReason::NO_ROUTE)), 503);
        assert_eq!(discovery(nack(NackReason::CONGESTION)), 503);
        assert_eq!(discovery(nack(NackReason::DUPLICATE)), 502);
        assert_eq!(discovery(ExpressError::Closed), 503);
        let waited = std::time::Duration::from_secs(4);
        let timeout = ExpressError::Timeout { name: "/x".to_owned(), attempts: 1, waited };
        assert_eq!(discovery(timeout), 504);
        let missing = FetchError::NotFound { name: "/x".to_owned(), content: bytes::Bytes::new() };
        assert_eq!(Failure::from(&missing).status, 404);
        assert_eq!(failed(FetchFailure::Timeout { segment: 1, attempts: 2 }), 504);
        assert_eq!(failed(FetchFailure::Nack { segment: 1 }), 503);
        assert_eq!(failed(FetchFailure::ApplicationNack { segment: 1 }), 502);
        let reason = "forged".to_owned();
        assert_eq!(failed(FetchFailure::Verification { segment: 1, reason }), 502);
    }
}
